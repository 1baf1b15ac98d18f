package history_test

import (
	"cmp"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/history"
)

// A recorded is a history of a real run, to be spoilt. The rules find nothing in it.
//
// The files in testdata are 25 s of package torture each, seeds 1002 and 2001, with notes left out and texts of errors cut
// off. In one the server's clock goes steadily, in the other it is set ten times, and operators revoke and raise.
type recorded struct {
	events []history.Event
	d      *rand.Rand
}

const (
	steadyRun  = "testdata/steady.jsonl.gz"
	steppedRun = "testdata/stepped.jsonl.gz"
)

func readRecorded(t *testing.T, name string) []history.Event {
	t.Helper()
	file, err := os.Open(name)
	require.NoError(t, err)
	defer file.Close()
	packed, err := gzip.NewReader(file)
	require.NoError(t, err)
	events, err := history.Read(packed)
	require.NoError(t, err)
	require.Greater(t, len(events), 4000)
	return events
}

// copyOf copies the rows too, so that they can be changed.
func copyOf(events []history.Event) []history.Event {
	list := slices.Clone(events)
	for i := range list {
		for _, row := range []**history.Row{&list[i].Old, &list[i].New} {
			if *row != nil {
				r := **row
				if r.Expires != nil {
					at := *r.Expires
					r.Expires = &at
				}
				*row = &r
			}
		}
	}
	return list
}

// pick draws an event that the condition is true of, and returns its index.
func (r *recorded) pick(fits func(e *history.Event) bool) (*history.Event, int) {
	var list []int
	for i := range r.events {
		if fits(&r.events[i]) {
			list = append(list, i)
		}
	}
	if len(list) == 0 {
		return nil, -1
	}
	i := list[r.d.IntN(len(list))]
	return &r.events[i], i
}

func (r *recorded) find(fits func(e *history.Event) bool) *history.Event {
	for i := range r.events {
		if fits(&r.events[i]) {
			return &r.events[i]
		}
	}
	return nil
}

func (r *recorded) drop(i int) { r.events = slices.Delete(r.events, i, i+1) }

// grantOf is the event that granted a token.
func (r *recorded) grantOf(name string, token int64) *history.Event {
	return r.find(func(e *history.Event) bool { return e.Name == name && e.Grants() && e.New.Token == token })
}

// next is the change of the row of a name after an event; before the one before it.
func (r *recorded) next(e *history.Event) *history.Event {
	var found *history.Event
	for i := range r.events {
		if c := &r.events[i]; c.Kind == history.KindLease && c.Name == e.Name && c.Seq > e.Seq && (found == nil || c.Seq < found.Seq) {
			found = c
		}
	}
	return found
}

func (r *recorded) before(e *history.Event) *history.Event {
	var found *history.Event
	for i := range r.events {
		if c := &r.events[i]; c.Kind == history.KindLease && c.Name == e.Name && c.Seq < e.Seq && (found == nil || c.Seq > found.Seq) {
			found = c
		}
	}
	return found
}

// nextGrant is the grant that followed that of a token.
func (r *recorded) nextGrant(name string, token int64) *history.Event {
	var found *history.Event
	for i := range r.events {
		if c := &r.events[i]; c.Grants() && c.Name == name && c.New.Token > token && (found == nil || c.New.Token < found.New.Token) {
			found = c
		}
	}
	return found
}

// told is the answer that handed out a token.
func (r *recorded) told(name string, token int64) *history.Event {
	return r.find(func(e *history.Event) bool { return e.Kind == history.KindAnswer && e.Name == name && e.Token == token })
}

// renumber makes room between the numbers of the record.
func (r *recorded) renumber() {
	for i := range r.events {
		r.events[i].Seq *= 10
	}
}

func is(kind history.Kind) func(*history.Event) bool {
	return func(e *history.Event) bool { return e.Kind == kind }
}

// A corruption spoils a history. It returns the rule that has to find it, "" if any may.
type corruption struct {
	name  string
	spoil func(r *recorded) string
}

