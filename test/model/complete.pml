/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * complete.pml - how GPU threads learn that their posts are done; for spin
 *
 *   here           there                                           include/gin/proxy/ring.cuh
 *   post           ginPost, from the ticket on; ring.pml has what comes before
 *   raise          ginRingRecordPosted: posted[peer], then posted[nRanks]
 *   request        ginRingFlush, Gin::flush, Gin::flushAsync: they load posted
 *   wait           ginRingWait
 *   proxy          takes descriptors in order, finishes them in any order, and stores done words
 *
 * `word` has the value that the proxy must give a peer's done word: the lowest ticket to that peer
 * that is not finished or, for good, FAILED (GIN_QUEUE_FAILED, the top bit) and the first reason.
 * The proxy stores it before it looks for the next finished transfer. Words only grow, so a late
 * store only makes a wait longer.
 *
 * Checked in every interleaving:
 * - After a wait that succeeds everything that its thread posted to the peer before, and everything that
 *   other threads' earlier posts sent there, is done and has not failed.
 * - After a wait that fails some transfer to that peer has failed, and the wait returns the first reason.
 *   Transfers to other peers have no influence.
 * - Every wait ends; with MORTAL, where the proxy may end at any time, too.
 *
 * Each macro that begins with BREAK_ removes one rule; test/model/run checks that spin finds an
 * error.
 */

#define TICKETS 3
#define ALL 2 /* peers 0 and 1 have words, and both together */
#define NONE 3
#define FAILED 128

mtype = { completed, lost };

/* The threads' shared words. */
byte producer;
byte to[TICKETS];	 /* 1 + the peer of the descriptor in the ring; 0: not written yet */
byte posted[3], done[3]; /* by peer, and ALL */
bool ended;		 /* the proxy has */

/* The proxy's own. */
mtype state[TICKETS];
byte why[3]; /* the first failure, 1 + its ticket */

/* Only the properties read these. */
byte first[3]; /* the value that `why` must have */
byte whole;    /* tickets of posts that have returned, a bit each */
byte finished; /* threads */
hidden byte i;

#define concerns(t, peer) ((peer) == ALL || to[t] == (peer) + 1)

#ifdef BREAK_POSTED_TICKET
#define after(ticket) (ticket)
#else
#define after(ticket) ((ticket) + 1)
#endif

inline raise(peer)
{
	atomic {
		if
#ifdef BREAK_POSTED
		:: true -> posted[peer] = after(ticket)
#else
		:: posted[peer] < after(ticket) -> posted[peer] = after(ticket)
		:: else
#endif
		fi
	}
}

inline post(peer)
{
	atomic {
		ticket = producer;
		producer++
	}
	if
	:: atomic {
		producer == ticket + 1 -> /* there is no room: the ticket is given back */
		producer = ticket
	}
	:: to[ticket] = peer + 1;
		raise(peer);
#ifndef BREAK_POSTED_ALL
		raise(ALL);
#endif
		whole = whole | (1 << ticket)
	fi;
	ticket = 0
}

/* Here a thread knows all posts that have returned, as if each had notified it. */
inline request(peer)
{
	d_step {
		whom = peer;
		before = whole;
#ifdef BREAK_FLUSH
		until = producer
#else
		until = posted[peer]
#endif
	}
}

inline all_is_done()
{
	for (i : 0 .. TICKETS - 1) {
		assert(!(before & (1 << i)) || !concerns(i, whom) || state[i] == completed)
	}
	i = 0
}

#ifdef BREAK_WAIT
#define reached() (!until || done[whom] >= until)
#else
#define reached() (!until || done[whom] >= until && done[whom] < FAILED)
#endif

inline wait()
{
	atomic {
		if
		:: reached() -> all_is_done()
		:: !reached() && done[whom] >= FAILED ->
			assert(first[whom] && done[whom] == FAILED + first[whom])
#ifndef BREAK_ENDED
		:: !reached() && ended
#endif
		fi;
		until = 0;
		before = 0;
		whom = NONE
	}
}

proctype gpu(byte posts, waits, peers)
{
	byte whom = NONE;
	byte ticket, until, before;

	do
	:: posts > 0 -> posts--; post(0)
	:: posts > 0 && peers > 1 -> posts--; post(1)
	:: whom == NONE && waits > 0 -> waits--; request(0)
	:: whom == NONE && waits > 0 -> waits--; request(1)
	:: whom == NONE && waits > 0 -> waits--; request(ALL)
	:: whom != NONE -> wait()
	:: whom == NONE && posts == 0 -> break
	od;
	request(ALL);
	wait();
	finished++
}

inline fail(t, peer)
{
	if
	:: !first[peer] -> first[peer] = t + 1
	:: else
	fi;
	if
#ifdef BREAK_FIRST
	:: true -> why[peer] = t + 1
#else
	:: !why[peer] -> why[peer] = t + 1
	:: else
#endif
	fi
}

/* The first ticket that the proxy has not taken, as it takes them in order. */
#define next (!to[0] -> 0 : (!to[1] -> 1 : (!to[2] -> 2 : 3)))
#define busy(t) (t < next && !state[t])

/* The value that the word of a peer must have. */
#ifdef BREAK_ORDER
#define counts(t, peer) (concerns(t, peer) && state[t])
#define lowest(peer) (counts(2, peer) -> 3 : (counts(1, peer) -> 2 : (counts(0, peer) -> 1 : 0)))
#else
#define counts(t, peer) (concerns(t, peer) && busy(t))
#define lowest(peer) \
	(counts(0, peer) -> 0 : (counts(1, peer) -> 1 : (counts(2, peer) -> 2 : next)))
#endif
#if defined(BREAK_FAILURE)
#define word(peer) lowest(peer)
#elif defined(BREAK_PEERS)
#define word(peer) (why[ALL] -> FAILED + why[ALL] : lowest(peer))
#else
#define word(peer) (why[peer] -> FAILED + why[peer] : lowest(peer))
#endif

/* Transfers finish in any order, also to one peer. */
inline end(t)
{
	atomic {
		busy(t) ->
		if
		:: state[t] = completed
		:: state[t] = lost; fail(t, to[t] - 1); fail(t, ALL)
		fi
	}
	done[to[t] - 1] = word(to[t] - 1);
	done[ALL] = word(ALL)
}

active proctype proxy()
{
	do
	:: end(0)
	:: end(1)
	:: end(2)
#ifdef MORTAL
	:: ended = true; break
#endif
	:: finished == 2 -> break
	od
}

init
{
	atomic {
		run gpu(2, 1, 2);
		run gpu(1, 0, 1) /* exchanging the two peers gives no new state */
	}
}
