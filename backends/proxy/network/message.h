/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message.h - what the proxies of two ranks tell each other over a network
 *
 * A proxy changes no word at a peer by itself: it sends a message, and the peer's proxy checks it
 * and changes the word. The messages with words from one lane to a peer's lane have numbers. The
 * receiver does them in the order of numbers, each exactly once, whatever the order in which they
 * arrive. It acknowledges by a cursor: all numbers below are done. The cursor travels with every
 * message, or in a message of its own. An atomic with an old value gets an answer besides.
 *
 * At most MESSAGES numbers are under way. A number's slot is used again when the cursor has passed
 * it and every lower number. A count of acknowledgements would free slots that are still in use.
 * Answers and cursors have no numbers and so need no room at the peer: two ranks whose windows are
 * full can still answer each other.
 */
#ifndef GIN_PROXY_MESSAGE_H
#define GIN_PROXY_MESSAGE_H

#include "backends/proxy/work.h"

#define MESSAGES 256u

enum messageKind { messageWord = 1, messageAnswer = 2, messageCursor = 3 };

/* Little-endian, as all hosts that libgin runs on. Without `compare` where it is not needed. */
struct message {
	uint8_t kind;
	uint8_t op;	     /* messageWord: enum ginOp */
	uint8_t bytes;	     /* of the word */
	uint8_t wantsAnswer; /* 1: the old value */
	uint32_t rank;	     /* the sender's */
	uint32_t number;     /* messageAnswer: of the message that it answers */
	uint32_t cursor;     /* the sender has done all messages of the receiver below */
	uint64_t named;	     /* the word: the receiver's slot of the window, and the offset */
	uint64_t operand;    /* messageAnswer: the old value */
	uint64_t compare;    /* ginOpCompareSwap */
};

#define MESSAGE_SHORT offsetof(struct message, compare)

struct messageOut {
	struct proxyWork *work;
	uint8_t wantsAnswer, isAnswered;
};

struct messageOwed {
	uint32_t number;
	uint64_t old;
};

struct messageChannel {
	/* Messages of this rank. `low` <= `acknowledged` <= `next`, in serial numbers. */
	uint32_t next;	       /* number of the next message */
	uint32_t acknowledged; /* the peer's cursor */
	uint32_t low;	       /* all below are acknowledged and answered */
	struct messageOut out[MESSAGES];

	/* Messages of the peer. */
	uint32_t expected; /* all below are done: this rank's cursor */
	uint32_t told;	   /* the cursor that was sent last */
	uint8_t isKept[MESSAGES];
	struct message *kept; /* [MESSAGES]: came before a message with a lower number; or NULL */
	uint32_t firstOwed, endOwed; /* answers that are not sent yet */
	struct messageOwed owed[MESSAGES];
};

static inline int messageHasRoom(const struct messageChannel *c)
{
	return c->next - c->low < MESSAGES;
}

/* The message that changes the word of the work. It has the next number, which is not used yet. */
struct message messageOf(const struct messageChannel *c, uint32_t rank,
			 const struct proxyWork *work);

/* The message was sent: its number is used. */
void messageSent(struct messageChannel *c, struct proxyWork *work);

static inline size_t messageLength(const struct message *m)
{
	return m->op == ginOpCompareSwap ? sizeof(*m) : MESSAGE_SHORT;
}

/* May the peer acknowledge up to this cursor? */
static inline int messageIsSent(const struct messageChannel *c, uint32_t cursor)
{
	return c->next - cursor <= c->next - c->acknowledged;
}

/* Frees the slots that the cursor and the answers have passed. */
void messageFree(struct messageChannel *c);

#endif
