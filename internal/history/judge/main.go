// Judge reads histories, files of JSON lines, and prints what in them breaks a promise. It exits with 1 if anything does.
//
//	go run ./internal/history/judge FILE...
package main

import (
	"fmt"
	"os"

	"github.com/leasehold-go/leasehold/internal/history"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: judge FILE...")
		os.Exit(2)
	}
	status := 0
	for _, name := range os.Args[1:] {
		found, err := judge(name)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		if found {
			status = 1
		}
	}
	os.Exit(status)
}

func judge(name string) (bool, error) {
	file, err := os.Open(name)
	if err != nil {
		return false, err
	}
	defer file.Close()
	events, err := history.Read(file)
	if err != nil {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	violations := history.Check(events)
	for _, v := range violations {
		fmt.Printf("%s: %s\n", name, v)
		if err := history.Write(os.Stdout, v.Events); err != nil {
			return false, err
		}
	}
	fmt.Printf("%s: %d events, %d violations\n", name, len(events), len(violations))
	return len(violations) > 0, nil
}
