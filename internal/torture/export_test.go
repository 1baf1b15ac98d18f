package torture

import "github.com/leasehold-go/leasehold/internal/torture/protocol"

// StartClient starts a client program that nobody ends, and returns its process id.
func StartClient(program string, setup protocol.Setup) (int, error) {
	p, err := start(program, setup)
	if err != nil {
		return 0, err
	}
	return p.cmd.Process.Pid, nil
}
