package model

import "time"

// A Mistake is built into the model on purpose: the checker has to find it, or it would not find it in the protocol either.
type Mistake struct {
	Name     string   // as lease.pml has it
	Violates string   // the invariant that fails first
	Flags    []string // bounds that are enough to find it
}

// Mistakes has at least one for each invariant: all that lease.pml has.
func Mistakes() []Mistake {
	failover := with("-DCLIENTS=1", "-DATTEMPTS=2", "-DSERVERS=2", "-DDEPOSED=0")
	restore := with("-DCLIENTS=1", "-DATTEMPTS=2", "-DSERVERS=3", "-DRESTORES=1", "-DDEPOSED=0")
	return []Mistake{
		{Name: "RENEW_WITHOUT_TOKEN", Violates: "I2_OnlyAcquireGrants", Flags: with("-DFAULTS=1")},
		{Name: "RENEW_EXPIRED", Violates: "I2_OnlyAcquireGrants", Flags: with()},
		{Name: "RENEW_UPSERTS", Violates: "I2_OnlyAcquireGrants", Flags: with("-DOPS=1")},
		{Name: "TAKE_OVER_BY_SNAPSHOT", Violates: "I9_OnlyAConfirmedGrantIsTrusted", Flags: with()},
		{Name: "TOKEN_FROM_SNAPSHOT", Violates: "I1_TokensRise", Flags: with("-DOPS=1")},
		{Name: "FENCE_LATER", Violates: "I3_AGrantFences", Flags: with("-DWRITERS=1")},
		{Name: "FENCE_FORGOTTEN", Violates: "I1_TokensRise", Flags: with("-DOPS=1")},
		{Name: "CHECK_WITHOUT_LOCK", Violates: "I3_AGrantFences", Flags: with("-DWRITERS=1")},
		{Name: "TRUST_FROM_REPLY", Violates: "I6_TrustEndsFirst", Flags: with()},
		{Name: "NO_MARGIN", Violates: "I6_TrustEndsFirst", Flags: with("-DDRIFT=1")},
		{Name: "RELEASE_BEFORE_END", Violates: "I6_TrustEndsFirst", Flags: with()},
		{Name: "PLAIN_COUNTER", Violates: "I1_TokensRise", Flags: failover},
		{Name: "ENTER_NEXT", Violates: "I1_TokensRise", Flags: restore},
		{Name: "LOCK_BEFORE_LOOKING", Violates: "I4_AFailedAttemptWritesNothing", Flags: with()},
		{Name: "REGRANT", Violates: "I9_OneTermAnAttempt", Flags: with("-DFAULTS=1")},
		{Name: "UNKNOWN_IS_GRANTED", Violates: "I9_OnlyAConfirmedGrantIsTrusted", Flags: with("-DFAULTS=1")},
		{Name: "FOUND_IS_FRESH", Violates: "I6_TrustEndsFirst", Flags: with("-DFAULTS=1")},
		{Name: "OUTRUN_IGNORED", Violates: "I1_TokensRise", Flags: with("-DOPS=1")},
		{Name: "RELEASE_BY_NAME", Violates: "I2_OnlyAcquireGrants", Flags: with("-DFAULTS=1")},
		{Name: "TIMELINE_ALONE", Violates: "I1_TokensRise", Flags: restore},
		{Name: "RAISE_ANYHOW", Violates: "I1_TokensRise", Flags: with("-DOPS=2")},
		{Name: "RAISE_BY_SNAPSHOT", Violates: "I10_ARaiseRevokes", Flags: with("-DOPS=1")},
		{Name: "SUPERSEDED_ENTERS", Violates: "I1_TokensRise", Flags: crossing()},
	}
}

// Search is the question that finds it.
func (m Mistake) Search() Search {
	return Search{Name: m.Name, Flags: m.Flags, Bug: numbers("bugs")[m.Name], Depth: 2000, Limit: 5 * time.Minute}
}
