package main

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
)

// TestMigrate_PasswordIsNeverShown: field report 69, with a server that asks for the password.
func TestMigrate_PasswordIsNeverShown(t *testing.T) {
	t.Parallel()
	const password = "s3\\cret@:/#?&%$`' \"w0rd"
	dsn := pgtest.Private(t, nil).DSN()
	admin := connect(t, dsn)
	// \ and ' of the password are doubled by hand: a utility statement takes no parameter.
	execute(t, admin, "SET password_encryption = 'scram-sha-256'",
		`CREATE ROLE app LOGIN PASSWORD E's3\\cret@:/#?&%$`+"`"+`\' "w0rd'`, "CREATE SCHEMA app AUTHORIZATION app")
	lines := "host all app all scram-sha-256\nlocal all all trust\nhost all all all trust"
	execute(t, admin, "COPY (SELECT unnest(string_to_array('"+lines+"', E'\\n'))) TO '"+
		value[string](t, admin, "SHOW hba_file")+"'", "SELECT pg_reload_conf()")
	config, err := pgx.ParseConfig(dsn)
	require.NoError(t, err)
	if strings.HasPrefix(config.Host, "/") {
		pgtest.Skip(t, "the server listens on a socket only")
	}
	port := strconv.Itoa(int(config.Port))
	address := []string{"PGHOST=" + config.Host, "PGPORT=" + port, "PGDATABASE=" + config.Database, "PGUSER=app", "PGSSLMODE=disable"}
	hostPort := net.JoinHostPort(config.Host, port)
	file := filepath.Join(t.TempDir(), "pass")
	escaped := strings.NewReplacer(`\`, `\\`, `:`, `\:`).Replace(password)
	require.NoError(t, os.WriteFile(file, []byte("*:*:*:app:"+escaped+"\n"), 0o600))
	proper := url.URL{Scheme: "postgres", User: url.UserPassword("app", password), Host: hostPort, Path: config.Database}

	good := map[string][]string{
		"PGPASSWORD":   append(address, "PGPASSWORD="+password),
		"PGPASSFILE":   append(address, "PGPASSFILE="+file),
		"DATABASE_URL": append(address, "DATABASE_URL="+proper.String()),
		"keywords":     append(address, `DATABASE_URL=user=app password='`+strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(password)+`'`),
	}
	for name, env := range good {
		code, stdout, stderr := pglockRun(t, env, "migrate", "up", "-schema", "app")
		require.Zero(t, code, name+": "+stderr)
		requireNoSecret(t, stdout+stderr)
	}

	raw := "postgres://app:" + password + "@" + hostPort + "/" + config.Database
	bad := map[string]struct{ env, args []string }{
		"wrong PGPASSWORD":      {append(address, "PGPASSWORD=other-s3\\cret"), nil},
		"raw URL":               {append(address, "DATABASE_URL="+raw), nil},
		"raw URL as a flag":     {address, []string{"-database", raw}},
		"raw URL as argument":   {address, []string{raw}},
		"raw URL, slash":        {append(address, "DATABASE_URL=postgres://app:55/s3cret@"+hostPort+"/x"), nil},
		"raw URL, slash and =":  {append(address, "DATABASE_URL=postgres://app:55/s3=cret@"+hostPort+"/x"), nil},
		"raw URL, at":           {append(address, "DATABASE_URL=postgres://app:55@s3cret@"+hostPort+"/x"), nil},
		"raw URL, hash":         {append(address, "DATABASE_URL=postgres://app:55#s3cret@"+hostPort+"/x?sslmode=disable"), nil},
		"raw URL, question":     {append(address, "DATABASE_URL=postgres://app:55?s3cret@"+hostPort+"/x"), nil},
		"raw URL, percent":      {append(address, "DATABASE_URL=postgres://app:s3cret%zz@"+hostPort+"/x"), nil},
		"keywords, not closed":  {append(address, "DATABASE_URL=user=app password='s3cret"), nil},
		"keywords, with blanks": {append(address, "DATABASE_URL=user=app password=s3 w0rd"), nil},
		"nobody listens":        {append(address, "DATABASE_URL=postgres://app:s3cret@127.0.0.1:1/x"), nil},
		"unknown host":          {append(address, "DATABASE_URL=postgres://app:s3cret@nowhere.invalid/x"), nil},
	}
	for name, test := range bad {
		for _, words := range [][]string{{"migrate", "version"}, {"epoch", "raise", "-yes"}} {
			code, stdout, stderr := pglockRun(t, test.env, append(words, test.args...)...)
			require.Contains(t, []int{1, 2}, code, name)
			require.NotEmpty(t, stderr)
			requireNoSecret(t, stdout+stderr)
		}
	}
	_, _, stderr := pglockRun(t, []string{"DATABASE_URL=" + raw}, "migrate", "version")
	require.Contains(t, stderr, "%40", "says how to write it")
	for _, word := range []string{raw, "-" + raw, "--database2=" + raw} {
		_, _, stderr := pglockRun(t, nil, word)
		requireNoSecret(t, stderr)
		_, _, stderr = pglockRun(t, nil, "migrate", "up", word)
		requireNoSecret(t, stderr)
	}
}

func requireNoSecret(t *testing.T, output string) {
	t.Helper()
	for _, part := range []string{"s3", "cret", "w0rd"} {
		require.NotContains(t, output, part)
	}
}
