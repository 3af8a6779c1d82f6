/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bounce.h - puts and gets of memory that the network does not reach, through slots of pinned
 * memory
 *
 * TCP does not reach GPU memory. Each lane then has slots in pinned host memory, which is
 * registered with the network once:
 *
 *   landing  a peer writes the bytes of a put there
 *   get      a peer writes the bytes there that a get of this rank has asked for
 *   reply    this rank copies the bytes there that a peer's get has asked for
 *   send     this rank copies the bytes of a put there
 *
 * Each lane has slots of all four kinds for each rank: a peer that is stopped or lost keeps no slot
 * from others, and writes into none of theirs.
 *
 * A put is cut into chunks. The sender takes a landing slot at the receiver and, if the network
 * does not read the source, a send slot; copies the bytes into the send slot; writes them into the
 * landing slot; and sends `landed` (message.h). The receiver copies the bytes from the landing slot
 * into the window. When its cursor has passed the message, the sender may use the landing slot
 * again: the cursor is the credit. On an ordered network `landed` follows the write at once,
 * otherwise it is sent when the bytes are in the landing slot. A chunk to a window that the network
 * reaches is written from the send slot into the window. A value of 16 bytes at most travels in a
 * message.
 *
 * A get takes a get slot and sends `fetch`. The peer copies the bytes into a reply slot, writes
 * them into the get slot, and answers. This rank copies them to their target.
 *
 * No two ranks can wait for each other's slots: landing slots become free by copies of their owner;
 * get slots by reply slots; reply and send slots by copies and writes of this rank. Without a free
 * slot the work waits in its flow (transportBusy), and nothing is dropped.
 */
#ifndef GIN_PROXY_BOUNCE_H
#define GIN_PROXY_BOUNCE_H

#include "copies.h"
#include "fabric.h"
#include "message.h"

#define BOUNCE_LANDINGS_LEAST 2u
#define BOUNCE_LANDINGS_MOST 8u
#define BOUNCE_ALIGN 16u /* of a slot */

/*
 * Most chunks in use, without replies: of a lane, and of a peer, so that a stopped peer leaves
 * chunks to others.
 */
#define BOUNCE_CHUNKS 256u
#define BOUNCE_CHUNKS_OF_PEER 64u

/*
 * The slots of a lane, as it describes them to peers: for each rank, in the order of ranks,
 * `landings` landing slots, half as many get slots, as many reply slots, and `landings` send slots.
 */
struct bounceOffer {
	struct fabricKey memory;
	uint32_t slotBytes, landings; /* 0: there are no slots */
};

static inline uint32_t bounceGetsOf(const struct bounceOffer *o)
{
	return o->landings / 2;
}

/* Slots that this rank fills or asks to fill. */
enum bounceSlot { slotGet, slotReply, slotSend, slotNone };

enum bounceKind {
	chunkPut,   /* to a landing slot */
	chunkWrite, /* to a window that the network reaches */
	chunkWord,  /* the word of a work, after earlier chunks */
	chunkReply, /* to a peer's get slot */
	chunkRead,  /* from a window that the network reaches, to a get slot */
	chunkFetch  /* from a peer's window, to a get slot, by the peer */
};

#define BOUNCE_NONE 0xff

struct bounceChunk {
	struct networkPeer *peer;
	struct proxyWork *work; /* NULL: chunkReply */
	uint8_t kind;		/* enum bounceKind */
	uint8_t slotKind;	/* enum bounceSlot */
	uint8_t slot;		/* of its kind and the peer */
	uint8_t landing;	/* at the peer, or BOUNCE_NONE */

	uint8_t isGiven; /* the fabric has taken all of it */
	uint32_t bytes;
	uint32_t given;	 /* bytes that the fabric has taken */
	uint32_t inAir;	 /* operations of the fabric */
	uint32_t number; /* chunkReply: of the message that asks */
	char *local;	 /* the slot, or the source itself */
	char *target;	 /* chunkRead, chunkFetch: in this rank's memory */
	uint8_t targetByCpu;
	uint8_t isCopying; /* chunkRead, chunkFetch: to the target */
	copyTicket copy;
	struct fabricKey remote;
	uint64_t named; /* chunkPut: the target */
	struct bounceChunk *next;
};

struct bounceList {
	struct bounceChunk *first, *last; /* last: valid if `first` is not NULL */
};

/* A lane's record of a peer. */
struct bouncePeer {
	struct bounceOffer offer;
	uint32_t landings; /* a bit each: landing slots at the peer that this rank may write */
	uint32_t free[slotNone];   /* by kind, a bit each: free slots at this rank for the peer */
	uint32_t chunks;	   /* in use, without replies */
	struct bounceList ordered; /* puts, writes and words: given to the fabric in this order */
	struct bounceList loose;   /* replies and reads: given in any order */
	struct bounceList landed;  /* their bytes are in landing slots; the message is not sent */
	struct bounceList arrived; /* their bytes are in get slots */
	uint8_t isActive;	   /* in the lane's list */
	struct networkPeer *nextActive;
};

struct bounceLane {
	char *memory; /* pinned; NULL: no slots */
	struct fabricRegion *region;
	struct bounceOffer offer;

