/* SPDX-License-Identifier: BSD-3-Clause */
/* engine.c - executes the descriptors of one context's ring */
#include "engine.h"

#include <stdlib.h>

#include "lib/base/log.h"
#include "words/words.h"

static uint32_t worksOf(uint32_t depth)
{
	return depth < ENGINE_WORKS ? depth : ENGINE_WORKS;
}

static size_t worksBytes(uint32_t depth)
{
	return worksOf(depth) * sizeof(struct proxyWork);
}

static size_t flowsBytes(uint32_t nRanks)
{
	return nRanks * sizeof(struct proxyFlow);
}

/* An engine for each context. */
void enginePlan(struct plan *plan)
{
	size_t bytes = sizeof(struct proxyEngine) + worksBytes(plan->want->depth) +
		       flowsBytes((uint32_t)plan->nRanks);

	plan->memory[planCreate].heap += plan->want->contexts * bytes;
}

ginResult_t engineMake(const struct proxyRing *ring, const struct descriptorScope *scope,
		       uint32_t depth, struct proxyEngine **out)
{
	struct proxyEngine *e = calloc(1, sizeof(*e));
	uint32_t works = worksOf(depth);

	if (e) {
		e->ring = *ring;
		e->scope = *scope;
		e->logDepth = (uint32_t)__builtin_ctz(depth);
		e->worksMask = works - 1;
		e->works = calloc(1, worksBytes(depth));
		e->flows = calloc(1, flowsBytes(scope->nRanks));
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

/* R, release end, for the old value: pairs with ginDoneObserve. */
static void publishOldValue(struct proxyWork *w)
{
	__atomic_store_n(w->oldValue, w->value[0], __ATOMIC_RELAXED);
	__atomic_store_n(w->resultTicket, w->ticket + 1, __ATOMIC_RELEASE);
	w->oldValue = w->resultTicket = NULL;
}

/* The word has been changed; value[0] is an atomic's old value. */
static void wordChanged(struct proxyWork *w)
{
	w->wordState = wordNone;
	if (w->oldValue && w->result == ginSuccess)
		publishOldValue(w);
}

static struct transportLane *laneOf(const struct proxyEngine *e, uint32_t peer)
{
	return &e->lanes->lane[e->lanes->of[peer]];
}

static int isByCpu(const struct proxyWork *w)
{
	return w->word.window->part[w->peer].byCpu;
}

/* Changes the word, or lets the transport change it. 0: the transport has no room. */
static int passWord(struct proxyEngine *e, struct proxyWork *w)
{
	struct transportLane *lane = laneOf(e, w->peer);

	if (lane->order == transportHere && isByCpu(w)) {
		w->value[0] = wordChange(w->op, spotAddress(&w->word, w->peer), w->bytes,
					 workOperand(w), w->value[1]);
		wordChanged(w);
		return 1;
	}
	w->wordState = wordUnderWay;
	ginResult_t result = lane->ops->raise(lane->state, w);
	if (result == ginSuccess)
		return 1;
	w->wordState = result == transportBusy ? wordDue : wordNone;
	if (result != transportBusy)
		w->result = (uint8_t)result;
	return result != transportBusy;
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
	if (flow->lost == ginSuccess)
		flow->lost = w->result;
	if (flow->failure == ginSuccess)
		flow->failure = flow->lost;
	publishFailure(e, w->peer, (ginResult_t)flow->lost);
	publishFailure(e, e->scope.nRanks, (ginResult_t)flow->lost);
	failCounters(e, (ginResult_t)flow->lost);
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

/* The next pass tries the flow again. */
static void stall(struct proxyEngine *e, struct proxyFlow *flow)
{
	if (flow->isStalled)
		return;
	flow->isStalled = 1;
	flow->nextStalled = e->stalled;
	e->stalled = flow;
}

/* The data of the work and of all earlier works of the flow has landed. 0: the flow is stalled. */
static int takeTurn(struct proxyEngine *e, struct proxyFlow *flow, struct proxyWork *w)
{
	if (flow->failure == ginSuccess)
		flow->failure = w->result;
	w->result = flow->failure;
	if (w->state == workLanded)
		statsTurn(&e->stats, &flow->stats, w);
	w->state = workTurned;
	if (w->wordState != wordDue)
		return 1;
	if (w->result != ginSuccess) {
		w->wordState = wordNone;
		return 1;
	}
	if (!passWord(e, w)) {
		stall(e, flow);
		return 0;
	}
	flow->failure = w->result;
	return 1;
}

/* All earlier works of the flow are complete, and the word is changed or given up. */
static void complete(struct proxyEngine *e, struct proxyFlow *flow, struct proxyWork *w)
{
	int well = w->result == ginSuccess && flow->lost == ginSuccess;

	statsCompleted(&e->stats, w, well);
	statsAdd(&flow->stats.ended, 1);
	if (well) {
		count(w);
		publishDone(e, w->peer, w->ticket + 1);
	} else {
		failFlow(e, flow, w);
		failAtomic(w);
	}
	flow->loose -= w->isLoose;
	w->state = workCompleted;
}

static void advance(struct proxyEngine *e, struct proxyFlow *flow)
{
	while (flow->turn && flow->turn->state >= workLanded && takeTurn(e, flow, flow->turn))
		flow->turn = flow->turn->next;
	while (flow->head != flow->turn && flow->head->wordState == wordNone) {
		struct proxyWork *first = flow->head;
		flow->head = first->next;
		complete(e, flow, first);
	}
}

static void dataLanded(struct proxyEngine *e, struct proxyWork *w)
{
	w->state = workLanded;
	statsLanded(&e->stats, w);
	if (w->wordState == wordUnderWay)
		wordChanged(w); /* the transport has carried it */
	else if (w->isWeak && w->wordState == wordDue && w->result == ginSuccess)
		passWord(e, w); /* without room the flow changes the word later */
}

void engineLanded(struct proxyWork *w)
{
	struct proxyEngine *e = w->engine;

	if (w->state == workUnderWay)
		dataLanded(e, w);
	else
		wordChanged(w);
	advance(e, &e->flows[w->peer]);
}

static void append(struct proxyFlow *flow, struct proxyWork *w)
{
	w->next = NULL;
	if (flow->head)
		flow->tail->next = w;
	else
		flow->head = w;
	flow->tail = w;
	if (!flow->turn)
		flow->turn = w;
}

static int movesData(const struct proxyWork *w)
{
	return w->op <= ginOpGet && w->bytes;
}

/*
 * Decides whether an ordered transport carries the word. A get reads the peer's memory at any time,
 * so a word that reports the get as done must not follow it at once.
 */
static void chooseCarrier(struct proxyFlow *flow, struct proxyWork *w)
{
	int carries = w->wordState == wordDue && (w->isWeak || !flow->loose) &&
		      flow->failure == ginSuccess;

	w->isLoose = w->op == ginOpGet || (w->wordState == wordDue && !carries);
	flow->loose += w->isLoose;
	if (carries)
		w->wordState = wordUnderWay;
}

/* Gives the work to its transport. 0: the transport has no room. */
static int begin(struct proxyEngine *e, struct proxyFlow *flow, struct proxyWork *w)
{
	struct transportLane *lane = laneOf(e, w->peer);
	ginResult_t result = ginSuccess;

	if (lane->order == transportOrdered)
		chooseCarrier(flow, w);
	w->state = workUnderWay;
	if (movesData(w) || w->wordState == wordUnderWay)
		result = lane->ops->start(lane->state, w);
	else
		w->state = workLanded;
	if (result == transportBusy) {
		w->wordState = w->wordState == wordUnderWay ? wordDue : w->wordState;
		flow->loose -= w->isLoose;
		w->isLoose = 0;
		w->state = workWaiting;
		return 0;
	}
	if (result != ginSuccess)
		w->result = (uint8_t)result;
	if (result != ginSuccess || w->state == workLanded) {
		dataLanded(e, w);
		advance(e, flow);
	}
	return 1;
}

/* A work never overtakes an earlier work of its flow that waits for room in its transport. */
static void start(struct proxyEngine *e, struct proxyWork *w)
{
	struct proxyFlow *flow = &e->flows[w->peer];

	w->engine = e;
	w->context = e->context;
	w->result = ginSuccess;
	w->isLoose = 0;
	statsAdd(&flow->stats.posted, 1);
	append(flow, w);
	if (!flow->waiting && begin(e, flow, w))
		return;
	w->state = workWaiting;
	if (!flow->waiting)
		flow->waiting = w;
	stall(e, flow);
}

static void resume(struct proxyEngine *e, struct proxyFlow *flow)
{
	while (flow->waiting && begin(e, flow, flow->waiting))
		flow->waiting = flow->waiting->next;
	advance(e, flow);
	if (flow->waiting)
		stall(e, flow);
}

int engineResume(struct proxyEngine *e)
{
	struct proxyFlow *flow = e->stalled;
	int any = flow != NULL;

	e->stalled = NULL;
	while (flow) {
		struct proxyFlow *next = flow->nextStalled;
		flow->isStalled = 0;
		resume(e, flow);
		flow = next;
	}
	return any;
}

void engineAbandon(struct proxyEngine *e)
{
	for (uint64_t t = e->retired; t != e->taken; t++) {
		struct proxyWork *w = &e->works[t & e->worksMask];
		int isUnderWay = w->state == workUnderWay || w->wordState == wordUnderWay;
		if (!isUnderWay || laneOf(e, w->peer)->order == transportHere)
			continue;
		w->result = ginErrorPeer;
		engineLanded(w);
	}
}

/* After an invalid descriptor the ring is not trusted: every wait on it ends with an error. */
static void failRing(struct proxyEngine *e, uint64_t ticket, const char *wrong)
{
	e->failure = ginErrorInvalidArgument;
	logWrite(logError,
		 "descriptor %llu of context %u of device communicator %llu is wrong: %s; "
		 "the context fails",
		 (unsigned long long)ticket, e->context, (unsigned long long)e->devComm, wrong);
	/* Relaxed: the word's value is complete by itself. */
	__atomic_store_n(e->ring.failed, (uint64_t)e->failure, __ATOMIC_RELAXED);
	failCounters(e, e->failure);
	for (uint32_t r = 0; r <= e->scope.nRanks; r++)
		publishFailure(e, r, e->failure);
}

/* The ring has failed, which ends the waits of the poster. */
static void drop(struct proxyEngine *e, struct proxyWork *w)
{
	statsDropped(&e->stats, w);
	w->state = workCompleted;
}

static int takeOne(struct proxyEngine *e)
{
	uint64_t words[GIN_DESCRIPTOR_WORDS], lap = e->taken >> e->logDepth;
	uint64_t slot = e->taken & ((1ull << e->logDepth) - 1);
	uint64_t phase = lap & 1 ? 0 : GIN_DESCRIPTOR_PHASE;
	const uint64_t *at = e->ring.descriptors + slot * GIN_DESCRIPTOR_WORDS;
	struct proxyWork *w = &e->works[e->taken & e->worksMask];
	const char *wrong = NULL;

	if (!descriptorIsBegun(at, phase) || !descriptorTake(at, phase, words))
		return 0;
	w->ticket = e->taken++;
	statsTaken(&e->stats, w);
	if (e->failure == ginSuccess)
		wrong = descriptorResolve(&e->scope, words, w);
	if (wrong)
		failRing(e, w->ticket, wrong);
	if (e->failure == ginSuccess)
		start(e, w);
	else
		drop(e, w);
	return 1;
}

uint32_t engineTake(struct proxyEngine *e)
{
	uint32_t count = 0;

	while (count < ENGINE_BATCH && e->taken - e->retired <= e->worksMask && takeOne(e))
		count++;
	/*
	 * Q, release end: pairs with ginHostLook in ginRingRefresh(). The slots have been read and
	 * may be written again.
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
