package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/leasehold-go/leasehold/internal/history"
)

// Names of the rules that look at what clients were told, on whatever server they asked. The record of the database is lost
// together with a timeline; these are not.
const (
	RuleToldOnce  = "a token is told once"
	RuleToldRises = "tokens told on one timeline rise"
	RuleTimelines = "tokens of a later timeline are above those of an earlier one"
	RuleNoStale   = "no grant by a former leader"
	RuleInTurn    = "confirmed writes are in token order"
	RuleSuffix    = "a failover loses the end of a timeline"
	RuleStaleGone = "what a former leader confirmed is gone"
	RuleRefused   = "what was refused is not there"
)

// surviving are history's rules about the record alone, which hold whatever was lost: it is the record of one timeline.
var surviving = []string{
	history.RuleRecord, history.RuleTokensRise, history.RuleNoOverlap, history.RuleWritesInTurn, history.RuleGrantFences,
	history.RuleNoRevival, history.RuleOwnRows,
}

// A Promise is what a cluster promises about a failover.
type Promise struct {
	// Lossless: no confirmed commit is lost, and a former leader confirms none. Else what it confirms while it does not know of
	// the failover is lost with its timeline.
	Lossless bool
}

// A Tally is what happened in a history.
type Tally struct {
	Grants, Writes, Refused, Unknown int // as clients were told
	LostGrants, LostWrites           int // confirmed, and not in the record
	StaleGrants, StaleWrites         int // confirmed by a former leader after the next had confirmed something
	StaleRefusals                    int // "held", naming a term of an earlier timeline than somebody had been granted by then

	// Unconfirmed are answers of "held" during a fault that name a grant which nobody was told of and which did not survive: a
	// commit whose wait for a replica was cut short by the end of its leader is seen there for a moment.
	Unconfirmed int

	// Overtaken are the terms that their holder still trusted when it was told of the next grant of the name to somebody else, because
	// the failover lost them; Overlap is for how long at most, in µs.
	Overtaken int
	Overlap   int64
}

// An Ack is a commit that a client was told of, and the timeline that it was on.
type Ack struct {
	history.Event
	Timeline int64
	Lost     bool
	Stale    bool // a commit on a later timeline was confirmed before it began
}

// TimelineText is how an event of a write says its timeline. The token of a grant has it.
func TimelineText(timeline int64) string { return fmt.Sprintf("timeline %d", timeline) }

// Acks are the confirmed grants and writes, by their beginning.
func Acks(events []history.Event) []Ack {
	grants, writes := map[string]bool{}, map[string]bool{}
	var acks []Ack
	for _, e := range events {
		switch {
		case e.Kind == history.KindWrite:
			writes[e.Write] = true
		case e.Kind == history.KindLease && e.New != nil:
			grants[key(e.Name, e.New.Token)] = true
		case e.Kind == history.KindAnswer && e.Token > 0:
			acks = append(acks, Ack{Event: e, Timeline: timelineOf(e.Token)})
		case e.Kind == history.KindWrote:
			timeline, _ := strconv.ParseInt(strings.TrimPrefix(e.Text, "timeline "), 10, 64)
			acks = append(acks, Ack{Event: e, Timeline: timeline})
		}
	}
	slices.SortStableFunc(acks, func(a, b Ack) int { return cmp.Compare(a.From, b.From) })
	sweep(acks, 0, func(a *Ack, latest int64) int64 {
		a.Stale = a.Timeline < latest
		return max(latest, a.Timeline)
	})
	for i := range acks {
		a := &acks[i]
		if a.Kind == history.KindWrote {
			a.Lost = !writes[a.Write]
		} else {
			a.Lost = !grants[key(a.Name, a.Token)]
		}
	}
	return acks
}

// timelineOf is the timeline that a token was granted on: an epoch is a base, a multiple of 1024, and the timeline less one.
func timelineOf(token int64) int64 { return token>>32%1024 + 1 }

func key(name string, token int64) string { return fmt.Sprint(token, " ", name) }

// sweep calls look for each ack with what the acks that had ended when it began amount to; look returns the amount with this one.
// acks are in the order of their beginning.
func sweep(acks []Ack, amount int64, look func(a *Ack, amount int64) int64) {
	type ended struct{ at, amount int64 }
	var open []ended // by their end
	for i := range acks {
		a := &acks[i]
		for len(open) > 0 && open[0].at < a.From {
			amount = max(amount, open[0].amount)
			open = open[1:]
		}
		own := look(a, amount)
		at, _ := slices.BinarySearchFunc(open, a.To, func(e ended, to int64) int { return cmp.Compare(e.at, to) })
		open = slices.Insert(open, at, ended{a.To, own})
	}
}