// corruptions each break a promise, or the record of it, wherever in the run they are made.
var corruptions = []corruption{
	{"a change of a row is missing", func(r *recorded) string {
		_, i := r.pick(func(e *history.Event) bool {
			return e.Kind == history.KindLease && r.before(e) != nil && r.next(e) != nil
		})
		r.drop(i)
		return history.RuleRecord
	}},
	{"a change of a row is there twice", func(r *recorded) string {
		e, _ := r.pick(is(history.KindLease))
		r.events = append(r.events, *e)
		return history.RuleRecord
	}},
	{"two changes of a row change places", func(r *recorded) string {
		e, _ := r.pick(func(e *history.Event) bool { return e.Kind == history.KindLease && r.next(e) != nil })
		other := r.next(e)
		e.Seq, other.Seq = other.Seq, e.Seq
		return history.RuleRecord
	}},
	{"a change was recorded seconds earlier", func(r *recorded) string {
		e, _ := r.pick(func(e *history.Event) bool { return e.Kind == history.KindLease && r.before(e) != nil })
		at := r.before(e).At - 1_000_000
		e.Up -= e.At - at
		e.At = at
		return history.RuleRecord
	}},
	{"a grant without its fence", func(r *recorded) string {
		grant, _ := r.pick(func(e *history.Event) bool { return e.Grants() })
		r.drop(slices.IndexFunc(r.events, func(e history.Event) bool { return e.Kind == history.KindFence && e.Xid == grant.Xid }))
		return history.RuleGrantFences
	}},
	{"a term has the token of the one before", func(r *recorded) string {
		grant, _ := r.pick(func(e *history.Event) bool { return e.Grants() && r.grantOf(e.Name, e.New.Token-1) != nil })
		r.retoken(grant.Name, grant.New.Token, grant.New.Token-1)
		return history.RuleTokensRise
	}},
	{"two terms change tokens", func(r *recorded) string {
		grant, _ := r.pick(func(e *history.Event) bool { return e.Grants() && r.grantOf(e.Name, e.New.Token-1) != nil })
		name, token := grant.Name, grant.New.Token
		r.retoken(name, token, -1)
		r.retoken(name, token-1, token)
		r.retoken(name, -1, token-1)
		return history.RuleTokensRise
	}},
	{"a take-over before the expiry", func(r *recorded) string {
		grant, _ := r.pick(func(e *history.Event) bool { return e.Grants() && e.Old != nil && e.Old.Expires != nil })
		grant.New.Acquired = *grant.Old.Expires - 1
		return history.RuleNoOverlap
	}},
	{"a release is missing, as if it never was", func(r *recorded) string {
		e, i := r.pick(func(e *history.Event) bool {
			n := r.next(e)
			return e.GoesOn() && e.New.Expires == nil && e.Old.Expires != nil && n != nil && n.Grants() && n.New.Acquired < *e.Old.Expires
		})
		r.next(e).Old = e.Old
		r.drop(i)
		return history.RuleNoOverlap
	}},
	{"a renewal after the expiry", func(r *recorded) string {
		e, _ := r.pick(func(e *history.Event) bool { return e.Renews() })
		e.Started = *e.Old.Expires + 1
		return history.RuleNoRevival
	}},
	{"a renewal after the release", func(r *recorded) string {
		e, _ := r.pick(func(e *history.Event) bool { return e.Renews() })
		e.Old.Expires = nil
		return history.RuleNoRevival
	}},
	{"a change by another client", func(r *recorded) string {
		e, _ := r.pick(func(e *history.Event) bool { return e.GoesOn() && e.By == e.New.Label })
		e.By += "0"
		return history.RuleOwnRows
	}},
	{"a write with the token before", func(r *recorded) string {
		e, _ := r.pick(func(e *history.Event) bool { return e.Kind == history.KindWrite && e.Token > 1 })
		e.Token--
		return history.RuleWritesInTurn
	}},
	{"a write with a token that nobody has yet", func(r *recorded) string {
		e, _ := r.pick(func(e *history.Event) bool { return e.Kind == history.KindWrite && r.nextGrant(e.Name, e.Token) != nil })
		e.Token++
		return history.RuleWritesInTurn
	}},
	{"a write after the next grant", func(r *recorded) string {
		e, _ := r.pick(func(e *history.Event) bool { return e.Kind == history.KindWrite && r.nextGrant(e.Name, e.Token) != nil })
		r.renumber()
		e.Seq = r.nextGrant(e.Name, e.Token).Seq + 1
		return history.RuleWritesInTurn
	}},
	{"a confirmed write is missing", func(r *recorded) string {
		_, i := r.pick(func(e *history.Event) bool {
			return e.Kind == history.KindWrite &&
				r.find(func(w *history.Event) bool { return w.Kind == history.KindWrote && w.Write == e.Write }) != nil
		})
		r.drop(i)
		return history.RuleConfirmed
	}},
	{"a refused write is there", func(r *recorded) string {
		e, _ := r.pick(is(history.KindWrote))
		e.Kind = history.KindRefused
		return history.RuleConfirmed
	}},
	{"a grant that the database does not know", func(r *recorded) string {
		e, _ := r.pick(is(history.KindGranted))
		e.Token += 1000
		return history.RuleConfirmed
	}},
	{"a client is told another's token", func(r *recorded) string {
		e, _ := r.pick(func(e *history.Event) bool {
			n := r.nextGrant(e.Name, e.Token)
			return e.Kind == history.KindGranted && n != nil && n.New.Label != e.Client
		})
		e.Token = r.nextGrant(e.Name, e.Token).New.Token
		return history.RuleConfirmed
	}},
	{"two clients' answers change places", func(r *recorded) string {
		granted := func(e *history.Event) bool { return e.Kind == history.KindAnswer && e.Token > 0 }
		one, _ := r.pick(granted)
		two, _ := r.pick(func(e *history.Event) bool { return granted(e) && e.Name == one.Name && e.Client != one.Client })
		one.Token, two.Token = two.Token, one.Token
		return history.RuleConfirmed
	}},
	{"an answer before its grant", func(r *recorded) string {
		e, _ := r.pick(func(e *history.Event) bool { return e.Kind == history.KindAnswer && e.Token > 0 })
		e.From, e.To = e.From-3_000_000, e.To-3_000_000
		return history.RuleConfirmed
	}},
	{"an answer names a holder that nobody was", func(r *recorded) string {
		e, _ := r.pick(func(e *history.Event) bool { return e.Kind == history.KindAnswer && e.Seen > 0 })
		e.Seen += 1000
		return history.RuleConfirmed
	}},
	{"an answer names a holder that was not yet", func(r *recorded) string {
		e, _ := r.pick(func(e *history.Event) bool { return e.Kind == history.KindAnswer && e.Seen > 0 })
		e.From, e.To = e.From-3_000_000, e.To-3_000_000
		return history.RuleConfirmed
	}},
	{"an answer names a holder whose term was over", func(r *recorded) string {
		e, _ := r.pick(func(e *history.Event) bool { return r.seenAndFollowed(e) })
		after := r.told(e.Name, r.nextGrant(e.Name, e.Seen).New.Token)
		e.From, e.To = after.To+1, after.To+2
		return history.RuleLinearizable
	}},
	{"a write that was confirmed after the next one's", func(r *recorded) string {
		e, _ := r.pick(func(e *history.Event) bool { return e.Kind == history.KindWrote && r.followed(e.Name, e.Token) })
		after := r.told(e.Name, r.nextGrant(e.Name, e.Token).New.Token)
		e.From, e.To = after.To+1, after.To+2
		return history.RuleLinearizable
	}},
	{"a write of unknown outcome was sent after the next grant, and is there", func(r *recorded) string {
		e, _ := r.pick(func(e *history.Event) bool { return e.Kind == history.KindWrote && r.followed(e.Name, e.Token) })
		after := r.told(e.Name, r.nextGrant(e.Name, e.Token).New.Token)
		e.Kind, e.From, e.To = history.KindUnknown, after.To+1, after.To+2
		return history.RuleLinearizable
	}},
	{"a refusal while its token was the highest", func(r *recorded) string {
		e, _ := r.pick(func(e *history.Event) bool {
			return e.Kind == history.KindRefused && e.Text == "" && r.told(e.Name, e.Token) != nil
		})
		before := r.told(e.Name, e.Token)
		e.From, e.To = before.To, before.To
		return history.RuleLinearizable
	}},
	{"a release was confirmed before the holder was seen to trust", func(r *recorded) string {
		e, _ := r.pick(func(e *history.Event) bool {
			return e.Kind == history.KindReleased && e.Text == history.ReleaseDone && r.lastTrust(e) != nil && r.lastTrust(e).To < e.From
		})
		at := r.lastTrust(e).From - 1
		e.From, e.To = at-1, at
		return ""
	}},
	{"a release was confirmed and never was", func(r *recorded) string {
		grant, _ := r.pick(func(e *history.Event) bool {
			n := r.nextGrant(e.Name, tokenOf(e))
			return e.Grants() && n != nil && n.Old != nil && n.Old.Expires != nil && r.told(e.Name, e.New.Token) != nil && r.quiet(e.At, n.At)
		})
		after := r.told(grant.Name, grant.New.Token).To + 1
		r.events = append(r.events, history.Event{
			Kind: history.KindReleased, Client: grant.New.Label, Name: grant.Name, Token: grant.New.Token,
			From: after, To: after + 1, Text: history.ReleaseDone,
		})
		return history.RuleConfirmed
	}},
	{"trust for too long", func(r *recorded) string {
		e, _ := r.pick(func(e *history.Event) bool { return e.Kind == history.KindTrusts && e.Left > 0 })
		e.Left += 1_100_000
		return history.RuleTrust
	}},
	{"trust after the next grant", func(r *recorded) string {
		e, _ := r.pick(func(e *history.Event) bool { return e.Kind == history.KindTrusts && r.followed(e.Name, e.Token) })
		after := r.told(e.Name, r.nextGrant(e.Name, e.Token).New.Token)
		e.From, e.To = after.To+1, after.To+2
		return history.RuleLinearizable
	}},
	{"trust after the end", func(r *recorded) string {
		e, _ := r.pick(func(e *history.Event) bool {
			return e.Kind == history.KindEnded && r.find(func(c *history.Event) bool {
				return c.Kind == history.KindTrusts && c.Client == e.Client && c.Name == e.Name && c.Token == e.Token && c.Process == e.Process
			}) != nil
		})
		e.From, e.To = 0, 1
		return history.RuleTrust
	}},
	{"a client's clock is another", func(r *recorded) string {
		granted, _ := r.pick(func(e *history.Event) bool { return e.Kind == history.KindGranted })
		for i := range r.events {
			if e := &r.events[i]; e.Process == granted.Process {
				e.From, e.To = e.From+5_000_000, e.To+5_000_000
			}
		}
		return ""
	}},
	{"a candidate has no turn", func(r *recorded) string {
		_, i := r.pick(is(history.KindStood))
		r.drop(i)
		return history.RuleLiveness
	}},
	{"a name is granted too late after the faults", func(r *recorded) string {
		calm, stood := r.find(is(history.KindCalm)), r.find(is(history.KindStood))
		for i := range r.events {
			if e := &r.events[i]; e.Kind == history.KindStood && e.Name == stood.Name {
				e.To = calm.To + calm.Left + 1
			}
		}
		return history.RuleLiveness
	}},
	{"nobody stands for a name", func(r *recorded) string {
		stood := r.find(is(history.KindStood)).Name
		r.events = slices.DeleteFunc(r.events, func(e history.Event) bool {
			return e.Name == stood && (e.Kind == history.KindStood || e.Kind == history.KindCandidate)
		})
		return history.RuleLiveness
	}},
}

