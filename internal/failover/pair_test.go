package failover_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
)

// readWrite is the option that asks pgx for the primary among several hosts.
const readWrite = "target_session_attrs=read-write"

// A pair is a primary with the tables and a standby, asynchronous unless a test says otherwise.
type pair struct{ primary, standby *pgserver.Server }

func newPair(t testing.TB) pair {
	t.Helper()
	p := pair{primary: pgtest.Private(t, nil)}
	install(t, p.primary.DSN())
	p.standby = pgtest.Standby(t, p.primary)
	return p
}

// hosts is a connection string of several servers, in their order.
func hosts(t testing.TB, options string, servers ...string) string {
	t.Helper()
	var addresses []string
	for _, dsn := range servers {
		config, err := pgx.ParseConfig(dsn)
		require.NoError(t, err)
		addresses = append(addresses, fmt.Sprintf("%s:%d", config.Host, config.Port))
	}
	return fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable&%s", strings.Join(addresses, ","), options)
}

// dsn leads to both, the old primary first.
func (p pair) dsn(t testing.TB, options string) string {
	t.Helper()
	return hosts(t, options, p.primary.DSN(), p.standby.DSN())
}

// part has the standby miss all that comes after.
func (p pair) part(t testing.TB) {
	t.Helper()
	flush(t, p.primary)
	require.NoError(t, p.standby.CatchUp(t.Context(), p.primary))
	require.NoError(t, p.standby.Detach(t.Context()))
}

// flush has a server write what it has committed: a release does not wait for that, so that a standby that has all that
// was written may still miss one, and have the name held by nobody until the TTL ends.
func flush(t testing.TB, primary *pgserver.Server) {
	t.Helper()
	run(t, primary.DSN(), "SELECT pg_logical_emit_message(true, '', '')")
}

func (p pair) killAndPromote(t testing.TB) {
	t.Helper()
	require.NoError(t, p.primary.Kill())
	require.NoError(t, p.standby.Promote(t.Context()))
}

// follow has a standby stream from another primary.
func follow(t testing.TB, standby, primary *pgserver.Server) {
	t.Helper()
	run(t, standby.DSN(), "ALTER SYSTEM SET primary_conninfo = '"+conninfo(t, primary.DSN())+"'", "SELECT pg_reload_conf()")
	require.NoError(t, standby.CatchUp(t.Context(), primary))
}

// dataOf is the data folder of a running server.
func dataOf(t testing.TB, server *pgserver.Server) string {
	t.Helper()
	return ask[string](t, server.DSN(), "SHOW data_directory")
}

// conninfo is a connection string in the form that a setting takes.
func conninfo(t testing.TB, dsn string) string {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	require.NoError(t, err)
	return fmt.Sprintf("host=%s port=%d user=postgres", config.Host, config.Port)
}

// unseen is a name that no standby has seen before a failover that loses it.
const unseen = "not on the standby"

// survive has a lossy failover: a new standby that misses the last grants of "n", and all of another name, takes over. It
// returns the new primary and its highest token of "n".
func survive(t testing.TB, primary *pgserver.Server, before fencing.Token) (*pgserver.Server, fencing.Token) {
	t.Helper()
	p := pair{primary, pgtest.Standby(t, primary)}
	p.part(t)
	return p.standby, p.survive(t, before)
}

// survive is the same from the parting on.
func (p pair) survive(t testing.TB, before fencing.Token) fencing.Token {
	t.Helper()
	missed := grants(t, p.primary.DSN(), "n", 5)
	require.Greater(t, missed, before)
	other := grants(t, p.primary.DSN(), unseen, 5)
	p.killAndPromote(t)
	above(t, p.standby.DSN(), unseen, other)
	return above(t, p.standby.DSN(), "n", missed)
}
