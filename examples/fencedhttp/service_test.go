//go:build unix

package fencedhttp_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/examples/fencedhttp"
	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
)

const (
	name     = "invoice-job"
	patience = 30 * time.Second
)

// A service writes the body of each request that passes to its store, with the token. A body that begins with "die" kills it:
// "die before" the write, "die after" it and before the answer. A body "refuse" is written and then refused by the handler.
type service struct {
	store  string
	env    []string
	url    string
	stop   func()
	listed func(t *testing.T) []string // what is in the store, in the order of writing, as "token body"
}

var client = &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}

// services start one over each store.
var services = map[string]func(t *testing.T) *service{"postgres": postgresService, "file": fileService}

func postgresService(t *testing.T) *service {
	dsn, schema := pgtest.Migrated(t)
	pool := pgtest.Pool(t, dsn)
	table := pgx.Identifier{schema, "invoices"}.Sanitize()
	_, err := pool.Exec(t.Context(), "CREATE TABLE "+table+" (number bigserial PRIMARY KEY, line text NOT NULL)")
	require.NoError(t, err)
	require.NoError(t, fencedhttp.Create(t.Context(), pool, fencing.Fence{Name: name, Schema: schema}))
	s := &service{store: "postgres", env: []string{"DSN=" + dsn, "SCHEMA=" + schema}}
	s.listed = func(t *testing.T) []string {
		rows, err := pool.Query(context.Background(), "SELECT line FROM "+table+" ORDER BY number")
		require.NoError(t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		return lines
	}
	s.start(t)
	return s
}

func fileService(t *testing.T) *service {
	folder := t.TempDir()
	require.NoError(t, fencedhttp.CreateFile(filepath.Join(folder, "fence"), name))
	s := &service{store: "file", env: []string{"FOLDER=" + folder}}
	s.listed = func(t *testing.T) []string {
		text, err := os.ReadFile(filepath.Join(folder, "invoices"))
		if !os.IsNotExist(err) {
			require.NoError(t, err)
		}
		return strings.Fields(strings.ReplaceAll(string(text), " ", "_"))
	}
	s.start(t)
	inOrder := s.listed
	s.listed = func(t *testing.T) []string {
		lines := inOrder(t)
		for i := range lines {
			lines[i] = strings.ReplaceAll(lines[i], "_", " ")
		}
		return lines
	}
	return s
}

// start runs the service as a process of its own, on any port.
func (s *service) start(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), asService+"="+s.store, "GORACE=atexit_sleep_ms=0"), s.env...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	ended := false
	s.stop = func() {
		if !ended {
			ended = true
			_ = cmd.Process.Kill() // it may have killed itself
			_ = cmd.Wait()
		}
	}
	t.Cleanup(s.stop)
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	s.url = "http://" + strings.TrimSpace(line)
}

// restart is kill -9 and a new process over the same store.
func (s *service) restart(t *testing.T) {
	t.Helper()
	s.stop()
	s.start(t)
}

// send is one request; status 0: no answer.
func (s *service) send(t *testing.T, token fencing.Token, body string) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, s.url, strings.NewReader(body))
	require.NoError(t, err)
	fencedhttp.Stamp(r, name, token)
	return do(t, r)
}

func do(t *testing.T, r *http.Request) (status int, answer string) {
	t.Helper()
	response, err := client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

// serve is the process.
func serve(store string) {
	ctx := context.Background()
	var handler http.Handler
	switch store {
	case "postgres":
		pool, err := pgxpool.New(ctx, os.Getenv("DSN"))
		fatal(err)
		fence := fencing.Fence{Name: name, Schema: os.Getenv("SCHEMA")}
		handler = fencedhttp.Postgres(pool, fence, writing(func(r *http.Request, line string) error {
			_, err := fencedhttp.Tx(r.Context()).Exec(r.Context(),
				"INSERT INTO "+pgx.Identifier{fence.Schema, "invoices"}.Sanitize()+" (line) VALUES ($1)", line)
			return err
		}))
	case "file":
		folder := os.Getenv("FOLDER")
		file, err := fencedhttp.OpenFile(filepath.Join(folder, "fence"), name)
		fatal(err)
		handler = file.Fence(writing(func(_ *http.Request, line string) error {
			f, err := os.OpenFile(filepath.Join(folder, "invoices"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(f, line)
			return err
		}))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	fatal(err)
	fmt.Println(listener.Addr())
	fatal((&http.Server{Handler: handler}).Serve(listener))
}

func fatal(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func writing(write func(r *http.Request, line string) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		fatal(err)
		body := string(text)
		if body == "die before" {
			fatal(syscall.Kill(os.Getpid(), syscall.SIGKILL))
		}
		if err := write(r, r.Header.Get(fencedhttp.TokenHeader)+" "+body); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		switch body {
		case "die after":
			fatal(syscall.Kill(os.Getpid(), syscall.SIGKILL))
		case "panic":
			panic(http.ErrAbortHandler)
		case "refuse":
			http.Error(w, "no", http.StatusUnprocessableEntity)
			return
		}
		fmt.Fprint(w, "written")
	})
}
