/* SPDX-License-Identifier: BSD-3-Clause */
/* engine.c - one context's descriptors, from its ring to their completion */
#include "engine.h"

#include <stdlib.h>

#include "lib/base/log.h"

ginResult_t engineMake(const struct hostQueue *queue, const struct scope *scope, uint32_t depth,
		       struct engine **out)
{
	struct engine *e = calloc(1, sizeof(*e));
	uint32_t works = depth < ENGINE_WORKS ? depth : ENGINE_WORKS;

	if (e) {
		e->queue = *queue;
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

void engineFree(struct engine *e)
{
	if (!e)
		return;
	free(e->works);
	free(e->flows);
	free(e);
}

/* R, release end: pairs with ginDoneObserve. A word that says a failure keeps saying it. */
static void tellDone(struct engine *e, uint32_t which, uint64_t tickets)
{
	uint64_t *word = &e->queue.done[which];

	if (!(*word & GIN_QUEUE_FAILED))
		__atomic_store_n(word, tickets, __ATOMIC_RELEASE);
}

static void tellFailed(struct engine *e, uint32_t which, ginResult_t why)
{
	tellDone(e, which, GIN_QUEUE_FAILED | (uint64_t)why);
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

/* A, both ends; and R, release end: pairs with ginDoneObserve in ginPostAtomic(). */
static void changeWord(struct proxyWork *w)
{
	(w->bytes == 8 ? changeWord8 : changeWord4)(w);
	if (!w->oldValue)
		return;
	__atomic_store_n(w->oldValue, w->value[0], __ATOMIC_RELAXED);
	__atomic_store_n(w->settled, w->ticket + 1, __ATOMIC_RELEASE);
}

/* S and B, release ends: pair with ginSignalObserve and ginBarrierObserve. */
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

/* C, release end: pairs with ginDoneObserve in readCounter. */
static void count(struct proxyWork *w)
{
	if (w->counter)
		__atomic_fetch_add(w->counter, 1, __ATOMIC_RELEASE);
}

/* Waits for counters end. Relaxed: pairs with ginHostWordObserve, the word says all. */
static void tellCounters(struct engine *e, ginResult_t why)
{
	if (!e->queue.failed[1])
		__atomic_store_n(&e->queue.failed[1], (uint64_t)why, __ATOMIC_RELAXED);
}

/* The first failure to the peer stays: what comes behind it would cover what never came. */
static void failFlow(struct engine *e, struct flow *flow, struct proxyWork *w)
{
	if (flow->failure == ginSuccess)
		flow->failure = w->result;
	tellFailed(e, w->peer, flow->failure);
	tellFailed(e, e->scope.nRanks, flow->failure);
	tellCounters(e, flow->failure);
}

/* An atomic that is not done: who waits for the old value finds the reason in the done word. R. */
static void settleLost(const struct proxyWork *w)
{
	if (w->settled)
		__atomic_store_n(w->settled, GIN_QUEUE_FAILED | (w->ticket + 1), __ATOMIC_RELEASE);
}

/* All before it to this peer are. */
static void finish(struct engine *e, struct flow *flow, struct proxyWork *w)
{
	int well = w->result == ginSuccess && flow->failure == ginSuccess;

	statsCount(&e->stats, w, well);
	if (well)
		raise(w);
	statsFinished(&e->stats, w, well);
	if (well) {
		count(w);
		tellDone(e, w->peer, w->ticket + 1);
	} else {
		failFlow(e, flow, w);
		settleLost(w);
	}
	w->state = workFinished;
}

void engineLanded(struct proxyWork *w)
{
	struct engine *e = w->engine;
	struct flow *flow = &e->flows[w->peer];

	w->state = workLanded;
	statsLanded(&e->stats, w);
	if (w->isWeak && w->result == ginSuccess)
		raise(w);
	while (flow->head && flow->head->state == workLanded) {
		struct proxyWork *first = flow->head;
		flow->head = first->next;
		finish(e, flow, first);
	}
}

static void append(struct flow *flow, struct proxyWork *w)
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

static void start(struct engine *e, struct proxyWork *w, const struct transportOps *ops,
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

/* What the GPU wrote cannot be trusted any more: all who wait on this queue are told. */
static void failQueue(struct engine *e, uint64_t ticket, const char *wrong)
{
	e->failure = ginErrorInvalidArgument;
	logWrite(logError,
		 "rank %u: descriptor %llu of context %u of device communicator %llu is wrong: %s; "
		 "the context fails",
		 e->rank, (unsigned long long)ticket, e->context, (unsigned long long)e->devComm,
		 wrong);
	/* Relaxed: pairs with ginHostWordObserve, the word says all. */
	__atomic_store_n(e->queue.failed, (uint64_t)e->failure, __ATOMIC_RELAXED);
	tellCounters(e, e->failure);
	for (uint32_t r = 0; r <= e->scope.nRanks; r++)
		tellFailed(e, r, e->failure);
}

/* Its poster is told by the queue's failure. */
static void drop(struct engine *e, struct proxyWork *w)
{
	statsCount(&e->stats, w, 0);
	statsFinished(&e->stats, w, 0);
	w->state = workFinished;
}

static int takeOne(struct engine *e, const struct transportOps *ops, void *transport)
{
	uint64_t words[GIN_DESCRIPTOR_WORDS], lap = e->taken >> e->logDepth;
	uint64_t place = e->taken & ((1ull << e->logDepth) - 1);
	struct proxyWork *w = &e->works[e->taken & e->worksMask];
	const char *wrong = NULL;

	if (!descriptorTake(e->queue.ring + place * GIN_DESCRIPTOR_WORDS,
			    lap & 1 ? 0 : GIN_DESCRIPTOR_PHASE, words))
		return 0;
	w->ticket = e->taken++;
	statsTaken(&e->stats, w);
	if (e->failure == ginSuccess)
		wrong = descriptorResolve(&e->scope, words, w);
	if (wrong)
		failQueue(e, w->ticket, wrong);
	if (e->failure == ginSuccess)
		start(e, w, ops, transport);
	else
		drop(e, w);
	return 1;
}

uint32_t engineTake(struct engine *e, const struct transportOps *ops, void *transport)
{
	uint32_t count = 0;

	while (count < ENGINE_BATCH && e->taken - e->retired <= e->worksMask &&
	       takeOne(e, ops, transport))
		count++;
	/* Q, release end: pairs with ginHostLook in ginRingRefresh(); the places have been read. */
	if (count) {
		__atomic_store_n(e->queue.consumed, e->taken, __ATOMIC_RELEASE);
		statsBatch(&e->stats, count);
	}
	return count;
}

void engineTell(struct engine *e)
{
	uint64_t before = e->retired;

	while (e->retired < e->taken && e->works[e->retired & e->worksMask].state == workFinished)
		e->retired++;
	if (e->retired != before)
		tellDone(e, e->scope.nRanks, e->retired);
}
