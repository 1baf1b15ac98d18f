/*
 * The protocol of leases and fences, step by step as PostgreSQL makes it visible, for the model checker Spin.
 *
 * docs/model.md says what this shows, which step stands for which clause of which SQL file, and what is left out. One name is
 * modelled. Everything that can happen at any time is a process or an alternative of one: a client, a statement of it on
 * the server (Backend), a fenced transaction (Writer), the passage of time (Clock), an operator, crashes and failovers (Cluster).
 *
 * Time is relative: a timer counts the ticks that are left, so that states repeat and the search ends. A pause of any length is
 * a process that takes no step while the clock does.
 *
 * A transaction sees what is committed (cur), holds row locks (leaseLock, fenceX, fenceS), keeps what it writes to itself and
 * puts it into cur when it commits.
 *
 * BUG is a mistake that is built in to show that the checker would find it. GOAL is a state that should be reached: the assertion
 * on it fails, and its trail is an example. Both are numbers from the lists below; 0 is neither.
 */

/* ---- bounds: model.go sets them, these are defaults ---- */
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef SLOTS
#define SLOTS 2		/* statements of one client on their way or running */
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 1	/* holder ids that one client uses, one after the other */
#endif
#ifndef TTL
#define TTL 2
#endif
#ifndef MARGIN
#define MARGIN 1
#endif
#ifndef DRIFT
#define DRIFT 1		/* ticks that a client's clock may miss in one TTL */
#endif
#ifndef FAULTS
#define FAULTS 1	/* answers given up, crashes of clients and of the server, in total */
#endif
#ifndef OPS
#define OPS 0		/* interventions of an operator */
#endif
#ifndef WRITERS
#define WRITERS 0	/* fenced transactions at a time; writer w is of client w % CLIENTS */
#endif
#ifndef SERVERS
#define SERVERS 1	/* 1 + failovers and restores */
#endif
#ifndef RESTORES
#define RESTORES 0
#endif
#ifndef SYNC
#define SYNC 0		/* 1: commits wait for the standby */
#endif
#ifndef DEPOSED
#define DEPOSED 1	/* 1: the old primary may go on serving for a while */
#endif
#ifndef FENCED
#define FENCED 0	/* 1: the fence is made beforehand, at 0 (create.sql) */
#endif
#ifndef CROSSING
/* 1: server 1 has been promoted at the start. Client 1 stays with the old primary, and the writer of client 0 may go there. */
#define CROSSING 0
#endif
#ifndef STEP
#define STEP 4		/* 1024 in enter.sql and raise.sql */
#endif
#ifndef BUG
#define BUG 0
#endif
#ifndef GOAL
#define GOAL 0
#endif

#define SHIFT 3		/* 32 in acquire.sql */
#define FREE 255	/* expires_at is NULL */
#define NONE 255	/* no row */
#define OPERATOR 99

/* ---- bugs ---- */
#define RENEW_WITHOUT_TOKEN	1	/* renew.sql compares neither holder nor token */
#define RENEW_EXPIRED		2	/* renew.sql does not look at expires_at */
#define RENEW_UPSERTS		3	/* a renewal puts a missing row back */
#define TAKE_OVER_BY_SNAPSHOT	4	/* whether it is expired is decided before the row lock */
#define TOKEN_FROM_SNAPSHOT	5	/* the token is that of the lease in the snapshot + 1, and the fence is set to it */
#define FENCE_LATER		6	/* the fence is raised in a transaction after the grant's */
#define FENCE_FORGOTTEN		7	/* the new token does not look at the fence's row, and the fence is set to it */
#define CHECK_WITHOUT_LOCK	8	/* the fence check is a plain read */
#define TRUST_FROM_REPLY	9	/* trust counts from the answer, not from the question */
#define NO_MARGIN		10	/* the margin is 0, the drift is not */
#define RELEASE_BEFORE_END	11	/* the row is freed while the lease is still trusted */
#define PLAIN_COUNTER		12	/* no epoch */
#define ENTER_NEXT		13	/* a new cluster's base is the next number */
#define LOCK_BEFORE_LOOKING	14	/* acquire.sql locks the row, then looks whether it is held */
#define REGRANT			15	/* an attempt's second question grants again */
#define UNKNOWN_IS_GRANTED	16	/* an attempt without an answer is taken for a grant */
#define FOUND_IS_FRESH		17	/* a grant that was found is trusted for a whole TTL without a renewal */
#define RAISE_ANYHOW		18	/* the raise does not compare: it can lower the fence */
#define OUTRUN_IGNORED		19	/* a grant whose fence was raised past it is handed out */
#define RELEASE_BY_NAME		20	/* release.sql does not compare the holder */
#define TIMELINE_ALONE		21	/* epoch = timeline, without a base */
#define RAISE_BY_SNAPSHOT	22	/* raise.sql takes the leases to free from its snapshot */
#define SUPERSEDED_ENTERS	23	/* an old primary that meets a token of the next timeline takes it for a restore */

/* ---- goals: states that must be reachable, or the model shows nothing ---- */
#define GRANT_FIRST		1
#define GRANT_AFTER_RELEASE	2
#define GRANT_TAKES_OVER	3
#define ANSWER_HELD		4
#define ANSWER_FOUND		5
#define ANSWER_BUSY_FENCE	6
#define ANSWER_BUSY_ROW		7
#define ANSWER_OUTRUN		8
#define ANSWER_UNENTERED	9
#define RENEWED_ONCE		10
#define RENEW_REFUSED_LATE	11	/* arrives when another has the name */
#define RENEW_REFUSED_EXPIRED	12
#define RENEW_SKIPPED		13	/* the row is locked */
#define RELEASED_ONCE		14
#define RELEASE_REFUSED		15
#define GRANT_TOO_LATE		16	/* the answer arrives when nothing is left to trust */
#define GRANT_UNKNOWN		17	/* granted, and the client has given up the question */
#define GRANT_BY_LATE_STATEMENT	18	/* of an attempt that is over */
#define ORPHAN_REAPED		19
#define TRUST_RAN_OUT		20
#define CLOCK_LAGS		21
#define WRITE_COMMITTED		22
#define WRITE_REFUSED		23	/* by the first look */
#define WRITE_REFUSED_AFTER_WAIT	24
#define WRITE_SHARED_BY_TWO	25
#define WRITE_BY_EXPIRED	26	/* nobody took over: allowed */
#define SERVER_CRASHED		27
#define RELEASE_FORGOTTEN	28	/* by a crash */
#define CLIENT_CRASHED		29
#define FAILOVER_LOST_GRANT	30
#define FAILOVER_NEW_EPOCH	31	/* a grant on a promoted server */
#define DEPOSED_GRANTS		32	/* the old primary still grants */
#define RESTORE_ENTERED		34
#define ROW_DELETED		35
#define FENCE_DELETED		36
#define EPOCH_RAISED		37
#define FORCE_RELEASED		38
#define RAISE_FREED_NEW		39	/* a grant that committed while the raise waited is freed too */
#define SYNC_WAIT_CANCELLED	40
#define LOST_GRANT_WRITES	41	/* advance raises the fence to a token that the failover forgot */
#define RENEWED_AFTER_EXPIRY	42	/* the row was locked before, and the commit came after: allowed, as nobody could take it */
#define ANSWER_SUPERSEDED	43
#define WRITE_CROSSED		44	/* a token of the next primary raises the fence of the old one */

