/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine.h - executes the descriptors of one context's ring
 *
 * One worker uses an engine, under the worker's lock. The descriptors in flight are the tickets
 * from `retired` to `taken`. The works to one peer form a flow, in ticket order. When the data of a
 * work has landed, its weak signal is raised at once. Its strong signal, its counter and the done
 * words wait until all earlier works of the flow have landed.
 */
#ifndef GIN_PROXY_ENGINE_H
#define GIN_PROXY_ENGINE_H

#include "descriptor.h"
#include "ring.h"
#include "stats.h"
#include "transport.h"

/* Most descriptors of a context in flight; further descriptors stay in the ring. */
#define ENGINE_WORKS 1024u

/* Most descriptors taken before the transport is asked for landed works. */
#define ENGINE_BATCH 64u

struct proxyFlow {
	struct proxyWork *head, *tail; /* NULL: nothing is in flight to the peer */
	ginResult_t failure;	       /* of the first failed transfer; no later signal is raised */
};

struct proxyEngine {
	struct proxyRing ring;
	struct descriptorScope scope;
	uint32_t logDepth, context, rank;
	uint32_t worker;  /* index of its worker */
	uint64_t devComm; /* number of the device communicator, for messages */
	uint64_t taken, retired;
	uint32_t worksMask;
	ginResult_t failure;	 /* of the whole ring: an invalid descriptor */
	struct proxyWork *works; /* [worksMask + 1], by ticket */
	struct proxyFlow *flows; /* [nRanks] */
	struct proxyStats stats;
	struct proxyEngine *next; /* in the worker's list */
};

ginResult_t engineMake(const struct proxyRing *ring, const struct descriptorScope *scope,
		       uint32_t depth, struct proxyEngine **out);
void engineFree(struct proxyEngine *engine);

/* Is any descriptor in flight? */
static inline int engineIsBusy(const struct proxyEngine *engine)
{
	return engine->taken != engine->retired;
}

/* Takes posted descriptors and starts them. Returns how many. */
uint32_t engineTake(struct proxyEngine *engine, const struct transportOps *ops, void *transport);

/* The work, of any engine, has landed or has failed: see work->result. */
void engineLanded(struct proxyWork *work);

/* Retires the completed tickets and publishes the done word of all peers. */
void engineRetire(struct proxyEngine *engine);

#endif
