package main

import (
	"context"
	"os"

	"github.com/leasehold-go/leasehold/internal/torture/plan"
	"github.com/leasehold-go/leasehold/internal/torture/protocol"
)

// crash kills the process with all that it holds, in the midst of whatever it does. Another life follows.
var crash = op{"crash", 2, func(_ context.Context, c *client, _ plan.Dice, _ string) {
	c.book.Remark(protocol.NoteSuicide)
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {} // It takes a moment.
}}

// closing closes the client as a program that ends does. Another life follows.
var closing = op{"close", 2, func(_ context.Context, c *client, _ plan.Dice, _ string) {
	c.closes = true
}}
