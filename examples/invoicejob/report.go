package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// A report prints the story: one line for each thing that happens, and a bar for the orders. On a terminal the bar stays
// below the lines and moves; elsewhere it is a line now and then.
type report struct {
	out     io.Writer
	live    bool
	started time.Time
	bar     string // what stands in the last line of the terminal
	printed int    // fifths of the orders that a line told of
	unread  func() // called when nobody reads any more
}

func newReport(out *os.File, unread func()) *report {
	return &report{out: out, live: isTerminal(out), started: time.Now(), unread: unread}
}

func isTerminal(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != ""
}

// print writes lines as they are.
func (r *report) print(lines ...string) {
	r.write(r.clear() + strings.Join(lines, "\n") + "\n" + r.bar)
}

// say tells what happened: when, to whom, what.
func (r *report) say(who, format string, args ...any) {
	r.print(fmt.Sprintf("%5.1fs  %-10s  %s", time.Since(r.started).Seconds(), who, fmt.Sprintf(format, args...)))
}

// progress shows how many orders have their invoice.
func (r *report) progress(done, all int, who string) {
	const width = 30
	if all == 0 {
		return
	}
	filled := done * width / all
	bar := fmt.Sprintf("[%s%s] %d/%d orders", strings.Repeat("#", filled), strings.Repeat(".", width-filled), done, all)
	if r.live {
		r.write(r.clear())
		r.bar = fmt.Sprintf("        %-10s  %s", who, bar)
		r.write(r.bar)
		return
	}
	if fifths := done * 5 / all; fifths > r.printed {
		r.printed = fifths
		r.say(who, "%s", bar)
	}
}

// endProgress takes the bar away.
func (r *report) endProgress() {
	r.write(r.clear())
	r.bar = ""
}

func (r *report) clear() string {
	if r.bar == "" {
		return ""
	}
	return "\r\x1b[K"
}

func (r *report) write(text string) {
	if _, err := io.WriteString(r.out, text); err != nil {
		r.unread()
	}
}
