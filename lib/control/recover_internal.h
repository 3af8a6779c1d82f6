/* SPDX-License-Identifier: BSD-3-Clause */
/* recover_internal.h - for recover.c, recover_peer.c and the control plane's thread only */
#ifndef GIN_LIB_RECOVER_INTERNAL_H
#define GIN_LIB_RECOVER_INTERNAL_H

#include "internal.h"
#include "datagram.h"
#include "recover.h"

enum recoverPhase {
	recoverIdle,   /* not in the call */
	recoverGather, /* the set of the ranks that are out still grows */
	recoverFixed   /* the set is fixed */
};

#define RECOVER_MAGIC UINT32_C(0x336e6967) /* "gin3" */

/*
 * Followed by the set of the ranks that are out, then by `entries` entries. A copy of a datagram is
 * dropped, whoever sends it: its number has come before, or it is for another rank.
 */
struct recoverHeader {
	uint64_t hash;	 /* of all that follows */
	uint64_t number; /* increases with each datagram of the sender, for the life of the key */
	uint32_t magic;
	uint32_t rank, to;
	uint32_t attempt, finished; /* as in struct recovery */
	uint32_t entryBytes;
	uint8_t phase;
	uint8_t asks; /* the sender wants an answer */
	uint8_t entries;
	uint8_t refused; /* as in struct recoverEntries */
	/* Of a question: the candidate address to which it goes, plus 1. Its answer repeats it. */
	uint32_t via;
};

_Static_assert(sizeof(struct recoverHeader) == 48, "the hash covers no padding");

/* The record of another rank. */
struct recoverPeer {
	uint64_t number; /* of its newest datagram */
	uint64_t heard;	 /* when that one came; 0: never */
	unsigned proven; /* the candidate address at which it has answered, plus 1; 0: none */
	uint32_t attempt;
	uint32_t refused, returned; /* bits of candidates whose datagrams came back */
	uint8_t phase;
	uint8_t agrees;	    /* its set is this rank's set */
	uint8_t hasEntries; /* recoverExchange() has given it its two entries */
	uint8_t gone;	    /* its port is closed */
};

struct recovery {
	int fd;
	enum recoverPhase phase;
	uint64_t sent;	  /* datagrams of this rank */
	uint32_t attempt; /* of this rank; attempts count from 1 for the life of the communicator */
	uint32_t newest;  /* the highest attempt of any rank */
	uint32_t finished; /* the attempt that last gave this rank a communicator; 0: none */
	int by;		   /* the rank that has left this rank out in this call, or -1 */
	int outBy;	   /* the rank that has left this rank out for good, or -1 */
	int ahead; /* a rank that has a communicator which this rank failed to join, or -1 */
	int grew;  /* the set, after it was fixed */
	uint64_t began;

	/* From the first recoverBegin() on. */
	uint8_t *out;		  /* a bit for each rank that is out */
	struct recoverPeer *peer; /* [nRanks] */
	uint8_t *datagram;	  /* to send, and one to receive after it */

	/* During recoverExchange(), and after it until recoverEnd(). */
	int *members; /* [nMembers]; copy of the team's */
	int nMembers;
	size_t entryBytes;
	uint8_t *entries; /* leader: [nMembers]; others: of this rank, the root, the parent */
	uint8_t *arrived; /* leader: [nMembers]; others: [0] is set when the entries have arrived */
	int missing;	  /* the leader's: entries not yet arrived */
	int refusal;	  /* the leader's: the first member that refuses, or -1 */
	int refused;
};

/* The caller of all functions below holds the lock of struct control. */

static inline int recoverIsOut(const uint8_t *out, int rank)
{
	return out[rank / 8] >> rank % 8 & 1;
}

static inline size_t recoverSetBytes(const struct control *c)
{
	return ((size_t)c->nRanks + 7) / 8;
}

/* Makes the socket, unless this rank is alone. `at` NULL: at every address. */
ginResult_t recoverOpen(struct control *c, const struct netAddress *at, uint16_t *port);

/* Makes the tables of a call. */
ginResult_t recoverTables(struct control *c);
void recoverClose(struct control *c);

/* The thread: reads what has arrived, answers, and wakes the caller of recoverAgree(). */
void recoverRead(struct control *c);

/*
 * Handles a datagram, of any bytes, if its hash is right and it has not come before. The tables
 * must exist.
 */
void recoverTake(struct control *c, const uint8_t *datagram, size_t bytes,
		 const union datagramAddress *from);

/* Asks a rank for its state. */
void recoverAsk(struct control *c, int rank);

/* Has the rank died, or closed its communicator? */
int recoverIsGone(const struct control *c, int rank);

/* Puts a rank into the set. Returns 1 if it was not in it. */
int recoverTakeOut(struct recovery *v, const struct control *c, int rank);

/* The lowest rank that is not out, or nRanks. */
int recoverLeader(const struct control *c);

#endif
