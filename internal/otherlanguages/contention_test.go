package otherlanguages

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestContention_AllLanguagesAtOnce: whoever is skipped comes again, as a timer would have it.
func TestContention_AllLanguagesAtOnce(t *testing.T) {
	t.Parallel()
	place := newPlace(t, findPrograms(t))
	waiting := map[string]writer{}
	for i, w := range append(writers(), writers()...) {
		waiting[string(rune('a'+i))] = w
	}
	for len(waiting) > 0 {
		said := map[string]<-chan string{}
		for customer, w := range waiting {
			said[customer] = w.start(t, place, customer)
		}
		done := 0
		for customer, said := range said {
			switch line := <-said; {
			case strings.HasPrefix(line, "invoiced "):
				delete(waiting, customer)
				done++
			default:
				require.Regexp(t, "^skipped: ", line, waiting[customer].language)
			}
		}
		require.Positive(t, done, "of those who ask at once, one is granted")
	}
	tokens := place.tokens(t)
	require.Len(t, tokens, 8)
	require.IsIncreasing(t, tokens)
}

// TestContention_FirstInstall: all find that the cluster is not entered, and enter it at the same moment.
func TestContention_FirstInstall(t *testing.T) {
	t.Parallel()
	place := newPlace(t, findPrograms(t))
	for range 5 {
		place.exec(t, "TRUNCATE pglock_epochs")
		said := map[string]<-chan string{}
		for i, w := range writers() {
			said[w.language] = w.start(t, place, string(rune('a'+i)))
		}
		for language, said := range said {
			require.Regexp(t, "^(invoiced|skipped)", <-said, language)
		}
		place.exec(t, "TRUNCATE invoices")
	}
}

// TestContention_BusyIsNoSuccess: a foreign session sits in the gate, so that nobody can tell who has the name.
func TestContention_BusyIsNoSuccess(t *testing.T) {
	t.Parallel()
	place := newPlace(t, findPrograms(t))
	tx, err := place.admin.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.Background())) }()
	_, err = tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock($1)", value[int64](t, place, printed(t, place, "gate"), name))
	require.NoError(t, err)
	said := map[string]<-chan string{}
	for _, w := range writers()[:3] {
		said[w.language] = w.start(t, place, "a")
	}
	for language, said := range said {
		require.Regexp(t, `^exit status [13]: (?s:.*)busy`, <-said, language)
	}
}

// TestFrozen_PythonIsRefusedAfterItsTTL: here the time passes by itself.
func TestFrozen_PythonIsRefusedAfterItsTTL(t *testing.T) {
	t.Parallel()
	place := newPlace(t, findPrograms(t))
	open := place.block(t, "a")
	cmd := place.command(t, place.python, "invoice.py")
	cmd.Env = append(cmd.Env, "LEASE_TTL=2")
	cmd.Stdin = strings.NewReader("a\n")
	cmd.WaitDelay = time.Second
	said := place.speak(t, cmd)
	place.awaitBlocked(t)
	granted := value[time.Time](t, place, "SELECT renewed_at FROM pglock_leases")
	require.Eventually(t, func() bool {
		return value[time.Time](t, place, "SELECT renewed_at FROM pglock_leases").After(granted)
	}, patience, 10*time.Millisecond, "its thread renews")

	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	t.Cleanup(func() { _ = syscall.Kill(cmd.Process.Pid, syscall.SIGCONT) }) // else it could not be waited for
	require.Eventually(t, func() bool {
		return strings.HasPrefix(writers()[3].run(t, place, "b"), "invoiced b with token 2")
	}, patience, 100*time.Millisecond)
	open()
	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	require.Regexp(t, "^refused: token 1 for invoice-job is stale", <-said)
	require.Equal(t, []int64{2}, place.tokens(t))
}

// TestUnreachable_PythonStopsByItself: its statements are black-holed, so that only its own clock can tell.
func TestUnreachable_PythonStopsByItself(t *testing.T) {
	t.Parallel()
	place := newPlace(t, findPrograms(t))
	in, feed, err := os.Pipe()
	require.NoError(t, err)
	defer func() { _ = feed.Close() }()
	cmd := place.command(t, place.python, "invoice.py")
	cmd.Env = append(cmd.Env, "LEASE_TTL=2")
	cmd.Stdin = in
	out := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start())
	require.NoError(t, in.Close())
	require.Eventually(t, func() bool {
		return value[bool](t, place, "SELECT EXISTS (SELECT FROM pglock_leases)")
	}, patience, 10*time.Millisecond)

	// Renewals wait for a lock on the table, and so do not return; nobody has taken over.
	tx, err := place.admin.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "LOCK TABLE pglock_leases IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)
	time.Sleep(2500 * time.Millisecond) // longer than its TTL: the passing of time is what is tested
	_, err = feed.WriteString("a\n")
	require.NoError(t, err)
	require.NoError(t, feed.Close())
	time.Sleep(100 * time.Millisecond)
	require.NoError(t, tx.Rollback(t.Context()))
	require.Error(t, cmd.Wait())
	require.Contains(t, out.String(), "lost: invoice-job with token 1")
	require.Empty(t, place.tokens(t))
}
