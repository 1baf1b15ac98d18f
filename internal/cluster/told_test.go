package cluster_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/cluster"
	"github.com/leasehold-go/leasehold/internal/history"
)

// second is the lowest token of timeline 2, less one.
const second = int64(1) << 32

// A story is a failover by hand: what clients were told, and what the database that survived has recorded.
type story struct {
	seq    int64
	events []history.Event
}

func (s *story) add(e history.Event) { s.events = append(s.events, e) }

// told adds a grant that a client asked for and was told of.
func (s *story) told(name string, token, from, to int64) {
	s.add(history.Event{Kind: history.KindAnswer, Name: name, Token: token, From: from, To: to, Client: fmt.Sprint("c", token), Text: history.AnswerGranted})
}

// granted adds one to the record.
func (s *story) granted(name string, token, at int64) {
	free := at + 5
	row := &history.Row{Token: token, Holder: fmt.Sprint("c", token), Label: fmt.Sprint("c", token), Acquired: at, Renewed: at, Expires: &free}
	var old *history.Row
	for _, e := range s.events {
		if e.Kind == history.KindLease && e.Name == name {
			old = e.New
		}
	}
	s.seq++
	s.add(history.Event{Kind: history.KindFence, Name: name, Token: token, Seq: s.seq, At: at, Xid: at})
	s.seq++
	s.add(history.Event{Kind: history.KindLease, Name: name, Token: token, Seq: s.seq, At: at, Started: at, Xid: at, Old: old, New: row})
}

func (s *story) wrote(name string, token, timeline, from, to int64, id string) {
	s.add(history.Event{
		Kind: history.KindWrote, Name: name, Token: token, From: from, To: to, Write: id, Client: "c", Text: cluster.TimelineText(timeline),
	})
}

func (s *story) written(name string, token, fence int64, id string) {
	s.seq++
	s.add(history.Event{Kind: history.KindWrite, Name: name, Token: token, Fence: fence, Write: id, Seq: s.seq, At: 1})
}

// lossy has grants 1 and 2 on timeline 1, of which 2 is lost, and one on timeline 2. The former leader is frozen from 200 on, and
// grants 3 when it wakes.
func lossy() *story {
	s := &story{}
	s.told("a", 1, 100, 110)
	s.granted("a", 1, 105)
	s.wrote("a", 1, 1, 111, 115, "w1")
	s.written("a", 1, 1, "w1")
	s.told("a", 2, 120, 130)
	s.wrote("a", 2, 1, 131, 135, "lost")
	s.add(history.Event{Kind: history.KindFault, From: 200, To: 400, Text: "freeze: m1"})
	s.add(history.Event{Kind: history.KindCrash, From: 200, To: 400, Text: history.CrashLossy})
	s.told("a", second+1, 300, 310)
	s.granted("a", second+1, 305)
	s.wrote("a", second+1, 2, 311, 315, "w2")
	s.written("a", second+1, second+1, "w2")
	s.told("a", 3, 350, 360)
	s.wrote("a", 3, 1, 361, 365, "stale")
	s.add(history.Event{Kind: history.KindTrusts, Name: "a", Token: 2, From: 325, To: 326, Left: 10, Client: "c2"})
	s.add(history.Event{Kind: history.KindRefused, Name: "a", Token: 2, From: 320, To: 330, Write: "refused", Text: cluster.TimelineText(2)})
	s.add(history.Event{Kind: history.KindAnswer, Name: "a", Seen: 3, From: 366, To: 370, Client: "d", Text: history.AnswerHeld})
	s.add(history.Event{Kind: history.KindAnswer, Name: "b", Seen: 7, From: 210, To: 220, Client: "d", Text: history.AnswerHeld})
	return s
}

