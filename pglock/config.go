package pglock

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of what a lease can be.
const (
	minTTL      = 100 * time.Millisecond
	maxTTL      = 365 * 24 * time.Hour
	maxNameSize = 255  // bytes, as the table's CHECK
	maxMetadata = 4096 // bytes of JSON
)

// Config says how a [Client] works. The zero value works: every zero field stands for the default that its comment gives.
type Config struct {
	// Schema is where the tables are. Default: public. It is used as it is, quoted; search_path plays no part.
	Schema string

	// Label tells people who holds a lease. It is never compared: two clients with one label exclude each other like any
	// others. Default: host name and process id. At most 255 bytes.
	Label string

	// Metadata is stored beside the label, for people. At most 4096 bytes as JSON.
	Metadata map[string]string

	// TTL is how long a lease lives, on the database's clock, from its grant or last renewal. Default: 60 s. From 100 ms to
	// 365 days. It bounds how long a dead holder is in the way.
	TTL time.Duration

	// RenewInterval is how often the leases are renewed, all in one statement. Default: TTL/3. At least 1 ms.
	RenewInterval time.Duration

	// RequestTimeout bounds one question to the database, connecting included. Default: TTL/6, at most 5 s. At least
	// 1 ms.
	RequestTimeout time.Duration

	// Margin is how long before its expiry a lease counts as lost: room for clocks that run at different rates and for the
	// work to notice. Default: TTL/10, at most 2 s.
	//
	// TTL must be greater than RenewInterval + RequestTimeout + Margin: else one slow renewal would cost the lease.
	Margin time.Duration

	// PollInterval is the longest time between two questions of a waiting [Client.Acquire]. It is shortened at random by up
	// to a half, and to the time that the holder has left. Default: 500 ms. At least 1 ms.
	PollInterval time.Duration

	// Logger gets what happens in the background, once for each change of state: a loss and a failing renewal as warnings, a
	// take-over and a wait as information, the rest as debug. Its handler must not block: renewals would wait for it. Default:
	// nothing is logged.
	Logger *slog.Logger

	// OnEvent is called for what happens to leases, for metrics and traces. It must return quickly, as renewals
	// wait for it, and must not call the client or the lease. It may be called from several goroutines at once. Default: nil.
	OnEvent func(Event)
}

// withDefaults checks the configuration and fills in what is left zero.
func (c Config) withDefaults() (Config, error) {
	if c.Schema == "" {
		c.Schema = "public"
	}
	if c.Label == "" {
		c.Label = defaultLabel()
	}
	if err := checkText("schema", c.Schema, 63); err != nil {
		return c, err
	}
	if err := checkText("label", c.Label, 255); err != nil {
		return c, err
	}
	if _, err := c.metadataJSON(); err != nil {
		return c, err
	}
	if c.TTL == 0 {
		c.TTL = 60 * time.Second
	}
	if c.TTL < minTTL || c.TTL > maxTTL {
		return c, fmt.Errorf("pglock: config: TTL is %v; it must be from %v to %v", c.TTL, minTTL, maxTTL)
	}
	for _, d := range []struct {
		name     string
		value    *time.Duration
		fallback time.Duration
		least    time.Duration // Below it the database would be asked without a pause, or could not answer.
	}{
		{"RenewInterval", &c.RenewInterval, c.TTL / 3, time.Millisecond},
		{"RequestTimeout", &c.RequestTimeout, min(c.TTL/6, 5*time.Second), time.Millisecond},
		{"Margin", &c.Margin, min(c.TTL/10, 2*time.Second), 0},
		{"PollInterval", &c.PollInterval, 500 * time.Millisecond, time.Millisecond},
	} {
		if *d.value < 0 {
			return c, fmt.Errorf("pglock: config: %s is %v; it must not be negative", d.name, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.fallback
		}
		if *d.value < d.least {
			return c, fmt.Errorf("pglock: config: %s is %v; it must be at least %v", d.name, *d.value, d.least)
		}
	}
	// Each is compared alone first, so that their sum cannot overflow.
	if c.RenewInterval >= c.TTL || c.RequestTimeout >= c.TTL || c.Margin >= c.TTL ||
		c.TTL <= c.RenewInterval+c.RequestTimeout+c.Margin {
		return c, fmt.Errorf("pglock: config: TTL %v must be greater than RenewInterval %v + RequestTimeout %v + Margin %v: "+
			"raise TTL or lower one of them", c.TTL, c.RenewInterval, c.RequestTimeout, c.Margin)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.OnEvent == nil {
		c.OnEvent = func(Event) {}
	}
	return c, nil
}

func (c Config) metadataJSON() (string, error) {
	if len(c.Metadata) == 0 {
		return "{}", nil
	}
	for k, v := range c.Metadata {
		if strings.ContainsRune(k+v, 0) || !utf8.ValidString(k) || !utf8.ValidString(v) {
			return "", fmt.Errorf("pglock: config: metadata %q: keys and values must be valid UTF-8 without zero bytes", k)
		}
	}
	body, err := json.Marshal(c.Metadata)
	if err != nil {
		return "", fmt.Errorf("pglock: config: metadata: %w", err)
	}
	if len(body) > maxMetadata {
		return "", fmt.Errorf("pglock: config: metadata has %d bytes as JSON; it must have at most %d", len(body), maxMetadata)
	}
	return string(body), nil
}

func checkName(name string) error { return checkText("name", name, maxNameSize) }

// checkText refuses what the database would refuse later, or worse, store otherwise than meant.
func checkText(what, s string, limit int) error {
	switch {
	case s == "":
		return fmt.Errorf("pglock: %s is empty", what)
	case len(s) > limit:
		return fmt.Errorf("pglock: %s has %d bytes; it must have at most %d", what, len(s), limit)
	case !utf8.ValidString(s):
		return fmt.Errorf("pglock: %s %q is not valid UTF-8", what, s)
	case strings.ContainsRune(s, 0):
		return errors.New("pglock: " + what + " contains a zero byte, which PostgreSQL cannot store")
	}
	return nil
}

func defaultLabel() string {
	host, err := os.Hostname()
	if err != nil || !utf8.ValidString(host) {
		host = "unknown host"
	}
	label := fmt.Sprintf("%s pid %d", host, os.Getpid())
	if len(label) > 255 {
		label = fmt.Sprintf("pid %d", os.Getpid())
	}
	return label
}
