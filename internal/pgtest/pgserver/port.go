package pgserver

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// freePort looks below the range from which systems take ports for outgoing connections (32768 and up on Linux), so
// that a stopped server finds its port again. Somebody else may still take it first: callers try again.
func freePort() (int, error) {
	const low, high = 15000, 30000
	for range 100 {
		if port := low + rand.IntN(high-low); portFree(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port between %d and %d on 127.0.0.1", low, high)
}

func portFree(port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	_ = listener.Close()
	return true
}
