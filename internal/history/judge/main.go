// Judge reads a history, one or more files of JSON lines, and prints what in it breaks a promise. It exits with 1 if anything
// does. With -html it writes a time line as well.
//
//	go run ./internal/history/judge [-html FILE] FILE...
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/leasehold-go/leasehold/internal/history"
	"github.com/leasehold-go/leasehold/internal/history/timeline"
)

func main() {
	page := flag.String("html", "", "file to write a time line to")
	flag.Usage = func() { fmt.Fprintln(os.Stderr, "usage: judge [-html FILE] FILE...") }
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	guilty, err := judge(os.Stdout, *page, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if guilty {
		os.Exit(1)
	}
}

// judge takes the files as one history.
func judge(w io.Writer, page string, files []string) (guilty bool, err error) {
	events, err := history.ReadFiles(files...)
	if err != nil {
		return false, err
	}
	violations := history.Check(events)
	for _, v := range violations {
		fmt.Fprintln(w, v)
		if err := history.Write(w, v.Events); err != nil {
			return false, err
		}
	}
	fmt.Fprintf(w, "%d events, %d violations\n", len(events), len(violations))
	if page == "" {
		return len(violations) > 0, nil
	}
	file, err := os.Create(page)
	if err != nil {
		return false, err
	}
	err = timeline.Write(file, events, violations)
	if closed := file.Close(); err == nil {
		err = closed
	}
	return len(violations) > 0, err
}
