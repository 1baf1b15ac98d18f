//go:build linux

package cluster_test

import (
	"context"
	_ "embed"
	"encoding/json"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-go/leasehold/internal/history"
)

//go:embed record.sql
var recordSQL string

func inSchema(text, schema string) string {
	return strings.ReplaceAll(text, "{schema}", pgx.Identifier{schema}.Sanitize())
}

// record has the database record what happens in a schema from now on.
func record(ctx context.Context, conn *pgx.Conn, schema string) error {
	_, err := conn.PgConn().Exec(ctx, inSchema(recordSQL, schema)).ReadAll()
	return err
}

// recorded reads what the database has recorded.
func recorded(ctx context.Context, conn *pgx.Conn, schema string) ([]history.Event, error) {
	rows, _ := conn.Query(ctx, inSchema("SELECT event || jsonb_build_object('seq', id) FROM {schema}.recorded ORDER BY id", schema))
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	events := make([]history.Event, len(lines))
	for i, line := range lines {
		if err := json.Unmarshal([]byte(line), &events[i]); err != nil {
			return nil, err
		}
	}
	return events, nil
}
