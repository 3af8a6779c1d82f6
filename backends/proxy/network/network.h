/* SPDX-License-Identifier: BSD-3-Clause */
/* network.h - the transport over a network: structures and functions that only its files use */
#ifndef GIN_PROXY_NETWORK_H
#define GIN_PROXY_NETWORK_H

#include "backends/proxy/words/device_word.h"
#include "backends/proxy/transport.h"
#include "lib/base/net/auth.h"
#include "fabric.h"
#include "bounce.h"
#include "message.h"
#include "choice/rails.h"

struct networkLane;

/* Touched by the worker of its lane, as struct networkLane. */
struct networkPeer {
	uint64_t address;		/* of the fabric */
	struct messageChannel *channel; /* NULL: no message has been sent or has arrived */
	struct proxyWork *begun;	/* the fabric has taken some of it */
	uint64_t sent;			/* bytes of `begun` that the fabric has taken */
	uint8_t isLost;
	uint8_t owes;	  /* a cursor or answers; then it is in the lane's list */
	uint8_t patience; /* passes that a cursor may wait for a message to travel with */
	struct networkPeer *nextOwing;
	struct networkPeer *nextWaiting; /* for the lane's `word` */
	uint8_t isWaiting;
	uint8_t keyTo[AUTH_KEY_BYTES], keyFrom[AUTH_KEY_BYTES]; /* if the lane proves messages */
	struct bouncePeer bounce;
};

/*
 * With its peers, their channels and the slots: touched by its worker, under the worker's lock;
 * before workers start and after they have ended by the calls that open and close. Any thread:
 * copiesWait().
 */
struct networkLane {
	const struct transportScope *scope;
	const struct fabricCalls *fabric;
	uint64_t mostBytes;
	uint8_t isOrdered, bouncesAll;
	uint32_t index;	    /* chooses the rail of each rank: networkKeyOf() */
	uint8_t reachesGpu; /* the network reads and writes this rank's GPU memory */
	uint8_t hasImmediates;
	uint8_t proves;	       /* messages carry proofs: proof.c */
	uint64_t forged;       /* messages that were dropped */
	struct fabricEnd *end; /* NULL: stopped */
	struct bounceLane
		*bounce;	/* NULL: no slots, and no words of GPU memory that streams change */
	struct deviceWord word; /* changes a word of this rank's GPU memory */
	struct networkPeer *wordPeer; /* for a message of this peer; NULL: none, or it is lost */
	struct networkPeer *waiting;  /* for `word`; the first is the next */
	struct networkPeer *owing;
	uint64_t glancesUntil; /* until then the lane does not poll: networkOwe(); 0: it polls */
	struct proxyWork *head, *tail; /* have landed, for landed() */
	uint32_t begun;		       /* peers with a work in `begun` */
	uint64_t late;		       /* messages that named windows which were gone */
	struct networkPeer peer[];     /* [nRanks] */
};

/* The keys of a part. The NICs of several rails have short keys and one address: verbs. */
struct networkKeys {
	uint64_t address; /* of the first byte */
	union {
		uint64_t one;			/* of the only rail */
		uint32_t ofRail[NETWORK_RAILS]; /* of several rails */
	};
};

/* A rank's part of a window. */
struct networkPart {
	struct networkKeys keys;
	uint8_t rails;	 /* of the rank */
	uint8_t bounces; /* the network does not reach it, and there is no key */
};

/* The window as the network knows it: network.c. Fixed as struct proxyWindow is. */
struct networkWindow {
	struct fabricRegion *region[NETWORK_RAILS]; /* NULL: empty, or not reached */
	struct networkPart part[];		    /* [nRanks] */
};

/* lane.c: the calls of struct transportOps on lanes. */
ginResult_t networkStart(void *lane, struct proxyWork *work);
ginResult_t networkRaise(void *lane, struct proxyWork *work);
uint32_t networkReceiveAll(void *lane);
int networkArm(void *lane, int isBrief);
void networkChain(void *lane);
struct proxyWork *networkNext(void *lane);
void networkDrain(void *lane);
void networkStop(void *lane);
void networkLaneFree(struct networkLane *lane);

