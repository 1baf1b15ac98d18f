package roles

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/migrations"
	"github.com/leasehold-go/leasehold/pglock"
)

// A cast is a schema with the tables, owned by an operator, and the roles of docs/roles.sql.
type cast struct {
	dsn, schema                           string
	operator, application, writer, reader string
	nobody                                string
}

// newCast sets up the roles as docs/security.md says: a schema that the operator owns, migrated and granted by the operator.
func newCast(t *testing.T) cast {
	t.Helper()
	c := cast{
		dsn: newDatabase(t), schema: `Leases "of" x`,
		operator: unique("operator"), application: unique("application"), writer: unique("writer"), reader: unique("reader"), nobody: unique("nobody"),
	}
	for _, role := range c.roles() {
		execute(t, c.dsn, "CREATE ROLE "+role)
		t.Cleanup(func() { execute(t, c.dsn, "DROP OWNED BY "+role+" CASCADE; DROP ROLE "+role) })
	}
	execute(t, c.dsn, "CREATE SCHEMA "+quote(c.schema)+" AUTHORIZATION "+c.operator)
	require.NoError(t, migrations.Up(limit(t), migrations.URL(c.as(t, c.operator)), migrations.Options{Schema: c.schema}))
	c.grant(t)
	return c
}

func (c cast) roles() []string {
	return []string{c.operator, c.application, c.writer, c.reader, c.nobody}
}

// as is a DSN for a session that has no more rights than the role.
func (c cast) as(t *testing.T, role string) string {
	t.Helper()
	return with(t, c.dsn, func(u *url.URL) {
		query := u.Query()
		query.Set("role", role)
		u.RawQuery = query.Encode()
	})
}

// grant runs docs/roles.sql as the operator, with the variables put in as psql does.
func (c cast) grant(t *testing.T) {
	t.Helper()
	execute(t, c.as(t, c.operator), strings.NewReplacer(
		`:"schema"`, quote(c.schema), `:"application"`, c.application, `:"writer"`, c.writer, `:"reader"`, c.reader,
	).Replace(rolesSQL(t)))
}

func rolesSQL(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/roles.sql")
	require.NoError(t, err)
	return string(text)
}

func (c cast) table(name string) string { return quote(c.schema, name) }

func (c cast) client(t *testing.T, role string) *pglock.Client {
	t.Helper()
	config := pglock.Config{Schema: c.schema, TTL: 5 * time.Second, RenewInterval: 100 * time.Millisecond}
	client, err := pglock.New(pgtest.Pool(t, c.as(t, role)), config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close(context.Background())) })
	return client
}

// TestRoles_DocumentShowsTheFile: what a reader copies from docs/security.md is what the tests ran.
func TestRoles_DocumentShowsTheFile(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../../docs/security.md")
	require.NoError(t, err)
	_, statements, _ := strings.Cut(rolesSQL(t), "-f docs/roles.sql\n")
	require.Contains(t, string(document), "```sql\n"+statements+"```\n")
}

// TestRoles_PsqlRunsTheFile: the variables are psql's own.
func TestRoles_PsqlRunsTheFile(t *testing.T) {
	t.Parallel()
	psql, err := exec.LookPath("psql")
	if err != nil {
		pgtest.Skip(t, "psql is not on this machine")
	}
	c := newCast(t)
	cmd := exec.CommandContext(limit(t), psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-v", "schema="+c.schema, "-v", "application="+c.application,
		"-v", "writer="+c.writer, "-v", "reader="+c.reader, "-d", c.dsn, "-f", "../../docs/roles.sql")
	cmd.Env = append(os.Environ(), "PGOPTIONS=-c role="+c.operator)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Empty(t, string(out))
}

