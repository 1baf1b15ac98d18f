package soak

import (
	"context"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A Sample is what was seen at one moment.
type Sample struct {
	At         time.Duration // since the start
	Operations int64         // that clients have ended so far
	Goroutines int
	Files      int    // descriptors that this process has open; 0 where the system does not tell
	Heap       uint64 // bytes, after a collection
	Pooled     int    // connections of all pools of clients
	Sessions   int    // of clients, on the server
	IdleLocks  int    // advisory locks of sessions that do nothing
	Prepared   int    // prepared statements of a session that lives as long as the run
	WAL        int64  // bytes that the server has written so far
	Leases     Table
	Fences     Table
}

// A Table is what the server says of one.
type Table struct {
	Table, Indexes int64 // bytes
	Dead           int64 // rows
	Updates, HOT   int64 // so far
	Vacuums        int64 // automatic ones, so far
}

// application is the application_name of the clients' sessions.
const application = "leasehold soak"

// A sampler looks at the process and at the server.
type sampler struct {
	admin  *pgxpool.Pool // one connection of its own
	schema string
	start  time.Time
}

// sample leaves the fields that only the load knows.
func (s *sampler) sample(ctx context.Context) (Sample, error) {
	seen := Sample{At: time.Since(s.start)}
	err := s.admin.QueryRow(ctx, `
		SELECT
			(SELECT count(*) FROM pg_stat_activity WHERE application_name = $1),
			(SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
				WHERE locktype = 'advisory' AND state = 'idle' AND application_name = $1),
			pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint`, application).Scan(&seen.Sessions, &seen.IdleLocks, &seen.WAL)
	if err != nil {
		return seen, err
	}
	for name, table := range map[string]*Table{"pglock_leases": &seen.Leases, "job_fences": &seen.Fences} {
		err := s.admin.QueryRow(ctx, `
			SELECT pg_table_size(relid), pg_indexes_size(relid), n_dead_tup, n_tup_upd, n_tup_hot_upd, autovacuum_count
			FROM pg_stat_user_tables
			WHERE schemaname = $1 AND relname = $2`, s.schema, name).
			Scan(&table.Table, &table.Indexes, &table.Dead, &table.Updates, &table.HOT, &table.Vacuums)
		if err != nil {
			return seen, err
		}
	}
	seen.Goroutines = runtime.NumGoroutine()
	seen.Files = openFiles()
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	seen.Heap = memory.HeapAlloc
	return seen, nil
}

// openFiles counts descriptors where there is a folder of them.
func openFiles() int {
	for _, folder := range []string{"/proc/self/fd", "/dev/fd"} {
		if files, err := os.ReadDir(folder); err == nil {
			return len(files)
		}
	}
	return 0
}

// quoted puts the quoted schema in place of %s.
func quoted(schema, text string) string {
	return strings.ReplaceAll(text, "%s", pgx.Identifier{schema}.Sanitize())
}
