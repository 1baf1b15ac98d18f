package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDecimal_IsPlainDigits(t *testing.T) {
	for _, text := range []string{"0", "14.00", "0.15", ".5", "007.10", "999999999999.999999999999"} {
		d, err := parseDecimal(text)
		require.NoError(t, err, text)
		require.Equal(t, decimal(text), d)
	}
	for _, text := range []string{
		"", ".", "1.", "-1", "+1", "1e3", "1,5", "1.2.3", "NaN", "Infinity", "0x10", "1_000", "1 000", "١", "$5", "1/3",
		strings.Repeat("1", maxWholeDigits+1), "0." + strings.Repeat("1", maxDecimalDigits+1),
	} {
		_, err := parseDecimal(text)
		require.Error(t, err, text)
	}
}

func TestDecimal_Above(t *testing.T) {
	for text, above := range map[string]bool{"0": false, "1": false, "1.000": false, "1.000000000001": true, "0.99": false, "15": true} {
		require.Equal(t, above, decimal(text).above(1), text)
	}
}
