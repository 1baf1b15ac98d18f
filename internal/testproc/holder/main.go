// Holder is the program of package testproc: it holds leases and writes rows, as it is told on standard input.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold-go/leasehold/internal/testproc"
	"github.com/leasehold-go/leasehold/pglock"
)

func main() {
	endWithParent()
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run is the life of the process. It ends with its standard input.
func run(in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return errors.Join(io.ErrUnexpectedEOF, lines.Err())
	}
	h := &holder{out: json.NewEncoder(out), feed: func() {}}
	if err := json.Unmarshal(lines.Bytes(), &h.setup); err != nil {
		return err
	}
	if err := h.open(ctx); err != nil {
		return err
	}
	defer h.pool.Close()

	commands := make(chan testproc.Command)
	go func() { // Ends with standard input, or with the process.
		defer cancel()
		for lines.Scan() {
			select {
			case commands <- testproc.Command(lines.Text()):
			case <-ctx.Done():
				return
			}
		}
	}()
	h.tell(testproc.Event{Kind: testproc.Ready})
	for {
		select {
		case <-ctx.Done():
			h.feed()
			return h.client.Close(ctx)
		case <-h.ended():
			h.noticeLoss()
		case c := <-commands:
			// Both may have happened while the process was frozen, and select takes any: a look at the lease comes first, as
			// in every program that looks at all.
			h.noticeLoss()
			h.do(ctx, c)
		}
	}
}

// open makes the pool and the client. The first command connects.
func (h *holder) open(ctx context.Context) error {
	config, err := pgxpool.ParseConfig(h.setup.DSN)
	if err != nil {
		return err
	}
	config.ConnConfig.RuntimeParams["application_name"] = h.setup.Label
	h.size = config.MaxConns
	if h.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	h.client, err = pglock.New(h.pool, pglock.Config{
		Label:          h.setup.Label,
		TTL:            h.setup.TTL,
		RenewInterval:  h.setup.RenewInterval,
		RequestTimeout: h.setup.RequestTimeout,
		Margin:         h.setup.Margin,
		PollInterval:   h.setup.PollInterval,
		Logger:         slog.New(slog.NewTextHandler(os.Stderr, nil)),
		OnEvent: func(e pglock.Event) {
			switch e.Kind {
			case pglock.EventAcquired, pglock.EventTakenOver:
				h.tookOver.Store(e.Kind == pglock.EventTakenOver)
			}
		},
	})
	return err
}
