/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring.pml - how descriptors go from GPU threads through the ring to the proxy; for spin
 *
 *   here           there                                           include/gin/proxy/ring.cuh
 *   reserve        ginPostNow: the load of the shadow
 *   take           ginPostNow, ginPostAlone: ginRingReserve, then ginRingKeep
 *   poll           ginRingPostWait: ginPollStep returns go on, or the reason to stop
 *   again          ginRingRetry: ginRingReserveFree
 *   write          ginRingWrite, ginDescriptorPublish
 *   cpu            the proxy: descriptorTake, and its store of the consumed word
 *
 * Threads that post together are one process; each thread writes for itself and gives up for
 * itself. Stores to the ring may arrive in any order: a stored word is in flight until the proxy,
 * which loads words in any order, sees it. The proxy stores the consumed word some time after it
 * has consumed, and a thread that loads it may get an old value.
 *
 * Checked in every interleaving:
 * - The proxy takes each posted descriptor once, in the order of tickets, and all words of it belong to
 *   this lap and this post.
 * - No slot is written before the proxy has read all of its last descriptor.
 * - A thread that gives up holds no ticket, and the proxy never sees its descriptor.
 * - No thread hangs.
 * - With PATIENT, where no thread gives up: everything is posted and taken.
 * - With MORTAL, where the proxy may end at any time: all threads get away from the ring.
 * - With STALLED, where the proxy takes nothing: a thread that holds a ticket without room gives it back
 *   and so gets to its poll step. It cannot give the ticket back while other threads take and return
 *   higher ones; so a thread that has found no room takes tickets only where there is some.
 *
 * With SHADOW_ALONE a thread that has reserved looks only at the shadow, and threads on the retry path
 * bring the shadow up to date: ginSendReserveTry and ginSendReserveFree in include/gin/gdaki/queue.cuh.
 *
 * Posts are few, so that numbers stay small; they are more than three laps of the ring.
 *
 * Each macro that begins with BREAK_ removes one rule; test/model/run checks that spin finds an
 * error.
 */

#ifndef DEPTH
#define DEPTH 2
#endif
#ifndef WORDS
#define WORDS 2
#endif
#ifndef POSTS_0
#define POSTS_0 4 /* two at a time, or one */
#endif
#ifndef POSTS_1
#define POSTS_1 3 /* one at a time */
#endif
#define POSTS (POSTS_0 + POSTS_1)
#define CELLS (DEPTH * WORDS)

/* The threads' shared words. */
byte producer, consumed, shadow;
bool failed;	    /* the proxy has ended */
byte ring[CELLS];   /* 1 + the ticket of the word; 0 at the start */
byte flight[CELLS]; /* 1 + the ticket of a store that has not arrived; 0: none */

/* Only the properties read these. */
bool posted[POSTS + DEPTH]; /* by ticket; the extra entries are for BREAK_ runs */
byte next;     /* the first ticket that the proxy has not taken */
byte held[2];  /* tickets that a thread has taken and not written yet */
byte finished; /* threads */
bool ended;
hidden byte i;

#define cell(t, w) (((t) % DEPTH) * WORDS + (w))

#ifdef BREAK_PHASE
#define phase(t) 1
#else
#define phase(t) (1 - ((t) / DEPTH) % 2)
#endif
#define phase_of(word) ((word) -> phase((word) - 1) : 0)

#ifdef BREAK_ROOM
#define room(end, freed) ((end) - (freed) <= DEPTH + 1)
#else
#define room(end, freed) ((end) - (freed) <= DEPTH)
#endif

/* The code computes unsigned: no thread's view of the consumed word is ahead of its ticket. */
inline found_room()
{
	assert(freed <= first);
	if
	:: room(first + count, freed) -> goto found
	:: else
	fi
}

inline write(ticket)
{
	d_step {
		assert(!posted[ticket]);
		assert(ticket - next < DEPTH);
		posted[ticket] = true;
		for (w : 0 .. WORDS - 1) {
			assert(!flight[cell(ticket, w)]);
			flight[cell(ticket, w)] = ticket + 1
		}
		w = 0
	}
}

inline give_back(me)
{
#if defined(BREAK_TAKE_BACK_STORE)
	producer = first; held[me] = 0; goto poll
#elif defined(BREAK_TAKE_BACK_SUBTRACT)
	producer = producer - count; held[me] = 0; goto poll
#elif defined(BREAK_TAKE_BACK_NEVER)
	goto poll
#elif defined(BREAK_TAKE_BACK_ONCE)
	if
	:: producer == first + count -> producer = first; held[me] = 0
	:: else
	fi;
	goto poll
#else
	if
	:: producer == first + count -> producer = first; held[me] = 0; goto poll
	:: else -> goto occupied
	fi
#endif
}

