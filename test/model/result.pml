/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * result.pml - how the old values of atomics come back, in reused result slots; for spin
 *
 *   here           there                                           include/gin/proxy/route.cuh
 *   claim          ginSlotTake, ginSlotReclaim, in core/results.cuh
 *   post           ginPost; complete.pml has more of it, and of done words
 *   fetch          ginPostAtomic
 *   proxy          writes the old value to its slot, then the slot's `resultTickets`, then done words
 *
 * There is one slot, so that threads always compete for it. A caller that gives up abandons the
 * slot; the next caller may take it once the proxy has finished the abandoned atomic, with or
 * without an error. `resultTickets`, a word per slot, says so. Done words do not: after an error
 * they are FAILED, even if the proxy will still write old values.
 *
 * Checked in every interleaving:
 * - The proxy writes to a slot only for the atomic that has it or has abandoned it.
 * - An atomic that succeeds returns its own value, and no slot is lost.
 * - With STAY, where no caller gives up, every atomic gets a slot.
 *
 * Each macro that begins with BREAK_ removes one rule; test/model/run checks that spin finds an
 * error.
 */

#define TICKETS 3
#define ALL 2 /* peers 0 and 1 have words, and both together */
#define FAILED 128

mtype = { completed, lost };

/* The threads' shared words. */
bool unused = true; /* the slot is free: a bit of freeResults */
byte abandoned;	    /* 1 + the ticket of the atomic that abandoned the slot; 0: none */
byte resultTickets;	    /* 1 + the ticket of the atomic that finished last in the slot */
byte result;	    /* the old value: 1 + the ticket of its atomic */
byte producer;
byte to[TICKETS]; /* 1 + the peer of the descriptor in the ring; 0: not written yet */
bool atom[TICKETS];
byte done[3];

/* The proxy's own. */
mtype state[TICKETS];
bool why[3];

/* Only the properties read these. */
byte user; /* 1 + the ticket of the atomic that has the slot */
byte finished;

#ifdef BREAK_FAILED
#define may_reclaim() (done[ALL] >= abandoned)
#else
#define may_reclaim() (resultTickets == abandoned)
#endif

inline claim()
{
	do
	:: atomic {
		unused ->
		unused = false;
		user = 0;
		break
	}
	:: atomic { abandoned && may_reclaim() -> seen = abandoned };
		atomic {
#ifdef BREAK_RECLAIM
			abandoned = 0;
			user = 0;
			break
#else
			if
			:: abandoned == seen -> abandoned = 0; user = 0; break
			:: else
			fi
#endif
		}
#ifndef STAY
	:: goto over
#endif
	od;
	seen = 0
}

inline post()
{
	atomic {
		ticket = producer;
		producer++
	}
	to[ticket] = peer + 1
}

inline leave_place()
{
#if defined(BREAK_LEAVE)
	unused = true
#elif defined(BREAK_FORGET)
	skip
#else
	abandoned = ticket + 1
#endif
}

inline fetch()
{
	claim();
	if
#ifndef STAY
	:: unused = true; goto over /* the post found no room */
#endif
	:: atomic {
		ticket = producer;
		producer++;
		atom[ticket] = true;
		user = ticket + 1
	}
	fi;
	to[ticket] = peer + 1;
	if
	:: done[peer] > ticket && done[peer] < FAILED ->
#ifdef BREAK_GIVE
		unused = true;
		assert(result == ticket + 1)
#else
		assert(result == ticket + 1);
		unused = true
#endif
	:: done[peer] >= FAILED -> leave_place()
#ifndef STAY
	:: leave_place()
#endif
	fi;
over:
	skip
}

proctype gpu(byte calls)
{
	byte ticket, seen;
	bit peer;

	do
	:: calls == 0 -> break
	:: atomic {
		calls > 0 ->
		calls--;
		if
		:: peer = 0
		:: peer = 1
		fi
	}
		if
		:: post()
		:: fetch()
		fi;
		ticket = 0
	od;
	finished++
}

#define next (!to[0] -> 0 : (!to[1] -> 1 : (!to[2] -> 2 : 3)))
#define busy(t) (t < next && !state[t])
#define concerns(t, peer) ((peer) == ALL || to[t] == (peer) + 1)
#define counts(t, peer) (concerns(t, peer) && busy(t))
#define lowest(peer) \
	(counts(0, peer) -> 0 : (counts(1, peer) -> 1 : (counts(2, peer) -> 2 : next)))
#define word(peer) (why[peer] -> FAILED : lowest(peer))

inline write_result(t)
{
	atomic {
		if
		:: atom[t] && state[t] == completed ->
			assert(user == t + 1);
			result = t + 1
		:: else
		fi
	}
	atomic {
		if
		:: atom[t] -> resultTickets = t + 1
		:: else
		fi
	}
}

inline tell(t)
{
	done[to[t] - 1] = word(to[t] - 1);
	done[ALL] = word(ALL)
}

inline end(t)
{
	atomic {
		busy(t) ->
		if
		:: state[t] = completed
		:: state[t] = lost; why[to[t] - 1] = true; why[ALL] = true
		fi
	}
#ifdef BREAK_ORDER
	tell(t);
	write_result(t)
#else
	write_result(t);
	tell(t)
#endif
}

active proctype proxy()
{
	do
	:: end(0)
	:: end(1)
	:: end(2)
	:: finished == 2 && next == producer && !busy(0) && !busy(1) && !busy(2) ->
		assert(unused || abandoned && resultTickets == abandoned);
		break
	od
}

init
{
	atomic {
		run gpu(2);
		run gpu(1)
	}
}