func TestJudge_ALossyFailoverBreaksNoPromise(t *testing.T) {
	t.Parallel()
	tally, found := cluster.Judge(lossy().events, cluster.Promise{})
	require.Empty(t, found)
	require.Equal(t, cluster.Tally{
		Grants: 4, Writes: 4, Refused: 1, LostGrants: 2, LostWrites: 2, StaleGrants: 1, StaleWrites: 1, StaleRefusals: 1,
		Unconfirmed: 1, Overtaken: 1, Overlap: 15,
	}, tally)
}

// TestJudge_FindsEachFault changes one thing in the lossy failover at a time.
func TestJudge_FindsEachFault(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault    string
		rule     string
		text     string
		lossless bool
		bad      func(*story)
	}{
		{"a lost token is granted again", cluster.RuleToldOnce, `token 2 was told to "c2" and to "c2"`, false, func(s *story) {
			s.told("a", 2, 320, 330)
		}},
		{"a token below one of its timeline", cluster.RuleToldRises, "answer with token 4294967296", false, func(s *story) {
			s.told("a", second, 320, 330)
		}},
		{"a former leader's token above the next leader's", cluster.RuleTimelines, "is not above token 4398046511105 of timeline 1", false, func(s *story) {
			s.told("a", 1024<<32+1, 370, 380)
		}},
		{"a grant by a former leader that is dead", cluster.RuleNoStale, "and no leader was frozen or cut off", false, func(s *story) {
			s.told("a", 4, 500, 510)
		}},
		{"a former leader's write that is there", cluster.RuleStaleGone, "which was over, and is there", false, func(s *story) {
			s.written("a", 3, 3, "stale")
		}},
		{"a write after a newer one, on the record", history.RuleWritesInTurn, "a write with token 1", false, func(s *story) {
			s.written("a", 1, second+1, "late")
		}},
		{"confirmed writes out of order on a timeline that is lost", cluster.RuleInTurn, "wrote with token 1", false, func(s *story) {
			s.wrote("a", 1, 1, 140, 145, "lost, too")
		}},
		{"confirmed writes out of order on what is left", cluster.RuleInTurn, "wrote with token 1", false, func(s *story) {
			s.wrote("a", 1, 3, 420, 425, "late")
			s.written("a", 1, 1, "late")
		}},
		{"a commit is lost and a later one is not", cluster.RuleSuffix, "is lost", false, func(s *story) {
			s.wrote("b", 1, 1, 140, 145, "later")
			s.written("b", 1, 1, "later")
		}},
		{"a refused write that is there", cluster.RuleRefused, `write "refused" with token 2`, false, func(s *story) {
			s.written("a", 2, second+1, "refused")
		}},
		{"a lost grant where none may be", history.RuleConfirmed, "was handed token 2", true, func(s *story) { s.noCrash() }},
		{"a lost write where none may be", history.RuleConfirmed, `the commit of "lost"`, true, func(s *story) { s.noCrash() }},
		{"a holder that never was, and no fault", history.RuleConfirmed, "was told that the holder has token 4294967305", true, func(s *story) {
			s.noCrash()
			s.add(history.Event{Kind: history.KindAnswer, Name: "a", Seen: second + 9, From: 500, To: 510, Client: "d", Text: history.AnswerHeld})
		}},
		{"a former leader that confirms where none may", cluster.RuleNoStale, "confirmed on timeline 1, which was over", true, func(*story) {}},
	} {
		t.Run(strings.ReplaceAll(c.fault, " ", "_"), func(t *testing.T) {
			t.Parallel()
			s := lossy()
			c.bad(s)
			_, found := cluster.Judge(s.events, cluster.Promise{Lossless: c.lossless})
			for _, v := range found {
				if v.Rule == c.rule && strings.Contains(v.Text, c.text) {
					return
				}
			}
			require.Fail(t, "not found", "%s: found only %v", c.fault, found)
		})
	}
}

// noCrash takes the failover's word back that commits may be lost.
func (s *story) noCrash() {
	for i := range s.events {
		if s.events[i].Kind == history.KindCrash {
			s.events[i].Text = ""
		}
	}
}
