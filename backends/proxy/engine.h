/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine.h - one context's descriptors, from its ring to their completion
 *
 * Used by one thread of the proxy. What is under way is a window of tickets, retired to taken; of
 * each peer the works form a flow, in order. A work that has landed raises a weak signal at once; a
 * strong one, its counter and the done word wait until those before it in the flow have.
 */
#ifndef GIN_PROXY_ENGINE_H
#define GIN_PROXY_ENGINE_H

#include "descriptor.h"
#include "ring.h"
#include "stats.h"
#include "transport.h"

/* Most descriptors of a context that are under way; then the ring waits. */
#define ENGINE_WORKS 1024u

/* Most descriptors that are taken before what has landed is looked at. */
#define ENGINE_BATCH 64u

struct proxyFlow {
	struct proxyWork *head, *tail; /* NULL: nothing is under way to the peer */
	ginResult_t failure; /* of the first transfer that failed: no signal may cover it */
};

struct proxyEngine {
	struct proxyRing ring;
	struct descriptorScope scope;
	uint32_t logDepth, context, rank;
	uint32_t worker;  /* whose it is */
	uint64_t devComm; /* its number, for messages */
	uint64_t taken, retired;
	uint32_t worksMask;
	ginResult_t failure; /* of the queue as a whole */
	struct proxyWork *works;
	struct proxyFlow *flows; /* [nRanks] */
	struct proxyStats stats;
	struct proxyEngine *next; /* of the thread's */
};

ginResult_t engineMake(const struct proxyRing *ring, const struct descriptorScope *scope,
		       uint32_t depth, struct proxyEngine **out);
void engineFree(struct proxyEngine *engine);

/* Is there anything under way? */
static inline int engineIsBusy(const struct proxyEngine *engine)
{
	return engine->taken != engine->retired;
}

/* Takes what has been posted and starts it; how many. */
uint32_t engineTake(struct proxyEngine *engine, const struct transportOps *ops, void *transport);

/* A work of whatever engine has landed. */
void engineLanded(struct proxyWork *work);

/* Tells the kernels what has been done since the last call. */
void engineRetire(struct proxyEngine *engine);

#endif
