/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message.pml - how one proxy asks another to change words over a network without order; for spin
 *
 *   here           there                                  backends/proxy/network/
 *   data           networkStart, sendData: all data is in flight from the start, and lands in any order
 *   send           networkRaise, sendWord, messageHasRoom
 *   arrive         networkReceive, takeWord, doWord
 *   acknowledge    sendCursor, takeCursor, messageFree
 *   answer         sendAnswer, takeAnswer
 *
 * One flow of WORKS works: each has data and a strong word; the word of work ATOMIC is an atomic whose
 * old value is wanted. The window has ROOM messages. Messages, cursors and answers are in the air until
 * they arrive, in any order; a message may arrive twice.
 *
 * Checked in every interleaving:
 * - A word is changed once, after its data and all earlier data has landed, and in the order of works.
 * - A message finds its slot at the receiver free; so does its entry at the sender.
 * - A work lands only after its word was changed; an atomic only with its old value.
 * - Every work lands.
 *
 * Each macro that begins with BREAK_ removes one rule; test/model/run checks that spin finds an
 * error.
 */

#define WORKS 5
#define ROOM 2
#define ATOMIC 1
#define bit(n) (1 << (n))
#define all(n) (bit(n) - 1)

/* The sender's. */
byte next, acknowledged, low;
byte landed; /* works, a bit each */
bool answered;
byte credits = ROOM; /* BREAK_COUNT: works that have landed, counted instead of passed */

/* In the air, a bit each: data and messages by work, cursors by their value, the answer. */
byte data = all(WORKS), messages, cursors;
bool answer;
bool repeats = true; /* one message arrives twice */

/* The receiver's: a slot has 1 + the work whose message waits there. */
byte expected, reported;
byte kept[ROOM];
byte changed; /* words, a bit each */
bool owesAnswer;
hidden byte i;

#ifdef BREAK_COUNT
#define room() (credits > 0)
#else
#define room() (next - low < ROOM)
#endif

#ifdef BREAK_EARLY_WORD
#define covered() (true)
#else
#define covered() (!(data & all(next + 1)))
#endif

inline change(n)
{
	assert(!(changed & bit(n)));
	assert(!(data & all(n + 1)));
	assert((changed & all(n)) == all(n));
	changed = changed | bit(n);
	if
	:: n == ATOMIC -> owesAnswer = true
	:: else
	fi
}

inline keep(n)
{
	if
#ifdef BREAK_TWICE
	:: n < expected -> change(n)
#else
	:: n < expected /* a duplicate */
#endif
	:: n >= expected && kept[n % ROOM] == n + 1
	:: n >= expected && kept[n % ROOM] != n + 1 ->
		assert(!kept[n % ROOM] && n < expected + ROOM);
		kept[n % ROOM] = n + 1;
#ifdef BREAK_EARLY_CURSOR
		cursors = cursors | bit(n + 1);
#endif
		do
		:: kept[expected % ROOM] == expected + 1 ->
			kept[expected % ROOM] = 0;
#ifdef BREAK_ORDER
			change(n);
#else
			change(expected);
#endif
			expected++
		:: else -> break
		od
	fi
}

inline land(n)
{
	assert(changed & bit(n));
	landed = landed | bit(n);
	credits++
}

/* Frees entries of the window. */
inline release()
{
	do
#ifdef BREAK_ANSWER
	:: low < acknowledged -> low++
#else
	:: low < acknowledged && (low != ATOMIC || answered) -> low++
#endif
	:: else -> break
	od
}

inline takeCursor(cursor)
{
	do
	:: acknowledged < cursor ->
		if
		:: acknowledged != ATOMIC || answered -> land(acknowledged)
		:: else
		fi;
		acknowledged++
	:: else -> break
	od;
#ifndef BREAK_CREDIT
	release()
#endif
}

active proctype everything()
{
	byte n;
	do
	:: landed == all(WORKS) -> break
	:: atomic { data -> /* the data of some work lands */
		select(n : 0 .. WORKS - 1);
		data = data & ~bit(n);
		n = 0
	}
	:: atomic { next < WORKS && covered() && room() ->
		assert(next - low < ROOM); /* its entry is free */
		messages = messages | bit(next);
		credits = credits - (credits > 0);
		next++
	}
#ifdef BREAK_DROP
	:: atomic { next < WORKS && covered() && !room() -> next++ }
#endif
	:: atomic { messages -> /* some message arrives, if it is in the air */
		select(n : 0 .. WORKS - 1);
		if
		:: (messages & bit(n)) && repeats -> repeats = false; keep(n)
		:: messages & bit(n) -> messages = messages & ~bit(n); keep(n)
		:: else
		fi;
		n = 0
	}
	:: atomic { reported != expected ->
		reported = expected;
		cursors = cursors | bit(expected)
	}
	:: atomic { cursors ->
		select(n : 1 .. WORKS);
		if
		:: cursors & bit(n) ->
			cursors = cursors & ~bit(n);
			takeCursor(n)
		:: else
		fi;
		n = 0
	}
	:: atomic { owesAnswer -> owesAnswer = false; answer = true }
	:: atomic { answer ->
		answer = false;
		assert(low <= ATOMIC); /* its entry is still there */
		answered = true;
		if
		:: acknowledged > ATOMIC -> land(ATOMIC)
		:: else
		fi;
		release()
	}
	od
}