func tokenOf(e *history.Event) int64 {
	if e.New != nil {
		return e.New.Token
	}
	return e.Token
}

// retoken gives a term another token, everywhere in the history.
func (r *recorded) retoken(name string, from, to int64) {
	for i := range r.events {
		e := &r.events[i]
		if e.Name != name {
			continue
		}
		for _, token := range []*int64{&e.Token, &e.Seen, &e.Fence} {
			if *token == from {
				*token = to
			}
		}
		for _, row := range []*history.Row{e.Old, e.New} {
			if row != nil && row.Token == from {
				row.Token = to
			}
		}
	}
}

// followed tells whether a client was told of the grant that followed that of a token.
func (r *recorded) followed(name string, token int64) bool {
	n := r.nextGrant(name, token)
	return n != nil && r.told(name, n.New.Token) != nil
}

func (r *recorded) seenAndFollowed(e *history.Event) bool {
	return e.Kind == history.KindAnswer && e.Seen > 0 && r.followed(e.Name, e.Seen)
}

// lastTrust is the last time that a client trusted a term.
func (r *recorded) lastTrust(of *history.Event) *history.Event {
	var found *history.Event
	for i := range r.events {
		e := &r.events[i]
		if e.Kind == history.KindTrusts && e.Client == of.Client && e.Name == of.Name && e.Token == of.Token && e.Left > 0 &&
			(found == nil || e.From > found.From) {
			found = e
		}
	}
	return found
}

