/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pairs.h - the queue pairs of a device communicator
 *
 * Each context has one queue pair for each peer on the gdaki route. If direct routes are in use
 * too, each peer on another route has one queue pair, shared by all contexts. This rank is a peer
 * of itself: that queue pair is connected to itself.
 */
#ifndef GIN_GDAKI_PAIRS_H
#define GIN_GDAKI_PAIRS_H

#include "backends/backend.h"
#include "backends/rdma/rdma.h"

struct gdakiPairsWanted {
	const struct backendHost *host;
	const struct rdma *rdma;
	struct rdmaPort *port;
	const struct rdmaAddress *addresses;	 /* [nRanks] */
	int (*serves)(const void *of, int rank); /* is the rank on the gdaki route? */
	const void *of;
	struct rdmaPath path;
	uint32_t contexts, depth;
	int shared;	    /* 1: with shared queue pairs for ranks on other routes */
	uint32_t registers; /* doorbell registers, 1 at least */
};

struct gdakiPairs {
	struct gdakiPairsWanted wanted;
	struct rdmaQueues *queues; /* NULL: there are no queue pairs */
	char *slab;		   /* laid out by rdmaLayoutOf() */
	uint32_t peers;		   /* ranks on the gdaki route */
	uint32_t others;	   /* ranks with a shared queue pair */
	uint32_t *index;	   /* [nRanks]: 0 to peers - 1, or 0 to others - 1 */
	struct rdmaEnd *ends;	   /* [contexts * peers + others], by queue */
};

#define PAIRS_NONE UINT32_MAX

/* Collective, with the rules of backendOps.windowRegister. The device's scope is entered. */
ginResult_t pairsOpen(const struct gdakiPairsWanted *wanted, const char *call, ginResult_t mine,
		      struct gdakiPairs **pairs);
/* No kernel uses the queue pairs any more. */
void pairsClose(struct gdakiPairs *pairs);

/* Adds the queue pairs of a device communicator whose peers are all on the gdaki route. */
void pairsPlan(struct plan *plan, uint32_t depth);

/*
 * The queue to that peer, by its index in the slab, or PAIRS_NONE. `context` == wanted.contexts
 * selects the shared queues, which come last in the slab.
 */
uint32_t pairsQueue(const struct gdakiPairs *pairs, uint32_t context, int peer);
uint32_t pairsCount(const struct gdakiPairs *pairs);

/* "context 3", or "all contexts" for a shared queue. */
enum { PAIRS_OWNER = 64 };
void pairsOwner(const struct gdakiPairs *pairs, uint32_t queue, char text[PAIRS_OWNER]);
/* The rank that the queue leads to. */
int pairsPeer(const struct gdakiPairs *pairs, uint32_t queue);

/*
 * Asks the device for the state of each queue pair: some 100 us for each. Returns the peer of the
 * first queue pair that has failed, and `why`; or -1. Must not run concurrently with pairsClose().
 */
int pairsFailed(const struct gdakiPairs *pairs, char *why);

/* Asks the device: is the queue pair in the error state? Otherwise as pairsFailed(). */
int pairsIsBroken(const struct gdakiPairs *pairs, uint32_t queue);

#endif
