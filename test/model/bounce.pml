/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bounce.pml - how puts go through landing slots that the receiver grants by its cursor; for spin
 *
 *   here           there                                   backends/proxy/network/
 *   aim            putChunk, takeLanding
 *   write          giveBytes, bounceDone
 *   send           bounceSendLanded, networkSendWord
 *   arrive         takeNumbered, keep
 *   begin          beginNext, doLanded, doWord
 *   copy           copiesRun, or a copy engine
 *   pass           passDone
 *   acknowledge    sendCursor, takeCursor
 *
 * One sender and one receiver, NUMBERS messages: chunks of puts, and words. A word covers all chunks
 * before it. The receiver has SLOTS landing slots for the sender. Writes, messages and cursors are in
 * the air until they arrive, in any order; a message may arrive twice. `landed` of a chunk is sent when
 * its write has arrived; an ordered network delivers them in this order by itself.
 *
 * Checked in every interleaving:
 * - A write finds its landing slot empty: what was there before has been copied on.
 * - A copy finds the bytes of its own chunk in the slot; each chunk is copied once.
 * - A word is changed when all chunks before it are in their windows.
 * - A put lands at the sender only when its bytes are in the window.
 * - Every put and word lands.
 *
 * Each macro that begins with BREAK_ removes one rule; test/model/run checks that spin finds an
 * error.
 */

#define NUMBERS 5
#define SLOTS 2
#define isWord(n) ((n) == 2 || (n) == 4)
#define bit(n) (1 << (n))
#define all(n) (bit(n) - 1)
#define chunksBelow(n) (all(n) & ~(bit(2) | bit(4)))

/* The sender's. */
byte aimed, next, acknowledged;
byte free = all(SLOTS);
byte slotOf[NUMBERS];

/* In the air, a bit each. */
byte writes, messages, cursors;
bool repeats = true; /* one message arrives twice */

/* The receiver's: a slot has 1 + the chunk whose bytes are there. */
byte slot[SLOTS];
byte begun, done, reported;
byte kept, copying, copied;

inline take(n)
{
	if
#ifdef BREAK_TWICE
	:: n < begun && !isWord(n) -> copying = copying | bit(n)
	:: n < begun && isWord(n)
#else
	:: n < begun /* a duplicate */
#endif
	:: n >= begun -> kept = kept | bit(n)
	fi
}

inline lands(n)
{
	assert(isWord(n) || (copied & bit(n)));
#ifndef BREAK_CREDIT
	if
	:: !isWord(n) -> free = free | bit(slotOf[n])
	:: else
	fi
#endif
}

active proctype everything()
{
	byte n;
	do
	:: acknowledged == NUMBERS && !copying && !writes && !messages -> break
	:: atomic { aimed < NUMBERS && isWord(aimed) -> aimed++ }
	:: atomic { aimed < NUMBERS && !isWord(aimed) && free ->
		select(n : 0 .. SLOTS - 1);
		if
		:: free & bit(n) ->
			free = free & ~bit(n);
			slotOf[aimed] = n;
			writes = writes | bit(aimed);
			aimed++
		:: else
		fi;
		n = 0
	}
	:: atomic { writes -> /* some write arrives, if it is in the air */
		select(n : 0 .. NUMBERS - 1);
		if
		:: writes & bit(n) ->
			assert(!slot[slotOf[n]]);
			slot[slotOf[n]] = n + 1;
			writes = writes & ~bit(n)
		:: else
		fi;
		n = 0
	}
#ifdef BREAK_EARLY_MESSAGE
	:: atomic { next < aimed ->
#else
	:: atomic { next < aimed && !(writes & bit(next)) ->
#endif
		messages = messages | bit(next);
#ifdef BREAK_EARLY_SLOT
		if
		:: !isWord(next) -> free = free | bit(slotOf[next])
		:: else
		fi;
#endif
		next++
	}
	:: atomic { messages ->
		select(n : 0 .. NUMBERS - 1);
		if
		:: (messages & bit(n)) && repeats -> repeats = false; take(n)
		:: messages & bit(n) -> messages = messages & ~bit(n); take(n)
		:: else
		fi;
		n = 0
	}
	:: atomic { begun < NUMBERS && (kept & bit(begun)) && !isWord(begun) ->
		kept = kept & ~bit(begun);
		copying = copying | bit(begun);
		begun++
	}
#ifdef BREAK_EARLY_WORD
	:: atomic { begun < NUMBERS && (kept & bit(begun)) && isWord(begun) ->
#else
	:: atomic { begun < NUMBERS && (kept & bit(begun)) && isWord(begun) && begun == done ->
#endif
		assert((copied & chunksBelow(begun)) == chunksBelow(begun));
		kept = kept & ~bit(begun);
		begun++
	}
	:: atomic { copying -> /* copies are made in order */
		do
		:: !(copying & bit(n)) -> n++
		:: else -> break
		od;
		assert(slot[slotOf[n]] == n + 1 && !(copied & bit(n)));
		slot[slotOf[n]] = 0;
		copying = copying & ~bit(n);
		copied = copied | bit(n);
		n = 0
	}
#ifdef BREAK_EARLY_CURSOR
	:: atomic { done < begun -> done++ }
#else
	:: atomic { done < begun && (isWord(done) || (copied & bit(done))) -> done++ }
#endif
	:: atomic { reported != done ->
		reported = done;
		cursors = cursors | bit(done)
	}
	:: atomic { cursors ->
		select(n : 1 .. NUMBERS);
		if
		:: cursors & bit(n) ->
			cursors = cursors & ~bit(n);
			do
			:: acknowledged < n -> lands(acknowledged); acknowledged++
			:: else -> break
			od
		:: else
		fi;
		n = 0
	}
	od
}
