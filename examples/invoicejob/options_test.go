package main

import (
	"bytes"
	"flag"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOptions_Durations(t *testing.T) {
	for _, c := range []struct {
		args       []string
		ttl, renew time.Duration
		shortened  bool
	}{
		{nil, 3 * time.Second, time.Second, true},
		{[]string{"-ttl", "60s"}, time.Minute, 20 * time.Second, false},
		{[]string{"-renew", "20s"}, time.Minute, 20 * time.Second, false},
		{[]string{"-ttl", "5s", "-renew", "2s"}, 5 * time.Second, 2 * time.Second, false},
	} {
		o, err := parseOptions(c.args, io.Discard)
		require.NoError(t, err)
		require.Equal(t, []time.Duration{c.ttl, c.renew}, []time.Duration{o.ttl, o.renew}, c.args)
		require.Equal(t, c.shortened, o.shortened() != "", c.args)
	}
}

func TestOptions_WrongOnesAreRefused(t *testing.T) {
	for want, args := range map[string][]string{
		"-orders and -lines belong together":       {"-orders", "x.csv"},
		"-instances 0: want 1 to 50":               {"-instances", "0"},
		"-batch 0: want 1 to 10000":                {"-batch", "0"},
		"-renew 5s must be shorter than -ttl 5s":   {"-ttl", "5s", "-renew", "5s"},
		"-renew -1s must be shorter than -ttl 3s":  {"-ttl", "3s", "-renew", "-1s"},
		"-schema is empty":                         {"-schema", ""},
		`unexpected argument "orders.csv"`:         {"orders.csv"},
		"flag provided but not defined: -nonsense": {"-nonsense"},
	} {
		var out bytes.Buffer
		_, err := parseOptions(args, &out)
		require.EqualError(t, err, want)
		require.Contains(t, out.String(), want)
	}
	var out bytes.Buffer
	_, err := parseOptions([]string{"-help"}, &out)
	require.ErrorIs(t, err, flag.ErrHelp)
	require.Contains(t, out.String(), "go run ./examples/invoicejob")
}

func TestOptions_OneInstanceIsNotFrozen(t *testing.T) {
	o, err := parseOptions([]string{"-instances", "1"}, io.Discard)
	require.NoError(t, err)
	require.False(t, o.freeze, "nobody could take over")
}
