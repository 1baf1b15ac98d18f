package roles

import (
	"bytes"
	"context"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/migrations"
	"github.com/leasehold-go/leasehold/pglock"
)

// secret has what needs escaping somewhere, between marks that are found again however the rest is written.
const secret = `Zq7 @:/?#%&'"\$xK9`

// A heard is all that a library call lets out: errors, log lines and events.
type heard struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(p)
}

func (h *heard) error(err error) {
	if err != nil {
		_, _ = h.Write([]byte(err.Error() + "\n"))
	}
}

func (h *heard) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(h, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// TestSecrets_NoPasswordIsHeard: whether the server takes the password, refuses it, or is not there.
func TestSecrets_NoPasswordIsHeard(t *testing.T) {
	t.Parallel()
	server := pgtest.Private(t, map[string]string{"password_encryption": "scram-sha-256"})
	admin := connect(t, server.DSN())
	literal := one[string](t, admin, "SELECT quote_literal($1::text)", secret)
	require.NoError(t, migrations.Up(limit(t), migrations.URL(server.DSN()), migrations.Options{}))
	execute(t, server.DSN(), "CREATE ROLE app LOGIN PASSWORD "+literal+"; GRANT ALL ON ALL TABLES IN SCHEMA public TO app")
	lines := "host all app all scram-sha-256\nlocal all all trust\nhost all all all trust"
	execute(t, server.DSN(), "COPY (SELECT unnest(string_to_array('"+lines+"', E'\\n'))) TO '"+one[string](t, admin, "SHOW hba_file")+"'; SELECT pg_reload_conf()")

	base, err := pgx.ParseConfig(server.DSN())
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "pass")
	require.NoError(t, os.WriteFile(file, []byte("*:*:*:app:"+strings.NewReplacer(`\`, `\\`, `:`, `\:`).Replace(secret)+"\n"), 0o600))
	keywords := "sslmode=disable user=app dbname=" + base.Database + " host=" + base.Host + " port="
	right := one[string](t, admin, "SHOW port")
	quoted := "password='" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(secret) + "'"
	for name, test := range map[string]struct {
		dsn string
		ok  bool
	}{
		"a URL":               {with(t, server.DSN(), func(u *url.URL) { u.User = url.UserPassword("app", secret) }), true},
		"keywords":            {keywords + right + " " + quoted, true},
		"a file":              {keywords + right + " passfile=" + file, true},
		"a wrong password":    {keywords + right + " " + strings.Replace(quoted, "Zq7", "Zq7Zq7", 1), false},
		"nobody listens":      {keywords + "1 " + quoted, false},
		"nobody, and a URL":   {"postgres://app:" + url.QueryEscape("Zq7xK9") + "@127.0.0.1:1/x?sslmode=disable", false},
		"another database":    {strings.Replace(keywords, "dbname="+base.Database, "dbname=none", 1) + right + " " + quoted, false},
		"a setting not known": {keywords + right + " " + quoted + " nonsense=1", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := use(t, test.dsn, test.ok)
			require.NotContains(t, h, "Zq7")
			require.NotContains(t, h, "xK9")
			require.NotContains(t, h, url.QueryEscape(secret))
		})
	}
}

// use does all that connects, and returns what was heard.
func use(t *testing.T, dsn string, ok bool) string {
	t.Helper()
	h := &heard{}
	h.error(migrations.Up(limit(t), migrations.URL(dsn), migrations.Options{Logger: h.logger()}))
	config, err := pgxpool.ParseConfig(dsn)
	require.NoError(t, err)
	pool := pgtest.PoolWith(t, config)
	h.error(migrations.Up(limit(t), migrations.Pool(pool), migrations.Options{Logger: h.logger()}))
	client, err := pglock.New(pool, pglock.Config{
		TTL: 3 * time.Second, RequestTimeout: 400 * time.Millisecond, Logger: h.logger(),
		OnEvent: func(e pglock.Event) { h.error(e.Err) },
	})
	require.NoError(t, err)
	check := client.Check(limit(t))
	if ok && check == nil { // A busy machine may take longer than the request timeout.
		lease, err := client.TryAcquire(limit(t), "job")
		h.error(err)
		if err == nil {
			h.error(lease.Fence().Run(limit(t), pool, lease.Token(), fencing.RunOptions{}, func(context.Context, pgx.Tx) error { return nil }))
			h.error(lease.Release(limit(t)))
		}
	}
	if !ok {
		require.Error(t, check)
		ctx, cancel := context.WithTimeout(limit(t), time.Second)
		defer cancel()
		_, err := client.Acquire(ctx, "job")
		require.Error(t, err)
		h.error(err)
		_, err = client.TryAcquire(limit(t), "job")
		h.error(err)
		_, err = client.RaiseEpoch(ctx)
		h.error(err)
		h.error(fencing.Fence{Name: "job"}.Run(ctx, pool, 1, fencing.RunOptions{}, func(context.Context, pgx.Tx) error { return nil }))
	}
	h.error(check)
	h.error(client.Close(limit(t)))
	if !ok {
		require.Contains(t, h.text.String(), "pglock: ")
		require.Contains(t, h.text.String(), "migrations: ")
		require.Contains(t, h.text.String(), "fencing: ")
	}
	return h.text.String()
}

// TestSecrets_NamesAreNoPartOfStatements: other roles see the application's name of a session, and its statements if they may
// read statistics. A name, a label or a token is never in them.
func TestSecrets_NamesAreNoPartOfStatements(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	const name, label = "name-of-a-customer", "label-of-a-host"
	pool := pgtest.Pool(t, with(t, c.as(t, c.application), func(u *url.URL) {
		query := u.Query()
		query.Set("application_name", "shown-to-all")
		u.RawQuery = query.Encode()
	}))
	client, err := pglock.New(pool, pglock.Config{Schema: c.schema, Label: label, Metadata: map[string]string{"k": label}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close(context.Background())) })
	lease, err := client.TryAcquire(limit(t), name)
	require.NoError(t, err)
	require.NoError(t, transact(t, pool, func(tx pgx.Tx) error { return lease.AdvanceTx(limit(t), tx) }))

	const sessions = "SELECT coalesce(string_agg(concat_ws(' | ', application_name, query), E'\\n'), '') FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
	all := one[string](t, connect(t, c.dsn), sessions)
	require.Contains(t, all, "pglock_leases")
	require.NotContains(t, all, name)
	require.NotContains(t, all, label)
	public := one[string](t, connect(t, c.as(t, c.nobody)), sessions)
	require.Contains(t, public, "shown-to-all")
	require.NotContains(t, public, "pglock_leases", "statements are for the role itself and for pg_read_all_stats")
}
