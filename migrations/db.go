package migrations

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// DB is the database to migrate: made by [URL] or [Pool]. Safe for concurrent use.
type DB interface {
	// open prepares for one call of Up, Down or Version. It does no I/O.
	open() (connections, error)
}

// connections lends connections to one call.
type connections interface {
	// use lends a connection for the time of work. The connection is outside a transaction, and must be again after.
	use(ctx context.Context, work func(conn *pgconn.PgConn) error) error
	close()
}

// URL connects by a connection string: a URL or keyword=value pairs, as pgx reads them. What it leaves out comes from the
// standard PG* variables, service and password files; "" takes everything from there. Each call of Up, Down or Version
// opens one connection and closes it. The string is never part of an error, as it may have a password.
func URL(connString string) DB { return url(connString) }

type url string

func (u url) open() (connections, error) {
	if hasRawPassword(string(u)) || hasOtherScheme(string(u)) {
		return nil, errURL
	}
	// As a pool's string, because pool_max_conns and the like may stand in it.
	config, err := pgxpool.ParseConfig(string(u))
	if err != nil {
		return nil, errURL
	}
	conn := &config.ConnConfig.Config
	for key := range conn.RuntimeParams {
		if !plainKey.MatchString(key) {
			return nil, errURL // A server's answer would show it.
		}
	}
	for _, shown := range []string{conn.User, conn.Database, conn.Host} {
		if swallowed.MatchString(shown) {
			return nil, errURL
		}
	}
	if _, ok := conn.RuntimeParams["application_name"]; !ok {
		conn.RuntimeParams["application_name"] = "pglock migrate"
	}
	if conn.ValidateConnect == nil && severalHosts(conn) {
		conn.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsPrimary
	}
	return &dedicated{config: conn}, nil
}

// errURL stands for the parser's own error, which quotes parts of the string: after a password with an unescaped
// slash, parts of the password.
var errURL = errors.New("connection string: not understood (not shown, it may have a password); a URL starts with " +
	"postgres:// or postgresql://, with no blank or quote before it; in it write @ : / ? # % of a user or password as %40 %3A %2F " +
	"%3F %23 %25, or leave the password to PGPASSWORD or PGPASSFILE")

// plainKey is how parameters of a server are called.
var plainKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)

// swallowed finds the next pair in the value of one that was left empty: user= password=secret has a user "password=secret".
var swallowed = regexp.MustCompile(`(^|[\s\v])(host|port|dbname|database|user|password|service|sslmode)[\s\v]*=`)

// hasOtherScheme reports whether a URL does not start as pgx wants it: with a blank or a quote, or with jdbc:postgresql:// and the
// like. pgx then takes what is before the first = for the name of a parameter, and connects to whatever the variables name.
func hasOtherScheme(connString string) bool {
	if strings.HasPrefix(connString, "postgres://") || strings.HasPrefix(connString, "postgresql://") {
		return false
	}
	key, _, _ := strings.Cut(connString, "=")
	return strings.Contains(key, ":/")
}

// hasRawPassword reports whether a URL is cut in the wrong place by an unescaped @ / ? or # in its password. Such a URL may
// parse: parts of the password then are the host, the port or the database, and show up in the error of the connection that fails.
func hasRawPassword(connString string) bool {
	_, rest, ok := strings.Cut(connString, "://")
	if !ok {
		return false
	}
	rest, fragment, _ := strings.Cut(rest, "#")
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if strings.Count(authority, "@") > 1 || strings.Contains(path+fragment, "@") {
		return true
	}
	if strings.Contains(authority, "@") {
		return false
	}
	key, _, _ := strings.Cut(query, "=") // A value may have one: user=somebody@somewhere.
	return strings.Contains(key, "@")
}

func severalHosts(config *pgconn.Config) bool {
	for _, fallback := range config.Fallbacks {
		if fallback.Host != config.Host || fallback.Port != config.Port {
			return true
		}
	}
	return false
}

// dedicated keeps one connection of its own for all transactions of a call.
type dedicated struct {
	config *pgconn.Config
	conn   *pgconn.PgConn
}

func (d *dedicated) use(ctx context.Context, work func(conn *pgconn.PgConn) error) error {
	if d.conn == nil || d.conn.IsClosed() {
		conn, err := pgconn.ConnectConfig(ctx, d.config)
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		d.conn = conn
	}
	return work(d.conn)
}

func (d *dedicated) close() {
	if d.conn == nil {
		return
	}
	// The result is not of interest: every transaction was ended before.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = d.conn.Close(ctx)
}

// Pool uses the caller's pool: one connection at a time, given back after each transaction and before each wait, so a
// pool of one is enough. The pool is never closed or changed.
func Pool(pool *pgxpool.Pool) DB { return pooled{pool} }

type pooled struct{ pool *pgxpool.Pool }

func (p pooled) open() (connections, error) {
	if p.pool == nil {
		return nil, errors.New("pool is nil")
	}
	return p, nil
}

func (p pooled) use(ctx context.Context, work func(conn *pgconn.PgConn) error) error {
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connection of the pool: %w", err)
	}
	defer conn.Release()
	return work(conn.Conn().PgConn())
}

func (p pooled) close() {}
