package fencedstores

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/leasehold-go/leasehold/fencing"
)

// A pointer is the content of the object that readers begin with: which object is current, and the token it came under.
//
// The token is in the content, not only in metadata, so that the ETag is another one for each token.
type pointer struct {
	Token  fencing.Token `json:"token,string"`
	Object string        `json:"object"`
}

// PutObject stores content below url and makes it current, unless a higher token has done so; then it returns a
// [*fencing.StaleError]. The client signs requests, where the store asks for that.
func PutObject(ctx context.Context, client *http.Client, url string, token fencing.Token, content []byte) error {
	// A name of its own for each token and content: written twice it is the same, and a stale holder overwrites nothing.
	object := fmt.Sprintf("%s/%d-%x", url, token, sha256.Sum256(content))
	status, _, _, err := send(ctx, client, http.MethodPut, object, content, nil)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("put %s: status %d", object, status)
	}
	next, err := json.Marshal(pointer{token, object})
	if err != nil {
		return err
	}
	for {
		// The token and the condition are of one answer.
		condition := http.Header{"If-None-Match": {"*"}}
		status, header, body, err := send(ctx, client, http.MethodGet, url, nil, nil)
		switch {
		case err != nil:
			return err
		case status == http.StatusOK:
			var current pointer
			if err := json.Unmarshal(body, &current); err != nil {
				return fmt.Errorf("get %s: %w", url, err)
			}
			if current.Token > token {
				return &fencing.StaleError{Name: url, Token: token, Fence: current.Token}
			}
			condition = http.Header{"If-Match": {header.Get("ETag")}}
		case status != http.StatusNotFound:
			return fmt.Errorf("get %s: status %d", url, status)
		}

		status, _, _, err = send(ctx, client, http.MethodPut, url, next, condition)
		switch {
		case err != nil:
			return err // Not known. Asking again is right: an equal token passes.
		case status == http.StatusOK:
			return nil
		case status == http.StatusPreconditionFailed, status == http.StatusConflict, status == http.StatusNotFound:
			continue // Somebody wrote in between. Look again.
		}
		return fmt.Errorf("put %s: status %d", url, status)
	}
}

func send(ctx context.Context, client *http.Client, method, url string, content []byte, header http.Header) (int, http.Header, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(content))
	if err != nil {
		return 0, nil, nil, err
	}
	for name, values := range header {
		r.Header[name] = values
	}
	response, err := client.Do(r)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = response.Body.Close() }() // It was only read.
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, response.Header, body, err
}
