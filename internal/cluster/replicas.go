//go:build linux

package cluster

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// replicas counts those that stream from this member.
func (m *Member) replicas(ctx context.Context) (streaming, synchronous int, err error) {
	err = m.Ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `
			SELECT count(*), count(*) FILTER (WHERE sync_state IN ('sync', 'quorum'))
			FROM pg_stat_replication
			WHERE state = 'streaming'`).Scan(&streaming, &synchronous)
	})
	return streaming, synchronous, err
}

// Ask runs work on a connection to this member that no fault of the network reaches, for a few seconds at most.
func (m *Member) Ask(ctx context.Context, work func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, m.DSN())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return work(ctx, conn)
}
