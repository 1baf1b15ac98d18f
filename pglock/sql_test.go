package pglock

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGateKey_IsFrozen(t *testing.T) {
	// Computed with the SQL expression in the comment of gateKey. Two versions with different keys would lose the gate
	// between them.
	for _, c := range []struct {
		schema, name string
		key          int64
	}{
		{"public", "invoice-job", -2048958848339474468},
		{"public", "a", 2469707294348940286},
		{"public", "nightly", -3502471652488847089},
		{"locks", "nightly", -7897511522438482147},
		{`We"ird schema`, "nightly", -236216126934516834},
		{"public", "Rechnungslauf für Zürich", 6959657176537110983},
		{"public", strings.Repeat("x", 255), -1623274614706875471},
		{"public", "日本語", 6949111856020916759},
		{"a", "bc", -572853652792060609},
		{"ab", "c", 1384118560040506741},
	} {
		require.Equal(t, c.key, gateKey(c.schema, c.name), "%q.%q", c.schema, c.name)
	}
}

func TestGateKey_SchemaAndNameDoNotRunTogether(t *testing.T) {
	require.NotEqual(t, gateKey("a", "bc"), gateKey("ab", "c"))
	require.NotEqual(t, gateKey("a", "n"), gateKey("b", "n"), "two installations never wait for each other")
}

func TestStatements_QuoteTheSchemaAndSendNoComments(t *testing.T) {
	for _, plain := range []bool{false, true} {
		s := newStatements(`od"d {schema}`, plain)
		for _, text := range []string{s.acquire, s.enter, s.identify, s.inspect, s.release, s.renew} {
			require.True(t, strings.HasPrefix(text, "/* pglock "), text)
			require.Contains(t, text, `"od""d {schema}".pglock_`)
			require.NotContains(t, text, "--")
			require.False(t, strings.HasSuffix(text, ";"))
		}
		for _, text := range []string{s.acquire, s.enter, s.identify} {
			require.Equal(t, !plain, strings.Contains(text, "pg_control_system"), text)
		}
	}
}
