package migrations

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/golang-migrate/migrate/v4/database"
)

// lockKeys are the keys of the advisory locks that a migrating transaction holds, in the order in which all take them.
//
// The first is ours: 64 bits of SHA-256 of a fixed prefix and the schema. The others are those of golang-migrate's own
// drivers for the same bookkeeping table, so that a stock run in progress and ours exclude each other. There are two,
// because its command line takes the database name from the path of the URL, with the slash.
func lockKeys(schema, databaseName string) ([]int64, error) {
	keys := []int64{ownKey(schema)}
	for _, name := range []string{"/" + databaseName, databaseName} {
		text, err := database.GenerateAdvisoryLockId(name, schema, bookkeepingTable)
		if err != nil {
			return nil, err
		}
		key, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func ownKey(schema string) int64 {
	sum := sha256.Sum256([]byte("leasehold/migrations\x00" + schema))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// tryLock takes the locks until the end of the transaction, or returns [*busyError] at once. It never waits: a
// transaction that waits keeps its snapshot, and CREATE INDEX CONCURRENTLY waits for that, in every other process.
func (tx transaction) tryLock(ctx context.Context) error {
	rows, err := tx.rows(ctx, "SELECT current_database()")
	if err != nil {
		return err
	}
	keys, err := lockKeys(tx.schema, rows[0][0])
	if err != nil {
		return err
	}
	tries := make([]string, len(keys))
	for i, key := range keys {
		tries[i] = fmt.Sprintf("pg_try_advisory_xact_lock(%d::bigint)", key)
	}
	rows, err = tx.rows(ctx, "SELECT "+strings.Join(tries, " AND "))
	if err != nil {
		return err
	}
	if rows[0][0] != "t" {
		return &busyError{keys: keys}
	}
	return nil
}

// busyError: another process is migrating this schema.
type busyError struct{ keys []int64 }

func (e *busyError) Error() string { return "another process is migrating this schema" }

// holder describes the session that has one of the locks, for people; "" if it is gone.
func (tx transaction) holder(ctx context.Context, keys []int64) string {
	halves := make([]string, len(keys))
	for i, key := range keys {
		halves[i] = fmt.Sprintf("(%d, %d)", uint64(key)>>32, uint64(key)&0xffffffff)
	}
	rows, err := tx.rows(ctx, `
SELECT l.pid, a.application_name, a.state, date_trunc('second', clock_timestamp() - a.state_change)
FROM pg_locks AS l
LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE l.locktype = 'advisory'
    AND l.granted
    AND l.objsubid = 1
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND l.pid <> pg_backend_pid()
    AND (l.classid::bigint, l.objid::bigint) IN (`+strings.Join(halves, ", ")+`)
LIMIT 1`)
	if err != nil || len(rows) == 0 {
		return ""
	}
	pid, application, state, since := rows[0][0], rows[0][1], rows[0][2], rows[0][3]
	text := fmt.Sprintf("pid %s, application %q, %s for %s", pid, application, state, since)
	if state == "idle" {
		// Outside a transaction, so the lock is one of the session, and not ours.
		text += "; golang-migrate's own program, run through a transaction pooler, leaves such a lock behind: " +
			"SELECT pg_terminate_backend(" + pid + ") ends it"
	}
	return text
}
