//go:build unix

package leasehold_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
)

// figures is what the example prints with -json.
type figures struct {
	Invoices, Orders int
	Total, Gross     string
	Tokens           []int64
	Refused, Skipped int
}

func TestExample_FiguresHoldWhateverHappens(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args    []string
		terms   int // at least
		refused int
	}{
		"the holder is frozen": {nil, 2, 1},
		"the holder is killed": {[]string{"-freeze=false", "-kill"}, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			orders, lines, want := smallOrders(t)
			got, _ := d.invoice(t, append(c.args, "-orders", orders, "-lines", lines, "-batch", "3")...)
			want.Tokens, want.Refused, want.Skipped = got.Tokens, got.Refused, got.Skipped
			require.Equal(t, want, got)
			require.GreaterOrEqual(t, len(got.Tokens), c.terms)
			require.GreaterOrEqual(t, got.Refused, c.refused)
			d.requireInvoices(t, got)
		})
	}
}

// TestExample_Northwind is the main job on real orders, where they stand beside the project.
func TestExample_Northwind(t *testing.T) {
	t.Parallel()
	data := filepath.Join(os.Getenv("LEASEHOLD_SHARED"), "data", "northwind")
	if os.Getenv("LEASEHOLD_SHARED") == "" {
		data = filepath.Join("..", "shared", "data", "northwind")
	}
	if _, err := os.Stat(data); err != nil {
		pgtest.Skip(t, err.Error())
	}
	d := newDatabase(t)
	args := []string{"-orders", filepath.Join(data, "orders.csv"), "-lines", filepath.Join(data, "order-details.csv"),
		"-batch", "60", "-instances", "3", "-kill"}
	first, _ := d.invoice(t, args...)
	require.Equal(t, figures{830, 830, "1265793.22", "1354458.59", first.Tokens, first.Refused, first.Skipped}, first)
	require.GreaterOrEqual(t, len(first.Tokens), 3)
	require.GreaterOrEqual(t, first.Refused, 1)
	d.requireInvoices(t, first)

	newest := value[time.Time](t, d, `SELECT max(written_at) FROM invoicejob.invoices`)
	second, story := d.invoice(t, args...)
	require.Equal(t, figures{830, 830, "1265793.22", "1354458.59", second.Tokens, second.Refused, second.Skipped}, second)
	require.Contains(t, story, "nothing was written")
	require.Greater(t, second.Tokens[0], first.Tokens[len(first.Tokens)-1])
	require.Equal(t, newest, value[time.Time](t, d, `SELECT max(written_at) FROM invoicejob.invoices`))
}

// smallOrders writes orders whose totals are half a cent beside a whole one, as often as not: 0.335 times a quantity,
// every other one at half the price. The figures are computed in whole units, of a ten-thousandth.
func smallOrders(t *testing.T) (orders, lines string, want figures) {
	t.Helper()
	var o, l strings.Builder
	o.WriteString("orderID,customerID,orderDate\n")
	l.WriteString("orderID,productID,unitPrice,quantity,discount\n")
	total, gross := 0, 0
	cents := func(units int) int { return (units + 50) / 100 }
	const count = 30
	for i := 1; i <= count; i++ {
		fmt.Fprintf(&o, "%d,ALFKI,2026-11-%02d\n", i, i)
		discount, part := "0", 2
		if i%2 == 0 {
			discount, part = "0.5", 1
		}
		fmt.Fprintf(&l, "%d,1,0.335,%d,%s\n", i, i, discount)
		gross += cents(3350 * i)
		total += cents(3350 * i * part / 2)
	}
	dir := t.TempDir()
	orders, lines = filepath.Join(dir, "orders.csv"), filepath.Join(dir, "lines.csv")
	require.NoError(t, os.WriteFile(orders, []byte(o.String()), 0o600))
	require.NoError(t, os.WriteFile(lines, []byte(l.String()), 0o600))
	money := func(cents int) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }
	return orders, lines, figures{Invoices: count, Orders: count, Total: money(total), Gross: money(gross)}
}

// invoice runs the example to its end and returns its figures and its story.
func (d *database) invoice(t *testing.T, args ...string) (figures, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(t, "invoicejob"), append([]string{"-json", "-ttl", "2s", "-renew", "500ms"}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // It has processes to end.
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "LEASEHOLD_TEST_") && !strings.HasPrefix(variable, "PG") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, "DATABASE_URL="+d.dsn(t))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Run(), "%s", &stderr)
	require.Contains(t, stderr.String(), "DATABASE_URL", "the server that it used")
	require.Equal(t, 1, strings.Count(stdout.String(), "\n"), "one JSON object: %s", &stdout)
	var f figures
	decoder := json.NewDecoder(&stdout)
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&f))
	require.IsIncreasing(t, f.Tokens)
	return f, stderr.String()
}

// requireInvoices looks into the tables: one invoice an order, each written under a token that was granted, the sums
// computed anew.
func (d *database) requireInvoices(t *testing.T, f figures) {
	t.Helper()
	require.EqualValues(t, f.Orders, value[int64](t, d, `
SELECT count(*) FROM invoicejob.orders JOIN invoicejob.invoices USING (order_id)`))
	require.Zero(t, value[int64](t, d, `SELECT count(*) FROM invoicejob.invoices WHERE NOT token = ANY ($1)`, f.Tokens))
	require.Equal(t, f.Total, value[string](t, d, `
SELECT sum(total)::text
FROM (
    SELECT round(sum(unit_price * quantity * (1 - discount)), 2) AS total
    FROM invoicejob.order_lines
    GROUP BY order_id
) AS o`))
	require.Equal(t, f.Total, value[string](t, d, `SELECT sum(total)::text FROM invoicejob.invoices`))
}