proctype gpu(byte me, posts, together)
{
	byte want, first, count, freed, w;

begin:
	atomic {
		if
		:: posts == 0 -> finished++; goto out
		:: posts > 0 -> want = 1
		:: posts > 1 && together > 1 -> want = 2
		fi;
		posts = posts - want
	}
reserve:
	atomic {
		freed = shadow;
		count = want
	}
take:
#ifdef BREAK_TAKE
	if
	:: room(producer + count, freed)
	:: else -> goto occupied
	fi;
	atomic {
		first = producer;
		producer = producer + count;
		held[me] = count;
		goto found
	}
#endif
	atomic {
		first = producer;
		producer = producer + count;
		held[me] = count;
		found_room()
	}
occupied:
#ifdef SHADOW_ALONE
	atomic {
		freed = shadow;
		found_room()
	}
#elif !defined(BREAK_REFRESH)
	if
	:: freed = consumed
#ifndef PATIENT
	:: skip /* it reads an old value */
#endif
	fi;
	atomic {
		if
		:: shadow < freed -> shadow = freed
		:: else
		fi;
		found_room()
	}
#endif
	atomic {
		give_back(me)
	}
found:
	atomic {
		held[me]--;
		want--;
		write(first);
		first++;
		count--;
		if
		:: count > 0 -> goto found
		:: else
		fi
	}
poll:
	atomic {
		first = 0; freed = 0;
#ifndef PATIENT
		do
		:: want > 0 -> want--
		:: break
		od;
#endif
#ifndef BREAK_FAILED
		if
		:: failed -> want = 0
		:: else
		fi;
#endif
		if
		:: want > 0
		:: else -> assert(held[me] == 0); goto begin
		fi
	}
#ifdef BREAK_LOOK
	goto reserve;
#endif
again:
	first = producer;
	if
	:: freed = consumed
#ifndef PATIENT
	:: freed = shadow /* it reads an old value */
#endif
	fi;
#ifndef BREAK_TELL
	atomic {
		if
		:: shadow < freed -> shadow = freed
		:: else
		fi
	}
#endif
	atomic {
		if
#ifdef BREAK_AGAIN
		:: freed <= first && room(first + 1, freed) ->
#else
		:: producer == first && freed <= first && room(first + 1, freed) ->
#endif
			count = DEPTH - (first - freed);
			if
			:: count > want -> count = want
			:: else
			fi;
			producer = first + count;
			held[me] = count;
			goto found
		:: else -> goto poll
		fi
	}
out:
	skip
}

/* A word with the phase of this lap, whether it arrived before or arrives now. */
#ifdef BREAK_PHASE_OF_A_WORD
#define fits(word, w) ((w) == 1 || phase_of(word) == phase(next))
#else
#define fits(word, w) (phase_of(word) == phase(next))
#endif

inline look(w)
{
	if
	:: fits(ring[cell(next, w)], w)
	:: flight[cell(next, w)] && fits(flight[cell(next, w)], w) ->
		ring[cell(next, w)] = flight[cell(next, w)];
		flight[cell(next, w)] = 0
	fi;
	assert(posted[next]);
	assert(ring[cell(next, w)] == next + 1);
	have[w] = true
}

#define sees(w) (!have[w] && (fits(ring[cell(next, w)], w) || \
	(flight[cell(next, w)] && fits(flight[cell(next, w)], w))))

active proctype cpu()
{
	bool have[WORDS];

#ifdef STALLED
	false;
#endif
	do
	:: atomic { sees(0) -> look(0) }
#if WORDS > 1
	:: atomic { sees(1) -> look(1) }
#endif
#if WORDS > 2
	:: atomic { sees(2) -> look(2) }
#endif
#ifdef BREAK_CONSUMED
	:: atomic { have[0] && consumed == next -> consumed = next + 1 }
#endif
	:: d_step {
		have[0] && have[WORDS - 1] && have[WORDS / 2] ->
		next++;
		for (i : 0 .. WORDS - 1) {
			have[i] = false
		}
		i = 0
	}
	:: consumed < next -> consumed = next
#ifdef MORTAL
	:: atomic { true -> failed = true; break }
#endif
	:: atomic { finished == 2 && consumed == next && next == producer -> ended = true; break }
	od
}

init
{
	atomic {
		run gpu(0, POSTS_0, 2);
		run gpu(1, POSTS_1, 1)
	}
}

#if defined(PATIENT) && defined(MORTAL)
ltl all_leave { <> (finished == 2) }
#elif defined(PATIENT) && defined(STALLED)
ltl it_is_given_back { [] (held[0] -> <> !held[0]) }
#elif defined(PATIENT)
ltl all_is_taken { <> ended }
#endif