// quiet tells whether the server did not crash between two times of the database's clock.
func (r *recorded) quiet(from, to int64) bool {
	clock := history.NewClock(r.events)
	since, _ := clock.Machine(from)
	_, until := clock.Machine(to)
	return r.find(func(e *history.Event) bool { return e.Kind == history.KindCrash && e.To >= since && e.From <= until }) == nil
}

// TestCheck_FindsWhatIsWrongInARealHistory spoils histories of real runs, at places that are drawn: LEASEHOLD_HISTORY for each kind,
// one by default. Where the clock is set, another rule than the one may find it.
func TestCheck_FindsWhatIsWrongInARealHistory(t *testing.T) {
	places := 1
	if text := os.Getenv("LEASEHOLD_HISTORY"); text != "" {
		var err error
		places, err = strconv.Atoi(text)
		require.NoError(t, err, "LEASEHOLD_HISTORY")
	}
	for _, name := range []string{steadyRun, steppedRun} {
		events := readRecorded(t, name)
		none(t, events)
		for _, c := range corruptions {
			t.Run(strings.ReplaceAll(name+" "+c.name, " ", "_"), func(t *testing.T) {
				t.Parallel()
				for place := range places {
					r := &recorded{copyOf(events), rand.New(rand.NewPCG(uint64(place), 7))}
					rule := c.spoil(r)
					violations := history.Check(r.events)
					require.NotEmpty(t, violations, "place %d", place)
					if rule != "" && name == steadyRun {
						require.True(t, slices.ContainsFunc(violations, func(v history.Violation) bool { return v.Rule == rule }),
							"place %d: only %v", place, violations)
					}
				}
			})
		}
	}
}