/*
 * meet.c: waits until this rank and the peers of the lane reach each other. The ranks have agreed
 * that all lanes are connected.
 */
ginResult_t networkMeetLane(struct networkLane *lane);

/* Makes the channel of a peer. NULL: there is no memory, and the peer is lost. */
struct messageChannel *networkChannelOpen(struct networkLane *lane, uint32_t rank);

/* One operation of the work has landed. */
void networkLanded(struct networkLane *lane, struct proxyWork *work);

/* Makes the communicator fail with the sentence. Nothing more is sent to the peer. */
void networkLose(struct networkLane *lane, uint32_t rank, const char *why);

/* Is there room for one message to the peer, and its channel? Returns as networkSendWord(). */
int networkRoom(struct networkLane *lane, struct networkPeer *peer);

/* After networkRoom(): sends the message with the channel's next number, for out->work. */
int networkSend(struct networkLane *lane, struct networkPeer *peer, const struct message *m,
		const struct messageOut *out);

/* Sends the word of the work. Returns fabricOk, fabricBusy or fabricFailed. */
int networkSendWord(struct networkLane *lane, struct networkPeer *peer, struct proxyWork *work);

/* proof.c: makes the keys for messages to and from the peer. */
void networkMakeKeys(struct networkLane *lane, uint32_t rank);

/* proof.c: gives the fabric a message, with its proof. */
int networkTransmit(struct networkLane *lane, const struct networkPeer *peer,
		    const struct message *m);

/* proof.c: the bytes of a message without its proof. 0: the proof is wrong; then it is counted. */
uint32_t networkProven(struct networkLane *lane, const unsigned char *bytes, uint32_t length);

/* proof.c: counts what no rank has sent. */
void networkForged(struct networkLane *lane);

/* receive.c: begins the kept messages that are due, and moves the cursor. */
void networkAdvance(struct networkLane *lane, struct networkPeer *peer);

/* receive.c: the peer no longer waits for the lane's `word`: it has it, or it is lost. */
void networkStopWaiting(struct networkLane *lane, struct networkPeer *peer);

/* receive.c: is a message kept, or a copy into a window in flight? */
int networkIsBehind(const struct messageChannel *channel);

/* receive.c: the data that message `number` of the peer asks for has arrived at the peer. */
void networkOweAnswer(struct networkLane *lane, struct networkPeer *peer, uint32_t number);

/* receive.c: executes a message. */
void networkReceive(struct networkLane *lane, const unsigned char *bytes, uint32_t length);

/* receive.c: raises the signal that an immediate names. */
void networkReceiveImmediate(struct networkLane *lane, uint32_t rank, uint32_t immediate);

/* acknowledge.c: a cursor is owed to the peer, and the answers that the channel keeps. */
void networkOwe(struct networkLane *lane, struct networkPeer *peer);

/* acknowledge.c: sends the answers and cursors that are owed, as far as there is room. */
void networkAcknowledge(struct networkLane *lane);

/* The key of the rail that the lane uses at the rank with this part. */
static inline struct fabricKey networkKeyOf(const struct networkLane *lane,
					    const struct networkPart *part)
{
	const struct networkKeys *k = &part->keys;

	return (struct fabricKey){k->address,
				  part->rails > 1 ? k->ofRail[lane->index % part->rails] : k->one};
}

/* The channel of a peer, or NULL: there is no memory, and the peer is lost. */
static inline struct messageChannel *networkChannel(struct networkLane *lane, uint32_t rank)
{
	struct messageChannel *c = lane->peer[rank].channel;

	return c ? c : networkChannelOpen(lane, rank);
}

static inline uint32_t networkRank(const struct networkLane *lane, const struct networkPeer *peer)
{
	return (uint32_t)(peer - lane->peer);
}

/* A message without contents, for networkSend(). */
static inline struct message networkMessage(const struct networkLane *lane,
					    const struct networkPeer *peer, enum messageKind kind)
{
	return messageNext(peer->channel, (uint32_t)lane->scope->host->rank, kind);
}

#endif
