package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReport_PlainTextHasALineForEachFifth(t *testing.T) {
	var out bytes.Buffer
	r := &report{out: &out, started: time.Now()}
	for done := 0; done <= 830; done++ {
		r.progress(done, 830, "instance-1")
	}
	r.endProgress()
	require.Equal(t, 5, strings.Count(out.String(), "\n"), out.String())
	require.Contains(t, out.String(), "[##############################] 830/830 orders\n")
	require.NotContains(t, out.String(), "\r")
}

func TestReport_BarStaysBelowTheLines(t *testing.T) {
	var out bytes.Buffer
	r := &report{out: &out, live: true, started: time.Now()}
	r.progress(1, 2, "instance-1")
	r.print("a line")
	r.progress(2, 2, "instance-1")
	r.endProgress()
	const half, whole = "        instance-1  [###############...............] 1/2 orders", "        instance-1  [##############################] 2/2 orders"
	require.Equal(t, half+"\r\x1b[Ka line\n"+half+"\r\x1b[K"+whole+"\r\x1b[K", out.String())
}
