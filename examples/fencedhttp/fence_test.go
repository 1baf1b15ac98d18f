//go:build unix

package fencedhttp_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/examples/fencedhttp"
	"github.com/leasehold-go/leasehold/fencing"
)

// each runs a test over both stores.
func each(t *testing.T, test func(t *testing.T, s *service)) {
	t.Parallel()
	for store, start := range services {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			test(t, start(t))
		})
	}
}

func TestFence_StaleIsRefusedAndEqualPasses(t *testing.T) {
	each(t, func(t *testing.T, s *service) {
		for _, request := range []struct {
			token  fencing.Token
			status int
		}{{7, 200}, {7, 200}, {8, 200}, {7, 412}, {8, 200}, {1, 412}} {
			status, answer := s.send(t, request.token, "x")
			require.Equal(t, request.status, status, answer)
			if status == 412 {
				require.JSONEq(t, `{"status":412,"title":"stale token: somebody else was granted the lease","fence":"8"}`, answer)
			}
		}
		require.Equal(t, []string{"7 x", "7 x", "8 x", "8 x"}, s.listed(t))
	})
}

// Two tokens that one double cannot tell apart.
func TestFence_TokensAbove2To53(t *testing.T) {
	each(t, func(t *testing.T, s *service) {
		const big = fencing.Token(1)<<53 + 1
		require.Equal(t, float64(big), float64(big-1))
		status, _ := s.send(t, big, "x")
		require.Equal(t, 200, status)
		status, answer := s.send(t, big-1, "x")
		require.Equal(t, 412, status)
		require.Contains(t, answer, `"9007199254740993"`)
		status, _ = s.send(t, 1<<63-1, "x")
		require.Equal(t, 200, status)
		s.restart(t)
		status, _ = s.send(t, 1<<63-2, "x")
		require.Equal(t, 412, status)
	})
}

func TestFence_RestartForgetsNothing(t *testing.T) {
	each(t, func(t *testing.T, s *service) {
		status, _ := s.send(t, 8, "x")
		require.Equal(t, 200, status)
		s.restart(t)
		status, _ = s.send(t, 7, "x")
		require.Equal(t, 412, status)
		status, _ = s.send(t, 8, "y")
		require.Equal(t, 200, status)
		require.Equal(t, []string{"8 x", "8 y"}, s.listed(t))
	})
}

func TestFence_CrashBetweenCheckAndWrite(t *testing.T) {
	each(t, func(t *testing.T, s *service) {
		status, _ := s.send(t, 7, "x")
		require.Equal(t, 200, status)
		status, _ = s.send(t, 8, "die before")
		require.Zero(t, status, "no answer: not known")
		require.Equal(t, []string{"7 x"}, s.listed(t))
		s.restart(t)
		status, _ = s.send(t, 8, "again")
		require.Equal(t, 200, status, "the holder asks again with the same token")
		status, _ = s.send(t, 7, "late")
		require.Equal(t, 412, status)
		require.Equal(t, []string{"7 x", "8 again"}, s.listed(t))
	})
}

// In Postgres the write goes with the check; in a file it stays, and so does the fence: either way 7 comes after nothing of 8.
func TestFence_CrashBetweenWriteAndAnswer(t *testing.T) {
	each(t, func(t *testing.T, s *service) {
		status, _ := s.send(t, 8, "die after")
		require.Zero(t, status)
		s.restart(t)
		status, _ = s.send(t, 7, "late")
		written := map[string]struct {
			status int
			lines  []string
		}{"postgres": {200, []string{"7 late"}}, "file": {412, []string{"8 die after"}}}[s.store]
		require.Equal(t, written.status, status)
		require.Equal(t, written.lines, s.listed(t))
	})
}

func TestFence_HandlerThatRefusesUndoesItsWritesNotTheCheck(t *testing.T) {
	t.Parallel()
	s := postgresService(t)
	status, answer := s.send(t, 8, "refuse")
	require.Equal(t, 422, status)
	require.Equal(t, "no\n", answer)
	status, _ = s.send(t, 7, "x")
	require.Equal(t, 412, status)
	require.Empty(t, s.listed(t))
	status, _ = s.send(t, 9, "panic")
	require.Zero(t, status)
	status, _ = s.send(t, 8, "x")
	require.Equal(t, 200, status, "a panic undoes all: 9 has written nothing")
	require.Equal(t, []string{"8 x"}, s.listed(t))
}

