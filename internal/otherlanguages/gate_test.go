package otherlanguages

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/pglock"
)

const document = "../../docs/other-languages.md"

// TestGate_GoldenValuesOfTheDocument computes the keys of the document's table in SQL, Python and Go.
func TestGate_GoldenValuesOfTheDocument(t *testing.T) {
	t.Parallel()
	p := findPrograms(t)
	place := newPlace(t, p)
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `([^`]+)` \\| (-?\\d+) \\|$").FindAllStringSubmatch(string(text), -1)
	require.GreaterOrEqual(t, len(rows), 5)
	for _, row := range rows {
		schema, name := row[1], row[2]
		want, err := strconv.ParseInt(row[3], 10, 64)
		require.NoError(t, err)

		sum := sha256.Sum256([]byte("pglock gate 1\x00" + schema + "\x00" + name + "\x00"))
		require.Equal(t, want, int64(binary.BigEndian.Uint64(sum[:8])), row[0])

		printed, err := exec.Command(p.pglock, "sql", "gate", "-schema", schema).Output()
		require.NoError(t, err)
		require.Equal(t, want, value[int64](t, place, string(printed), name), row[0])

		python := "print(invoice.gate(" + strconv.Quote(schema) + ", " + strconv.Quote(name) + "))"
		require.Equal(t, row[3], pythonSays(t, p, python), row[0])
	}
}

// TestGate_IsTheOneThatTheLibraryTries: a session that has the key of the document makes the library's attempt busy.
func TestGate_IsTheOneThatTheLibraryTries(t *testing.T) {
	t.Parallel()
	p := findPrograms(t)
	place := newPlace(t, p)
	printed, err := exec.Command(p.pglock, "sql", "gate", "-schema", place.schema).Output()
	require.NoError(t, err)
	key := value[int64](t, place, string(printed), name)

	tx, err := place.admin.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	var pid int32
	require.NoError(t, tx.QueryRow(t.Context(), "SELECT pg_backend_pid() FROM (SELECT pg_advisory_xact_lock($1)) AS l", key).Scan(&pid))

	client, err := pglock.New(pgtest.Pool(t, place.dsn), pglock.Config{Schema: place.schema})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close(t.Context())) }()
	_, err = client.TryAcquire(t.Context(), name)
	var held *pglock.HeldError
	require.True(t, errors.As(err, &held), err)
	require.True(t, held.Busy)
	require.Equal(t, []int32{pid}, held.Blockers)
}

// TestStatements_TheDocumentNamesAll: each statement that can be printed is in the document's table.
func TestStatements_TheDocumentNamesAll(t *testing.T) {
	t.Parallel()
	p := findPrograms(t)
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	help, err := exec.Command(p.pglock, "help", "sql").Output()
	require.NoError(t, err)
	commands := regexp.MustCompile(`(?m)^  ([a-z-]+)  `).FindAllStringSubmatch(string(help), -1)
	require.Greater(t, len(commands), 10)
	for _, c := range commands {
		if c[1] != "help" {
			require.True(t, strings.Contains(string(text), "`"+c[1]+"`"), c[1])
		}
	}
}
