package pglock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A Client takes leases for one process. Make one for each database and schema, and close it at the end.
//
// Acquire and release go through the pool that it was given. Renewals go through one connection of the client's own,
// opened with the pool's settings before the first grant, so that a pool that is in full use costs no lease. The pool is
// never closed or changed.
//
// A Client is safe for concurrent use. Leases of one client exclude each other as those of two hosts do.
type Client struct {
	pool     *pgxpool.Pool
	config   Config
	metadata string // JSON

	renewer *renewer
	reaper  *reaper
	// asks bounds how many waiting acquires ask at once: waiters leave connections of the pool to the work.
	asks chan struct{}
	// ready holds nil until the server was looked at and the renewer runs, then the statements to use. It is a mutex that can be
	// waited for with a context, because what it guards takes round trips.
	ready chan *statements
	// quick is what ready holds, once it is there.
	quick atomic.Pointer[statements]
	// pinned is set when the server's default isolation is not READ COMMITTED: from then on each statement gets a
	// transaction that says so.
	pinned atomic.Bool
	// moved is set when a connection of the pool turned out to lead to a former primary: the renewer's own may do so too, and
	// is opened anew.
	moved atomic.Bool

	life context.Context // ends with Close; the background work's
	stop context.CancelFunc
	// closing ends as soon as Close is called: waiters go home.
	closing    context.Context
	endWaiting context.CancelFunc
	link       link // the renewer's own connection; the renewer's goroutine alone uses it once it runs

	mu       sync.Mutex
	closed   bool           // no more attempts and no more background work may start
	attempts sync.WaitGroup // acquires under way
	work     sync.WaitGroup // the renewer and the reaper
}

// New makes a client. It does not talk to the database; [Client.Check] does.
//
// The pool must lead to a server that can be written to (target_session_attrs=read-write where there are several hosts),
// directly or through a pooler in transaction mode. Behind one the pool's DefaultQueryExecMode must be cache_describe, exec
// or simple_protocol, or cache_statement if the pooler knows prepared statements; another is refused before the first grant.
//
// An error says which value of config is wrong, and why.
func New(pool *pgxpool.Pool, config Config) (*Client, error) {
	if pool == nil {
		return nil, errors.New("pglock: the pool is nil")
	}
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Client{pool: pool, config: config, renewer: newRenewer(config), ready: make(chan *statements, 1)}
	c.metadata, _ = config.metadataJSON() // Checked above.
	c.renewer.ask, c.renewer.notice = c.renew, c.noticeRenewals
	c.link.open = c.connect
	c.reaper = newReaper(c)
	c.asks = make(chan struct{}, max(1, pool.Config().MaxConns/2))
	c.life, c.stop = context.WithCancel(context.Background())
	c.closing, c.endWaiting = context.WithCancel(context.Background())
	c.ready <- nil
	return c, nil
}

// Check connects, looks whether the schema is installed, the server takes writes and no pooler breaks the pool's mode, and
// opens the connection for renewals. It does not look at privileges. The first acquire does the same; call Check at the start of a program to have the error there. It takes at
// most the request timeout.
func (c *Client) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.config.RequestTimeout)
	defer cancel()
	if _, err := c.prepare(ctx); err != nil {
		return fmt.Errorf("pglock: check: %w", err)
	}
	return nil
}

// prepare gives the statements for this server. The first call looks at the server and starts the renewer.
func (c *Client) prepare(ctx context.Context) (*statements, error) {
	if s := c.quick.Load(); s != nil {
		return s, nil
	}
	var s *statements
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case s = <-c.ready:
	}
	defer func() { c.ready <- s }()
	if s != nil {
		return s, nil
	}
	conn, err := c.link.get(ctx)
	if err != nil {
		return nil, explain(c.config.Schema, err)
	}
	found, err := c.identify(ctx, conn)
	if err != nil {
		c.link.drop()
		return nil, explain(c.config.Schema, err)
	}
	if !c.start() {
		c.link.drop()
		return nil, ErrClosed
	}
	s = found
	c.quick.Store(s)
	return s, nil
}