func TestFence_ConcurrentRequestsAreWrittenInTheOrderOfTheirTokens(t *testing.T) {
	each(t, func(t *testing.T, s *service) {
		var group sync.WaitGroup
		statuses := make([]int, 40)
		for i := range statuses {
			group.Go(func() { statuses[i], _ = s.send(t, fencing.Token(1+rand.IntN(20)), strconv.Itoa(i)) })
		}
		group.Wait()
		passed := 0
		for _, status := range statuses {
			require.Contains(t, []int{200, 412}, status)
			if status == 200 {
				passed++
			}
		}
		lines := s.listed(t)
		require.Len(t, lines, passed, "an answer of 200 is a write, and the only one")
		before := 0
		for _, line := range lines {
			token, err := strconv.Atoi(strings.Fields(line)[0])
			require.NoError(t, err)
			require.GreaterOrEqual(t, token, before, lines)
			before = token
		}
	})
}

func TestFence_HeadersThatAreMissingGarbledOrOfAnotherLease(t *testing.T) {
	each(t, func(t *testing.T, s *service) {
		for i, c := range []struct {
			names, tokens []string
			status        int
		}{
			{nil, nil, 428},
			{[]string{name}, nil, 428},
			{nil, []string{"7"}, 428},
			{[]string{name}, []string{""}, 400},
			{[]string{name}, []string{"0"}, 400},
			{[]string{name}, []string{"-7"}, 400},
			{[]string{name}, []string{"+7"}, 400},
			{[]string{name}, []string{"07"}, 400},
			{[]string{name}, []string{"7.0"}, 400},
			{[]string{name}, []string{"7e3"}, 400},
			{[]string{name}, []string{"0x7"}, 400},
			{[]string{name}, []string{"7, 8"}, 400},
			{[]string{name}, []string{"7", "8"}, 400},
			{[]string{name}, []string{"9223372036854775808"}, 400},
			{[]string{name}, []string{"seven"}, 400},
			{[]string{name, name}, []string{"7"}, 400},
			{[]string{"other-job"}, []string{"7"}, 400},
			{[]string{"invoice%2"}, []string{"7"}, 400},
			{[]string{"INVOICE-JOB"}, []string{"7"}, 400},
			{[]string{"invoice%2Djob"}, []string{"7"}, 200}, // the same name
		} {
			r, err := http.NewRequest(http.MethodPost, s.url, strings.NewReader("x"))
			require.NoError(t, err)
			r.Header[fencedhttp.NameHeader], r.Header[fencedhttp.TokenHeader] = c.names, c.tokens
			status, answer := do(t, r)
			require.Equal(t, c.status, status, "%d: %v %v: %s", i, c.names, c.tokens, answer)
		}
		require.Equal(t, []string{"7 x"}, s.listed(t))
	})
}

func TestStamp_AnyNameFitsAHeader(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "Rechnungslauf für Zürich", "日本語", "a/b c%d\r\nX: y", strings.Repeat("ü", 127)} {
		r, err := http.NewRequest(http.MethodPost, "http://localhost", nil)
		require.NoError(t, err)
		fencedhttp.Stamp(r, name, 7)
		require.Regexp(t, `^[ -~]+$`, r.Header.Get(fencedhttp.NameHeader))
		require.Equal(t, "7", r.Header.Get(fencedhttp.TokenHeader))
	}
}

func TestFile_OpensOnlyWhatItMade(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fence")
	_, err := fencedhttp.OpenFile(path, name)
	require.ErrorIs(t, err, os.ErrNotExist, "a lost file is no fence at 0")

	require.NoError(t, fencedhttp.CreateFile(path, name))
	require.ErrorIs(t, fencedhttp.CreateFile(path, name), os.ErrExist)
	file, err := fencedhttp.OpenFile(path, name)
	require.NoError(t, err)
	_, err = fencedhttp.OpenFile(path, name)
	require.ErrorContains(t, err, "in use")
	require.NoError(t, file.Close())
	_, err = fencedhttp.OpenFile(path, "other-job")
	require.ErrorContains(t, err, `for the lease "invoice-job"`)

	for _, broken := range []string{"", "{", `{"name":"invoice-job","token":7}`} {
		require.NoError(t, os.WriteFile(path, []byte(broken), 0o600))
		_, err = fencedhttp.OpenFile(path, name)
		require.Error(t, err, fmt.Sprintf("%q", broken))
	}
}
