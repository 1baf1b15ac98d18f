package torture

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-go/leasehold/internal/history"
)

//go:embed record.sql
var recordSQL string

//go:embed events.sql
var eventsSQL string

func inSchema(text, schema string) string {
	return strings.ReplaceAll(text, "{schema}", pgx.Identifier{schema}.Sanitize())
}

// Record has the database record what happens in the schema from now on.
func Record(ctx context.Context, dsn, schema string) error {
	return direct(ctx, dsn, func(conn *pgx.Conn) error {
		_, err := conn.PgConn().Exec(ctx, inSchema(recordSQL, schema)).ReadAll()
		return err
	})
}

// Recorded reads what the database has recorded.
func Recorded(ctx context.Context, dsn, schema string) ([]history.Event, error) {
	var events []history.Event
	err := direct(ctx, dsn, func(conn *pgx.Conn) error {
		rows, _ := conn.Query(ctx, inSchema(eventsSQL, schema)) // CollectRows returns the error too.
		var err error
		events, err = pgx.CollectRows(rows, scanEvent)
		return err
	})
	return events, err
}

func scanEvent(row pgx.CollectableRow) (history.Event, error) {
	var e history.Event
	var before, after history.Row
	var oldToken, newToken *int64
	err := row.Scan(&e.Kind, &e.Name, &e.Token, &e.Seq, &e.At, &e.Started, &e.Up, &e.Xid, &e.By, &e.Fence, &e.Write,
		&oldToken, &before.Holder, &before.Label, &before.Acquired, &before.Renewed, &before.Expires,
		&newToken, &after.Holder, &after.Label, &after.Acquired, &after.Renewed, &after.Expires)
	if oldToken != nil {
		before.Token, e.Old = *oldToken, &before
	}
	if newToken != nil {
		after.Token, e.New = *newToken, &after
	}
	return e, err
}

// direct runs work on a connection that no fault of the network reaches, nor the server's timeouts.
func direct(ctx context.Context, dsn string, work func(*pgx.Conn) error) error {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return fmt.Errorf("torture: %w", err)
	}
	config.RuntimeParams["application_name"] = "torture"
	for _, name := range patience {
		config.RuntimeParams[name] = "0"
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("torture: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if err := work(conn); err != nil {
		return fmt.Errorf("torture: %w", err)
	}
	return nil
}
