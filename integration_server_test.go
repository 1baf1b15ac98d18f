//go:build unix

package leasehold_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/postgres"
	"go.uber.org/goleak"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/internal/testproc"
	"github.com/leasehold-go/leasehold/migrations"
)

const image = "postgres:17-alpine"

// What all tests of this package share, each made when the first of them asks: one container with a database for each
// test, and the programs, built once. They are package variables because a test binary has one TestMain.
var (
	engine   = sync.OnceValue(findEngine)
	shared   = sync.OnceValues(startServer)
	programs = sync.OnceValues(buildPrograms)
	cleaner  = sync.OnceValues(startJanitor)
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := tidy(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	if code == 0 { // After a failure goroutines may be left for good reasons; they would only hide it.
		if err := goleak.Find(); err != nil {
			fmt.Fprintf(os.Stderr, "the tests passed and left goroutines: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}

// created is set by what has to be removed at the end; it is read after the last test.
var created struct {
	janitor   *janitor
	container *postgres.PostgresContainer
}

func tidy() error {
	var err error
	if created.container != nil {
		err = testcontainers.TerminateContainer(created.container, testcontainers.StopTimeout(0))
	}
	if created.janitor != nil {
		err = errors.Join(err, created.janitor.dismiss())
	}
	return err
}

// findEngine returns why no Docker engine can be used, nil if one answers. It takes a second at most, but in CI, where a
// slow answer is better than a failure.
func findEngine() (err error) {
	patience := time.Second
	if os.Getenv("LEASEHOLD_NO_SKIP") == "1" {
		patience = time.Minute
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	defer func() {
		if panicked := recover(); panicked != nil { // It does, where the engine goes away in between.
			err = fmt.Errorf("%v", panicked)
		}
	}()
	client, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return err
	}
	return client.Close()
}

// server is the container.
type server struct{ container *postgres.PostgresContainer }

func startServer() (*server, error) {
	j, err := cleaner()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	container, err := postgres.Run(ctx, image,
		postgres.BasicWaitStrategies(),
		testcontainers.WithLabels(map[string]string{j.label: "true"}))
	created.container = container
	return &server{container}, err
}

// requireServer skips the test where there is no Docker engine, or one that cannot get the image.
func requireServer(t *testing.T) *server {
	t.Helper()
	if err := engine(); err != nil {
		pgtest.Skip(t, "no Docker engine answers: "+err.Error())
	}
	s, err := shared()
	if err != nil {
		pgtest.Skip(t, "no container of "+image+" can be started: "+err.Error())
	}
	return s
}

// address is where the server listens. The engine chooses another port at each start.
func (s *server) address(t *testing.T) string {
	t.Helper()
	address, err := s.container.PortEndpoint(t.Context(), "5432/tcp", "")
	require.NoError(t, err)
	return address
}

// stop stops it as an operator does (SIGINT: a fast shutdown).
func (s *server) stop(t *testing.T) {
	t.Helper()
	patience := 30 * time.Second
	require.NoError(t, s.container.Stop(t.Context(), &patience))
}

func (s *server) start(t *testing.T) {
	t.Helper()
	require.NoError(t, s.container.Start(t.Context()))
}

// A database is one test's own.
type database struct {
	server *server
	name   string
	pool   *pgxpool.Pool // the test's, straight to the server
	judged bool
}

// newDatabase makes a database with the tables of the locks, that of the writes, and a record of all grants.
func newDatabase(t *testing.T) *database {
	t.Helper()
	s := requireServer(t)
	d := &database{server: s, name: "test_" + strings.ToLower(rand.Text()[:10])}
	admin, err := pgx.Connect(t.Context(), d.dsnOf(t, "postgres", ""))
	require.NoError(t, err)
	_, err = admin.Exec(t.Context(), "CREATE DATABASE "+d.name)
	require.NoError(t, errors.Join(err, admin.Close(t.Context())))

	require.NoError(t, migrations.Up(t.Context(), migrations.URL(d.dsn(t)), migrations.Options{}))
	d.connect(t)
	for _, statement := range append([]string{testproc.Tables}, recordOfGrants...) {
		_, err = d.pool.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	return d
}

func (d *database) dsn(t *testing.T) string {
	t.Helper()
	return d.dsnOf(t, d.name, "")
}

// dsnOf is the connection string of a database, with a query of its own.
func (d *database) dsnOf(t *testing.T, name, query string) string {
	t.Helper()
	text, err := d.server.container.ConnectionString(t.Context())
	require.NoError(t, err)
	u, err := url.Parse(text)
	require.NoError(t, err)
	u.Path, u.RawQuery = "/"+name, query
	return u.String()
}

// connect makes the test's own pool: at first, and again when the server has got another address. What must hold at the
// end of every test is looked at before the newest pool is closed.
func (d *database) connect(t *testing.T) {
	t.Helper()
	d.pool = pgtest.Pool(t, d.dsn(t))
	t.Cleanup(func() {
		if !d.judged {
			d.judged = true
			d.judge(t)
		}
	})
}

// value asks for one value.
func value[T any](t *testing.T, d *database, sql string, args ...any) T {
	t.Helper()
	v, err := tryValue[T](t.Context(), d, sql, args...)
	require.NoError(t, err, sql)
	return v
}

func tryValue[T any](ctx context.Context, d *database, sql string, args ...any) (T, error) {
	rows, err := d.pool.Query(ctx, sql, args...)
	if err != nil {
		var zero T
		return zero, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
}

// eventually waits until a query is true. An error counts as not yet: the server may be starting.
func (d *database) eventually(t *testing.T, what, sql string, args ...any) {
	t.Helper()
	var last error
	require.Eventually(t, func() bool {
		var yes bool
		yes, last = tryValue[bool](t.Context(), d, sql, args...)
		return yes
	}, time.Minute, 20*time.Millisecond, "%s: %v", what, last)
}

// recordOfGrants notes each grant beside what it replaced, whoever made it.
var recordOfGrants = []string{`
CREATE TABLE grants (
    name text NOT NULL,
    token bigint NOT NULL,
    label text NOT NULL,
    granted_at timestamptz NOT NULL,
    token_before bigint,
    expired_at timestamptz -- of the term before; NULL if it was released
)`, `
CREATE FUNCTION note_grant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO grants VALUES (NEW.name, NEW.token, NEW.label, NEW.acquired_at, NULL, NULL);
    ELSIF NEW.holder <> OLD.holder THEN
        INSERT INTO grants VALUES (NEW.name, NEW.token, NEW.label, NEW.acquired_at, OLD.token, OLD.expires_at);
    END IF;
    RETURN NULL;
END
$$`, `
CREATE TRIGGER note_grant AFTER INSERT OR UPDATE ON pglock_leases FOR EACH ROW EXECUTE FUNCTION note_grant()`,
}

// judge is what must hold at the end of every test: tokens rise, no term begins before the one before it has expired or
// was released, and no fenced row was written with a token after a higher one was granted.
func (d *database) judge(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second) // The test's own has ended.
	defer cancel()
	for what, sql := range map[string]string{
		"tokens that do not rise": `SELECT count(*) FROM grants WHERE token <= token_before`,
		"terms that overlap":      `SELECT count(*) FROM grants WHERE granted_at < expired_at`,
		"stale rows": `
SELECT count(*)
FROM writes AS w
WHERE w.fenced
    AND EXISTS (SELECT FROM grants AS g WHERE g.token > w.token AND g.granted_at < w.written_at)`,
	} {
		n, err := tryValue[int64](ctx, d, sql)
		if err != nil || n != 0 {
			t.Errorf("%s: %d (%v)", what, n, err)
		}
	}
}

// A stopwatch measures how long this machine lets a question to the server wait. Two cores that are shared with other work can
// stand still for seconds, for the processes under test as for this one; time limits are longer by twice of that.
type stopwatch struct {
	worst time.Duration
	end   context.CancelFunc
	ended chan struct{}
}

func (d *database) stopwatch(t *testing.T) *stopwatch {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &stopwatch{end: cancel, ended: make(chan struct{})}
	t.Cleanup(func() { s.allowance() })
	go func() {
		defer close(s.ended)
		ticks := time.NewTicker(20 * time.Millisecond)
		defer ticks.Stop()
		for ctx.Err() == nil {
			due := time.Now().Add(20 * time.Millisecond)
			select {
			case <-ticks.C:
			case <-ctx.Done():
			}
			_, _ = tryValue[int](ctx, d, "SELECT 1") // How long it takes is the answer.
			s.worst = max(s.worst, time.Since(due))
		}
	}()
	return s
}

// allowance ends the measurement.
func (s *stopwatch) allowance() time.Duration {
	s.end()
	<-s.ended
	return 2 * s.worst
}

// program returns the path of a program of this module.
func program(t *testing.T, name string) string {
	t.Helper()
	dir, err := programs()
	require.NoError(t, err)
	return filepath.Join(dir, name)
}

func buildPrograms() (string, error) {
	j, err := cleaner()
	if err != nil {
		return "", err
	}
	args := []string{"build", "-o", j.dir + string(filepath.Separator)}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		args = append(args, "-race") // As this program: a race in one of those ends it with an error, which its test sees.
	}
	build := exec.Command("go", append(args, "./examples/invoicejob", "./internal/testproc/holder")...)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return j.dir, nil
}

// A janitor is a process that removes the programs and the container when this one is gone, however it ended: a test
// binary that panics, runs into its time limit or is killed runs no cleanup, and not every engine has a reaper.
type janitor struct {
	dir   string // for the programs
	label string // of the container
	cmd   *exec.Cmd
	in    io.Closer
}

func startJanitor() (*janitor, error) {
	dir, err := os.MkdirTemp("", "leasehold-integration-")
	if err != nil {
		return nil, err
	}
	j := &janitor{dir: dir, label: "leasehold.integration." + strings.ToLower(rand.Text())}
	j.cmd = exec.Command("sh", "-c", `
trap '' INT TERM HUP
read -r _
rm -rf -- "$1"
left=$(docker ps -aq --filter "label=$2") && [ -n "$left" ] && docker rm -f -v $left
exit 0`, "janitor", dir, j.label)
	j.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // A Ctrl-C is not for it.
	in, err := j.cmd.StdinPipe()
	if err == nil {
		err = j.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	j.in = in
	created.janitor = j
	return j, nil
}

func (j *janitor) dismiss() error {
	return errors.Join(j.in.Close(), j.cmd.Wait())
}