// start runs the background work. It is false if Close has begun to wait for it.
func (c *Client) start() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.work.Go(func() {
		defer c.link.drop()
		c.renewer.run(c.life)
	})
	c.work.Go(func() { c.reaper.run(c.life) })
	return true
}

// Close releases every lease that is still held, waits for what runs in the background and closes the client's own
// connection. It is fine in a defer: like [Lease.Release] it does not heed the end of ctx, and takes at most twice the
// request timeout; what could not be released by then expires by itself. Leases that were lost are no error. The second
// call returns nil.
//
// End the work first: Close cancels the contexts of its leases. Close the pool after it: with a closed pool each release
// is an error, and is left to the client's own connection.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	again := c.closed
	c.closed = true
	c.mu.Unlock()
	if again {
		return nil
	}
	c.endWaiting()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*c.config.RequestTimeout)
	defer cancel()
	err := c.releaseAll(ctx)
	done := make(chan struct{})
	go func() {
		c.attempts.Wait() // What they were granted meanwhile goes to the reaper.
		c.stop()
		c.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return err
	case <-ctx.Done():
		c.stop()
		return errors.Join(err, fmt.Errorf("pglock: close: %w", context.Cause(ctx)))
	}
}

// isClosed tells whether Close was called.
func (c *Client) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

func (c *Client) releaseAll(ctx context.Context) error {
	var errs []error
	var mu sync.Mutex
	var group sync.WaitGroup
	places := make(chan struct{}, 8) // As many round trips at once; the pool may allow fewer.
	for _, l := range c.renewer.leases() {
		places <- struct{}{}
		if ctx.Err() != nil { // No time left: the row expires by itself.
			l.finish(ErrReleased)
			<-places
			continue
		}
		group.Go(func() {
			defer func() { <-places }()
			if err := l.releaseWithin(ctx); err != nil && !errors.Is(err, ErrLost) {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// connect opens a connection of the client's own, with what the pool would do to it: BeforeConnect, AfterConnect and, once,
// PrepareConn. The deprecated BeforeAcquire is left out.
func (c *Client) connect(ctx context.Context) (*pgx.Conn, error) {
	pool := c.pool.Config()
	conn, err := c.connectBare(ctx)
	if err != nil {
		return nil, err
	}
	if pool.AfterConnect != nil {
		if err := pool.AfterConnect(ctx, conn); err != nil {
			return nil, errors.Join(err, closeConn(conn))
		}
	}
	if pool.PrepareConn != nil {
		if ok, err := pool.PrepareConn(ctx, conn); !ok || err != nil {
			return nil, errors.Join(errors.New("PrepareConn of the pool refused a new connection"), err, closeConn(conn))
		}
	}
	return conn, nil
}

// connectBare is connect with BeforeConnect alone, which says where to and as whom.
func (c *Client) connectBare(ctx context.Context) (*pgx.Conn, error) {
	pool := c.pool.Config()
	config := pool.ConnConfig
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "pglock"
	}
	if len(config.Fallbacks) > 0 && config.ValidateConnect == nil {
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite // Of several hosts, the primary.
	}
	if pool.BeforeConnect != nil {
		if err := pool.BeforeConnect(ctx, config); err != nil {
			return nil, err
		}
	}
	return pgx.ConnectConfig(ctx, config)
}

// closeConn closes a connection without waiting long for a server that does not answer.
func closeConn(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return conn.Close(ctx)
}

// A link is one connection that is opened when it is needed and replaced when it broke. One goroutine uses it.
type link struct {
	open func(context.Context) (*pgx.Conn, error)
	conn *pgx.Conn
}

func (k *link) get(ctx context.Context) (*pgx.Conn, error) {
	if k.conn != nil && !k.conn.IsClosed() {
		return k.conn, nil
	}
	conn, err := k.open(ctx)
	if err != nil {
		return nil, err
	}
	k.conn = conn
	return conn, nil
}

// judge drops the connection after an error that says that another is needed: there was no answer, or one from a server
// that does not write. After any other answer it works, and another may not be had.
func (k *link) judge(err error) {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || readOnly(err) {
		k.drop()
	}
}

func (k *link) drop() {
	if k.conn != nil {
		_ = closeConn(k.conn) // It is given up: nothing can be done about an error.
		k.conn = nil
	}
}
