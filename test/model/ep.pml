/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ep.pml - two halves and their credits, in dispatch and combine of libgin-ep; for spin
 *
 *   here           there                                       products/ep/kernels, products/ep/lib/launch.c
 *   send           EpDispatchSend::send, EpCombineSend::send
 *   receive        EpDispatchRecv::receive, EpCombineRecv::receive
 *   give           epGiveCredits, at the start of each kernel
 *   open           epSends: the sends that wait for their RECV
 *
 * Each rank makes CALLS sends, in one order, and receives each of them, in any order that the host
 * allows: at most two are open, and a send needs the half of its last but one predecessor. The rows of
 * a send are one write, then a tag with the number of the call, then a signal. A receive waits for the
 * tag or the signal of each rank; it may end, and give the half back, before the signal comes.
 *
 * Checked in every interleaving: a half is not written before its rows are read; a receive reads the
 * rows of its own send; every call ends.
 *
 * Each macro that begins with BREAK_ removes one rule; test/model/run checks that spin finds an
 * error.
 */

#ifndef RANKS
#define RANKS 2
#endif
#ifndef CALLS
#define CALLS 5
#endif
#define NONE 255

/* At the receiver: [(receiver * RANKS + source) * 2 + half]. */
#define at(to, from, half) (((to) * RANKS + (from)) * 2 + (half))

byte rows[RANKS * RANKS * 2];	 /* signals: writes that have come */
byte credits[RANKS * RANKS * 2]; /* signals: halves that were given back */
byte tags[RANKS * RANKS * 2];	 /* 1 + the call that wrote last */
byte content[RANKS * RANKS * 2]; /* 1 + the call whose rows are there and unread; 0: none */

#ifdef BREAK_HALVES
#define creditOf(half) 0 /* one signal for both halves */
#define given(call) ((call) - 1)
#else
#define creditOf(half) (half)
#define given(call) ((call) / 2)
#endif

#ifdef BREAK_CREDIT
#define free(to, call) true
#else
#define free(to, call) ((call) < 2 || credits[at(me, to, creditOf((call) % 2))] >= given(call))
#endif

#ifdef BREAK_TAG
#define tagged(from, call) (tags[at(me, from, (call) % 2)] != 0) /* of any call */
#else
#define tagged(from, call) (tags[at(me, from, (call) % 2)] == (call) + 1)
#endif

inline give()
{
	atomic {
		h = 0;
		do
		:: h < 2 && owed[h] ->
			owed[h] = false;
			r = 0;
			do
			:: r < RANKS ->
				credits[at(r, me, creditOf(h))]++;
				r++
			:: else -> break
			od;
			h++
		:: h < 2 && !owed[h] -> h++
		:: else -> break
		od;
		h = 0;
		r = 0
	}
}

inline send()
{
	r = 0;
	do
	:: r < RANKS ->
		free(r, next); /* waits */
		atomic {
			assert(content[at(r, me, next % 2)] == 0);
			content[at(r, me, next % 2)] = next + 1
		}
		tags[at(r, me, next % 2)] = next + 1;
		rows[at(r, me, next % 2)]++;
		r++
	:: else -> break
	od;
	atomic {
		open[next % 2] = next;
		next++;
		r = 0
	}
}

inline receive(half)
{
#ifdef BREAK_EPOCH
	call = next - 1; /* of the newest send, whatever the handle says */
#else
	call = open[half];
#endif
#ifdef BREAK_OWED
	owed[call % 2] = true;
	give();
#endif
	r = 0;
	do
	:: r < RANKS ->
		tagged(r, call) || rows[at(me, r, call % 2)] >= call / 2 + 1; /* waits */
		atomic {
			assert(content[at(me, r, call % 2)] == call + 1);
			content[at(me, r, call % 2)] = 0
		}
		r++
	:: else -> break
	od;
	atomic {
#ifndef BREAK_OWED
		owed[call % 2] = true;
#endif
		open[half] = NONE;
		received++;
		r = 0;
		call = 0
	}
}

#ifdef BREAK_THIRD
#define maySend true
#else
#define maySend (open[next % 2] == NONE)
#endif

active [RANKS] proctype rank()
{
	byte me = _pid, next = 0, received = 0, r, h, call;
	byte open[2];
	bool owed[2];

	atomic {
		open[0] = NONE;
		open[1] = NONE
	}
	do
	:: next < CALLS && maySend ->
		give();
		send()
	:: open[0] != NONE ->
		give();
		receive(0)
	:: open[1] != NONE ->
		give();
		receive(1)
	:: received == CALLS && next == CALLS -> break
	od
}