// TestRoles_HaveExactlyTheirGrants compares every privilege on every table, column and function with the list.
func TestRoles_HaveExactlyTheirGrants(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	conn := connect(t, c.dsn)
	const columns = `
SELECT concat_ws(' ', p.privilege, c.relname || coalesce('.' || a.attname, ''))
FROM pg_class AS c
LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
CROSS JOIN unnest('{SELECT,INSERT,UPDATE,REFERENCES}'::text[]) AS p (privilege)
WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'v', 'S', 'm', 'p') AND has_column_privilege($2, c.oid, a.attnum, p.privilege)
UNION ALL
SELECT concat_ws(' ', p.privilege, c.relname)
FROM pg_class AS c
CROSS JOIN unnest('{DELETE,TRUNCATE,TRIGGER}'::text[]) AS p (privilege)
WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'v', 'S', 'm', 'p') AND has_table_privilege($2, c.oid, p.privilege)
UNION ALL
SELECT concat_ws(' ', 'EXECUTE', p.proname)
FROM pg_proc AS p
WHERE p.pronamespace = $1::regnamespace AND has_function_privilege($2, p.oid, 'EXECUTE')
UNION ALL
SELECT concat_ws(' ', s.privilege, 'schema')
FROM unnest('{CREATE,USAGE}'::text[]) AS s (privilege)
WHERE has_schema_privilege($2, $1::regnamespace, s.privilege)
ORDER BY 1`
	leases := []string{"acquired_at", "expires_at", "holder", "label", "metadata", "name", "renewed_at", "token"}
	fences, epochs, versions := []string{"name", "raised_at", "token"}, []string{"base", "entered_at", "system_identifier"}, []string{"dirty", "version"}
	on := func(privilege, table string, columns []string, but ...string) (list []string) {
		for _, column := range columns {
			if !strings.Contains(strings.Join(but, " "), column) {
				list = append(list, privilege+" "+table+"."+column)
			}
		}
		return list
	}
	join := func(lists ...[]string) (all []string) {
		for _, list := range lists {
			all = append(all, list...)
		}
		return all
	}
	// Of PUBLIC, and harmless: they run with the rights of the caller, who has to be able to put a trigger on the table.
	public := []string{"EXECUTE pglock_guard_rows", "EXECUTE pglock_guard_table", "EXECUTE pglock_unguard_table"}
	look := join(on("SELECT", "pglock_leases", leases), on("SELECT", "job_fences", fences), on("SELECT", "pglock_epochs", epochs),
		on("SELECT", "pglock_schema_migrations", versions))
	for role, want := range map[string][]string{
		c.nobody: public,
		c.writer: join(public, []string{"USAGE schema", "UPDATE job_fences.raised_at"}, on("SELECT", "job_fences", fences)),
		c.reader: join(public, []string{"USAGE schema"}, look, on("SELECT", "pglock_guards", []string{"guarded", "fence", "problem"}),
			on("SELECT", "pglock_row_guards", []string{"guarded", "fence_prefix", "problem"})),
		c.application: join(public, []string{"USAGE schema"}, look,
			on("INSERT", "pglock_leases", leases), on("UPDATE", "pglock_leases", leases, "name"),
			on("INSERT", "job_fences", fences), on("UPDATE", "job_fences", fences, "name"),
			on("INSERT", "pglock_epochs", epochs), on("UPDATE", "pglock_epochs", epochs, "system_identifier")),
	} {
		rows, err := conn.Query(limit(t), columns, quote(c.schema), role)
		require.NoError(t, err)
		have, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		require.ElementsMatch(t, want, have, role)
	}
}

// TestRoles_AreRefusedEverythingElse tries what would undo the library's promises, as each role.
func TestRoles_AreRefusedEverythingElse(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	statements := []string{"CREATE TABLE " + c.table("x") + " (a int)", "CREATE FUNCTION " + c.table("x") + "() RETURNS int LANGUAGE sql AS 'SELECT 1'",
		"DROP SCHEMA " + quote(c.schema) + " CASCADE", "ALTER SCHEMA " + quote(c.schema) + " RENAME TO x", "DROP FUNCTION " + c.table("pglock_check_guard")}
	for _, table := range []string{"pglock_leases", "job_fences", "pglock_epochs", "pglock_schema_migrations"} {
		name := c.table(table)
		statements = append(statements, "DELETE FROM "+name, "TRUNCATE "+name, "DROP TABLE "+name, "ALTER TABLE "+name+" ADD x int", "ALTER TABLE "+name+" DISABLE TRIGGER ALL",
			"DO $$BEGIN LOCK TABLE "+name+" IN ACCESS EXCLUSIVE MODE; END$$", "CREATE INDEX ON "+name+" ((1))",
			"CREATE TRIGGER x BEFORE INSERT ON "+name+" EXECUTE FUNCTION "+c.table("pglock_check_guard")+"('x')")
	}
	statements = append(statements, "UPDATE "+c.table("pglock_leases")+" SET name = 'x'", "UPDATE "+c.table("job_fences")+" SET name = 'x'",
		"UPDATE "+c.table("pglock_epochs")+" SET system_identifier = 1", "UPDATE "+c.table("pglock_schema_migrations")+" SET version = 1")
	for _, role := range []string{c.application, c.writer, c.reader, c.nobody} {
		for _, statement := range statements {
			requireDenied(t, c, role, statement)
		}
	}
	for _, role := range []string{c.writer, c.reader, c.nobody} {
		requireDenied(t, c, role, "UPDATE "+c.table("job_fences")+" SET token = 1")
		requireDenied(t, c, role, "UPDATE "+c.table("pglock_leases")+" SET expires_at = NULL")
	}
	requireDenied(t, c, c.reader, "SELECT FROM "+c.table("job_fences")+" FOR KEY SHARE")
	requireDenied(t, c, c.writer, "SELECT FROM "+c.table("pglock_leases"))
	requireDenied(t, c, c.nobody, "SELECT FROM "+c.table("job_fences"))
}