#ifdef REACH
/* The verification itself tells what it has reached, outside of the state. */
c_decl {
	static unsigned char was_there[64];
	static void arrived(int goal) { if (!was_there[goal]) { was_there[goal] = 1; printf("reached %d\n", goal); } }
}
#define REACHED(goal) c_code { arrived(goal); }
#define SAY(text, number)
#else
/* A search for a bug or a goal leaves a trail, and spin -t tells it as a story. */
#define REACHED(goal) printf(#goal); printf("\n"); assert(GOAL != goal)
#define SAY(text, number) printf(text, number);
#endif

#if SERVERS > 1
#define IF_MANY(x) x
#else
#define IF_MANY(x)
#endif

/* ---- the invariants of docs/guarantees.md: each bit is 1, and an assertion that names it fails when it is not ---- */
bit I1_TokensRise = 1;
bit I2_OnlyAcquireGrants = 1;
bit I2_LostIsFinal = 1;
bit I3_AGrantFences = 1;
bit I4_AFailedAttemptWritesNothing = 1;
bit I6_TrustEndsFirst = 1;
bit I9_OneTermAnAttempt = 1;
bit I9_OnlyAConfirmedGrantIsTrusted = 1;
bit I10_ARaiseRevokes = 1;
bit WithinBounds = 1;	/* tokens fit; not an invariant of the protocol */

#define HOLDS(invariant, condition) invariant = (condition); assert(invariant)

/* ---- the database ---- */

/* What one server has committed. */
typedef Image {
	byte holder;	/* pglock_leases: the attempt of the last grant; 0: there is no row */
	byte token;
	byte left;	/* ticks until expires_at; 0: expired; FREE */
	byte fence;	/* job_fences: token, or NONE */
	bit made;	/* turns whenever the fence's row is made anew: another row for who saw the old one */
	byte base0;	/* pglock_epochs of system identifier 0 */
	byte base1;	/* of system identifier 1, or NONE */
	/* not in the database: */
	byte top;	/* highest token granted in this history */
	byte floor	/* highest token that a committed transaction has fenced with */
}

Image cur[SERVERS];	/* what transactions see */
Image dur[SERVERS];	/* what a crash leaves */
#if SERVERS > 1 || SYNC
Image sby;		/* what the standby of the leading server has received */
#endif

byte leaseLock[SERVERS];	/* transaction that has the row of the lease locked, or its key while there is none */
byte fenceX[SERVERS];		/* the same of the fence: NO KEY UPDATE, UPDATE */
byte fenceS[SERVERS];		/* writers that have it locked FOR SHARE, a bit each */
bit deposed[SERVERS];		/* no longer the leading one */
bit down[SERVERS];		/* and switched off */
byte timeline[SERVERS];
byte system[SERVERS];
byte first[SERVERS];		/* not in the database: the first token granted there */
byte lead;
byte topAll;			/* not in the database: highest token granted anywhere, by a leading server */

/* ---- statements ---- */
#define BACKENDS (CLIENTS * SLOTS)
#define TXN(b) ((b) + 1)
#define TXNW(w) (BACKENDS + (w) + 1)

mtype = { ACQUIRE, RENEW, RELEASE };
mtype = { SENT, RUNNING, ANSWERED };
mtype = { GRANTED, FOUND, HELD, BUSY, UNENTERED, SUPERSEDED, OUTRUN, DONE, NOTHING, BROKEN };

mtype kind[BACKENDS];	/* 0: no statement */
mtype stage[BACKENDS];
mtype outcome[BACKENDS];
byte who[BACKENDS];	/* parameter: holder, the attempt */
byte given[BACKENDS];	/* parameter: token; and the one of the answer */
byte remaining[BACKENDS];	/* of the answer */
byte on[BACKENDS];	/* server */
bit gone[BACKENDS];	/* the client waits no more: it may be lost, cancelled, or run to its end */
bit dead[BACKENDS + WRITERS];	/* its server has crashed under it */
byte seenLeft[BACKENDS];	/* of the snapshot; it runs with the clock */
byte writeLeft[BACKENDS];	/* of the row version written, not committed yet; runs too */

/* ---- clients ---- */
mtype = { IDLE, ASK, WAIT, CONFIRM, HOLD, RENEWING, FREEING };

mtype phase[CLIENTS];
byte att[CLIENTS];	/* the attempt, its holder id; 0: none */
byte tok[CLIENTS];	/* of the lease */
byte trust[CLIENTS];	/* ticks of the client's own clock until trusted until */
byte since[CLIENTS];	/* ticks of it since the question was sent */
byte lag[CLIENTS];	/* ticks that it missed since the question from which trust counts */
byte lagAsked[CLIENTS];	/* and since the one that is open */
bit broken[CLIENTS];	/* an operator, not the protocol, has ended the term */
byte at[CLIENTS];	/* the server that it talks to */
byte orphans[CLIENTS];	/* attempts that the reaper frees, a bit each */
byte lost[CLIENTS];	/* not in the program: last token of which the client was told for good that it is lost */
byte last[CLIENTS];	/* the token that its code goes on to write with, however long ago it was granted */
byte used[CLIENTS];
byte faults = FAULTS;
byte ops = OPS;
byte restores = RESTORES;

#define ATT(c) ((c) * ATTEMPTS + used[c])
#define OWNER(a) (((a) - 1) / ATTEMPTS)
#define RUNS(left) ((left) > 0 && (left) != FREE)
#define MIN(a, b) ((a) < (b) -> (a) : (b))
#define MAX(a, b) ((a) > (b) -> (a) : (b))
#if BUG == NO_MARGIN
#define SAFE 0
#else
#define SAFE MARGIN
#endif

#if BUG == TRUST_FROM_REPLY
#define COUNTED(c) 0
#else
#define COUNTED(c) since[c]
#endif

#define WAITING(k) (phase[k] == WAIT || phase[k] == CONFIRM || phase[k] == RENEWING)
#define OR0(x) ((x) == NONE -> 0 : (x))
#define EPOCHS(im) (MAX(MAX((im.holder == 0 -> 0 : im.token >> SHIFT), (im.fence == NONE -> 0 : im.fence >> SHIFT)), MAX(OR0(im.base0), OR0(im.base1))))

inline copy(to, from) {
	to.holder = from.holder; to.token = from.token; to.left = from.left;
	to.fence = from.fence; to.made = from.made;
	to.base0 = from.base0; to.base1 = from.base1;
	to.top = from.top; to.floor = from.floor
}

/* flush is a commit that waits for the disk, and so for all before it. cancelled: the wait for the standby was given up. */
inline flush(s, cancelled) {
	copy(dur[s], cur[s]);
#if SYNC
	if
	:: s == lead && !cancelled -> copy(sby, cur[s])
	:: else
	fi
#endif
}

