/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ep_ht.pml - the pools of libgin-ep's high throughput, and the words that guard them; for spin
 *
 *   here           there                                       products/ep/kernels/ht
 *   mover          EpHtDispatch::move, EpHtCombine::stage
 *   reader         EpHtDispatch::copy and unpack, EpHtCombine::reduce
 *   place          EpHt::postPlaces, EpHt::awaitPlaces
 *   done, ready    EpHtDispatch::tell, EpHtCombine::stage
 *   pulled         EpHtCombine::leave
 *
 * Each rank makes CALLS calls; all make them in one order. A rank chooses for each call by itself whether its
 * tensor is the pool ("straight"). Rows of a dispatch are stored in the pools of their receivers; rows of a
 * combine are in the pool of the rank that has them, and are loaded from there. Between two kernels a caller
 * may use rows that a straight dispatch has left in its pool, and may write the rows of a straight combine:
 * after a dispatch, or after a combine that was straight, see ginEpHtPool(3).
 *
 * Checked in every interleaving: nobody writes to a pool that is being read, or whose rows are not read yet;
 * each reader finds the rows of its own call; every call ends.
 *
 * Each macro that begins with BREAK_ removes one rule; test/model/run checks that spin finds an
 * error.
 */

#ifndef RANKS
#define RANKS 2
#endif
#ifndef CALLS
#define CALLS 3
#endif

#define pair(to, from) ((to) * RANKS + (from))
#ifdef BREAK_HALVES
#define placeOf(to, from, n) (isCombine[n] * RANKS * RANKS + pair(to, from))
#else
#define placeOf(to, from, n) ((isCombine[n] * 2 + epoch[n] % 2) * RANKS * RANKS + pair(to, from))
#endif
#define choice(rank, n) ((rank) * CALLS + (n))
#define tag(n) (epoch[n] + 1) /* dispatches and combines count by themselves */

bool isCombine[CALLS], straight[RANKS * CALLS];
byte epoch[CALLS];

byte place[4 * RANKS * RANKS];
byte done[RANKS * RANKS], ready[RANKS * RANKS], pulled[RANKS * RANKS];

byte rows[RANKS * RANKS];  /* in the pool of the first rank, of or for the second: 1 + the call; 0: none, or read */
byte reads[RANKS * RANKS]; /* and whose rows are being read: 1 + the call */
bool isHeld[RANKS];	   /* the caller uses rows in its pool */
byte begun[RANKS], ended[RANKS]; /* calls; teams of calls */

#define isFree(at, n) (rows[at] + reads[at] == 0 || rows[at] + reads[at] == n + 1)

/* A write to a pool, by call n, which may read other rows there meanwhile. */
inline write(owner, other, n)
{
	d_step {
		assert(reads[pair(owner, other)] == 0 && !isHeld[owner]);
		assert(isFree(pair(owner, 0), n) && isFree(pair(owner, 1), n));
		rows[pair(owner, other)] = n + 1
	}
}

#ifdef BREAK_PLACE
#define hasPlaces(n) true
#else
#define hasPlaces(n) (place[placeOf(me, 0, n)] == tag(n) && place[placeOf(me, 1, n)] == tag(n))
#endif

#ifdef BREAK_TAG
#define has(word, n) ((word) != 0) /* of any call */
#else
#define has(word, n) ((word) == tag(n))
#endif

inline tell(other, n)
{
	if
	:: isCombine[n] -> ready[pair(other, me)] = tag(n)
	:: else -> done[pair(other, me)] = tag(n)
	fi
}

/* One kernel's movers; what the caller does before the kernel. */
proctype mover(byte me)
{
	byte n, r;
	do
	:: n < CALLS ->
		ended[me] == 2 * n; /* the kernel before has ended */
		isHeld[me] = false;
		if
		:: isCombine[n] && straight[choice(me, n)] ->
			do
			:: r < RANKS -> write(me, r, n); r++
			:: else -> break
			od
		:: else
		fi;
		r = 0;
		begun[me]++;
		do
		:: r < RANKS -> place[placeOf(r, me, n)] = tag(n); r++
		:: else -> break
		od;
		r = 0;
		hasPlaces(n); /* waits */
		do
		:: r < RANKS ->
#ifdef BREAK_ORDER
			tell(r, n);
#endif
			if
			:: !isCombine[n] -> write(r, me, n)
			:: isCombine[n] && !straight[choice(me, n)] -> write(me, r, n)
			:: else
			fi;
#ifndef BREAK_ORDER
			tell(r, n);
#endif
			r++
		:: else -> break
		od;
		atomic { r = 0; ended[me]++; n++ }
	:: else -> break
	od
}

proctype reader(byte me)
{
	byte n, r, owner;
	do
	:: n < CALLS ->
		begun[me] == n + 1;
		hasPlaces(n);
		do
		:: r < RANKS ->
			if
			:: isCombine[n] -> has(ready[pair(me, r)], n); owner = pair(r, me)
			:: else -> has(done[pair(me, r)], n); owner = pair(me, r)
			fi;
			atomic {
				assert(rows[owner] == n + 1);
				rows[owner] = 0;
				reads[owner] = n + 1
			}
			atomic { reads[owner] = 0; r++ }
		:: else -> break
		od;
		r = 0;
		if
		:: isCombine[n] ->
			do
			:: r < RANKS -> pulled[pair(r, me)] = tag(n); r++
			:: else -> break
			od;
			r = 0;
#ifndef BREAK_PULLED
			!straight[choice(me, n)] || (has(pulled[pair(me, 0)], n) && has(pulled[pair(me, 1)], n))
#endif
		:: else
		fi;
		atomic {
			owner = 0;
			ended[me] == 2 * n + 1; /* the movers have ended */
			isHeld[me] = !isCombine[n] && straight[choice(me, n)];
			ended[me]++;
			n++
		}
	:: else -> break
	od
}

#ifdef BREAK_FILL
#define mayFill true
#else
#define mayFill (n == 0 || !isCombine[n - 1] || straight[choice(r, n - 1)])
#endif

/* Any calls, and any choice of each rank. */
init
{
	byte n, r, count[2];
	atomic {
		do
		:: n < CALLS ->
			if
			:: isCombine[n] = false
			:: isCombine[n] = true
			fi;
			epoch[n] = count[isCombine[n]];
			count[isCombine[n]]++;
			r = 0;
			do
			:: r < RANKS ->
				if
				:: straight[choice(r, n)] = false
				:: !isCombine[n] || mayFill -> straight[choice(r, n)] = true
				fi;
				r++
			:: else -> break
			od;
			n++
		:: else -> break
		od;
		n = 0;
		r = 0;
		count[0] = 0;
		count[1] = 0;
		run mover(0);
		run reader(0);
		run mover(1);
		run reader(1)
	}
}
