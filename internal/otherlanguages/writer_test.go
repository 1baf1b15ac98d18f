package otherlanguages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/pglock"
)

// A writer invoices one customer under the lease, in one of the languages, and says how it ended: a line that begins with
// invoiced, skipped or refused.
type writer struct {
	language string
	label    string // of its lease
	start    func(t *testing.T, p place, customer string) (said <-chan string)
}

// writers are all of them.
func writers() []writer {
	return []writer{
		{"psql", "psql script", startPsql},
		{"python", "python program", startPython},
		{"procedure", "procedure invoice", startProcedure},
		{"go", "go client", startGo},
	}
}

// run is a writer from beginning to end.
func (w writer) run(t *testing.T, p place, customer string) string {
	t.Helper()
	return <-w.start(t, p, customer)
}

func startPsql(t *testing.T, p place, customer string) <-chan string {
	return p.speak(t, p.command(t, p.psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-v", "customer="+customer, "-f", "invoice.psql", p.dsn))
}

func startPython(t *testing.T, p place, customer string) <-chan string {
	cmd := p.command(t, p.python, "invoice.py")
	cmd.Stdin = strings.NewReader(customer + "\n")
	return p.speak(t, cmd)
}

func startProcedure(t *testing.T, p place, customer string) <-chan string {
	call := fmt.Sprintf("CALL invoice(ARRAY['%s'])", customer)
	return p.speak(t, p.command(t, p.psql, "-X", "-v", "ON_ERROR_STOP=1", "-c", call, p.dsn))
}

// speak runs a program and returns the line of its output that says how it ended.
func (p place) speak(t *testing.T, cmd *exec.Cmd) <-chan string {
	said := make(chan string, 1)
	go func() {
		out, err := cmd.CombinedOutput()
		for line := range strings.Lines(string(out)) {
			for _, word := range []string{"invoiced ", "skipped: ", "refused: "} {
				if at := strings.Index(line, word); at >= 0 {
					said <- strings.TrimSpace(line[at:])
					return
				}
			}
		}
		// A script of psql has no words of its own for a refusal: \gset has.
		if strings.Contains(string(out), "no rows returned for \\gset") {
			said <- fmt.Sprintf("refused: %s", strings.TrimSpace(string(out)))
			return
		}
		said <- fmt.Sprintf("%v: %s", err, out)
	}()
	return said
}

func startGo(t *testing.T, p place, customer string) <-chan string {
	pool := pgtest.Pool(t, p.dsn)
	client, err := pglock.New(pool, pglock.Config{Schema: p.schema, Label: "go client"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	said := make(chan string, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		line := ""
		err := client.TryDo(ctx, name, func(_ context.Context, lease *pglock.Lease) error {
			line = fmt.Sprintf("invoiced %s with token %d", customer, lease.Token())
			// Not the lease's context: here the fence has to refuse.
			return invoice(ctx, p, lease, customer)
		})
		var held *pglock.HeldError
		switch {
		case errors.As(err, &held):
			line = fmt.Sprintf("skipped: %s is held by '%s' with token %d", held.Name, held.Holder, held.Token)
		case err != nil:
			line = fmt.Sprintf("refused: %v", err)
		}
		said <- line // after the release
	}()
	return said
}

func invoice(ctx context.Context, p place, lease *pglock.Lease, customer string) error {
	return pgx.BeginFunc(ctx, p.admin, func(tx pgx.Tx) error {
		var amount string
		if err := tx.QueryRow(ctx, "SELECT amount::text FROM orders WHERE customer = $1 FOR SHARE", customer).Scan(&amount); err != nil {
			return err
		}
		if err := lease.AdvanceTx(ctx, tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO invoices (customer, amount, token) VALUES ($1, $2::text::numeric, $3)", customer, amount, lease.Token())
		return err
	})
}

// pythonSays runs a line of Python with the program's own module loaded.
func pythonSays(t *testing.T, p programs, code string) string {
	t.Helper()
	cmd := exec.Command(p.python, "-B", "-c", "import invoice; "+code)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Dir(absolute(t, "invoice.py")))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.TrimSpace(string(out))
}
