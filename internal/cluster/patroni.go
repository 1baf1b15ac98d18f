//go:build linux

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// A state is what Patroni's /cluster says of a member.
type state struct {
	Name     string `json:"name"`
	Role     string `json:"role"`
	State    string `json:"state"`
	Timeline int64  `json:"timeline"`
}

// call asks a member's Patroni, without a proxy in between.
func (m *Member) call(ctx context.Context, method, path string, body any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return call(ctx, method, "http://"+m.rest+path, text)
}

func call(ctx context.Context, method, url string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Close = true // A kept connection would outlive the test.
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, url, response.Status, answer)
	}
	return answer, err
}

// states is what some member that answers knows of all.
func (m *Member) states(ctx context.Context) ([]state, error) {
	text, err := m.call(ctx, http.MethodGet, "/cluster", nil)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Members []state `json:"members"`
	}
	return answer.Members, json.Unmarshal(text, &answer)
}

// Leader waits for a leader that is none of the given, and that takes writes.
func (c *Cluster) Leader(ctx context.Context, not *Member) (*Member, error) {
	for {
		for _, m := range c.Members {
			if m == not {
				continue
			}
			if _, err := m.call(ctx, http.MethodGet, "/primary", nil); err == nil { // It has the leader's key and takes writes.
				return m, nil
			}
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return nil, errors.Join(errors.New("no leader"), err)
		}
	}
}

// stuck is how long a member may take to follow a leader. One that takes longer is made anew from the leader's data, as an operator
// would do it.
const stuck = time.Minute

// Whole waits until one member leads and the others stream from it on its timeline, one of them synchronously if wanted. It
// returns the leader.
func (c *Cluster) Whole(ctx context.Context) (*Member, error) {
	var last string
	for since := time.Now(); ; {
		for _, m := range c.Members {
			if _, err := m.call(ctx, http.MethodGet, "/primary", nil); err != nil {
				continue
			}
			whole, said, err := c.whole(ctx, m)
			if err == nil && whole {
				return m, nil
			}
			last = fmt.Sprint(said, err)
			if time.Since(since) > stuck {
				since = time.Now()
				if err := c.reinitialize(ctx, m); err != nil {
					last += ": " + err.Error()
				}
			}
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return nil, errors.Join(fmt.Errorf("the cluster does not become whole: %s", last), err)
		}
	}
}

func (c *Cluster) whole(ctx context.Context, leader *Member) (bool, string, error) {
	states, err := leader.states(ctx)
	if err != nil {
		return false, "", err
	}
	said := fmt.Sprint(states)
	lead := slices.IndexFunc(states, func(s state) bool { return s.Name == leader.Name })
	if len(states) != len(c.Members) || lead < 0 {
		return false, said, nil
	}
	for _, s := range states {
		if s.State != "running" && s.State != "streaming" || s.Timeline != states[lead].Timeline {
			return false, said, nil
		}
	}
	streaming, synchronous, err := leader.replicas(ctx)
	if err != nil {
		return false, said, err
	}
	wanted, err := c.synchronous(ctx, leader)
	known := slices.ContainsFunc(states, func(s state) bool { return s.Role == "sync_standby" }) // The one that may be promoted.
	said += fmt.Sprintf(", %d streaming, %d synchronous", streaming, synchronous)
	return streaming == len(c.Members)-1 && synchronous > 0 == wanted && known == wanted, said, err
}

// reinitialize makes the members anew that do not stream from the leader.
func (c *Cluster) reinitialize(ctx context.Context, leader *Member) error {
	var streaming []string
	err := leader.Ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, _ := conn.Query(ctx, "SELECT application_name FROM pg_stat_replication WHERE state = 'streaming'")
		var err error
		streaming, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	for _, m := range c.Members {
		if err == nil && m != leader && !slices.Contains(streaming, m.Name) {
			c.Reinitialized++
			_, err = m.call(ctx, http.MethodPost, "/reinitialize", map[string]bool{"force": true})
		}
	}
	return err
}

// synchronous tells whether Patroni is to keep a synchronous replica.
func (c *Cluster) synchronous(ctx context.Context, m *Member) (bool, error) {
	text, err := m.call(ctx, http.MethodGet, "/config", nil)
	if err != nil {
		return false, err
	}
	var config struct {
		Synchronous bool `json:"synchronous_mode"`
	}
	return config.Synchronous, json.Unmarshal(text, &config)
}

// Synchronous turns synchronous replication on or off, and returns when it is so.
func (c *Cluster) Synchronous(ctx context.Context, on, strict bool) error {
	leader, err := c.Leader(ctx, nil)
	if err != nil {
		return err
	}
	_, err = leader.call(ctx, http.MethodPatch, "/config", map[string]bool{"synchronous_mode": on, "synchronous_mode_strict": strict})
	if err != nil {
		return err
	}
	_, err = c.Whole(ctx)
	return err
}

// Switchover makes another member the leader, in order.
func (c *Cluster) Switchover(ctx context.Context, from *Member) error {
	states, err := from.states(ctx)
	if err != nil {
		return err
	}
	to := slices.IndexFunc(states, func(s state) bool { return s.Role == "sync_standby" })
	if to < 0 { // Not synchronous: any will do.
		to = slices.IndexFunc(states, func(s state) bool { return s.Name != from.Name })
	}
	_, err = from.call(ctx, http.MethodPost, "/switchover", map[string]string{"leader": from.Name, "candidate": states[to].Name})
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
