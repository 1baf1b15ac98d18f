package otherlanguages

import (
	"errors"
	"os/exec"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/pglock"
)

const (
	oneHolder = "11111111-1111-4111-8111-111111111111"
	minute    = int64(60_000_000)
)

func printed(t *testing.T, p place, statement string) string {
	t.Helper()
	text, err := exec.Command(p.pglock, "sql", statement, "-schema", p.schema).Output()
	require.NoError(t, err)
	return string(text)
}

// asked runs acquire as a writer in another language does.
func asked(t *testing.T, p place, tx pgx.Tx, holder string) (outcome string, token int64) {
	t.Helper()
	key := value[int64](t, p, printed(t, p, "gate"), name)
	var rest any
	err := tx.QueryRow(t.Context(), printed(t, p, "acquire"), name, holder, minute, key, "by hand", "{}").
		Scan(&outcome, &token, &rest, &rest, &rest, &rest, &rest)
	require.NoError(t, err)
	return outcome, token
}

func TestProtocol_TheSameAttemptIsToldTheSameToken(t *testing.T) {
	t.Parallel()
	p := newPlace(t, findPrograms(t))
	p.exec(t, printed(t, p, "enter"))
	for _, want := range []string{"granted", "found", "found"} {
		require.NoError(t, pgx.BeginFunc(t.Context(), p.admin, func(tx pgx.Tx) error {
			outcome, token := asked(t, p, tx, oneHolder)
			require.Equal(t, want, outcome)
			require.EqualValues(t, 1, token)
			return nil
		}))
	}
}

// A function of the database cannot COMMIT between acquire and the work.
func TestProtocol_AcquireAndWorkInOneTransaction(t *testing.T) {
	t.Parallel()
	p := newPlace(t, findPrograms(t))
	p.exec(t, printed(t, p, "enter"))
	client, err := pglock.New(pgtest.Pool(t, p.dsn), pglock.Config{Schema: p.schema})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close(t.Context())) }()

	tx, err := p.admin.Begin(t.Context())
	require.NoError(t, err)
	outcome, token := asked(t, p, tx, oneHolder)
	require.Equal(t, "granted", outcome)
	require.EqualValues(t, 1, token)
	_, err = client.TryAcquire(t.Context(), name)
	var held *pglock.HeldError
	require.True(t, errors.As(err, &held), err)
	require.True(t, held.Busy)

	require.NoError(t, tx.Rollback(t.Context()))
	lease, err := client.TryAcquire(t.Context(), name)
	require.NoError(t, err)
	require.EqualValues(t, 1, lease.Token(), "a grant that is rolled back never was")
}

func TestProtocol_ReleaseTurnsOffSynchronousCommitForItsTransaction(t *testing.T) {
	t.Parallel()
	p := newPlace(t, findPrograms(t))
	p.exec(t, printed(t, p, "enter"))
	tx, err := p.admin.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SET LOCAL synchronous_commit = on")
	require.NoError(t, err)
	_, token := asked(t, p, tx, oneHolder)
	setting := func() (s string) {
		require.NoError(t, tx.QueryRow(t.Context(), "SELECT current_setting('synchronous_commit')").Scan(&s))
		return s
	}
	require.Equal(t, "on", setting())
	var expired bool
	require.NoError(t, tx.QueryRow(t.Context(), printed(t, p, "release"), name, oneHolder, token).Scan(&expired))
	require.False(t, expired)
	require.Equal(t, "off", setting())
	require.NoError(t, tx.Commit(t.Context()))
}
