/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine.h - executes the descriptors of one context's ring
 *
 * One worker uses an engine, under the worker's lock. The descriptors in flight are the tickets
 * from `retired` to `taken`. The works to one peer form a flow, in ticket order. When the data of a
 * work has landed, its weak signal is raised at once. Its strong signal waits until all earlier
 * works of the flow have landed, its counter and the done words until all earlier works are
 * complete.
 *
 * A transport without room stalls the flow: its works wait, and each pass of the worker tries
 * again. Nothing is dropped, and other flows go on.
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

/* Touched by the engine's worker, under its lock. */
struct proxyFlow {
	struct proxyWork *head, *tail; /* NULL: nothing is in flight to the peer */
	struct proxyWork *turn;	       /* the first work that may not change its word yet */
	struct proxyWork *waiting;     /* the first work that the transport had no room for */
	struct proxyFlow *nextStalled; /* in the engine's list */
	uint8_t isStalled;
	uint8_t lost;	 /* ginResult_t in the done word: no later work counts */
	uint8_t failure; /* ginResult_t of the first failed transfer; no later word is changed */
	/*
	 * Ordered transports: works in flight that are gets, or whose word does not follow the data
	 * at once. While there is one, the word of a later work is not carried.
	 */
	uint32_t loose;
	struct proxyPeerStats stats; /* any thread reads them */
};

/* Touched by its worker, under the worker's lock; by any thread: `worker`, and `stats` to read. */
struct proxyEngine {
	struct proxyRing ring;
	struct descriptorScope scope;
	uint32_t logDepth, context;
	uint32_t worker;  /* index of its worker */
	uint64_t devComm; /* number of the device communicator, for messages */
	uint64_t taken, retired;
	uint32_t worksMask;
	ginResult_t failure;	      /* of the whole ring: an invalid descriptor */
	struct proxyWork *works;      /* [worksMask + 1], by ticket */
	struct proxyFlow *flows;      /* [nRanks] */
	struct proxyFlow *stalled;    /* flows that wait for room in their transport */
	struct transportLanes *lanes; /* of its worker */
	struct proxyStats stats;
	struct proxyEngine *next; /* in the worker's list */
};

ginResult_t engineMake(const struct proxyRing *ring, const struct descriptorScope *scope,
		       uint32_t depth, struct proxyEngine **out);
void enginePlan(struct plan *plan);
void engineFree(struct proxyEngine *engine);

/* Is any descriptor in flight? */
static inline int engineIsBusy(const struct proxyEngine *engine)
{
	return engine->taken != engine->retired;
}

/* The peer of the first descriptor in flight, of a busy engine. */
static inline int engineFirstPeer(const struct proxyEngine *engine)
{
	return (int)engine->works[engine->retired & engine->worksMask].peer;
}

/* Takes posted descriptors and starts them. Returns how many. */
uint32_t engineTake(struct proxyEngine *engine);

/* Tries the stalled flows again. Returns 1 if there was one. */
int engineResume(struct proxyEngine *engine);

/* The network lanes are stopped: their works in flight have failed. */
void engineAbandon(struct proxyEngine *engine);

/*
 * The work, of any engine, has landed or failed, as work->result says; or, if its data had landed
 * before, its word has been changed.
 */
void engineLanded(struct proxyWork *work);

/* Retires the completed tickets and publishes the done word of all peers. */
void engineRetire(struct proxyEngine *engine);

#endif
