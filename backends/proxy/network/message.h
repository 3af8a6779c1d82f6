/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message.h - messages between the proxies of two ranks over a network
 *
 * A proxy changes no word at a peer: it sends a message, and the peer's proxy checks it and changes
 * the word. The messages from one lane to a peer's lane have numbers, except answers and cursors.
 * The receiver begins them in the order of numbers, each exactly once, whatever the order in which
 * they arrive. It acknowledges by a cursor: all numbers below are done. The cursor travels with
 * every message, or in a message of its own. An atomic with an old value, and a fetch, also get an
 * answer.
 *
 * Messages of data in memory that the network does not reach (bounce.h): `landed` is done when the
 * data has been copied from the landing slot to its window, `value` when its bytes are there. The
 * word of a message is changed when all lower numbers are done: a word waits for all data before
 * it.
 *
 * At most MESSAGES numbers are in flight. A number's slot is used again when the cursor has passed
 * it and every lower number. A count of acknowledgements would free slots that are still in use.
 * Answers and cursors have no numbers and so need no room at the peer: two ranks whose windows are
 * full can still answer each other.
 *
 * The immediate of a write (fabric.h) can stand for a message that raises a signal by one: it names
 * the message's number and the word.
 */
#ifndef GIN_PROXY_MESSAGE_H
#define GIN_PROXY_MESSAGE_H

#include "backends/proxy/work.h"
#include "copies.h"

#define MESSAGES 256u

enum messageKind {
	messageWord = 1,
	messageAnswer = 2,
	messageCursor = 3,
	messageValue = 4,  /* the bytes of a putValue */
	messageLanded = 5, /* data is in a landing slot of the receiver */
	messageFetch = 6,  /* the sender wants data in a get slot */
	messagePut = 7,	   /* a word, and the few bytes that it covers */
	messageMeet = 8	   /* proves that the sender reaches the receiver: meet.c */
};

/* Bytes of the longest value in a message. */
#define MESSAGE_VALUE 16u

/* Bytes of the longest data of a messagePut. */
#define MESSAGE_DATA 32u

/*
 * Little-endian, as all hosts that libgin runs on. A message ends after the last member that it
 * needs.
 */
struct message {
	uint8_t kind;
	uint8_t op;	     /* messageWord: enum ginOp */
	uint8_t bytes;	     /* of the word or value; messagePut: of the data, and the word has 8 */
	uint8_t wantsAnswer; /* 1: the old value */
	uint32_t rank;	     /* the sender's */
	uint32_t number;     /* messageAnswer: of the message that it answers */
	uint32_t cursor;     /* the sender has done all messages of the receiver below */
	/* The word, value or data: the receiver's slot of the window, and the offset. */
	uint64_t named;
	/* messageAnswer: the old value; messageLanded and messageFetch: see messageSlot() */
	uint64_t operand;
	union {
		uint64_t compare; /* ginOpCompareSwap; messageValue: the last 8 bytes */
		uint64_t target;  /* messagePut: where its data goes, as `named` */
	};
	unsigned char data[MESSAGE_DATA]; /* messagePut */
};

#define MESSAGE_SHORT offsetof(struct message, compare)

/* Bytes of the proof that follows a message where the network has strangers: proof.c. */
#define MESSAGE_PROOF 8u

/* The operand that names a slot and the bytes of data in it. */
static inline uint64_t messageSlot(uint32_t slot, uint32_t bytes)
{
	return (uint64_t)slot << 32 | bytes;
}

struct bounceChunk;

struct messageOut {
	struct proxyWork *work;
	struct bounceChunk *chunk; /* messageFetch: the chunk of a get */
	uint8_t wantsAnswer, isAnswered;
	uint8_t landing; /* messageLanded: 1 + the landing slot at the receiver */
};

struct messageOwed {
	uint32_t number;
	uint64_t old;
};

struct messageChannel {
	/* Messages of this rank. `low` <= `acknowledged` <= `next`, in serial numbers. */
	uint32_t next;	       /* number of the next message */
	uint32_t nextLap;      /* how often `next` has wrapped around */
	uint32_t acknowledged; /* the peer's cursor */
	uint32_t low;	       /* all below are acknowledged and answered */
	struct messageOut out[MESSAGES];

	/* Messages of the peer. `expected` <= `begun`. */
	uint32_t expected;    /* all below are done: this rank's cursor */
	uint32_t expectedLap; /* how often `expected` has wrapped around */
	uint32_t begun;	      /* all below are done, or their data is being copied */
	uint32_t cursorSent;  /* the cursor that was sent last */
	uint8_t isKept[MESSAGES];
	struct message *kept; /* [MESSAGES]: arrived before an earlier number; or NULL */
	copyTicket *copying;  /* [MESSAGES]: of the numbers from `expected` to `begun`; or NULL */
	uint32_t firstOwed, endOwed; /* answers that are not sent yet */
	struct messageOwed owed[MESSAGES];
};

static inline int messageHasRoom(const struct messageChannel *c)
{
	return c->next - c->low < MESSAGES;
}

/* A message without contents. It has the next number, which is not used yet. */
struct message messageNext(const struct messageChannel *c, uint32_t rank, enum messageKind kind);

/* The message that changes the word of the work; with `withData` after it has stored the data. */
struct message messageOf(const struct messageChannel *c, uint32_t rank,
			 const struct proxyWork *work, int withData);

/* Does the work raise a signal by 1, and do window and signal fit into an immediate? */
int messageFitsImmediate(const struct proxyWork *work);

/* The immediate that stands for the message with the next number. */
uint32_t messageImmediate(const struct messageChannel *c, const struct proxyWork *work);

/*
 * The message that the immediate of `rank` stands for. Its cursor is the last that the peer sent.
 */
struct message messageOfImmediate(const struct messageChannel *c, uint32_t rank,
				  uint32_t immediate);

/* The message with the next number was sent. */
void messageSent(struct messageChannel *c, const struct messageOut *out);

static inline size_t messageLength(const struct message *m)
{
	if (m->kind == messagePut)
		return offsetof(struct message, data) + m->bytes;
	if (m->op == ginOpCompareSwap || m->kind == messageValue)
		return offsetof(struct message, data);
	return MESSAGE_SHORT;
}

/* Of a messageWord or messagePut. */
static inline uint32_t messageWordBytes(const struct message *m)
{
	return m->kind == messagePut ? 8 : m->bytes;
}

/* The upper half of a number that is close to `near`, whose upper half is `lap`. */
static inline uint32_t messageLap(uint32_t number, uint32_t near, uint32_t lap)
{
	uint64_t whole = (uint64_t)lap << 32 | near;

	return (uint32_t)((whole + (uint64_t)(int64_t)(int32_t)(number - near)) >> 32);
}

/* May the peer acknowledge up to this cursor? */
static inline int messageIsSent(const struct messageChannel *c, uint32_t cursor)
{
	return c->next - cursor <= c->next - c->acknowledged;
}

/* Frees the slots that the cursor and the answers have passed. */
void messageFree(struct messageChannel *c);

#endif
