/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send.pml - how WQEs go from GPU threads through a QP's send queue to the NIC; for spin
 *
 *   here           there                                           include/gin/gdaki/queue.cuh
 *   claim          ginSendReserveWait; ring.pml with SHADOW_ALONE has the undoing of reservations
 *   write          the stores of the WQEs by all lanes, and their release
 *   mark           ginSendHandOver
 *   take           ginSendRingAndPutDown: what the ringer does
 *   hold           ginSendRingMarked: the ringer takes the marks that follow
 *   refresh        ginSendRefresh
 *   credit         ginSendCreditCounters
 *   nudge          ginSendRingPending
 *   flush          ginSendWait, for all that has been reserved
 *   nic            the NIC
 *
 * The head of queue.cuh describes the turn, the marks and the ringer.
 *
 * The next post that does not aggregate, or a thread that waits, rings for posts that aggregate.
 *
 * The NIC counts modulo MODULUS, twice the depth. A WQE is garbage to the NIC until it is released.
 *
 * DROPS      The NIC may drop a doorbell. Later it reads the record once, and uses a newer one.
 * LATE       As in the code: no fence between record and doorbell; the NIC may find an older record.
 * ALONE      One thread has the queue for itself and needs no turn.
 * COUNTS     Posts of the first thread leave a counter beside their last slot. The thread that raises
 *            the shadow past such a slot raises the counter first; no other thread raises either.
 *
 * Checked in every interleaving:
 * - The NIC reads whole WQEs of their own index. No slot is written before the WQE in it is completed.
 * - There is one ringer at a time. No doorbell announces less than an earlier one, or unwritten WQEs.
 * - After a wait that succeeds everything before it is completed without an error. After a wait that
 *   fails something has failed, and the first latched error stays (with FAILS, where any WQE may fail
 *   and the WQEs after it are flushed).
 * - When all threads have left, the NIC knows of all posts that do not aggregate (not with LATE, DROPS).
 * - With COUNTS each counter is raised once, after its WQE succeeded and before a thread sees it done.
 * - No thread hangs. With PATIENT, where no thread gives up, all waits end.
 * - With STALLED, where a poster stops for ever after its reservation, the other thread leaves.
 *
 * Each macro that begins with BREAK_ removes one rule; test/model/run checks that spin finds an
 * error.
 */
#ifndef DEPTH
#define DEPTH 2
#endif
#define MODULUS (2 * DEPTH)
#ifndef POSTS_0
#define POSTS_0 4 /* WQEs of a warp of two lanes: two at a time, or one */
#endif
#ifndef POSTS_1
#define POSTS_1 3 /* of a thread: one at a time */
#endif
#ifdef ALONE
#define THREADS 1
#else
#define THREADS 2
#endif
/* Turn words: 0, the turn, or a mark: the number of WQEs, and whether they aggregate. */
#define TURN 128
#define HELD_BACK 64
#define marked(word) ((word) && (word) != TURN)
#define wqes(mark) ((mark) & 63)

#define EMPTY 255
#define GARBAGE 254
#define FLUSHED 253

/* The threads' shared words. */
byte reserved, shadow;
byte turn[DEPTH];
byte handed;  /* index of the turn; the ringer's */
byte latched; /* the first error that was seen: 1 + its index, or FLUSHED */

/* Words that threads share with the NIC. */
byte wqe[DEPTH];  /* 1 + the index; 0 at the start */
bool quiet[DEPTH]; /* no CQE */
byte record;	  /* the NIC gets it modulo MODULUS, as the doorbell */
byte cqe = EMPTY; /* the index of the last completed WQE, modulo MODULUS */
byte cause;	  /* of an error: 1 + the index, or FLUSHED */

/* The NIC's own. */
byte known, fetched, completed;
byte arrived;	 /* the record as the NIC would read it */
bool recovering; /* it has dropped a doorbell */

#ifdef COUNTS
bool side[DEPTH]; /* the slot's WQE counts */
byte counted;	  /* no such slot at this index or above */
bool crediting;	  /* with the shadow, in one word */
bool owed[8], paid[8]; /* by index; only the properties read this, */
#endif

/* Only the properties read these. */
bool held;	/* there is a ringer */
byte rung;	/* the last doorbell */
byte wanted;	/* posts below this index do not aggregate */
byte failed;	/* 1 + the index of a failed WQE */
byte finished;	/* threads */
hidden byte i;

#define small(index) ((index) % MODULUS)
/* The number whose remainder is `rest`: `from`, or less than MODULUS above it. */
#define large(rest, from) ((from) + ((rest) + 8 * MODULUS - (from)) % MODULUS)

#ifdef BREAK_ROOM
#define room(end) ((end) - shadow <= DEPTH + 1)
#else
#define room(end) ((end) - shadow <= DEPTH)
#endif

inline take_turn()
{
	assert(!held);
	held = true
}