func requireDenied(t *testing.T, c cast, role, statement string) {
	t.Helper()
	conn, err := pgx.Connect(limit(t), c.as(t, role))
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	_, err = conn.Exec(limit(t), statement)
	var refused *pgconn.PgError
	require.ErrorAs(t, err, &refused, "%s: %s", role, statement)
	require.Equal(t, "42501", refused.Code, "%s: %s: %v", role, statement, err)
}

// TestRoles_DoTheirPart: each role through the library.
func TestRoles_DoTheirPart(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	options := migrations.Options{Schema: c.schema}
	table := quote("invoices")
	execute(t, c.dsn, "CREATE TABLE public.invoices (id int); GRANT INSERT ON public.invoices TO "+c.application+", "+c.writer+"; ALTER TABLE public.invoices OWNER TO "+c.operator)

	// The application, on tables that the operator has made: nothing is left to migrate.
	client := c.client(t, c.application)
	require.NoError(t, client.Check(limit(t)))
	require.NoError(t, migrations.Up(limit(t), migrations.URL(c.as(t, c.application)), options))
	lease, err := client.TryAcquire(limit(t), "job")
	require.NoError(t, err)
	admin := connect(t, c.dsn)
	require.Eventually(t, func() bool {
		return one[bool](t, admin, "SELECT renewed_at > acquired_at FROM "+c.table("pglock_leases"))
	}, 30*time.Second, 20*time.Millisecond, "it is renewed")

	operator := pgtest.Pool(t, c.as(t, c.operator))
	require.NoError(t, transact(t, operator, func(tx pgx.Tx) error { return lease.Fence().GuardTx(limit(t), tx, "public."+table) }))
	application := pgtest.Pool(t, c.as(t, c.application))
	insert := func(tx pgx.Tx) error {
		_, err := tx.Exec(limit(t), "INSERT INTO public.invoices VALUES (1)")
		return err
	}
	for _, pass := range []func(context.Context, pgx.Tx) error{lease.AdvanceTx, lease.ShareTx} {
		require.NoError(t, transact(t, application, func(tx pgx.Tx) error {
			require.NoError(t, pass(limit(t), tx))
			return insert(tx)
		}))
	}
	strict := fencing.Fence{Name: "run", Schema: c.schema}
	require.NoError(t, transact(t, application, func(tx pgx.Tx) error {
		require.NoError(t, strict.CreateTx(limit(t), tx))
		return strict.AdvanceStrictTx(limit(t), tx, lease.Token())
	}))
	require.NoError(t, lease.Fence().Run(limit(t), application, lease.Token(), fencing.RunOptions{}, func(_ context.Context, tx pgx.Tx) error { return insert(tx) }))

	// The writer passes by the shared form alone.
	writer := pgtest.Pool(t, c.as(t, c.writer))
	require.NoError(t, transact(t, writer, func(tx pgx.Tx) error {
		require.NoError(t, lease.Fence().ShareTx(limit(t), tx, lease.Token()))
		return insert(tx)
	}))
	err = transact(t, writer, func(tx pgx.Tx) error { return lease.AdvanceTx(limit(t), tx) })
	requireMissing(t, err, "job_fences")
	_, err = c.client(t, c.writer).TryAcquire(limit(t), "job")
	requireMissing(t, err, "")

	// The reader sees who holds what, and takes nothing.
	reader := pgtest.Pool(t, c.as(t, c.reader))
	statement, err := pglock.Statement("inspect", c.schema, false)
	require.NoError(t, err)
	tag, err := reader.Exec(limit(t), statement, []string{"job"})
	require.NoError(t, err)
	require.Equal(t, int64(1), tag.RowsAffected())
	status, err := migrations.Version(limit(t), migrations.Pool(reader), options)
	require.NoError(t, err)
	require.True(t, status.Current())
	require.NoError(t, transact(t, reader, func(tx pgx.Tx) error {
		list, err := lease.Fence().GuardsTx(limit(t), tx)
		require.Len(t, list, 1)
		return err
	}))
	err = transact(t, reader, func(tx pgx.Tx) error { return lease.Fence().ShareTx(limit(t), tx, lease.Token()) })
	requireMissing(t, err, "job_fences")
	_, err = c.client(t, c.reader).TryAcquire(limit(t), "other")
	requireMissing(t, err, "")
	require.NoError(t, lease.Release(limit(t)))

	// The operator has all of it, and alone changes the tables.
	_, err = c.client(t, c.operator).RaiseEpoch(limit(t))
	require.NoError(t, err)
	require.NoError(t, transact(t, operator, func(tx pgx.Tx) error { return lease.Fence().UnguardTx(limit(t), tx, "public."+table) }))
	behind := options
	behind.To = 3
	require.ErrorContains(t, migrations.Down(limit(t), migrations.URL(c.as(t, c.application)), behind), "42501")
	require.NoError(t, migrations.Down(limit(t), migrations.Pool(operator), behind))
	err = migrations.Up(limit(t), migrations.URL(c.as(t, c.application)), options)
	requireMissing(t, err, "")
	require.NoError(t, migrations.Up(limit(t), migrations.Pool(operator), options))
	for _, call := range []error{c.client(t, c.nobody).Check(limit(t)), migrations.Up(limit(t), migrations.URL(c.as(t, c.nobody)), options)} {
		requireMissing(t, call, "")
	}
}