#define OWN(s, im) (system[s] == 0 -> im.base0 : im.base1)
#define OTHER(s, im) (system[s] == 0 -> im.base1 : im.base0)
/* acquire.sql, epoch: NONE if this cluster has not been entered, or another has a base as high. */
#if BUG == PLAIN_COUNTER
#define EPOCH(s, im) 0
#elif BUG == TIMELINE_ALONE
#define EPOCH(s, im) (timeline[s] - 1)
#else
#define EPOCH(s, im) (OWN(s, im) == NONE || (OTHER(s, im) != NONE && OTHER(s, im) >= OWN(s, im)) -> NONE : OWN(s, im) + timeline[s] - 1)
#endif

/* raised: WHERE f.token < EXCLUDED.token */
inline raise() {
	if
#if BUG != RAISE_ANYHOW && BUG != FENCE_FORGOTTEN && BUG != TOKEN_FROM_SNAPSHOT
#if BUG == OUTRUN_IGNORED
	:: cur[s].fence != NONE && cur[s].fence >= nTok -> outcome[b] = GRANTED
#else
	:: cur[s].fence != NONE && cur[s].fence >= nTok -> REACHED(ANSWER_OUTRUN); outcome[b] = OUTRUN
#endif
#endif
	:: else -> raises = 1; outcome[b] = GRANTED
	fi
}