#ifdef COUNTS
/* Raises the counters of the slots from `old` to `freed`, then the shadow. */
inline credit()
{
	if
	:: atomic {
#ifndef BREAK_CREDIT
		shadow == old && !crediting ->
#else
		shadow == old ->
#endif
		crediting = true
	}
#ifdef BREAK_PAY
		atomic { shadow = freed; crediting = false };
#endif
		do
		:: old < freed ->
			atomic {
				if
				:: side[old % DEPTH] ->
					side[old % DEPTH] = false;
					assert(owed[old] && !paid[old]);
					assert(old < completed && (!failed || old + 1 < failed));
					paid[old] = true
				:: else
				fi;
				old++
			}
		:: else -> break
		od;
#ifndef BREAK_PAY
		atomic { shadow = freed; crediting = false }
#endif
	:: atomic { else -> skip }
	fi
}

/* The shadow before the CQE: see Completion in queue.cuh. `counted` after the CQE: its WQEs were handed over before. */
inline refresh()
{
	atomic { freed = shadow; old = shadow; busy = crediting };
#ifdef BREAK_COUNTED
	some = counted;
#endif
	atomic { seen = cqe; why = cause }
	atomic {
		if
		:: seen == EMPTY
		:: seen != EMPTY && why ->
			if
			:: !latched -> latched = why
			:: else
			fi
		:: seen != EMPTY && !why ->
			freed = large(small(seen + 1), freed);
			assert(freed <= completed)
		fi
	}
#ifndef BREAK_COUNTED
	some = counted;
#endif
	if
	:: busy || freed == old
	:: !busy && freed > old && some > old -> credit()
	:: !busy && freed > old && some <= old ->
		atomic {
			if
			:: shadow == old && !crediting -> shadow = freed
			:: else
			fi
		}
	fi;
	atomic { seen = 0; why = 0; freed = 0; old = 0; busy = false; some = 0 }
}
#else
inline refresh()
{
#ifdef BREAK_REFRESH
	atomic { seen = cqe; why = cause }
	freed = shadow;
#else
	freed = shadow;
	atomic { seen = cqe; why = cause }
#endif
	atomic {
		if
		:: seen == EMPTY
#ifdef BREAK_FAILURE
		:: seen != EMPTY ->
#else
		:: seen != EMPTY && why ->
			if
			:: !latched -> latched = why
			:: else
			fi
		:: seen != EMPTY && !why ->
#endif
			freed = large(small(seen + 1), freed);
			assert(freed <= completed);
#ifndef BREAK_SHADOW
			if
			:: shadow < freed -> shadow = freed
			:: else
			fi
#endif
		fi
	}
#ifdef BREAK_SHADOW
	if
	:: seen != EMPTY && !why -> shadow = freed
	:: else
	fi;
#endif
	atomic { seen = 0; why = 0; freed = 0 }
}
#endif

/* If some word has the turn, goes to `take` with it, and from there to `to`. */
inline nudge(to)
{
#ifndef BREAK_NUDGE
	freed = handed;
	atomic {
#ifdef ALONE
		if
		:: true ->
#else
		if
		:: turn[freed % DEPTH] == TURN ->
			turn[freed % DEPTH] = 0;
#endif
			take_turn();
#ifdef BREAK_NUDGE_HANDED
			at = freed;
#else
			at = handed;
#endif
			freed = 0;
			ring = true;
			back = to;
			goto take
#ifndef ALONE
		:: else -> freed = 0
#endif
		fi
	}
#else
	skip
#endif
}

