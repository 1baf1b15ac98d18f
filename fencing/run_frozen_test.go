//go:build unix

package fencing_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
)

// The environment of a process that is to be frozen: where in its work, and on what.
const (
	frozenMode, frozenDSN, frozenSchema = "FENCING_FROZEN_MODE", "FENCING_FROZEN_DSN", "FENCING_FROZEN_SCHEMA"

	frozenTimeout = 2 * time.Second
)

// TestFrozenProcess is the process, and does nothing in a run of the tests. It says "ready" in the middle of its work, and at the end how
// Run ended.
func TestFrozenProcess(*testing.T) {
	if os.Getenv(frozenMode) == "" {
		return
	}
	ctx := context.Background()
	config, err := pgx.ParseConfig(os.Getenv(frozenDSN))
	if err != nil {
		fmt.Println(err)
		return
	}
	config.RuntimeParams["application_name"] = os.Getenv(frozenSchema)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		fmt.Println(err)
		return
	}
	f := fencing.Fence{Name: "job", Schema: os.Getenv(frozenSchema)}
	writes := quoted(f.Schema) + ".writes"
	err = f.Run(ctx, conn, 7, fencing.RunOptions{Timeout: frozenTimeout}, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO "+writes+" VALUES ('frozen')"); err != nil {
			return err
		}
		if os.Getenv(frozenMode) == "reading" {
			rows, err := tx.Query(ctx, "SELECT repeat('x', 1000) FROM generate_series(1, 1000000)")
			if err != nil {
				return err
			}
			for i := 0; rows.Next(); i++ {
				if i == 0 {
					fmt.Println("ready")
				}
				time.Sleep(time.Millisecond)
			}
			return rows.Err()
		}
		fmt.Println("ready")
		if os.Getenv(frozenMode) == "silent" {
			_, err := bufio.NewReader(os.Stdin).ReadString('\n')
			return err
		}
		_, err := tx.Exec(ctx, "LOCK TABLE "+quoted(f.Schema)+".locked")
		return err
	})
	var unknown *fencing.UnknownError
	switch {
	case err == nil:
		fmt.Println("committed")
	case errors.As(err, &unknown):
		fmt.Println("unknown:", err)
	default:
		fmt.Println("not committed:", err)
	}
}

// TestFenceRun_FrozenProcessKeepsTheGrantWaitingForTwiceTheTimeoutAtMost: stopped by SIGSTOP where it is silent, where a statement of
// its own waits for a lock, and where it reads a result that is too large for the buffers on the way. Woken up, it learns that nothing was committed.
func TestFenceRun_FrozenProcessKeepsTheGrantWaitingForTwiceTheTimeoutAtMost(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"silent", "waiting", "reading"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			dsn, schema := pgtest.Migrated(t)
			conn, locker := observe(t, dsn), observe(t, dsn)
			if mode == "reading" {
				exec(t, conn, "SET tcp_user_timeout = 1000")
				var set string
				require.NoError(t, conn.QueryRow(within(t), "SHOW tcp_user_timeout").Scan(&set))
				if set != "1000" {
					pgtest.Skip(t, "the server's system or this kind of connection has no tcp_user_timeout")
				}
			}
			exec(t, conn, fmt.Sprintf("CREATE TABLE %[1]s.writes (note text); CREATE TABLE %[1]s.locked (); INSERT INTO %[1]s.job_fences VALUES ('job', 7)",
				quoted(schema)))
			exec(t, locker, "BEGIN; LOCK TABLE "+quoted(schema)+".locked")

			program, err := os.Executable()
			require.NoError(t, err)
			cmd := frozenCommand(program, mode, dsn, schema)
			in, err := cmd.StdinPipe()
			require.NoError(t, err)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
			lines := bufio.NewReader(out)
			line, err := lines.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "ready\n", line)

			if mode == "reading" {
				// The server has filled the buffers and waits for the process to read.
				require.Eventually(t, func() bool {
					var waits bool
					require.NoError(t, conn.QueryRow(within(t), "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = $1 AND wait_event = 'ClientWrite')",
						schema).Scan(&waits))
					return waits
				}, patience, 10*time.Millisecond)
			}
			require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
			stopped := time.Now()
			exec(t, conn, "UPDATE "+quoted(schema)+".job_fences SET token = 8 WHERE name = 'job'")
			took := time.Since(stopped)
			t.Logf("the grant came %v after the process was stopped", took.Round(time.Millisecond))
			require.Greater(t, took, frozenTimeout/4, "the grant had to wait: else this shows nothing")
			require.Less(t, took, 2*frozenTimeout+5*time.Second, "the bound, and what a busy machine needs")

			require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
			_, err = in.Write([]byte("go on\n"))
			require.NoError(t, err)
			line, err = lines.ReadString('\n')
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(line, "not committed: "), line)
			var count int
			require.NoError(t, conn.QueryRow(within(t), "SELECT count(*) FROM "+quoted(schema)+".writes").Scan(&count))
			require.Zero(t, count)
			exec(t, locker, "ROLLBACK")
		})
	}
}

func frozenCommand(program, mode, dsn, schema string) *osexec.Cmd {
	cmd := osexec.Command(program, "-test.run=^TestFrozenProcess$")
	cmd.Env = append(os.Environ(), frozenMode+"="+mode, frozenDSN+"="+dsn, frozenSchema+"="+schema)
	return cmd
}