/* ---- a statement on the server: one transaction of its own ---- */
proctype Backend(byte b) {
	byte s;		/* server */
	byte sTok;	/* the snapshot: token of the lease */
	byte sHolder;
	byte sFence;
	bit sMade;
	byte sEpoch;
	byte fTok;	/* token of the fence, under its lock */
	byte nTok;	/* token to write; 0: nothing is written to the lease */
	byte nHolder;
	bit raises;	/* the fence is written too */

start:	atomic {
		stage[b] == SENT;
		s = on[b];
		if
		:: gone[b] -> goto over			/* lost on the way */
		:: down[s] -> outcome[b] = BROKEN; goto over
		:: !down[s] ->
			stage[b] = RUNNING;
			if
			:: kind[b] == ACQUIRE -> goto acquire
			:: kind[b] == RENEW -> goto renew
			:: kind[b] == RELEASE -> goto release
			fi
		fi
	}

	/* acquire.sql */
acquire: /* the snapshot, and cluster and epoch by it */
	atomic {
		if
		:: dead[b] -> goto abort
		:: else
		fi;
		SAY("acquire takes its snapshot, for attempt %d\n", who[b])
		sTok = (cur[s].holder == 0 -> 0 : cur[s].token);
		sHolder = cur[s].holder;
		seenLeft[b] = (cur[s].holder == 0 -> FREE : cur[s].left);
		sFence = cur[s].fence;
		sMade = cur[s].made;
		sEpoch = EPOCH(s, cur[s])
	}
	/* seen, gate (always open here), fence, last: the condition on the clock, then FOR NO KEY UPDATE SKIP LOCKED */
	atomic {
		if
		:: dead[b] -> goto abort
		:: else
		fi;
#if BUG != LOCK_BEFORE_LOOKING
		if
		:: RUNS(seenLeft[b]) ->
			outcome[b] = (sHolder == who[b] -> FOUND : HELD);
			given[b] = sTok;
			if
#if BUG == REGRANT
			:: outcome[b] == FOUND
#else
			:: outcome[b] == FOUND -> REACHED(ANSWER_FOUND); goto answer
#endif
			:: outcome[b] == HELD -> REACHED(ANSWER_HELD); goto answer
			fi
		:: else
		fi;
#endif
		if
		:: sFence == NONE -> fTok = 0
		:: sFence != NONE && (fenceX[s] != 0 || fenceS[s] != 0) ->
			REACHED(ANSWER_BUSY_FENCE); outcome[b] = BUSY; goto answer
		:: sFence != NONE && fenceX[s] == 0 && fenceS[s] == 0 && (cur[s].fence == NONE || cur[s].made != sMade) ->
			outcome[b] = BUSY; goto answer	/* the row that was seen is gone */
		:: else ->
			fenceX[s] = TXN(b);
			HOLDS(I4_AFailedAttemptWritesNothing, !RUNS(seenLeft[b]) || sHolder == who[b]);
			fTok = cur[s].fence
		fi;
#if BUG == FENCE_FORGOTTEN || BUG == TOKEN_FROM_SNAPSHOT
		nTok = sTok;
#else
		nTok = MAX(sTok, fTok);
#endif
		if
#if SERVERS > 1 && BUG != SUPERSEDED_ENTERS && BUG != TIMELINE_ALONE && BUG != PLAIN_COUNTER
		/* its own base is sEpoch - timeline + 1 */
		:: sEpoch != NONE && (nTok >> SHIFT) > sEpoch && (nTok >> SHIFT) < sEpoch - timeline[s] + 1 + STEP ->
			REACHED(ANSWER_SUPERSEDED); outcome[b] = SUPERSEDED; SAY("acquire is superseded by a token of epoch %d\n", nTok >> SHIFT) goto abort
		:: sEpoch == NONE || (nTok >> SHIFT) >= sEpoch - timeline[s] + 1 + STEP ->
#else
		:: sEpoch == NONE || (nTok >> SHIFT) > sEpoch ->
#endif
			REACHED(ANSWER_UNENTERED); outcome[b] = UNENTERED; goto abort
		:: else
		fi;
		nTok = MAX(nTok, sEpoch << SHIFT) + 1;
		SAY("acquire has passed the fence; token to be: %d\n", nTok)
		HOLDS(WithinBounds, (nTok & 7) != 0 && nTok < 128);
		writeLeft[b] = TTL	/* of the row to insert: computed before the wait, if there is one */
	}
	/* granted: ON CONFLICT waits for the row, and decides by the version that it then sees */
	if
	:: atomic {
		!dead[b] && leaseLock[s] == 0 ->
		leaseLock[s] = TXN(b);
		HOLDS(I4_AFailedAttemptWritesNothing, !RUNS(seenLeft[b]) || sHolder == who[b]);
		if
		:: cur[s].holder == 0 ->
			REACHED(GRANT_FIRST)
#if BUG == TAKE_OVER_BY_SNAPSHOT
		:: cur[s].holder != 0 && !RUNS(seenLeft[b]) ->
#elif BUG == REGRANT
		:: cur[s].holder != 0 && (!RUNS(cur[s].left) || cur[s].holder == who[b]) ->
#else
		:: cur[s].holder != 0 && !RUNS(cur[s].left) ->
#endif
			if
			:: cur[s].left == FREE -> REACHED(GRANT_AFTER_RELEASE)
			:: else -> REACHED(GRANT_TAKES_OVER)
			fi;
#if BUG != TOKEN_FROM_SNAPSHOT
			nTok = MAX(cur[s].token + 1, nTok);
#endif
			writeLeft[b] = TTL
		:: else ->
			REACHED(ANSWER_BUSY_ROW); nTok = 0; outcome[b] = BUSY; goto linger
		fi;
		nHolder = who[b];
		remaining[b] = writeLeft[b];	/* RETURNING, before the commit */
		/* raised, if the fence is ours already: no wait */
#if BUG == FENCE_LATER
		if
		:: fenceX[s] == TXN(b) -> fenceX[s] = 0
		:: else
		fi;
		outcome[b] = GRANTED; goto commit
#else
		if
		:: fenceX[s] == TXN(b) -> raise(); goto commit
		:: else
		fi
#endif
	   }
	:: atomic { dead[b] -> goto abort }
	:: atomic { !dead[b] && leaseLock[s] != 0 -> outcome[b] = BUSY; nTok = 0; goto abort }	/* a timeout, or the victim of a deadlock */
	fi;
	/* raised: there was no fence in the snapshot; ON CONFLICT waits for whoever makes one */
	if
	:: atomic {
		!dead[b] && fenceX[s] == 0 && fenceS[s] == 0 ->
		fenceX[s] = TXN(b);
		raise();
		goto commit
	   }
	:: atomic { dead[b] -> goto abort }
	:: atomic { !dead[b] && (fenceX[s] != 0 || fenceS[s] != 0) -> outcome[b] = BUSY; nTok = 0; goto abort }
	fi;

commit:	/* the end of acquire.sql */
	atomic {
		if
		:: dead[b] -> nTok = 0; goto abort
		:: gone[b] -> nTok = 0; outcome[b] = NOTHING; goto abort	/* cancelled */
		:: !dead[b]
		fi;
		given[b] = nTok;
		SAY("acquire commits token %d\n", nTok)
		if
		:: outcome[b] == GRANTED ->
			/* I1: above all that was granted, on whatever server; a deposed one above its own, and below its successors' */
			if
			:: !deposed[s] -> HOLDS(I1_TokensRise, nTok > topAll && nTok > cur[s].top)
			:: else ->
				HOLDS(I1_TokensRise, nTok > cur[s].top IF_MANY(&& (s + 1 >= SERVERS || first[(s + 1) % SERVERS] == 0 || nTok < first[(s + 1) % SERVERS])));
				REACHED(DEPOSED_GRANTS)
			fi;
			topAll = MAX(topAll, nTok);
			if
			:: first[s] == 0 ->
				first[s] = nTok;
				if
				:: s > 0 -> REACHED(FAILOVER_NEW_EPOCH)
				:: else
				fi
			:: else
			fi;
			HOLDS(I9_OneTermAnAttempt, cur[s].holder != who[b] || !RUNS(cur[s].left));
			cur[s].top = nTok;
			if
			:: gone[b] && att[OWNER(who[b])] != who[b] -> REACHED(GRANT_BY_LATE_STATEMENT)
			:: gone[b] && att[OWNER(who[b])] == who[b] -> REACHED(GRANT_UNKNOWN)
			:: else
			fi
		:: else
		fi;
		cur[s].holder = nHolder; cur[s].token = nTok; cur[s].left = writeLeft[b];
		if
		:: raises ->
			if
			:: cur[s].fence == NONE -> cur[s].made = 1 - cur[s].made
			:: else
			fi;
			cur[s].fence = nTok
		:: else
		fi;
#if BUG != FENCE_LATER
		if
		:: outcome[b] == GRANTED -> cur[s].floor = MAX(cur[s].floor, nTok)
		:: else
		fi;
#else
		if
		:: outcome[b] == GRANTED -> cur[s].floor = MAX(cur[s].floor, nTok)
		:: else
		fi;
#endif
		if
		:: SYNC && gone[b] -> REACHED(SYNC_WAIT_CANCELLED); flush(s, true)
		:: !SYNC || !gone[b] -> flush(s, false)
		fi;
		leaseLock[s] = 0;
		if
		:: fenceX[s] == TXN(b) -> fenceX[s] = 0
		:: else
		fi;
#if BUG != FENCE_LATER
		goto answer
#endif
	}
#if BUG == FENCE_LATER
	atomic {
		if
		:: dead[b] -> goto abort
		:: !dead[b] && fenceX[s] == 0 && fenceS[s] == 0 ->
			if
			:: cur[s].fence == NONE || cur[s].fence < nTok -> cur[s].fence = nTok; flush(s, false)
			:: else
			fi;
			goto answer
		fi
	}
#endif

	/* renew.sql */
renew:	atomic {
		if
		:: dead[b] -> goto abort
		:: !dead[b] && leaseLock[s] != 0 -> REACHED(RENEW_SKIPPED); outcome[b] = NOTHING; goto answer
		:: !dead[b] && leaseLock[s] == 0 ->
			if
#if BUG == RENEW_WITHOUT_TOKEN
			:: cur[s].holder != 0 && RUNS(cur[s].left) ->
#elif BUG == RENEW_EXPIRED
			:: cur[s].holder == who[b] && cur[s].token == given[b] && cur[s].left != FREE ->
#elif BUG == RENEW_UPSERTS
			:: (cur[s].holder == who[b] && cur[s].token == given[b] && RUNS(cur[s].left)) || cur[s].holder == 0 ->
#else
			:: cur[s].holder == who[b] && cur[s].token == given[b] && RUNS(cur[s].left) ->
#endif
				/* I2: what a renewal may touch is the running term of its own holder and token */
				HOLDS(I2_OnlyAcquireGrants, cur[s].holder == who[b] && cur[s].token == given[b] && RUNS(cur[s].left));
				leaseLock[s] = TXN(b); writeLeft[b] = TTL; SAY("renew has the row of token %d\n", given[b])
			:: else ->
				if
				:: cur[s].holder == who[b] && cur[s].left == 0 -> REACHED(RENEW_REFUSED_EXPIRED)
				:: cur[s].holder != 0 && cur[s].holder != who[b] -> REACHED(RENEW_REFUSED_LATE)
				:: else
				fi;
				outcome[b] = NOTHING; goto answer
			fi
		fi
	}
	atomic {
		if
		:: dead[b] -> goto abort
		:: gone[b] -> outcome[b] = NOTHING; goto abort	/* cancelled */
		:: !dead[b]
		fi;
		HOLDS(I2_LostIsFinal, lost[OWNER(who[b])] != given[b]);
		HOLDS(I2_OnlyAcquireGrants, cur[s].holder == who[b] && cur[s].token == given[b] && cur[s].left != FREE);
		if
		:: cur[s].left == 0 -> REACHED(RENEWED_AFTER_EXPIRY)
		:: else
		fi;
		cur[s].left = writeLeft[b];
		if
		:: SYNC && gone[b] -> flush(s, true)
		:: !SYNC || !gone[b] -> flush(s, false)
		fi;
		leaseLock[s] = 0; outcome[b] = DONE; SAY("renew commits, token %d\n", given[b]) REACHED(RENEWED_ONCE); goto answer
	}

	/* release.sql: waits for the row; its commit does not wait for the disk */
release:
	if
	:: atomic {
		!dead[b] && leaseLock[s] == 0 ->
		if
#if BUG == RELEASE_BY_NAME
		:: cur[s].holder != 0 && cur[s].left != FREE ->
#else
		:: cur[s].holder == who[b] && cur[s].token == given[b] && cur[s].left != FREE ->
#endif
			leaseLock[s] = TXN(b); SAY("release has the row of token %d\n", cur[s].token)
		:: else ->
			if
			:: cur[s].holder != 0 && cur[s].holder != who[b] -> REACHED(RELEASE_REFUSED)
			:: else
			fi;
			outcome[b] = NOTHING; goto answer
		fi
	   }
	:: atomic { dead[b] -> goto abort }
	:: atomic { !dead[b] && leaseLock[s] != 0 && gone[b] -> outcome[b] = NOTHING; goto abort }
	fi;
	atomic {
		if
		:: dead[b] -> goto abort
		:: !dead[b]
		fi;
		HOLDS(I2_OnlyAcquireGrants, cur[s].holder == who[b] && cur[s].token == given[b]);
		cur[s].left = FREE; leaseLock[s] = 0; outcome[b] = DONE; SAY("release commits, token %d\n", given[b]) REACHED(RELEASED_ONCE); goto answer
	}

linger:	true;	/* a step, so that others see the locks for a moment */
abort:	atomic {
		if
		:: dead[b] -> outcome[b] = BROKEN	/* its locks went with the server */
		:: else ->
			if
			:: leaseLock[s] == TXN(b) -> leaseLock[s] = 0
			:: else
			fi;
			if
			:: fenceX[s] == TXN(b) -> fenceX[s] = 0
			:: else
			fi
		fi;
		given[b] = 0
	}

answer:	/* the answer is there; the client reads it when it gets to it, or never */
over:	atomic {
		dead[b] = 0; s = 0; sTok = 0; sHolder = 0; sFence = 0; sMade = 0; sEpoch = 0; fTok = 0; nTok = 0; nHolder = 0; raises = 0;
		seenLeft[b] = 0; writeLeft[b] = 0;
		if
		:: gone[b] -> stage[b] = 0; kind[b] = 0; outcome[b] = 0; who[b] = 0; given[b] = 0; remaining[b] = 0; on[b] = 0; gone[b] = 0
		:: else -> stage[b] = ANSWERED
		fi;
		goto start
	}
}