// Judge returns what happened and which promises were broken.
func Judge(events []history.Event, p Promise) (Tally, []history.Violation) {
	j := &judge{promise: p, events: events, acks: Acks(events)}
	j.count()
	j.overtaken()
	j.record()
	j.toldOnce()
	j.timelines()
	j.inOrder(RuleToldRises, history.KindAnswer, false, func(a Ack) string { return fmt.Sprint(a.Timeline, " ", a.Name) })
	j.inOrder(RuleInTurn, history.KindWrote, true, func(a Ack) string { return fmt.Sprint(a.Timeline, " ", a.Name) })
	j.inOrder(RuleInTurn, history.KindWrote, true, func(a Ack) string { // Over all timelines: what is left of them.
		if a.Lost {
			return ""
		}
		return "survived " + a.Name
	})
	j.stale()
	j.suffix()
	j.refused()
	return j.tally, j.found
}

type judge struct {
	promise Promise
	events  []history.Event
	acks    []Ack
	tally   Tally
	found   []history.Violation
}

func (j *judge) report(rule string, events []history.Event, format string, args ...any) {
	name := ""
	if len(events) > 0 {
		name = events[len(events)-1].Name
	}
	j.found = append(j.found, history.Violation{Rule: rule, Name: name, Text: fmt.Sprintf(format, args...), Events: events})
}

func (j *judge) count() {
	for _, a := range j.acks {
		stale, lost := 0, 0
		if a.Stale {
			stale = 1
		}
		if a.Lost {
			lost = 1
		}
		if a.Kind == history.KindWrote {
			j.tally.Writes, j.tally.StaleWrites, j.tally.LostWrites = j.tally.Writes+1, j.tally.StaleWrites+stale, j.tally.LostWrites+lost
		} else {
			j.tally.Grants, j.tally.StaleGrants, j.tally.LostGrants = j.tally.Grants+1, j.tally.StaleGrants+stale, j.tally.LostGrants+lost
		}
	}
	for _, e := range j.events {
		switch e.Kind {
		case history.KindRefused:
			j.tally.Refused++
		case history.KindUnknown:
			j.tally.Unknown++
		}
	}
}

// overtaken compares what holders trusted with when the next holder was told of its grant. Where nothing is lost, history's rule about
// trust finds none.
func (j *judge) overtaken() {
	next := map[string][]Ack{} // grants of a name
	for _, a := range j.acks {
		if a.Kind == history.KindAnswer {
			next[a.Name] = append(next[a.Name], a)
		}
	}
	terms := map[string]bool{}
	for _, e := range j.events {
		if e.Kind != history.KindTrusts || e.Left <= 0 {
			continue
		}
		for _, a := range next[e.Name] {
			if a.From > e.From {
				break
			}
			if a.Token > e.Token && a.To < e.From {
				terms[key(e.Name, e.Token)] = true
				j.tally.Overlap = max(j.tally.Overlap, e.From-a.To)
				break
			}
		}
	}
	j.tally.Overtaken = len(terms)
}

// record has package history judge what the database recorded, and, where nothing may be lost, all the rest as well.
//
// A former leader still answers questions that change nothing, so it may name a holder who is none any more. That is a late answer
// on the safe side, and no order fits it: it is left out and counted. So is one that names a grant that was never confirmed.
func (j *judge) record() {
	var kept []history.Event
	for _, e := range j.events {
		if e.Kind == history.KindAnswer && e.Seen > 0 && j.outdated(e) {
			j.tally.StaleRefusals++
			continue
		}
		if e.Kind == history.KindAnswer && e.Seen > 0 && j.unconfirmed(e) {
			j.tally.Unconfirmed++
			continue
		}
		kept = append(kept, e)
	}
	for _, v := range history.Check(kept) {
		if j.promise.Lossless || slices.Contains(surviving, v.Rule) {
			j.found = append(j.found, v)
		}
	}
}

// outdated tells whether an answer names a term of a timeline that was over: somebody had been told of a grant on a later one.
func (j *judge) outdated(answer history.Event) bool {
	for _, a := range j.acks {
		if a.From > answer.To {
			return false
		}
		if a.Kind == history.KindAnswer && a.Name == answer.Name && a.Timeline > timelineOf(answer.Seen) && a.To < answer.To {
			return true
		}
	}
	return false
}

// unconfirmed tells whether an answer names a grant that nobody was told of and that is not on the record, while a fault went on.
func (j *judge) unconfirmed(answer history.Event) bool {
	during := false
	for _, e := range j.events {
		switch {
		case e.Name == answer.Name && (e.Grants() && e.New.Token == answer.Seen || e.Kind == history.KindAnswer && e.Token == answer.Seen):
			return false
		case e.Kind == history.KindFault && e.From <= answer.To && e.To >= answer.From:
			during = true
		}
	}
	return during
}

