package fencedhttp

import (
	"encoding/json"
	"net/http"

	"github.com/leasehold-go/leasehold/fencing"
)

// A problem is a refusal, as RFC 9457 writes it.
type problem struct {
	Status int    `json:"status"`
	Title  string `json:"title"`
	// Fence is the highest token seen, of a stale request: a string, as a number would be rounded above 2^53.
	Fence fencing.Token `json:"fence,string,omitempty"`
}

func stale(fence fencing.Token) *problem {
	return &problem{Status: http.StatusPreconditionFailed, Title: "stale token: somebody else was granted the lease", Fence: fence}
}

// unknown says nothing about what was done: the handler has to allow that it is asked again.
func unknown() *problem {
	return &problem{Status: http.StatusServiceUnavailable, Title: "not known whether it was done: send it again with the same token"}
}

func (p *problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // The client has gone.
}