/* ---- a fenced transaction: begin, check, work, commit ---- */
#if WRITERS
proctype Writer(byte w) {
	byte s;
	byte t;
	bit shared;

begin:	/* the first look, by the snapshot */
	atomic {
		last[w % CLIENTS] != 0 && !down[at[w % CLIENTS]] ->
		s = at[w % CLIENTS]; t = last[w % CLIENTS]; dead[BACKENDS + w] = 0;
#if CROSSING
		/* its connection for writing may not have noticed the failover. Only advance can raise the fence there */
		if
		:: true
		:: !down[0] -> s = 0
		fi;
#else
		if
		:: shared = 0
		:: shared = 1
		fi;
#endif
		SAY("writer begins, with token %d\n", t)
		if
		:: cur[s].fence == NONE || cur[s].fence > t ->
			if
			:: cur[s].fence != NONE -> REACHED(WRITE_REFUSED)
			:: else
			fi;
			goto over
		:: else
		fi
	}
	/* the lock, and the newest version under it */
	if
#if BUG == CHECK_WITHOUT_LOCK
	:: atomic { !dead[BACKENDS + w] ->
		if
		:: cur[s].fence != NONE && cur[s].fence <= t
		:: else -> goto over
		fi
	   }
#else
	:: atomic {
		!dead[BACKENDS + w] && !down[s] && fenceX[s] == 0 && (shared || fenceS[s] == 0) ->
		if
		:: shared -> fenceS[s] = fenceS[s] | (1 << w); SAY("writer has the fence shared, token %d\n", t)
		:: else -> fenceX[s] = TXNW(w); SAY("writer has the fence, token %d\n", t)
		fi;
		if
		:: cur[s].fence == NONE || cur[s].fence > t -> REACHED(WRITE_REFUSED_AFTER_WAIT); goto linger
		:: shared && cur[s].fence < t -> goto rollback	/* not raised: no pass */
		:: else
		fi;
		if
		:: shared && (fenceS[s] & (fenceS[s] - 1)) != 0 -> REACHED(WRITE_SHARED_BY_TWO)
		:: else
		fi
	   }
#endif
	:: atomic { dead[BACKENDS + w] || down[s] -> goto over }
	fi;
	/* COMMIT, whenever it comes */
	atomic {
		if
		:: dead[BACKENDS + w] || down[s] -> goto over
		:: !dead[BACKENDS + w] && !down[s] -> goto rollback	/* the client crashes, or the bound of the transaction is over */
		:: !dead[BACKENDS + w] && !down[s]
		fi;
		SAY("writer commits, token %d\n", t)
		/* I3: no grant, no later write and no operator's raise has come before it */
		HOLDS(I3_AGrantFences, t >= cur[s].floor && t >= cur[s].top);
		REACHED(WRITE_COMMITTED);
		if
		:: deposed[s]
		:: !deposed[s] && cur[s].holder != 0 && cur[s].token == t && cur[s].left == 0 -> REACHED(WRITE_BY_EXPIRED)
		:: !deposed[s] && t > cur[s].top -> REACHED(LOST_GRANT_WRITES)
		:: else
		fi;
		if
		:: !shared ->
			if
			:: s < lead && cur[s].fence < t && (t >> SHIFT) > EPOCH(s, cur[s]) -> REACHED(WRITE_CROSSED)
			:: else
			fi;
			cur[s].fence = t
		:: else
		fi;
		cur[s].floor = MAX(cur[s].floor, t);
		flush(s, false);
		goto rollback
	}
linger:	true;	/* the refused check has locked the row all the same */
rollback:
	atomic {
		if
		:: dead[BACKENDS + w]
		:: else ->
			fenceS[s] = fenceS[s] & (255 - (1 << w));
			if
			:: fenceX[s] == TXNW(w) -> fenceX[s] = 0
			:: else
			fi
		fi
	}
over:	atomic { dead[BACKENDS + w] = 0; s = 0; t = 0; shared = 0; goto begin }
}
#endif

/* ---- a process that wants the name: attempts one after the other ---- */
inline send(c, k, a, t) {
	kind[b] = k; stage[b] = SENT; who[b] = a; given[b] = t; on[b] = at[c];
	since[c] = 0; lagAsked[c] = 0
}

/* take is when an answer has been read. */
inline take() {
	stage[b] = 0; kind[b] = 0; outcome[b] = 0; who[b] = 0; given[b] = 0; remaining[b] = 0; on[b] = 0
}

/* leave is when no answer is waited for any more. */
inline leave() {
	if
	:: stage[b] == ANSWERED -> take()
	:: else -> gone[b] = 1
	fi
}

/* What the database says of a term that its client begins to trust. With a synchronous standby: what that one says. */
#if SYNC
#define SURE(c, t) (broken[c] || (dur[at[c]].holder == att[c] && dur[at[c]].token == t && (at[c] != lead || (sby.holder == att[c] && sby.token == t))))
#else
#define SURE(c, t) (broken[c] || SERVERS > 1 || (dur[at[c]].holder == att[c] && dur[at[c]].token == t))
#endif

inline quit(c) {
	att[c] = 0; tok[c] = 0; trust[c] = 0; since[c] = 0; lag[c] = 0; lagAsked[c] = 0; broken[c] = 0; phase[c] = IDLE; open = 0; b = 0
}