proctype gpu(byte me, posts, together)
{
	byte want, first, at, target;
	byte freed, seen, why;
	byte back; /* where to go on after `take` */
	bool ring, aggregate;
#ifdef COUNTS
	byte old, some;
	bool busy;
#endif

begin:
	atomic {
		back = 0; target = 0; aggregate = false;
		if
		:: posts == 0 || latched -> goto flush
		:: posts > 0 && !latched -> want = 1
		:: posts > 1 && !latched && together > 1 -> want = 2
		fi;
		posts = posts - want
#ifdef AGGREGATE
		;
		if
		:: aggregate = true
		:: skip
		fi
#endif
	}
claim:
	atomic {
		back = 0;
		if
		:: latched -> want = 0; goto begin
		:: !latched && room(reserved + want) ->
			first = reserved;
			reserved = reserved + want;
			goto write
		:: else
		fi
	}
	refresh();
	nudge(1);
claim_again:
#ifdef PATIENT
	goto claim;
#else
	if
	:: goto claim
	:: atomic { want = 0; goto begin } /* time is up, and nothing is reserved */
	fi;
#endif
write:
#ifdef STALLED
	me == 0;
#endif
	atomic {
		for (i : first .. first + want - 1) {
			assert(i - completed < DEPTH);
			wqe[i % DEPTH] = GARBAGE;
#ifdef COUNTS
			assert(!side[i % DEPTH]);
#endif
			quiet[i % DEPTH] = i + 1 < first + want
		}
		i = 0
	}
#ifndef BREAK_RELEASE
	d_step {
		for (i : first .. first + want - 1) {
			wqe[i % DEPTH] = i + 1
		}
		i = 0
	}
#endif
#ifdef COUNTS
	if
	:: me == 0 ->
		atomic { side[(first + want - 1) % DEPTH] = true; owed[first + want - 1] = true };
		atomic {
			if
			:: counted < first + want -> counted = first + want
			:: else
			fi
		}
	:: else
	fi;
#endif
mark:
	atomic {
		at = first + want;
		if
		:: !aggregate && wanted < at -> wanted = at
		:: else
		fi;
#ifdef ALONE
		if
		:: true ->
#else
		if
#ifdef BREAK_TURN
		:: true ->
#else
		:: turn[first % DEPTH] == TURN ->
#endif
#ifndef BREAK_CLEAR
			turn[first % DEPTH] = 0;
			first = 0;
#endif
#endif
			take_turn();
			ring = !aggregate;
			want = 0;
			goto take
#ifndef ALONE
		:: else ->
			assert(!turn[first % DEPTH]);
			turn[first % DEPTH] = (aggregate -> HELD_BACK : 0) + want;
			at = 0; want = 0;
#ifdef BREAK_WAIT
			goto mine
#else
			first = 0;
			goto begin
#endif
#endif
		fi
	}
#ifdef BREAK_WAIT
mine:
	atomic { handed > first -> first = 0; goto begin }
#endif
hold:
#ifndef ALONE
	atomic {
		do
		:: marked(turn[at % DEPTH]) ->
			freed = turn[at % DEPTH];
			turn[at % DEPTH] = 0;
#ifndef BREAK_HELD_BACK
			ring = ring || !(freed & HELD_BACK);
#endif
			at = at + wqes(freed)
		:: else -> freed = 0; break
		od
	}
#endif
take:
	if
	:: !ring
	:: ring ->
#ifdef BREAK_RECORD
		skip
#else
		atomic {
			record = at;
#ifndef LATE
			arrived = at
#endif
		}
#endif
		;
		atomic {
			assert(at >= rung);
			rung = at;
			if
			:: true ->
				assert(large(small(at), known) == at);
				known = at
#ifdef DROPS
			:: recovering = true
#endif
			fi;
			ring = false
		}
	fi;
#ifdef BREAK_CLEAR
	atomic { turn[first % DEPTH] = 0; first = 0 }
#endif
#ifndef BREAK_HANDED
	handed = at;
#endif

	atomic {
		held = false;
#ifndef ALONE
		if
#ifdef BREAK_PUT_DOWN
		:: true ->
#else
		:: !turn[at % DEPTH] ->
#endif
			turn[at % DEPTH] = TURN
#ifndef BREAK_GO
		:: else -> take_turn(); goto hold
#else
		:: else
#endif
		fi
#endif
	}
#ifdef BREAK_HANDED
	handed = at;
#endif
	atomic {
		at = 0;
		if
		:: back == 0 -> goto begin
		:: back == 1 -> goto claim_again
		:: back == 2 -> goto wait_again
		fi
	}
flush:
#ifndef STALLED
	target = reserved;
#endif
wait:
	atomic {
		back = 0;
		if
		:: latched ->
			assert(failed && (latched == failed || latched == FLUSHED));
			goto out
		:: !latched && shadow >= target ->
			assert(completed >= target);
			assert(!failed || failed > target);
#ifdef COUNTS
			for (i : 1 .. target) {
				assert(!owed[i - 1] || paid[i - 1])
			}
			i = 0;
#endif
			goto out
		:: else
		fi
	}
	refresh();
	nudge(2);
wait_again:
#ifdef PATIENT
	goto wait;
#else
	if
	:: goto wait
	:: goto out
	fi;
#endif
out:
	atomic { target = 0; finished++ }
}

inline complete()
{
	if
#ifdef FAILS
	:: failed -> cqe = small(completed); cause = FLUSHED
	:: !failed -> failed = completed + 1; cqe = small(completed); cause = failed
#endif
	:: !failed ->
		if
		:: !quiet[completed % DEPTH] -> cqe = small(completed)
		:: else
		fi
	fi;
	completed++
}

active proctype nic()
{
end:
	do
	:: atomic {
		fetched < known ->
		assert(wqe[fetched % DEPTH] == fetched + 1);
		fetched++
	}
	:: atomic { completed < fetched -> complete() }
	:: atomic {
		finished == THREADS && !recovering && completed == known ->
#ifndef REPAIRED
		assert(known >= wanted);
#endif
		assert(!held);
		break
	}
	od
}

#ifdef DROPS
active proctype recovery()
{
	do
	:: finished == THREADS && !recovering -> break
	:: atomic {
		recovering ->
		if
		:: known < arrived -> known = arrived
		:: else
		fi;
		recovering = false
	}
	od
}
#endif

#ifdef LATE
active proctype memory()
{
	do
	:: finished == THREADS && arrived == record -> break
	:: arrived < record -> arrived = record
	od
}
#endif

init
{
	atomic {
		turn[0] = TURN;
		run gpu(0, POSTS_0, 2)
#ifndef ALONE
		;
		run gpu(1, POSTS_1, 1)
#endif
	}
}

#ifdef PATIENT
#ifdef STALLED
ltl the_other_leaves { <> (finished == 1) }
#else
ltl all_leave { <> (finished == THREADS) }
#endif
#endif
