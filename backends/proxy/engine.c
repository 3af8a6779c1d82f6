/* SPDX-License-Identifier: BSD-3-Clause */
/* engine.c - executes the descriptors of one context's ring */
#include "engine.h"

#include <stdlib.h>

#include "lib/base/log.h"

ginResult_t engineMake(const struct proxyRing *ring, const struct descriptorScope *scope,
		       uint32_t depth, struct proxyEngine **out)
{
	struct proxyEngine *e = calloc(1, sizeof(*e));
	uint32_t works = depth < ENGINE_WORKS ? depth : ENGINE_WORKS;

	if (e) {
		e->ring = *ring;
		e->scope = *scope;
		e->logDepth = (uint32_t)__builtin_ctz(depth);
		e->worksMask = works - 1;
		e->works = calloc(works, sizeof(*e->works));
		e->flows = calloc(scope->nRanks, sizeof(*e->flows));
	}
	if (!e || !e->works || !e->flows) {
		engineFree(e);
		return fail(ginErrorSystem, "no memory");
	}
	*out = e;
	return ginSuccess;
}

void engineFree(struct proxyEngine *e)
{
	if (!e)
		return;
	free(e->works);
	free(e->flows);
	free(e);
}

/* R, release end: pairs with ginDoneObserve. A failure in the word is never overwritten. */
static void publishDone(struct proxyEngine *e, uint32_t which, uint64_t tickets)
{
	uint64_t *word = &e->ring.done[which];

	if (!(*word & GIN_QUEUE_FAILED))
		__atomic_store_n(word, tickets, __ATOMIC_RELEASE);
}

static void publishFailure(struct proxyEngine *e, uint32_t which, ginResult_t why)
{
	publishDone(e, which, GIN_QUEUE_FAILED | (uint64_t)why);
}

static void changeWord8(struct proxyWork *w)
{
	uint64_t old = w->value[1];

	if (w->op == ginOpFetchAdd)
		old = __atomic_fetch_add(w->word, w->value[0], __ATOMIC_ACQ_REL);
	else if (w->op == ginOpSwap)
		old = __atomic_exchange_n(w->word, w->value[0], __ATOMIC_ACQ_REL);
	else
		__atomic_compare_exchange_n(w->word, &old, w->value[0], 0, __ATOMIC_ACQ_REL,
					    __ATOMIC_ACQUIRE);
	w->value[0] = old;
}

static void changeWord4(struct proxyWork *w)
{
	uint32_t *word = (uint32_t *)(void *)w->word;
	uint32_t operand = (uint32_t)w->value[0], old = (uint32_t)w->value[1];

	if (w->op == ginOpFetchAdd)
		old = __atomic_fetch_add(word, operand, __ATOMIC_ACQ_REL);
	else if (w->op == ginOpSwap)
		old = __atomic_exchange_n(word, operand, __ATOMIC_ACQ_REL);
	else
		__atomic_compare_exchange_n(word, &old, operand, 0, __ATOMIC_ACQ_REL,
					    __ATOMIC_ACQUIRE);
	w->value[0] = old;
}

/* A, both ends; and R, release end, for the old value: pairs with ginDoneObserve. */
static void changeWord(struct proxyWork *w)
{
	(w->bytes == 8 ? changeWord8 : changeWord4)(w);
	if (!w->oldValue)
		return;
	__atomic_store_n(w->oldValue, w->value[0], __ATOMIC_RELAXED);
	__atomic_store_n(w->resultTicket, w->ticket + 1, __ATOMIC_RELEASE);
}

/*
 * Raises the signal, sets the barrier word, or does the atomic.
 * S and B, release ends: pair with ginSignalObserve and ginBarrierObserve.
 */
static void raise(struct proxyWork *w)
{
	if (!w->word)
		return;
	if (w->op == ginOpBarrier)
		__atomic_store_n(w->word, w->value[0], __ATOMIC_RELEASE);
	else if (w->op >= ginOpFetchAdd)
		changeWord(w);
	else
		__atomic_fetch_add(w->word, w->addend, __ATOMIC_RELEASE);
	w->word = NULL;
}

/* C, release end: pairs with ginDoneObserve. */
static void count(struct proxyWork *w)
{
	if (w->counter)
		__atomic_fetch_add(w->counter, 1, __ATOMIC_RELEASE);
}

/* Ends waits for counters. Relaxed: the word's value is complete by itself. */
static void failCounters(struct proxyEngine *e, ginResult_t why)
{
	if (!e->ring.failed[1])
		__atomic_store_n(&e->ring.failed[1], (uint64_t)why, __ATOMIC_RELAXED);
}

/*
 * The first failure of the flow is final: a later signal to this peer would claim that the lost
 * transfer had arrived.
 */
static void failFlow(struct proxyEngine *e, struct proxyFlow *flow, struct proxyWork *w)
{
	if (flow->failure == ginSuccess)
		flow->failure = w->result;
	publishFailure(e, w->peer, flow->failure);
	publishFailure(e, e->scope.nRanks, flow->failure);
	failCounters(e, flow->failure);
}

