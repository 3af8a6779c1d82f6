/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pairs.h - the queue pairs of a device communicator: one for each context and peer on this route
 *
 * Peers on other routes have none, or one for all contexts. The own rank is a peer, too, whose queue pair
 * is connected to itself.
 */
#ifndef GIN_GDAKI_PAIRS_H
#define GIN_GDAKI_PAIRS_H

#include "backends/backend.h"
#include "memory.h"

struct gdakiPairsWanted {
	const struct backendHost *host;
	const struct rdma *rdma;
	struct rdmaPort *port;
	const struct rdmaAddress *addresses; /* [nRanks], of the peers on this route */
	int (*serves)(const void *of, int rank);
	const void *of;
	struct rdmaPath path;
	uint32_t contexts, depth;
	int shared;	    /* 1: one more for each rank on another route, of all contexts */
	uint32_t registers; /* doorbell registers, 1 at least */
};

struct gdakiPairs {
	struct gdakiPairsWanted wanted;
	struct rdmaQueues *queues; /* NULL: no peer is on this route */
	char *slab;		   /* rdmaLayoutOf() says what is where */
	uint32_t peers;		   /* on this route */
	uint32_t others;	   /* that have one of all contexts */
	uint32_t *index;	   /* [nRanks]: which of these, or of those */
	struct rdmaEnd *ends;	   /* [contexts * peers + others] */
};

#define PAIRS_NONE UINT32_MAX

/* Collective, as windowRegister(); the device's scope is entered. */
ginResult_t pairsOpen(const struct gdakiPairsWanted *wanted, const char *call, ginResult_t mine,
		      struct gdakiPairs **pairs);
/* No kernel uses them any more. */
void pairsClose(struct gdakiPairs *pairs);

/*
 * The queue for that peer, by its index in the slab, or PAIRS_NONE. Those of all contexts stand last, as
 * if they were of one more.
 */
uint32_t pairsQueue(const struct gdakiPairs *pairs, uint32_t context, int peer);
uint32_t pairsCount(const struct gdakiPairs *pairs);

/* Whose the queue is, in words. */
enum { PAIRS_OWNER = 64 };
void pairsOwner(const struct gdakiPairs *pairs, uint32_t queue, char text[PAIRS_OWNER]);
/* To which rank it is. */
int pairsPeer(const struct gdakiPairs *pairs, uint32_t queue);

/*
 * Which queue pairs have failed, as the device says: the first peer that has one, and `why`; or -1.
 * One command for each: some 100 us. Not with pairsClose() at the same time.
 */
int pairsFailed(const struct gdakiPairs *pairs, char *why);

#endif
