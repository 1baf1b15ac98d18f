// Controls shows what gets committed under a lease with a fence, under the same lease without, and under Redlock, when the
// holder is paused past the expiry, and when a lock node of Redlock is restarted without persistence. It prints the numbers
// side by side.
//
//	go run ./controls
//	go run ./controls -rounds 20 -json rounds.jsonl
//
// It starts a PostgreSQL server and Redis servers of its own, from programs on this machine, and nothing of them is left.
// docs/controls.md says what the numbers mean.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/leasehold-go/leasehold/bench/internal/control"
)

func main() {
	if os.Getenv(control.EnvWorker) != "" {
		exit(control.RunWorker(os.Stdin, os.Stdout))
	}
	rounds := flag.Int("rounds", 10, "rounds of each regime and fault")
	ttl := flag.Duration("ttl", 3*time.Second, "expiry of the locks of paused holders")
	restartTTL := flag.Duration("restart-ttl", 8*time.Second, "expiry of the locks where a node restarts")
	file := flag.String("json", "", "write each round to this file, a line each")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, control.Options{Rounds: *rounds, TTL: *ttl, RestartTTL: *restartTTL}, *file)
	stop()
	exit(err)
}

func run(ctx context.Context, o control.Options, file string) (err error) {
	if o.Program, err = os.Executable(); err != nil {
		return err
	}
	if file != "" {
		f, err := os.Create(file)
		if err != nil {
			return err
		}
		defer f.Close()
		lines := json.NewEncoder(f)
		o.Each = func(r control.Round) {
			if err := lines.Encode(r); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}
	began := time.Now()
	report, err := control.Run(ctx, o)
	if err != nil {
		return err
	}
	report.Write(os.Stdout)
	fmt.Fprintf(os.Stderr, "%d rounds in %v\n", len(report.Rounds), time.Since(began).Round(time.Second))
	return nil
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
