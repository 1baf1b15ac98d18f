package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
)

// A summary is the object that -json prints. Invoices, total and gross are read from the database at the end, over the
// orders of the two files, whichever run wrote them: a second run writes nothing and prints the same figures.
type summary struct {
	Invoices int     `json:"invoices"`
	Total    string  `json:"total"`   // of the invoices, each rounded half up to cents
	Gross    string  `json:"gross"`   // before discount
	Orders   int     `json:"orders"`  // in the file
	Tokens   []int64 `json:"tokens"`  // granted in this run, in the order of the grants
	Refused  int     `json:"refused"` // writes that the fence refused in this run
	Skipped  int     `json:"skipped"` // runs of the job that were skipped because another instance had the lease
}

func (s *story) summarize(ctx context.Context, orders []order) (summary, error) {
	t, err := s.db.tally(ctx, orders)
	if err != nil {
		return summary{}, err
	}
	result := summary{t.Invoices, t.Total, t.Gross, len(orders), []int64{}, s.refused, s.skipped}
	for _, term := range s.terms {
		result.Tokens = append(result.Tokens, term.token)
	}
	if t.Invoices != len(orders) {
		return result, fmt.Errorf("%d invoices for %d orders", t.Invoices, len(orders))
	}
	return result, nil
}

func (r summary) writeJSON(out io.Writer) error { return json.NewEncoder(out).Encode(r) }

// print shows who wrote how many of the invoices, as the table of invoices has it, and what it all adds up to.
func (s *story) print(ctx context.Context, r summary, before int) error {
	s.report.print("", "  token  holder      invoices        amount  end of the term")
	for _, term := range s.terms {
		written, amount, err := s.db.writtenBy(ctx, term.token)
		if err != nil {
			return err
		}
		s.report.print(fmt.Sprintf("  %5d  %-10s  %8d  %12s  %s", term.token, term.holder, written, amount, term.end))
	}
	s.report.print("", fmt.Sprintf("  orders %d   invoices %d (%d new)   skipped %d   refused %d",
		r.Orders, r.Invoices, r.Invoices-before, r.Skipped, r.Refused),
		fmt.Sprintf("  total %s   gross %s", r.Total, r.Gross), "")
	if r.Invoices == before {
		s.report.print("Every order had its invoice already: nothing was written.")
		return nil
	}
	s.report.print("Every order has exactly one invoice.")
	return nil
}
