package fencedhttp

import (
	"bytes"
	"maps"
	"net/http"
)

// A reply keeps what a handler answers until its transaction has committed: before that it would be a promise.
type reply struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func newReply() *reply { return &reply{header: http.Header{}} }

func (r *reply) Header() http.Header { return r.header }

func (r *reply) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

func (r *reply) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(p)
}

func (r *reply) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), r.header)
	r.WriteHeader(http.StatusOK)
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body.Bytes()) // The client has gone.
}
