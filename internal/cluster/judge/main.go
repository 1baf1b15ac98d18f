// Judge reads the history of a run of the cluster's test and prints what happened and which promises were broken. It exits with 1 if any
// was.
//
//	go run ./internal/cluster/judge [-lossless] FILE
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/leasehold-go/leasehold/internal/cluster"
	"github.com/leasehold-go/leasehold/internal/history"
)

func main() {
	lossless := flag.Bool("lossless", false, "of a run with synchronous replication")
	flag.Usage = func() { fmt.Fprintln(os.Stderr, "usage: judge [-lossless] FILE") }
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	file, err := os.Open(flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	events, err := history.Read(file)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	tally, found := cluster.Judge(events, cluster.Promise{Lossless: *lossless})
	for _, v := range found {
		fmt.Println(v)
	}
	fmt.Printf("%d events, %d broken promises: %+v\n", len(events), len(found), tally)
	if len(found) > 0 {
		os.Exit(1)
	}
}
