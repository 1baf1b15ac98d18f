//go:build linux

package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// freePorts looks below the range from which systems take ports for outgoing connections, so that a stopped server finds its
// port again. Somebody else may still take one first.
func freePorts(n int) ([]string, error) {
	const low, high = 15000, 30000
	var found []string
	seen := map[int]bool{}
	for range 100 * n {
		port := low + rand.IntN(high-low)
		address := fmt.Sprintf("127.0.0.1:%d", port)
		listener, err := net.Listen("tcp", address)
		if err != nil || seen[port] {
			continue
		}
		_ = listener.Close()
		seen[port] = true
		if found = append(found, address); len(found) == n {
			return found, nil
		}
	}
	return nil, fmt.Errorf("no %d free ports between %d and %d on 127.0.0.1", n, low, high)
}