inline giveUp(c) {
	if
	:: open -> orphans[c] = orphans[c] | (1 << (att[c] - 1))
	:: else
	fi;
	quit(c)
}

/* enter.sql. Two at once: the second waits for the row of the first, and sees it good enough. */
inline enter(s) {
	if
	:: EPOCHS(cur[s]) == NONE -> i = 0
#if BUG == ENTER_NEXT
	:: else -> i = EPOCHS(cur[s]) + 1
#else
	:: else -> i = (EPOCHS(cur[s]) / STEP + 1) * STEP
#endif
	fi;
	if
	:: OWN(s, cur[s]) == NONE || OWN(s, cur[s]) + timeline[s] - 1 < EPOCHS(cur[s]) || (OTHER(s, cur[s]) != NONE && OWN(s, cur[s]) <= OTHER(s, cur[s])) ->
		if
		:: OWN(s, cur[s]) != NONE -> i = MAX(i, OWN(s, cur[s]))
		:: else
		fi;
		if
		:: system[s] == 0 -> cur[s].base0 = i
		:: else -> cur[s].base1 = i; REACHED(RESTORE_ENTERED)
		fi;
		flush(s, false)
	:: else
	fi
}

/* become begins a term: trust counts from before the question, over what the database says is left. */
inline become(c, t, over) {
	if
	:: (over) > SAFE + COUNTED(c) ->
		tok[c] = t; last[c] = t; trust[c] = (over) - SAFE - COUNTED(c); lag[c] = lagAsked[c]; phase[c] = HOLD;
		SAY("client holds, with token %d\n", t)
		HOLDS(I9_OnlyAConfirmedGrantIsTrusted, SURE(c, t))
	:: else ->
		REACHED(GRANT_TOO_LATE); orphans[c] = orphans[c] | (1 << (att[c] - 1)); quit(c)
	fi;
	since[c] = 0; lagAsked[c] = 0
}


#define SLOT(c) ((c) * SLOTS)
#if SLOTS > 2
#define FREESLOT(c) (kind[SLOT(c)] == 0 || kind[SLOT(c) + 1] == 0 || kind[SLOT(c) + 2] == 0)
#define CHOOSE(c) (kind[SLOT(c)] == 0 -> SLOT(c) : (kind[SLOT(c) + 1] == 0 -> SLOT(c) + 1 : SLOT(c) + 2))
#elif SLOTS > 1
#define FREESLOT(c) (kind[SLOT(c)] == 0 || kind[SLOT(c) + 1] == 0)
#define CHOOSE(c) (kind[SLOT(c)] == 0 -> SLOT(c) : SLOT(c) + 1)
#else
#define FREESLOT(c) (kind[SLOT(c)] == 0)
#define CHOOSE(c) SLOT(c)
#endif

proctype Client(byte c) {
	byte b;		/* the statement that is waited for */
	bit open;	/* a question of this attempt got no answer: it may still arrive */
	byte i;

	do
	/* acquire.go, newAttempt */
	:: atomic {
		phase[c] == IDLE && used[c] < ATTEMPTS ->
		used[c]++; att[c] = ATT(c); SAY("client wants the name, as attempt %d\n", att[c]) broken[c] = 0; phase[c] = ASK
	   }
	/* ask */
	:: atomic { phase[c] == ASK && FREESLOT(c) -> b = CHOOSE(c); send(c, ACQUIRE, att[c], 0); phase[c] = WAIT; SAY("client asks: acquire, attempt %d\n", att[c]) }
	/* what the answer means */
	:: atomic {
		phase[c] == WAIT && stage[b] == ANSWERED ->
		i = given[b];
		if
		:: outcome[b] == GRANTED ->
#if BUG == TRUST_FROM_REPLY
			i = given[b]; take(); become(c, i, TTL)
#else
			since[c] = MIN(TTL, since[c] + TTL - MIN(remaining[b], TTL)); take(); become(c, i, TTL)
#endif
		:: outcome[b] == FOUND ->
			take();
#if BUG == FOUND_IS_FRESH
			since[c] = 0; lagAsked[c] = 0; become(c, i, TTL)
#else
			send(c, RENEW, att[c], i); phase[c] = CONFIRM
#endif
		:: outcome[b] == UNENTERED ->
			take(); since[c] = 0; lagAsked[c] = 0; enter(at[c]); phase[c] = ASK; b = 0
		:: outcome[b] == OUTRUN ->
			take(); orphans[c] = orphans[c] | (1 << (att[c] - 1)); quit(c)
		:: outcome[b] == BROKEN || outcome[b] == NOTHING || outcome[b] == BUSY || outcome[b] == SUPERSEDED || outcome[b] == HELD ->
			if
			:: outcome[b] == BROKEN || outcome[b] == NOTHING -> open = 1
			:: else
			fi;
			take(); since[c] = 0; lagAsked[c] = 0; b = 0;
			if
			:: phase[c] = ASK
			:: giveUp(c)
			fi
		fi;
		i = 0
	   }
	:: atomic {
		phase[c] == CONFIRM && stage[b] == ANSWERED ->
		i = given[b];
		if
		:: outcome[b] == DONE -> take(); become(c, i, TTL)
		:: else -> open = 1; take(); since[c] = 0; lagAsked[c] = 0; b = 0; phase[c] = ASK
		fi;
		i = 0
	   }
	/* the request timeout, or a broken connection: the outcome is unknown */
	:: atomic {
		(phase[c] == WAIT || phase[c] == CONFIRM) && stage[b] != 0 && faults > 0 ->
		faults--;
#if BUG == UNKNOWN_IS_GRANTED
		leave(); become(c, topAll, TTL);
#else
		SAY("client gives the question up, attempt %d\n", att[c])
		leave(); open = 1; since[c] = 0; lagAsked[c] = 0; b = 0;
		if
		:: phase[c] = ASK
		:: giveUp(c)
		fi
#endif
	   }
	/* renew.go */
	:: atomic { phase[c] == HOLD && trust[c] > 0 && FREESLOT(c) -> b = CHOOSE(c); send(c, RENEW, att[c], tok[c]); phase[c] = RENEWING; SAY("client asks: renew, token %d\n", tok[c]) }
	:: atomic {
		phase[c] == RENEWING && stage[b] == ANSWERED ->
		if
		:: outcome[b] == DONE && trust[c] > 0 && TTL > SAFE + COUNTED(c) && TTL - SAFE - COUNTED(c) > trust[c] ->
			trust[c] = TTL - SAFE - COUNTED(c); lag[c] = lagAsked[c]; SAY("client was renewed; ticks of trust: %d\n", trust[c])
		:: else
		fi;
		if
		:: outcome[b] == NOTHING && !(cur[at[c]].holder == att[c] && cur[at[c]].token == tok[c] && RUNS(cur[at[c]].left)) ->
			/* inspect.sql: lost, for good */
			if
			:: cur[at[c]].holder == att[c] && cur[at[c]].token == tok[c] && cur[at[c]].left == 0	/* expired; see RENEWED_AFTER_EXPIRY */
			:: else -> lost[c] = tok[c]
			fi;
			take(); quit(c)
		:: else -> take(); since[c] = 0; lagAsked[c] = 0; b = 0; phase[c] = HOLD
		fi
	   }
	:: atomic { phase[c] == RENEWING && stage[b] != 0 && faults > 0 -> faults--; leave(); since[c] = 0; lagAsked[c] = 0; b = 0; phase[c] = HOLD }
	/* lease.go, expire: the process has stopped */
	:: atomic {
		(phase[c] == HOLD || phase[c] == RENEWING) && trust[c] == 0 ->
		REACHED(TRUST_RAN_OUT);
		SAY("client no longer trusts token %d\n", tok[c])
		if
		:: phase[c] == RENEWING -> leave()
		:: else
		fi;
		quit(c)
	   }
	/* release.go, also of a lease that has run out */
	:: atomic {
		phase[c] == HOLD && FREESLOT(c) ->
		b = CHOOSE(c);
		SAY("client asks: release, token %d\n", tok[c])
		send(c, RELEASE, att[c], tok[c]); phase[c] = FREEING;
		since[c] = 0; lagAsked[c] = 0;
#if BUG != RELEASE_BEFORE_END
		lag[c] = 0; trust[c] = 0
#endif
	   }
	:: atomic {
		phase[c] == FREEING && stage[b] == ANSWERED ->
		if
		:: open || outcome[b] == BROKEN -> orphans[c] = orphans[c] | (1 << (att[c] - 1))
		:: else
		fi;
		take(); quit(c)
	   }
	:: atomic {
		phase[c] == FREEING && stage[b] != 0 && faults > 0 ->
		faults--; leave(); orphans[c] = orphans[c] | (1 << (att[c] - 1)); quit(c)
	   }
	/* reaper.go and reap.sql: by the holder alone, past a row that is locked; or it gives up */
	:: atomic {
		orphans[c] != 0 && !down[at[c]] && leaseLock[at[c]] == 0 && cur[at[c]].holder != 0 && cur[at[c]].left != FREE &&
			(orphans[c] & (1 << (cur[at[c]].holder - 1))) != 0 ->
		REACHED(ORPHAN_REAPED);
		orphans[c] = orphans[c] & (255 - (1 << (cur[at[c]].holder - 1)));
		SAY("reaper frees the row of attempt %d\n", cur[at[c]].holder)
		cur[at[c]].left = FREE
	   }
	:: atomic { orphans[c] != 0 && phase[c] == IDLE && used[c] == ATTEMPTS -> orphans[c] = 0 }
	/* kill -9 */
	:: atomic {
		phase[c] != IDLE && faults > 0 ->
		faults--; REACHED(CLIENT_CRASHED);
		SAY("client crashes, attempt %d\n", att[c])
		if
		:: phase[c] == WAIT || phase[c] == CONFIRM || phase[c] == RENEWING || phase[c] == FREEING -> leave()
		:: else
		fi;
		orphans[c] = 0; quit(c)
	   }
#if SERVERS > 1
	/* the pool connects to where the leading server is now */
	:: atomic { (phase[c] == ASK || phase[c] == HOLD || phase[c] == IDLE) && at[c] != lead && !(CROSSING && c == 1) -> at[c] = lead }
#endif
	od
}


