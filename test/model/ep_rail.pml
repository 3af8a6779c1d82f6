/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ep_rail.pml - rings of chunks between the domains of libgin-ep's high throughput; for spin
 *
 *   here           there                                       products/ep/kernels
 *   sender         EpHtRailDispatch::sendGroups, EpHtRailCombine::addForOthers
 *   receiver       EpHtRailDispatch::forwardGroups, EpHtRailCombine::reduceOwn
 *   staged         epHtRings::put: the chunk, until its put has arrived
 *   come, freed    the two signals of each slot
 *
 * One rank of each domain: its rail peers. All teams of a rank go through groups in ascending order, a
 * group's chunks for all domains in turn. Rank 0 has fewer groups than the others. A put arrives at any
 * time, together with its signal, and chunks of one ring arrive in any order. The teams of a rank begin a
 * call when all of them have ended the one before; ranks do not wait for each other.
 *
 * Checked in every interleaving: no chunk is staged before the put of the slot's last one has arrived,
 * none arrives before that one is read, each is read once, by its turn, and every call ends.
 *
 * Each macro that begins with BREAK_ removes one rule; test/model/run checks that spin finds an
 * error.
 */

#ifndef DOMAINS
#define DOMAINS 2
#endif
#ifndef TEAMS
#define TEAMS 1 /* senders, and as many receivers, of a rank */
#endif
#ifndef DEPTH
#define DEPTH 2
#endif
#ifndef CALLS
#define CALLS 2
#endif
#ifndef GROUPS
#define GROUPS 3
#endif

#ifndef FEWER
#define FEWER 1
#endif
#define groups(rank) ((rank) == 0 -> FEWER : GROUPS)
#define ring(from, to) ((from) * DOMAINS + (to))
#ifdef BREAK_SLOTS
#define word(from, to, n) (ring(from, to) * DEPTH) /* one signal for all slots */
#define comes(n) ((n) + 1)
#define frees(n) ((n) < DEPTH -> 0 : (n) - DEPTH + 1)
#else
#define word(from, to, n) (ring(from, to) * DEPTH + (n) % DEPTH)
#define comes(n) ((n) / DEPTH + 1)
#define frees(n) ((n) / DEPTH)
#endif
#define slot(from, to, n) (ring(from, to) * DEPTH + (n) % DEPTH)

byte staged[DOMAINS * DOMAINS * DEPTH];	 /* 1 + the number of the chunk whose put is in flight */
byte content[DOMAINS * DOMAINS * DEPTH]; /* 1 + the number of the chunk that has come, unread */
byte come[DOMAINS * DOMAINS * DEPTH], freed[DOMAINS * DOMAINS * DEPTH];
byte ended[DOMAINS]; /* teams that have ended their part of a call, in all calls */

#ifdef BREAK_FREE
#define isFree(to, n) true
#else
#define isFree(to, n) (freed[word(me, to, n)] >= frees(n))
#endif

proctype sender(byte me, team)
{
	byte call, g, to, n;
	do
	:: call < CALLS ->
		ended[me] >= call * 2 * TEAMS;
		g = team;
		do
		:: g < groups(me) ->
			to = 0;
			n = call * groups(me) + g;
			do
			:: to < DOMAINS && to != me ->
				isFree(to, n);
				d_step {
					assert(staged[slot(me, to, n)] == 0);
					staged[slot(me, to, n)] = n + 1;
					to++;
				}
			:: to == me -> to++
			:: to == DOMAINS -> break
			od;
			g = g + TEAMS
		:: else -> break
		od;
		atomic { ended[me]++; call++; g = 0; to = 0; n = 0 }
	:: else -> break
	od
}

/* Reads a chunk. */
inline readChunk()
{
	come[word(from, me, n)] >= comes(n);
#ifdef BREAK_READ
	freed[word(from, me, n)]++;
#endif
	d_step {
		assert(content[slot(from, me, n)] == n + 1);
		content[slot(from, me, n)] = 0;
#ifndef BREAK_READ
		freed[word(from, me, n)]++;
#endif
	}
}

proctype receiver(byte me, team)
{
	byte call, i, g, from, n;
	do
	:: call < CALLS ->
		ended[me] >= call * 2 * TEAMS;
		i = 0;
		do
		:: i < GROUPS * DOMAINS ->
#ifdef BREAK_ORDER
			from = (me + 1 + i / GROUPS) % DOMAINS; /* domain by domain */
			g = i % GROUPS;
#else
			from = i % DOMAINS;
			g = i / DOMAINS;
#endif
			n = call * groups(from) + g;
			if
			:: from != me && g < groups(from) && g % TEAMS == team -> readChunk()
			:: else
			fi;
			i++
		:: else -> break
		od;
		atomic { ended[me]++; call++; i = 0; g = 0; from = 0; n = 0 }
	:: else -> break
	od
}

/* A put arrives, and its signal. */
proctype network(byte from, to, k)
{
	byte n;
	do
	:: staged[slot(from, to, k)] != 0 ->
		d_step {
			n = staged[slot(from, to, k)] - 1;
			assert(content[slot(from, to, k)] == 0);
			content[slot(from, to, k)] = n + 1;
			staged[slot(from, to, k)] = 0;
			come[word(from, to, n)]++;
			n = 0;
		}
	:: ended[to] == CALLS * 2 * TEAMS -> break
	od
}

init
{
	byte a, b, c;
	atomic {
		for (a : 0 .. DOMAINS - 1) {
			for (b : 0 .. TEAMS - 1) {
				run sender(a, b);
				run receiver(a, b);
			}
			for (b : 0 .. DOMAINS - 1) {
				for (c : 0 .. DEPTH - 1) {
					if
					:: a != b -> run network(a, b, c)
					:: else
					fi
				}
			}
		}
	}
}
