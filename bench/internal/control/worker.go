package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/torture/clock"
)

// A worker takes turns as it is told.
type worker struct {
	setup    Setup
	pool     *pgxpool.Pool
	lock     lock
	commands *json.Decoder

	mu  sync.Mutex // one event a line
	out *json.Encoder
}

// RunWorker is the life of a worker. It ends with its standard input.
func RunWorker(in io.Reader, out io.Writer) error {
	ctx := context.Background()
	w := &worker{commands: json.NewDecoder(bufio.NewReader(in)), out: json.NewEncoder(out)}
	if err := w.commands.Decode(&w.setup); err != nil {
		return err
	}
	config, err := pgxpool.ParseConfig(w.setup.DSN)
	if err != nil {
		return err
	}
	config.MaxConns = 3
	if w.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	defer w.pool.Close()
	w.lock, err = openLock(w.setup, w.pool, func(left time.Duration) { w.tell(event{Kind: isRenewed, ValidFor: left}) })
	if err != nil {
		return err
	}
	defer w.lock.close()
	if err := w.pool.Ping(ctx); err != nil { // A turn is not to wait for the first connection.
		return err
	}
	w.tell(event{Kind: isReady})
	for {
		var c command
		if err := w.commands.Decode(&c); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if c.Turn == nil {
			return errors.New("control: told to go on, and waits nowhere")
		}
		if err := w.take(ctx, *c.Turn); err != nil {
			return err
		}
	}
}

// take is a turn: what every user of a lock does, in a straight line.
func (w *worker) take(ctx context.Context, t turn) error {
	held, err := w.lock.take(ctx)
	if err != nil {
		return err
	}
	w.tell(event{Kind: isGranted, ValidFor: held.validFor()})
	outcome, err := w.write(ctx, t, held)
	over := event{Kind: isOver, Outcome: outcome}
	if err != nil {
		over.Error = err.Error()
	}
	w.tell(over)
	held.release(ctx)
	w.tell(event{Kind: isReleased})
	return nil
}

func (w *worker) write(ctx context.Context, t turn, held term) (Outcome, error) {
	value, err := readValue(ctx, w.pool, w.setup.Name)
	if err != nil {
		return Failed, err
	}
	w.stopAt(t, Read, held, nil)
	if err := held.ask(ctx, w.setup.Regime.Asks); err != nil {
		return outcomeOf(err), err
	}
	if w.setup.Regime.Asks == Context {
		within, cancel := held.while(ctx)
		defer cancel()
		ctx = within
	}
	w.stopAt(t, Asked, held, nil)
	tx, err := w.begin(ctx)
	if err != nil {
		return outcomeOf(err), err
	}
	defer tx.Rollback(context.Background())
	if w.setup.Regime.Fenced {
		if err := held.pass(ctx, tx); err != nil {
			return outcomeOf(err), err
		}
	}
	if err := writeTx(ctx, tx, w.setup.Name, t.Round, w.setup.Label, value+1); err != nil {
		return outcomeOf(err), err
	}
	w.stopAt(t, Wrote, held, tx)
	w.stopAt(t, Commit, held, tx)
	if t.Stop == Commit {
		w.tell(event{Kind: isSending})
	}
	if err := tx.Commit(ctx); err != nil {
		// Not sent at all, or sent and not known.
		return Failed, err
	}
	return Acknowledged, nil
}

// begin tries again: connections of the pool may be broken, and nothing has been sent over them.
func (w *worker) begin(ctx context.Context) (tx pgx.Tx, err error) {
	for range 10 {
		if tx, err = w.pool.Begin(ctx); err == nil || ctx.Err() != nil {
			break
		}
	}
	return tx, err
}

// outcomeOf sorts an error that came before COMMIT.
func outcomeOf(err error) Outcome {
	switch {
	case errors.Is(err, fencing.ErrStale):
		return Refused
	case errors.Is(err, errOver), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return GaveUp
	}
	return Failed
}

// stopAt waits for the next command if the turn is to stop at this step. The process is frozen meanwhile, and finds the
// command when it wakes up.
func (w *worker) stopAt(t turn, s Step, held term, tx pgx.Tx) {
	if t.Stop != s {
		return
	}
	e := event{Kind: isStopping, ValidFor: held.validFor()}
	if tx != nil {
		conn := tx.Conn().PgConn()
		e.Backend = int(conn.PID())
		e.ServerPort, e.ClientPort = portOf(conn.Conn().RemoteAddr()), portOf(conn.Conn().LocalAddr())
	}
	w.tell(e)
	var c command
	if err := w.commands.Decode(&c); err != nil || c.Turn != nil {
		panic(fmt.Sprintf("control: %s was to go on: %v", w.setup.Label, err)) // The controller has ended, or is wrong.
	}
}

// portOf is 0 for an address that has none.
func portOf(a net.Addr) int {
	tcp, _ := a.(*net.TCPAddr)
	if tcp == nil {
		return 0
	}
	return tcp.Port
}

func (w *worker) tell(e event) {
	e.At = clock.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.out.Encode(e) // When nobody reads, standard input has ended, too.
}
