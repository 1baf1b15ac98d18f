package fencedhttp

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/leasehold-go/leasehold/fencing"
)

// The headers of a fenced request.
const (
	NameHeader  = "Lease-Name"
	TokenHeader = "Lease-Token"
)

// Stamp puts name and token on a request, on the holder's side: those of a pglock.Lease, say.
func Stamp(r *http.Request, name string, token fencing.Token) {
	r.Header.Set(NameHeader, url.PathEscape(name))
	r.Header.Set(TokenHeader, strconv.FormatInt(int64(token), 10))
}

// tokenOf reads the token of a request that has to be under the lease called name.
func tokenOf(r *http.Request, name string) (fencing.Token, *problem) {
	names, tokens := r.Header.Values(NameHeader), r.Header.Values(TokenHeader)
	if len(names) == 0 || len(tokens) == 0 {
		return 0, &problem{Status: http.StatusPreconditionRequired, Title: "this needs the headers " + NameHeader + " and " + TokenHeader}
	}
	// Two values, of which one is read, are two clients' opinions.
	if len(names) > 1 || len(tokens) > 1 {
		return 0, &problem{Status: http.StatusBadRequest, Title: "a header is there twice"}
	}
	if got, err := url.PathUnescape(names[0]); err != nil || got != name {
		return 0, &problem{Status: http.StatusBadRequest, Title: "this is not under the lease of " + NameHeader}
	}
	n, err := strconv.ParseInt(tokens[0], 10, 64)
	if err != nil || n <= 0 || strconv.FormatInt(n, 10) != tokens[0] {
		return 0, &problem{Status: http.StatusBadRequest, Title: TokenHeader + " is not a decimal number from 1 to 9223372036854775807"}
	}
	return fencing.Token(n), nil
}