/*
 * R, release end: pairs with ginDoneObserve. Ends the wait for the old value of an atomic that was
 * not done; the peer's done word has the reason.
 */
static void failAtomic(const struct proxyWork *w)
{
	if (w->resultTicket)
		__atomic_store_n(w->resultTicket, GIN_QUEUE_FAILED | (w->ticket + 1),
				 __ATOMIC_RELEASE);
}

/* All earlier works of the flow are complete. */
static void complete(struct proxyEngine *e, struct proxyFlow *flow, struct proxyWork *w)
{
	int well = w->result == ginSuccess && flow->failure == ginSuccess;

	statsCount(&e->stats, w, well);
	if (well)
		raise(w);
	statsCompleted(&e->stats, w, well);
	if (well) {
		count(w);
		publishDone(e, w->peer, w->ticket + 1);
	} else {
		failFlow(e, flow, w);
		failAtomic(w);
	}
	w->state = workCompleted;
}

void engineLanded(struct proxyWork *w)
{
	struct proxyEngine *e = w->engine;
	struct proxyFlow *flow = &e->flows[w->peer];

	w->state = workLanded;
	statsLanded(&e->stats, w);
	if (w->isWeak && w->result == ginSuccess)
		raise(w);
	while (flow->head && flow->head->state == workLanded) {
		struct proxyWork *first = flow->head;
		flow->head = first->next;
		complete(e, flow, first);
	}
}

static void append(struct proxyFlow *flow, struct proxyWork *w)
{
	w->next = NULL;
	if (flow->head)
		flow->tail->next = w;
	else
		flow->head = w;
	flow->tail = w;
}

static int movesData(const struct proxyWork *w)
{
	return w->op <= ginOpGet && w->bytes;
}

static void start(struct proxyEngine *e, struct proxyWork *w, const struct transportOps *ops,
		  void *transport)
{
	w->engine = e;
	w->context = e->context;
	w->result = ginSuccess;
	w->state = movesData(w) ? workUnderWay : workLanded;
	append(&e->flows[w->peer], w);
	if (movesData(w))
		w->result = (uint8_t)ops->start(transport, w);
	if (w->result != ginSuccess || w->state == workLanded)
		engineLanded(w);
}

/* After an invalid descriptor the ring is not trusted: every wait on it ends with an error. */
static void failRing(struct proxyEngine *e, uint64_t ticket, const char *wrong)
{
	e->failure = ginErrorInvalidArgument;
	logWrite(logError,
		 "rank %u: descriptor %llu of context %u of device communicator %llu is wrong: %s; "
		 "the context fails",
		 e->rank, (unsigned long long)ticket, e->context, (unsigned long long)e->devComm,
		 wrong);
	/* Relaxed: the word's value is complete by itself. */
	__atomic_store_n(e->ring.failed, (uint64_t)e->failure, __ATOMIC_RELAXED);
	failCounters(e, e->failure);
	for (uint32_t r = 0; r <= e->scope.nRanks; r++)
		publishFailure(e, r, e->failure);
}

/* The ring has failed, which ends the waits of the poster. */
static void drop(struct proxyEngine *e, struct proxyWork *w)
{
	statsCount(&e->stats, w, 0);
	statsCompleted(&e->stats, w, 0);
	w->state = workCompleted;
}

static int takeOne(struct proxyEngine *e, const struct transportOps *ops, void *transport)
{
	uint64_t words[GIN_DESCRIPTOR_WORDS], lap = e->taken >> e->logDepth;
	uint64_t slot = e->taken & ((1ull << e->logDepth) - 1);
	struct proxyWork *w = &e->works[e->taken & e->worksMask];
	const char *wrong = NULL;

	if (!descriptorTake(e->ring.descriptors + slot * GIN_DESCRIPTOR_WORDS,
			    lap & 1 ? 0 : GIN_DESCRIPTOR_PHASE, words))
		return 0;
	w->ticket = e->taken++;
	statsTaken(&e->stats, w);
	if (e->failure == ginSuccess)
		wrong = descriptorResolve(&e->scope, words, w);
	if (wrong)
		failRing(e, w->ticket, wrong);
	if (e->failure == ginSuccess)
		start(e, w, ops, transport);
	else
		drop(e, w);
	return 1;
}

uint32_t engineTake(struct proxyEngine *e, const struct transportOps *ops, void *transport)
{
	uint32_t count = 0;

	while (count < ENGINE_BATCH && e->taken - e->retired <= e->worksMask &&
	       takeOne(e, ops, transport))
		count++;
	/*
	 * Q, release end: pairs with ginHostLook in ginRingRefresh(). The slots have been read and may be written
	 * again.
	 */
	if (count) {
		__atomic_store_n(e->ring.consumed, e->taken, __ATOMIC_RELEASE);
		statsBatch(&e->stats, count);
	}
	return count;
}

void engineRetire(struct proxyEngine *e)
{
	uint64_t before = e->retired;

	while (e->retired < e->taken && e->works[e->retired & e->worksMask].state == workCompleted)
		e->retired++;
	if (e->retired != before)
		publishDone(e, e->scope.nRanks, e->retired);
}
