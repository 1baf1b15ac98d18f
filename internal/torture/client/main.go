// Client is the program of package torture: one life of a client. It does random operations on leases through a network that is
// broken on purpose, and notes what it sees.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/leasehold-go/leasehold/internal/torture/notebook"
	"github.com/leasehold-go/leasehold/internal/torture/protocol"
)

func main() {
	endWithParent()
	if err := run(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run is the life of the process.
func run(in io.Reader) error {
	lines := bufio.NewReader(in)
	var setup protocol.Setup
	if err := readLine(lines, &setup); err != nil {
		return err
	}
	book, err := notebook.Open(setup.File, setup.Label)
	if err != nil {
		return err
	}
	working, calm := context.WithCancel(context.Background())
	defer calm()
	go func() { // Ends with the process.
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				os.Exit(2) // Nobody is there any more.
			}
			if strings.TrimSpace(line) == protocol.Calm {
				calm()
			}
		}
	}()
	c, err := newClient(setup, book)
	if err != nil {
		return err
	}
	watching, unwatch := context.WithCancel(context.Background())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		c.watch(watching)
	}()
	c.work(working)
	if working.Err() != nil {
		c.stand(context.Background())
		fmt.Println(protocol.Stood)
	}
	unwatch()
	<-watched
	c.close(context.Background())
	return book.Close()
}

func readLine(lines *bufio.Reader, value any) error {
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("client: setup: %w", err)
	}
	if err := json.Unmarshal(line, value); err != nil {
		return fmt.Errorf("client: setup: %w", err)
	}
	return nil
}