	uint32_t chunks; /* in use, without replies */
	struct copies copies;
	struct networkPeer *active;
	struct bounceChunk *freeChunks;
	uint32_t nChunks; /* BOUNCE_CHUNKS, and one for each reply slot */
	struct bounceChunk chunk[];
};

struct networkLane;
struct networkPeer;

/*
 * bounce.c. A lane without slots is used only to retry messages that wait for a word in GPU memory.
 * `network`: its name, for messages.
 */
ginResult_t bounceOpen(struct networkLane *lane, struct fabric *fabric, int hasSlots,
		       const char *network);
void bounceClose(struct networkLane *lane);
/* Forgets all chunks in flight. */
void bounceStop(struct networkLane *lane);
/* The peer's offer has arrived. */
void bounceConnect(struct networkLane *lane, uint32_t rank, const struct bounceOffer *offer);

/* Is anything in flight that needs bounceTurn()? */
static inline int bounceIsActive(const struct bounceLane *b)
{
	return b && b->active;
}

void bounceActivate(struct networkLane *lane, struct networkPeer *peer);

/* A chunk, with a slot unless slotNone. NULL: no chunk or slot is free. */
struct bounceChunk *bounceTake(struct networkLane *lane, struct networkPeer *peer,
			       enum bounceKind kind, enum bounceSlot slot);
void bounceGive(struct networkLane *lane, struct bounceChunk *chunk);

/* Copies between slots and windows have failed for good. Returns fabricFailed. */
int bounceCopyFailed(struct networkLane *lane);

static inline uint32_t bounceMask(uint32_t count)
{
	return (1u << count) - 1;
}

/* Where landing slot `slot` of `rank` begins in the memory that is offered. */
static inline uint64_t bounceLandingAt(const struct bounceOffer *o, uint32_t rank, uint32_t slot)
{
	uint32_t slots = 2 * o->landings + 2 * bounceGetsOf(o); /* of a rank */

	return ((uint64_t)rank * slots + slot) * o->slotBytes;
}

static inline uint64_t bounceSlotAt(const struct bounceOffer *o, uint32_t rank,
				    enum bounceSlot kind, uint32_t slot)
{
	return bounceLandingAt(o, rank, o->landings + kind * bounceGetsOf(o) + slot);
}

/* chunks.c: does the data of the work, whose op is at most ginOpGet, need slots? */
int bounceNeeds(const struct networkLane *lane, const struct proxyWork *work);
/* Does the lane lack the slots that the work needs? */
int bounceLacks(const struct networkLane *lane, const struct proxyWork *work);
/* Makes chunks of the work's data from peer->sent on. */
int bounceData(struct networkLane *lane, struct networkPeer *peer, struct proxyWork *work);
/* One operation of the chunk is done. */
void bounceDone(struct networkLane *lane, struct bounceChunk *chunk, int error);
/* Goes on with all chunks and copies. */
void bounceTurn(struct networkLane *lane);
/* The peer is lost: its chunks fail. */
void bounceLose(struct networkLane *lane, struct networkPeer *peer);

/* chunks.c, for put.c, get.c and replies: appends the chunk to a list of its peer. */
void bounceQueue(struct networkLane *lane, struct bounceList *list, struct bounceChunk *chunk);
/* Does the work's memory at the peer, or here, go through slots? */
int bouncesThere(const struct proxyWork *work);
int bouncesHere(const struct networkLane *lane, const struct proxyWork *work);
/* As bounceTake(): a chunk of the work's bytes from peer->sent on. */
struct bounceChunk *bounceTakeFor(struct networkLane *lane, struct networkPeer *peer,
				  struct proxyWork *work, enum bounceKind kind,
				  enum bounceSlot slot);
/* The chunk is written into the peer's window, or read from it. */
void bounceAimAtWindow(const struct networkLane *lane, struct bounceChunk *chunk);
/* The next chunk follows it. */
void bounceBegun(struct bounceChunk *chunk);

/* put.c: the next chunk or value of a put. Returns fabricOk, fabricBusy or fabricFailed. */
int bouncePut(struct networkLane *lane, struct networkPeer *peer, struct proxyWork *work);
/* Queues the word of the work after the chunks that are not given to the fabric yet. */
int bounceWord(struct networkLane *lane, struct networkPeer *peer, struct proxyWork *work);
/* Tells the peer that the chunk is in its landing slot, or will be there before the message. */
int bounceSendLanded(struct networkLane *lane, struct bounceChunk *chunk);

/* get.c: the next chunk of a get. Returns fabricOk, fabricBusy or fabricFailed. */
int bounceGet(struct networkLane *lane, struct networkPeer *peer, struct proxyWork *work);
/* Starts the copies of all chunks that have arrived: copies and network overlap. */
void bounceStartCopies(struct networkLane *lane, struct bounceList *list);
/* Is the chunk that has arrived copied to its target? fabricBusy: not yet. */
int bounceCopied(struct networkLane *lane, struct bounceChunk *chunk);
/* The chunk that replies to a fetch, without its bytes. NULL: no slot is free. */
struct bounceChunk *bounceReplyTo(struct networkLane *lane, struct networkPeer *peer,
				  const struct message *message);

static inline int bounceOwns(const struct bounceLane *b, const void *context)
{
	uintptr_t at = (uintptr_t)context;

	return b && at >= (uintptr_t)b->chunk && at < (uintptr_t)(b->chunk + b->nChunks);
}

#endif