// TestCheck_AllowsWhatIsMissingInARealHistory: what a process that was killed did not write any more, and samples that nobody took,
// are no fault, wherever it is.
func TestCheck_AllowsWhatIsMissingInARealHistory(t *testing.T) {
	for _, name := range []string{steadyRun, steppedRun} {
		allowsWhatIsMissing(t, name)
	}
}

func allowsWhatIsMissing(t *testing.T, file string) {
	t.Helper()
	events := slices.DeleteFunc(readRecorded(t, file), func(e history.Event) bool {
		return e.Kind == history.KindCalm || e.Kind == history.KindCandidate || e.Kind == history.KindStood
	})
	none(t, events)
	d := rand.New(rand.NewPCG(3, 3))
	for name, keep := range map[string]func(e history.Event) bool{
		"steps of the clock that nobody noted": func(e history.Event) bool { return e.Kind != history.KindStep },
		"each file ends somewhere": func() func(history.Event) bool {
			ends := map[string]int64{}
			return func(e history.Event) bool {
				if e.Seq > 0 || e.Client == "run" || e.Client == "" {
					return true
				}
				if _, found := ends[e.Process]; !found {
					ends[e.Process] = e.From + d.Int64N(3_000_000)
				}
				return e.From < ends[e.Process]
			}
		}(),
		"half of the samples of trust":   func(e history.Event) bool { return e.Kind != history.KindTrusts || d.IntN(2) == 0 },
		"most samples of the clock":      func(e history.Event) bool { return e.Kind != history.KindClock || d.IntN(10) == 0 },
		"all samples of the clock":       func(e history.Event) bool { return e.Kind != history.KindClock },
		"all answers but grants":         func(e history.Event) bool { return e.Kind != history.KindAnswer || e.Token > 0 },
		"all releases":                   func(e history.Event) bool { return e.Kind != history.KindReleased },
		"what clients say of writes":     func(e history.Event) bool { return e.Write == "" || e.Seq > 0 },
		"all that clients say":           func(e history.Event) bool { return e.Seq > 0 || e.Kind == history.KindClock },
		"the machine's clock in records": func(e history.Event) bool { return true },
	} {
		var kept []history.Event
		for _, e := range events {
			if name == "the machine's clock in records" {
				e.Up = 0
			}
			if keep(e) {
				kept = append(kept, e)
			}
		}
		t.Run(strings.ReplaceAll(file+" "+name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			none(t, kept)
		})
	}
}

// TestCheck_AllowsAnyOrderOfLines: files are merged in any order.
func TestCheck_AllowsAnyOrderOfLines(t *testing.T) {
	t.Parallel()
	events := readRecorded(t, steadyRun)
	d := rand.New(rand.NewPCG(1, 2))
	d.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	none(t, events)
	slices.SortStableFunc(events, func(a, b history.Event) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	none(t, events)
}
