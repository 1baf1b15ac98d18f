package main

import (
	"errors"
	"math/big"
	"strings"
)

// A decimal is an exact number as it stands in the file, such as "14.00". It is checked here and computed with by
// PostgreSQL's numeric; no float is ever made of it.
type decimal string

// Limits that keep the text readable and the sums far from numeric's own limits.
const (
	maxWholeDigits   = 12
	maxDecimalDigits = 12
)

// parseDecimal accepts digits with at most one point, nothing else: no sign, exponent, thousands separator, NaN or Infinity.
func parseDecimal(text string) (decimal, error) {
	whole, fraction, pointed := strings.Cut(text, ".")
	switch {
	case strings.Trim(whole+fraction, "0123456789") != "", whole+fraction == "", pointed && fraction == "":
		return "", errors.New("want a plain decimal such as 14.00")
	case len(whole) > maxWholeDigits, len(fraction) > maxDecimalDigits:
		return "", errors.New("too many digits")
	}
	return decimal(text), nil
}

// above tells whether d is greater than n.
func (d decimal) above(n int64) bool {
	value, ok := new(big.Rat).SetString(string(d))
	return ok && value.Cmp(new(big.Rat).SetInt64(n)) > 0
}