/* ---- what else can happen ---- */

/* Time passes everywhere at once, but a client's clock may miss a tick. */
proctype Clock() {
	byte k;
	do
	:: atomic {
		SAY("clock ticks; ticks that the row has left before: %d\n", cur[lead].left)
		k = 0;
		do
		:: k < SERVERS ->
			if
			:: RUNS(cur[k].left) -> cur[k].left--
			:: else
			fi;
			if
			:: RUNS(dur[k].left) -> dur[k].left--
			:: else
			fi;
			k++
		:: else -> break
		od;
#if SERVERS > 1 || SYNC
		if
		:: RUNS(sby.left) -> sby.left--
		:: else
		fi;
#endif
		k = 0;
		do
		:: k < BACKENDS ->
			if
			:: RUNS(seenLeft[k]) -> seenLeft[k]--
			:: else
			fi;
			if
			:: RUNS(writeLeft[k]) -> writeLeft[k]--
			:: else
			fi;
			k++
		:: else -> break
		od;
		k = 0;
		do
		:: k < CLIENTS ->
			if
			:: (trust[k] > 0 || (stage[SLOT(k)] != 0 && since[k] < TTL && WAITING(k))) && lag[k] < DRIFT && lagAsked[k] < DRIFT ->
				REACHED(CLOCK_LAGS); SAY("clock is not seen by client %d\n", k)
				if
				:: trust[k] > 0 -> lag[k]++
				:: else
				fi;
				if
				:: WAITING(k) -> lagAsked[k]++
				:: else
				fi
			:: true ->
				if
				:: trust[k] > 0 -> trust[k]--
				:: else
				fi;
				if
				:: trust[k] == 0 -> lag[k] = 0
				:: else
				fi;
				if
				:: WAITING(k) && since[k] < TTL -> since[k]++
				:: else
				fi
			fi;
			k++
		:: else -> break
		od;
		k = 0
	   }
	od
}

/* I6: while a client trusts its lease the row says so, unless an operator has ended the term. */
#define TRUSTED(c) (trust[c] == 0 || broken[c] || (cur[at[c]].holder == att[c] && cur[at[c]].token == tok[c] && RUNS(cur[at[c]].left)))
#if SERVERS == 1
proctype Trust(byte c) {
	atomic { !TRUSTED(c) -> HOLDS(I6_TrustEndsFirst, false) }
}
#endif

#if OPS
/* mark: what is not the protocol's doing is no violation of I6. */
inline mark(s) {
	k = 0;
	do
	:: k < CLIENTS ->
		if
		:: att[k] != 0 && att[k] == cur[s].holder -> broken[k] = 1
		:: else
		fi;
		k++
	:: else -> k = 0; break
	od
}

