package fencedstores

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold-go/leasehold/fencing"
)

// OutboxTable holds what is to be sent. The key is the primary key: one occurrence of a job puts one message there, whoever
// runs it, and however often.
const OutboxTable = `CREATE TABLE IF NOT EXISTS outbox (
    key text PRIMARY KEY,
    message text NOT NULL,
    token bigint NOT NULL,
    sent_at timestamptz
)`

// Key is the idempotency key of one message: of the job, the time for which the run is scheduled, and what the message is about.
// Not of the token or the time of day: the next holder, which does the rest of the same run, has to come to the same key.
func Key(job string, scheduled time.Time, about string) string {
	text := strings.Join([]string{job, scheduled.UTC().Format(time.RFC3339), about}, "\x00")
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// A Fenced is a lease: what is needed of it here.
type Fenced interface {
	AdvanceTx(ctx context.Context, tx pgx.Tx) error
	Token() fencing.Token
}

// Enqueue puts a message into the outbox, in the transaction that also writes what it tells of. A stale holder is refused.
func Enqueue(ctx context.Context, tx pgx.Tx, lease Fenced, key, message string) error {
	if err := lease.AdvanceTx(ctx, tx); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "INSERT INTO outbox (key, message, token) VALUES ($1, $2, $3) ON CONFLICT (key) DO NOTHING",
		key, message, lease.Token())
	return err
}

// Relay sends one message, if there is one. A crash after send and before COMMIT sends it again, with the same key: at least once,
// and once where the receiver compares keys. Any number of relays may run; a row is locked while it is sent.
func Relay(ctx context.Context, pool *pgxpool.Pool, send func(ctx context.Context, key, message string) error) (sent bool, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		var key, message string
		err := tx.QueryRow(ctx, "SELECT key, message FROM outbox WHERE sent_at IS NULL ORDER BY key LIMIT 1 FOR UPDATE SKIP LOCKED").
			Scan(&key, &message)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := send(ctx, key, message); err != nil {
			return err
		}
		sent = true
		_, err = tx.Exec(ctx, "UPDATE outbox SET sent_at = clock_timestamp() WHERE key = $1", key)
		return err
	})
	return sent && err == nil, err
}
