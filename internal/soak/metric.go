package soak

import (
	"fmt"
	"slices"
)

// A metric is one series of numbers that must not grow.
type metric struct {
	name  string
	unit  string
	of    func(Sample) float64
	ratio float64 // of the last quarter to the second, at most
	slack float64 // and this much more, in the metric's unit
	// perOp makes it a rate: what was added in a quarter over the operations in it.
	perOp bool
}

// The bounds are generous: a leak that an hour of load makes matter exceeds them, and what a busy machine does in a
// quarter does not. Slack is what the metric moves by while nothing leaks.
var metrics = []metric{
	{name: "goroutines", of: func(s Sample) float64 { return float64(s.Goroutines) }, ratio: 1.3, slack: 20},
	{name: "file descriptors", of: func(s Sample) float64 { return float64(s.Files) }, ratio: 1.3, slack: 15},
	{name: "heap after a collection", unit: "KiB", of: func(s Sample) float64 { return float64(s.Heap) / 1024 }, ratio: 1.3, slack: 4096},
	{name: "connections of the pools", of: func(s Sample) float64 { return float64(s.Pooled) }, ratio: 1.3, slack: 10},
	{name: "sessions on the server", of: func(s Sample) float64 { return float64(s.Sessions) }, ratio: 1.3, slack: 10},
	{name: "advisory locks of idle sessions", of: func(s Sample) float64 { return float64(s.IdleLocks) }, ratio: 1, slack: 0},
	{name: "prepared statements of the oldest session", of: func(s Sample) float64 { return float64(s.Prepared) }, ratio: 1, slack: 10},
	{name: "pglock_leases, table", unit: "KiB", of: func(s Sample) float64 { return float64(s.Leases.Table) / 1024 }, ratio: 1.5, slack: 256},
	{name: "pglock_leases, indexes", unit: "KiB", of: func(s Sample) float64 { return float64(s.Leases.Indexes) / 1024 }, ratio: 1.5, slack: 64},
	{name: "job_fences, table", unit: "KiB", of: func(s Sample) float64 { return float64(s.Fences.Table) / 1024 }, ratio: 1.5, slack: 256},
	{name: "job_fences, indexes", unit: "KiB", of: func(s Sample) float64 { return float64(s.Fences.Indexes) / 1024 }, ratio: 1.5, slack: 64},
	{name: "dead rows of both", of: func(s Sample) float64 { return float64(s.Leases.Dead + s.Fences.Dead) }, ratio: 1.5, slack: 2000},
	{name: "WAL an operation", unit: "bytes", of: func(s Sample) float64 { return float64(s.WAL) }, ratio: 2, slack: 500, perOp: true},
}

// A Finding is what became of one metric.
type Finding struct {
	Metric   string
	Unit     string
	Quarters [4]float64 // medians; for a rate, what was added a operation
	Bound    float64    // for the last quarter
	Grew     bool       // it exceeds its bound
}

// String says it in a line.
func (f Finding) String() string {
	return fmt.Sprintf("%s: %.1f %s in the second quarter, %.1f in the last, at most %.1f", f.Metric, f.Quarters[1], f.Unit, f.Quarters[3], f.Bound)
}

// minSamples are enough for a median of each quarter.
const minSamples = 16

// Judge compares the second quarter of the samples with the last. The first one is for warming up. It needs 16 samples.
func Judge(samples []Sample) ([]Finding, error) {
	if len(samples) < minSamples {
		return nil, fmt.Errorf("soak: %d samples; %d are needed", len(samples), minSamples)
	}
	findings := make([]Finding, 0, len(metrics))
	for _, m := range metrics {
		f := Finding{Metric: m.name, Unit: m.unit}
		for q := range f.Quarters {
			f.Quarters[q] = m.in(samples[len(samples)*q/4 : len(samples)*(q+1)/4])
		}
		f.Bound = f.Quarters[1]*m.ratio + m.slack
		f.Grew = f.Quarters[3] > f.Bound
		findings = append(findings, f)
	}
	return findings, nil
}

// in is the metric's number for one quarter.
func (m metric) in(quarter []Sample) float64 {
	if m.perOp {
		first, last := quarter[0], quarter[len(quarter)-1]
		return (m.of(last) - m.of(first)) / float64(max(1, last.Operations-first.Operations))
	}
	values := make([]float64, len(quarter))
	for i, s := range quarter {
		values[i] = m.of(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