proctype Operator() {
	byte k;
	byte s;
	byte base;
	bit wasFree;	/* by the snapshot */
	bit wasFence;
	bit force;

idle:	if
	/* prune, or a row deleted by hand; never both rows of a name */
	:: atomic {
		ops > 0 && leaseLock[lead] == 0 && cur[lead].holder != 0 && cur[lead].fence != NONE && cur[lead].fence >= cur[lead].token ->
		ops--; REACHED(ROW_DELETED); mark(lead);
		cur[lead].holder = 0; cur[lead].token = 0; cur[lead].left = FREE; flush(lead, false); goto idle
	   }
	:: atomic {
		ops > 0 && fenceX[lead] == 0 && fenceS[lead] == 0 && cur[lead].fence != NONE && cur[lead].holder != 0 && cur[lead].token >= cur[lead].fence ->
		ops--; REACHED(FENCE_DELETED);
		cur[lead].fence = NONE; flush(lead, false); goto idle
	   }
	/* raise.sql: the epoch by the snapshot, the fence, then the lease by its version under the row lock */
	:: atomic {
		ops > 0 && cur[lead].holder != 0 ->
		ops--; s = lead;
		if
		:: force = 0
		:: force = 1
		fi;
		base = (MAX(EPOCHS(cur[s]), OWN(s, cur[s]) + timeline[s] - 1) / STEP + 1) * STEP;
		wasFree = (cur[s].left == FREE); wasFence = (cur[s].fence != NONE)
	   }
	fi;
	atomic {
		fenceX[s] == 0 && fenceS[s] == 0 ->
		if
		:: wasFence && cur[s].fence != NONE -> fenceX[s] = OPERATOR
		:: else -> wasFence = 0
		fi
	}
	atomic {
		leaseLock[s] == 0 ->
#if BUG == RAISE_BY_SNAPSHOT
		if
		:: force || !wasFree -> leaseLock[s] = OPERATOR
		:: else
		fi
#else
		leaseLock[s] = OPERATOR
#endif
	}
	atomic {
		if
#if BUG != RAISE_BY_SNAPSHOT
		:: leaseLock[s] != OPERATOR || (wasFence && fenceX[s] != OPERATOR)	/* its server has crashed under it */
		:: else ->
		if
#endif
		/* force release: the row is freed, token and fence go up */
		:: force && cur[s].holder != 0 && wasFence ->
			REACHED(FORCE_RELEASED); mark(s);
			cur[s].token = MAX(cur[s].token, cur[s].fence) + 1; cur[s].fence = cur[s].token; cur[s].left = FREE;
			cur[s].floor = MAX(cur[s].floor, cur[s].fence)
		:: force && !(cur[s].holder != 0 && wasFence)
		:: !force ->
			REACHED(EPOCH_RAISED);
			if
			:: system[s] == 0 -> cur[s].base0 = base
			:: else -> cur[s].base1 = base
			fi;
			if
			:: wasFence -> cur[s].fence = base << SHIFT; cur[s].floor = MAX(cur[s].floor, cur[s].fence)
			:: else
			fi;
			if
#if BUG == RAISE_BY_SNAPSHOT
			:: !wasFree && cur[s].holder != 0 -> mark(s); cur[s].left = FREE
#else
			:: cur[s].holder != 0 && cur[s].left != FREE ->
				if
				:: wasFree -> REACHED(RAISE_FREED_NEW)
				:: else
				fi;
				mark(s); cur[s].left = FREE
#endif
			:: else
			fi;
			/* I10: whoever held the name is told that an operator has taken it */
			HOLDS(I10_ARaiseRevokes, cur[s].holder == 0 || !RUNS(cur[s].left) || (cur[s].token >> SHIFT) >= base)
		fi;
		flush(s, false);
#if BUG != RAISE_BY_SNAPSHOT
		fi;
#endif
		if
		:: leaseLock[s] == OPERATOR -> leaseLock[s] = 0
		:: else
		fi;
		if
		:: fenceX[s] == OPERATOR -> fenceX[s] = 0
		:: else
		fi;
		base = 0; wasFree = 0; wasFence = 0; force = 0; s = 0;
		goto idle
	}
}
#endif

/* stop is the end of a server's process: transactions that are open are gone, and so are locks. */
inline stop(s) {
	k = 0;
	do
	:: k < BACKENDS ->
		if
		:: stage[k] == RUNNING && on[k] == s -> dead[k] = 1
		:: else
		fi;
		k++
	:: else -> break
	od;
#if WRITERS
	k = 0;
	do
	:: k < WRITERS -> 
		if
		:: fenceX[s] == TXNW(k) || (fenceS[s] & (1 << k)) != 0 -> dead[BACKENDS + k] = 1
		:: else
		fi;
		k++
	:: else -> break
	od;
#endif
	leaseLock[s] = 0; fenceX[s] = 0; fenceS[s] = 0; k = 0
}

proctype Cluster() {
	byte k;
	do
	/* kill -9 and start again: commits that did not wait for the disk may be forgotten */
	:: atomic {
		faults > 0 ->
		faults--; REACHED(SERVER_CRASHED); SAY("cluster crashes and starts again: server %d\n", lead)
		if
		:: cur[lead].left == FREE && dur[lead].left != FREE && dur[lead].holder == cur[lead].holder -> REACHED(RELEASE_FORGOTTEN)
		:: else
		fi;
		stop(lead); copy(cur[lead], dur[lead])
	   }
	/* the WAL writer: they are on disk some time later */
	:: atomic { dur[lead].left != cur[lead].left -> copy(dur[lead], cur[lead]) }
#if SERVERS > 1 || SYNC
	/* the standby catches up, whenever it does */
	:: atomic { sby.left != dur[lead].left || sby.token != dur[lead].token || sby.fence != dur[lead].fence || sby.base1 != dur[lead].base1 ->
		copy(sby, dur[lead]) }
#endif
#if SERVERS > 1
	/* it is promoted as it is: a new timeline. Or a copy of it is restored into another cluster, where timelines start again */
	:: atomic {
		lead + 1 < SERVERS ->
		if
		:: sby.top < dur[lead].top -> REACHED(FAILOVER_LOST_GRANT)
		:: else
		fi;
		copy(cur[lead + 1], sby); copy(dur[lead + 1], sby);
		if
		:: timeline[lead + 1] = timeline[lead] + 1; system[lead + 1] = system[lead]
		:: restores > 0 && system[lead] == 0 -> restores--; timeline[lead + 1] = 1; system[lead + 1] = 1
		fi;
		deposed[lead] = 1;
		SAY("cluster promotes or restores; tokens granted until then: %d\n", topAll)
#if !DEPOSED
		stop(lead); down[lead] = 1;
#endif
		lead++
	   }
	/* the old one is switched off, at once or later */
#if DEPOSED
	:: atomic { lead > 0 && !down[lead - 1] -> stop(lead - 1); down[lead - 1] = 1 }
#endif
#endif
	od
}

init {
	byte k;
	atomic {
		do
		:: k < SERVERS -> cur[k].left = FREE; cur[k].fence = NONE; cur[k].base1 = NONE; dur[k].left = FREE; dur[k].fence = NONE; dur[k].base1 = NONE; k++
		:: else -> break
		od;
#if SERVERS > 1 || SYNC
		sby.left = FREE; sby.fence = NONE; sby.base1 = NONE;
#endif
		timeline[0] = 1;
#if FENCED
		cur[0].fence = 0; dur[0].fence = 0;
#if SERVERS > 1 || SYNC
		sby.fence = 0;
#endif
#endif
#if CROSSING
		timeline[1] = 2; deposed[0] = 1; lead = 1; at[0] = 1; copy(cur[1], cur[0]); copy(dur[1], dur[0]);
#endif
		k = 0;
		do
		:: k < BACKENDS -> run Backend(k); k++
		:: else -> break
		od;
		k = 0;
		do
		:: k < CLIENTS ->
			phase[k] = IDLE;
			run Client(k);
#if SERVERS == 1
			run Trust(k);
#endif
			k++
		:: else -> break
		od;
#if WRITERS
		k = 0;
		do
		:: k < WRITERS -> run Writer(k); k++
		:: else -> break
		od;
#endif
		k = 0;
#if OPS
		run Operator();
#endif
		run Cluster();
		run Clock()
	}
}
