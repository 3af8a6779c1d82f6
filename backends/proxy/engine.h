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
#include "queue.h"
#include "stats.h"
#include "transport.h"

/* Most descriptors of a context that are under way; then the ring waits. */
#define ENGINE_WORKS 1024u

/* Most descriptors that are taken before what has landed is looked at. */
#define ENGINE_BATCH 64u

struct flow {
	struct proxyWork *head, *tail; /* NULL: nothing is under way to the peer */
	ginResult_t failure; /* of the first transfer that failed: no signal may cover it */
};

struct engine {
	struct hostQueue queue;
	struct scope scope;
	uint32_t logDepth, context, rank;
	uint32_t worker;  /* whose it is */
	uint64_t devComm; /* its number, for messages */
	uint64_t taken, retired;
	uint32_t worksMask;
	ginResult_t failure; /* of the queue as a whole */
	int announced;	     /* `done` of all peers has the failure's mark */
	struct proxyWork *works;
	struct flow *flows; /* [nRanks] */
	struct stats stats;
	struct engine *next; /* of the thread's */
};

ginResult_t engineMake(const struct hostQueue *queue, const struct scope *scope, uint32_t depth,
		       struct engine **out);
void engineFree(struct engine *engine);

/* Is there anything under way? */
static inline int engineIsBusy(const struct engine *engine)
{
	return engine->taken != engine->retired;
}

/* Takes what has been posted and starts it; how many. */
uint32_t engineTake(struct engine *engine, const struct transportOps *ops, void *transport);

/* A work of whatever engine has landed. */
void engineLanded(struct proxyWork *work);

/* Tells the kernels what has been done since the last call. */
void engineTell(struct engine *engine);

#endif
