package poolers

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold-go/leasehold/pglock"
)

// What the pool does to its new connections does not hide the pooler: a cached statement in a hook fails on each connection
// after the first, and a slow hook takes longer than a look may.
func TestTransactionMode_RefusesAModeThatItBreaksWhateverTheHooks(t *testing.T) {
	t.Parallel()
	patient := pglock.Config{TTL: time.Minute, RequestTimeout: 6 * time.Second}
	hooks := map[string]func(context.Context, *pgx.Conn) error{
		"cached statement": func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "SELECT $1::text", "hook")
			return err
		},
		"slow": func(context.Context, *pgx.Conn) error {
			time.Sleep(patient.RequestTimeout/3 + 200*time.Millisecond)
			return nil
		},
	}
	for _, k := range transactionKinds(t) {
		for _, mode := range allModes {
			if k.works(mode) {
				continue
			}
			for name, hook := range hooks {
				t.Run(k.name+"/"+mode.String()+"/"+name, func(t *testing.T) {
					t.Parallel()
					p := install(t, mode, k.settings, map[string]string{"default_pool_size": "1"})
					p.refused(t, p.client(t, patient, func(c *pgxpool.Config) { c.AfterConnect = hook }))
				})
			}
		}
	}
}
