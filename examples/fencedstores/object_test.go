package fencedstores_test

import (
	"crypto/md5"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/examples/fencedstores"
	"github.com/leasehold-go/leasehold/fencing"
)

// An objectStore follows the rules of S3 that matter here: the ETag of an object is the MD5 of its content, whatever its metadata
// says; If-Match and If-None-Match: * are decided together with the write; a condition that is false is 412, one on an object
// that is not there 404, and a write at the same moment may be answered with 409.
type objectStore struct {
	mu      sync.Mutex
	objects map[string]object
	log     []string                // every content that was stored under /current
	before  func(r *http.Request)   // called before a write with a condition
	answer  func(*http.Request) int // another status than the store's own, after the write; 0: none
	busy    int                     // one in so many writes with a condition is 409; 0: none
}

type object struct{ content, etag, meta string }

const metaHeader = "X-Amz-Meta-Fencing-Token"

func newObjectStore(t *testing.T) (*objectStore, *http.Client, string) {
	s := &objectStore{objects: map[string]object{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, server.Client(), server.URL + "/current"
}

func (s *objectStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	match, absent := r.Header.Get("If-Match"), r.Header.Get("If-None-Match") == "*"
	if s.before != nil && (match != "" || absent) {
		s.before(r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.objects[r.URL.Path]
	switch {
	case r.Method == http.MethodGet && !ok, match != "" && !ok:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodGet:
		w.Header().Set("ETag", found.etag)
		w.Header().Set(metaHeader, found.meta)
		_, _ = io.WriteString(w, found.content)
	case (match != "" || absent) && s.busy > 0 && rand.IntN(s.busy) == 0:
		w.WriteHeader(http.StatusConflict)
	case match != "" && match != found.etag, absent && ok:
		w.WriteHeader(http.StatusPreconditionFailed)
	default:
		s.objects[r.URL.Path] = object{string(body), fmt.Sprintf(`"%x"`, md5.Sum(body)), r.Header.Get(metaHeader)}
		if r.URL.Path == "/current" {
			s.log = append(s.log, string(body))
		}
		if s.answer != nil {
			if status := s.answer(r); status != 0 {
				w.WriteHeader(status)
			}
		}
	}
}

// current is what a reader gets.
func (s *objectStore) current(t *testing.T) (token, content string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var p struct{ Token, Object string }
	require.NoError(t, json.Unmarshal([]byte(s.objects["/current"].content), &p))
	_, path, _ := strings.Cut(strings.TrimPrefix(p.Object, "http://"), "/")
	return p.Token, s.objects["/"+path].content
}

func TestObject_StaleIsRefused(t *testing.T) {
	t.Parallel()
	s, client, url := newObjectStore(t)
	ctx := t.Context()
	require.NoError(t, fencedstores.PutObject(ctx, client, url, 7, []byte("a")))
	require.NoError(t, fencedstores.PutObject(ctx, client, url, 7, []byte("b")), "a holder writes many times")
	require.NoError(t, fencedstores.PutObject(ctx, client, url, 1<<53+1, []byte("c")))
	err := fencedstores.PutObject(ctx, client, url, 1<<53, []byte("late"))
	var stale *fencing.StaleError
	require.True(t, errors.As(err, &stale), err)
	require.EqualValues(t, 1<<53+1, stale.Fence)
	token, content := s.current(t)
	require.Equal(t, "9007199254740993", token)
	require.Equal(t, "c", content)
}

// The new holder writes between the stale one's look and its write, and writes the very same content.
func TestObject_WriteBetweenLookAndPutIsSeen(t *testing.T) {
	t.Parallel()
	s, client, url := newObjectStore(t)
	ctx := t.Context()
	require.NoError(t, fencedstores.PutObject(ctx, client, url, 6, []byte("same")))
	var once sync.Once
	s.before = func(*http.Request) {
		once.Do(func() {
			s.before = nil
			require.NoError(t, fencedstores.PutObject(ctx, client, url, 8, []byte("same")))
		})
	}
	require.ErrorIs(t, fencedstores.PutObject(ctx, client, url, 7, []byte("same")), fencing.ErrStale)
	token, _ := s.current(t)
	require.Equal(t, "8", token)
}

// With the token in metadata alone the same interleaving passes: the ETag of equal content is equal.
func TestObject_TokenInMetadataAloneIsNoCheck(t *testing.T) {
	t.Parallel()
	_, client, url := newObjectStore(t)
	put := func(token, match string) int {
		r, err := http.NewRequest(http.MethodPut, url, strings.NewReader("same"))
		require.NoError(t, err)
		r.Header.Set(metaHeader, token)
		if match != "" {
			r.Header.Set("If-Match", match)
		}
		response, err := client.Do(r)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	get := func() http.Header {
		response, err := client.Get(url)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.Header
	}
	require.Equal(t, 200, put("6", ""))
	seen := get().Get("ETag") // by 7, which finds 6 there, and is paused
	require.Equal(t, 200, put("8", seen))
	require.Equal(t, 200, put("7", seen), "the store sees nothing wrong")
	require.Equal(t, "7", get().Get(metaHeader), "and the highest token is forgotten")
}

func TestObject_LostAnswerIsAskedAgain(t *testing.T) {
	t.Parallel()
	s, client, url := newObjectStore(t)
	s.answer = func(r *http.Request) int {
		if r.URL.Path != "/current" {
			return 0
		}
		s.answer = nil
		return http.StatusInternalServerError // It was stored.
	}
	require.Error(t, fencedstores.PutObject(t.Context(), client, url, 7, []byte("a")))
	require.NoError(t, fencedstores.PutObject(t.Context(), client, url, 7, []byte("a")))
	_, content := s.current(t)
	require.Equal(t, "a", content)
}

func TestObject_AtOnceTheTokensRise(t *testing.T) {
	t.Parallel()
	s, client, url := newObjectStore(t)
	s.busy = 4
	var group sync.WaitGroup
	for i := range 40 {
		group.Go(func() {
			err := fencedstores.PutObject(t.Context(), client, url, fencing.Token(1+i%20), []byte("x"))
			if err != nil && !errors.Is(err, fencing.ErrStale) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	var before int64
	for _, content := range s.log {
		var p struct {
			Token int64 `json:",string"`
		}
		require.NoError(t, json.Unmarshal([]byte(content), &p))
		require.GreaterOrEqual(t, p.Token, before)
		before = p.Token
	}
	require.EqualValues(t, 20, before)
}
