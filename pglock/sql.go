package pglock

import (
	"crypto/sha256"
	"embed"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

// statements are the texts of sql/*.sql for one schema.
type statements struct {
	acquire, blocker, enter, identify, inspect, raise, reap, release, renew string
}

// newStatements reads the files for schema. With plain, the server does not tell which cluster it is and tokens are a
// plain counter above the epoch that an operator set.
func newStatements(schema string, plain bool) statements {
	text := func(name string) string {
		body, err := sqlFiles.ReadFile("sql/" + name + ".sql")
		if err != nil {
			panic(err) // Embedded: a missing file does not compile.
		}
		return render(name, string(body), schema, plain)
	}
	return statements{
		acquire:  text("acquire"),
		blocker:  text("blocker"),
		enter:    text("enter"),
		identify: text("identify"),
		inspect:  text("inspect"),
		raise:    text("raise"),
		reap:     text("reap"),
		release:  text("release"),
		renew:    text("renew"),
	}
}

// Markers around the part of a statement that asks the server who it is, and what stands there if it may not be asked.
const (
	clusterBegin = "-- cluster: begin"
	clusterEnd   = "-- cluster: end"
	plainCluster = "SELECT 0::bigint AS system_identifier, 1::bigint AS timeline"
)

// render turns a file into the text that is sent: comments are left out, a short one says in pg_stat_activity whose
// statement it is, and the schema is put in, quoted.
func render(name, body, schema string, plain bool) string {
	if before, rest, found := strings.Cut(body, clusterBegin); found && plain {
		_, after, _ := strings.Cut(rest, clusterEnd)
		body = before + plainCluster + after
	}
	var b strings.Builder
	fmt.Fprintf(&b, "/* pglock %s */", name)
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(strings.TrimSpace(line), "--") {
			b.WriteString("\n" + strings.TrimRight(line, "\n"))
		}
	}
	text := strings.TrimSuffix(b.String(), ";")
	return strings.ReplaceAll(text, "{schema}", pgx.Identifier{schema}.Sanitize())
}

// gateKey is the key of the advisory lock that contenders for a name try first: the first 8 bytes, big-endian, of the
// SHA-256 of a fixed prefix, the schema and the name, each ended by a zero byte. Other languages can compute it, and in
// SQL it is
//
//	('x' || encode(substr(sha256(convert_to('pglock gate 1', 'UTF8') || '\x00' || convert_to(schema, 'UTF8') || '\x00'
//	    || convert_to(name, 'UTF8') || '\x00'), 1, 8), 'hex'))::bit(64)::bigint
//
// It is frozen: two versions with different keys would lose the gate between them, though not the exclusion.
func gateKey(schema, name string) int64 {
	sum := sha256.Sum256([]byte("pglock gate 1\x00" + schema + "\x00" + name + "\x00"))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}