// requireMissing: the error says which privilege there is not, and where the grants are.
func requireMissing(t *testing.T, err error, of string) {
	t.Helper()
	var refused *pgconn.PgError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "42501", refused.Code)
	require.NotErrorIs(t, err, fencing.ErrStale)
	require.NotErrorIs(t, err, pglock.ErrNotAcquired)
	require.ErrorContains(t, err, of)
	require.ErrorContains(t, err, "docs/roles.sql")
}

// TestRoles_ApplicationNeedsEachOfItsGrants takes them away one by one, so that none is in the file for nothing.
func TestRoles_ApplicationNeedsEachOfItsGrants(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	use := func() error {
		execute(t, c.dsn, "DELETE FROM "+c.table("pglock_epochs")) // As after a restore into another cluster.
		if err := migrations.Up(limit(t), migrations.URL(c.as(t, c.application)), migrations.Options{Schema: c.schema}); err != nil {
			return err
		}
		client := c.client(t, c.application)
		lease, err := client.TryAcquire(limit(t), "job")
		if err != nil {
			return err
		}
		return lease.Release(limit(t))
	}
	require.NoError(t, use())
	grants := regexp.MustCompile(`(SELECT|INSERT|UPDATE) ?(?:\(([^)]*)\))?`)
	tried := 0
	for statement := range strings.SplitSeq(rolesSQL(t), ";") {
		statement = strings.TrimSpace(regexp.MustCompile(`(?m)^--.*\n`).ReplaceAllString(strings.TrimSpace(statement)+"\n", ""))
		rest, of := strings.CutPrefix(statement, "GRANT ")
		if !of || !strings.HasSuffix(statement, `TO :"application"`) {
			continue
		}
		privileges, on, _ := strings.Cut(rest, "ON ")
		on = strings.NewReplacer(`:"schema"`, quote(c.schema), `TO :"application"`, "FROM "+c.application).Replace(on)
		for _, found := range grants.FindAllStringSubmatch(privileges, -1) {
			for column := range strings.SplitSeq(found[2], ", ") {
				what := found[1]
				if column != "" {
					what += " (" + column + ")"
				}
				execute(t, c.as(t, c.operator), "REVOKE "+what+" ON "+on)
				requireMissing(t, use(), "")
				c.grant(t)
				tried++
			}
		}
	}
	require.Equal(t, 18, tried)
	require.NoError(t, use())
}