// toldOnce: no two grants of a name, by whatever server and to whomever, have one token (invariant I1).
func (j *judge) toldOnce() {
	seen := map[string]history.Event{}
	for _, a := range j.acks {
		if a.Kind != history.KindAnswer {
			continue
		}
		k := key(a.Name, a.Token)
		if before, found := seen[k]; found {
			j.report(RuleToldOnce, []history.Event{before, a.Event}, "token %d was told to %q and to %q", a.Token, before.Client, a.Client)
		}
		seen[k] = a.Event
	}
}

// timelines: whenever they were told, grants of a later timeline have tokens above all of an earlier one: a former leader's are below
// those of the next (decision 1).
func (j *judge) timelines() {
	byTimeline := map[string][]Ack{}
	for _, a := range j.acks {
		if a.Kind == history.KindAnswer {
			byTimeline[a.Name] = append(byTimeline[a.Name], a)
		}
	}
	for _, list := range byTimeline {
		slices.SortFunc(list, func(a, b Ack) int { return cmp.Or(cmp.Compare(a.Timeline, b.Timeline), cmp.Compare(a.Token, b.Token)) })
		for i, a := range list {
			if i > 0 && a.Token <= list[i-1].Token {
				j.report(RuleTimelines, []history.Event{list[i-1].Event, a.Event}, "token %d of timeline %d is not above token %d of timeline %d",
					a.Token, a.Timeline, list[i-1].Token, list[i-1].Timeline)
			}
		}
	}
}

// inOrder: acks of a kind and a group have tokens in the order of time, if one had ended when the next began. Where one holder has
// several, equal ones will do.
func (j *judge) inOrder(rule string, kind history.Kind, equal bool, group func(Ack) string) {
	groups := map[string][]Ack{}
	for _, a := range j.acks {
		if g := group(a); a.Kind == kind && g != "" {
			groups[g] = append(groups[g], a)
		}
	}
	for _, list := range groups {
		sweep(list, 0, func(a *Ack, highest int64) int64 {
			if a.Token < highest || a.Token == highest && !equal {
				j.report(rule, []history.Event{a.Event}, "%s with token %d to %q on timeline %d, after one with %d", a.Kind, a.Token, a.Client,
					a.Timeline, highest)
			}
			return a.Token
		})
	}
}

// stale: a former leader, which does not know of the failover yet, may confirm commits, which are lost. One whose commits wait for a
// replica confirms none. Its tokens are of its own timeline, and so below all of the next.
func (j *judge) stale() {
	for _, a := range j.acks {
		switch {
		case a.Stale && j.promise.Lossless:
			j.report(RuleNoStale, []history.Event{a.Event}, "%s with token %d was confirmed on timeline %d, which was over", a.Kind, a.Token, a.Timeline)
		case a.Stale && !j.within(a):
			j.report(RuleNoStale, []history.Event{a.Event}, "%s with token %d was confirmed on timeline %d, and no leader was frozen or cut off",
				a.Kind, a.Token, a.Timeline)
		case a.Stale && !a.Lost:
			j.report(RuleStaleGone, []history.Event{a.Event}, "%s with token %d was confirmed on timeline %d, which was over, and is there",
				a.Kind, a.Token, a.Timeline)
		}
	}
}

// within tells whether an ack falls into a time in which a former leader may have been alive.
func (j *judge) within(a Ack) bool {
	return slices.ContainsFunc(j.events, func(e history.Event) bool {
		return e.Kind == history.KindFault && e.From <= a.To && a.From <= e.To &&
			(strings.HasPrefix(e.Text, faultFreeze) || strings.HasPrefix(e.Text, faultCut))
	})
}

// Faults that leave a former leader alive begin with these.
const (
	faultFreeze = "freeze"
	faultCut    = "cut"
)

// suffix: what a failover loses of a timeline is its end, of all names together: grants, fences and writes. If a commit is lost, all
// that began on its timeline after it had been confirmed is.
func (j *judge) suffix() {
	lost := map[int64]Ack{} // by timeline, the one that ended first
	for _, a := range j.acks {
		if first, found := lost[a.Timeline]; a.Lost && (!found || a.To < first.To) {
			lost[a.Timeline] = a
		}
	}
	for _, a := range j.acks {
		if first, found := lost[a.Timeline]; found && !a.Lost && a.From > first.To {
			j.report(RuleSuffix, []history.Event{first.Event, a.Event}, "%s with token %d is there, and %s with token %d, before it on timeline %d, is lost",
				a.Kind, a.Token, first.Kind, first.Token, a.Timeline)
		}
	}
}

// refused: of a transaction that was refused nothing is there.
func (j *judge) refused() {
	refused := map[string]history.Event{}
	for _, e := range j.events {
		if e.Kind == history.KindRefused {
			refused[e.Write] = e
		}
	}
	for _, e := range j.events {
		if before, found := refused[e.Write]; found && e.Kind == history.KindWrite {
			j.report(RuleRefused, []history.Event{before, e}, "write %q with token %d was refused", e.Write, e.Token)
		}
	}
}
