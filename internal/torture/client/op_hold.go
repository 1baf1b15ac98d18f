package main

import (
	"context"
	"time"

	"github.com/leasehold-go/leasehold/internal/torture/plan"
)

// hold lets time pass: the renewer is at work, or a fault keeps it from it.
var hold = op{"hold", 8, func(ctx context.Context, c *client, d plan.Dice, _ string) {
	sleep(ctx, d.Between(5*time.Millisecond, c.ttl*3/4))
}}
