/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proxy_rig.h - the proxy's parts without a communicator: windows that are arrays, rings that a
 * test writes itself, and a transport that the test controls
 */
#ifndef GIN_TEST_PROXY_RIG_H
#define GIN_TEST_PROXY_RIG_H

#include "backends/proxy/engine.h"
#include "backends/proxy/words/words.h"

#include "expect.h"
#include "proxy_post.h"

#define ME 0
#define RANKS 3
#define CONTEXTS 2
#define SIGNALS 4
#define COUNTERS 3
#define BARRIERS 2
#define DEPTH 16
#define BYTES 256
#define FIRST_BARRIER (CONTEXTS * SIGNALS)

static struct {
	struct proxySlots slots;
	struct proxyWindow *words, *data;
	struct proxyWindow *gpu;  /* no CPU loads or stores its bytes */
	struct proxyWindow *far;  /* the last rank's part is not reached */
	struct proxyWindow *gone; /* deregistered: its number is free */
	uint64_t words64[RANKS][FIRST_BARRIER + BARRIERS * GIN_BARRIER_ROUNDS][GIN_CPU_WORD_STRIDE];
	_Alignas(8) unsigned char bytes[RANKS][BYTES];
} rig;

/* One context: its ring, and the words that kernels would read. */
struct ring {
	uint64_t place[DEPTH][GIN_DESCRIPTOR_WORDS];
	uint64_t consumed, failed[2], posted;
	uint64_t done[RANKS + 1], counters[COUNTERS];
	uint64_t results[GIN_QUEUE_RESULTS], resultTickets[GIN_QUEUE_RESULTS];
	struct proxyEngine *engine;
};

/* What the transport is to do, and its unfinished works. */
static struct {
	int failingPeer; /* -1: none */
	int busyPeer;	 /* -1: none; there is no room for works to it */
	int holds;	 /* works stay in flight */
	unsigned started, held;
	struct proxyWork *work[DEPTH * CONTEXTS];
} transport;

static void move(const struct proxyWork *w)
{
	char *there = spotAddress(&w->there, w->peer);

	if (w->op == ginOpGet)
		memcpy(w->here.at, there, w->bytes);
	else
		memcpy(there, w->op == ginOpPutValue ? (const void *)w->value : w->here.at,
		       w->bytes);
}

static inline ginResult_t transportStart(void *state, struct proxyWork *w)
{
	(void)state;
	if ((int)w->peer == transport.busyPeer)
		return transportBusy;
	transport.started++;
	if ((int)w->peer == transport.failingPeer && !transport.holds)
		return ginErrorSystem;
	if (transport.holds) {
		transport.work[transport.held++] = w;
		return ginSuccess;
	}
	move(w);
	w->state = workLanded;
	return ginSuccess;
}

/* On a network, the word of a work whose data has landed: the transport holds it, too. */
static inline ginResult_t transportRaise(void *state, struct proxyWork *w)
{
	(void)state;
	if ((int)w->peer == transport.busyPeer)
		return transportBusy;
	transport.work[transport.held++] = w;
	return ginSuccess;
}

static const struct transportOps transportTest = {
	.name = "test", .start = transportStart, .raise = transportRaise};
static struct transportLanes lanes = {.lane = {{&transportTest, NULL, transportHere}},
				      .of = (const uint8_t[RANKS]){0}};

/* The i-th work that the transport holds has landed, or has failed. */
static inline void land(unsigned i)
{
	struct proxyWork *w = transport.work[i];

	if ((int)w->peer == transport.failingPeer)
		w->result = ginErrorSystem;
	else if (w->state == workUnderWay && w->bytes && w->op <= ginOpGet)
		move(w);
	if (w->wordState == wordUnderWay && w->result == ginSuccess)
		w->value[0] = wordChange(w->op, spotAddress(&w->word, w->peer), w->bytes,
					 workOperand(w), w->value[1]);
	engineLanded(w);
}

static inline struct proxyWindow *newWindow(void *first, size_t stride, size_t bytes, int byCpu)
{
	struct proxyWindow *w = calloc(1, sizeof(*w) + RANKS * sizeof(w->part[0]));

	EXPECT(w != NULL);
	w->rank = ME;
	w->nRanks = RANKS;
	for (size_t r = 0; r < RANKS; r++)
		w->part[r] = (struct proxyPart){.at = (char *)first + r * stride,
						.bytes = bytes,
						.isReached = 1,
						.byCpu = (uint8_t)byCpu,
						.isChangeable = (uint8_t)byCpu,
						.skew = ((uintptr_t)first + r * stride) % 8};
	EXPECT_SUCCESS(slotsTake(&rig.slots, w));
	slotsPublish(&rig.slots, w);
	return w;
}

static inline void rigOpen(void)
{
	transport.failingPeer = transport.busyPeer = -1;
	EXPECT_SUCCESS(slotsOpen(&rig.slots));
	rig.words = newWindow(rig.words64, sizeof(rig.words64[0]), sizeof(rig.words64[0]), 1);
	rig.data = newWindow(rig.bytes, BYTES, BYTES, 1);
	rig.gpu = newWindow(rig.bytes, BYTES, BYTES, 0);
	rig.far = newWindow(rig.bytes, BYTES, BYTES, 1);
	rig.far->part[RANKS - 1].isReached = 0;
	rig.gone = newWindow(rig.bytes, BYTES, BYTES, 1);
	slotsGive(&rig.slots, rig.gone);
}

static inline void rigClose(void)
{
	slotsClose(&rig.slots);
	free(rig.words);
	free(rig.data);
	free(rig.gpu);
	free(rig.far);
	free(rig.gone);
}

static inline struct descriptorScope scopeFor(struct ring *ring, uint32_t context)
{
	return (struct descriptorScope){.slots = &rig.slots,
					.words = rig.words,
					.counters = ring->counters,
					.results = ring->results,
					.resultTickets = ring->resultTickets,
					.firstSignal = context * SIGNALS,
					.firstBarrier = FIRST_BARRIER,
					.signals = SIGNALS,
					.nCounters = COUNTERS,
					.nBarrierWords = BARRIERS * GIN_BARRIER_ROUNDS,
					.rank = rig.words->rank,
					.nRanks = RANKS};
}

static inline void ringOpen(struct ring *ring, uint32_t context)
{
	const struct proxyRing host = {.descriptors = ring->place[0],
				       .consumed = &ring->consumed,
				       .done = ring->done,
				       .failed = ring->failed,
				       .results = ring->results,
				       .resultTickets = ring->resultTickets,
				       .counters = ring->counters};
	const struct descriptorScope scope = scopeFor(ring, context);

	EXPECT_SUCCESS(engineMake(&host, &scope, DEPTH, &ring->engine));
	ring->engine->context = context;
	ring->engine->devComm = 7;
	ring->engine->lanes = &lanes;
}

static inline uint64_t at(const struct proxyWindow *window, uint64_t offset)
{
	return (uint64_t)window->slot << GIN_DESCRIPTOR_OFFSET_BITS | offset;
}

static inline void post(struct ring *ring, const uint64_t *full)
{
	uint64_t lap = ring->posted / DEPTH;

	EXPECT(ring->posted - ring->consumed < DEPTH);
	writePlace(ring->place[ring->posted++ % DEPTH], full, lap & 1 ? 0 : GIN_DESCRIPTOR_PHASE);
}

/* A pass of the thread that serves this context. */
static inline uint32_t turnOf(struct ring *ring)
{
	engineResume(ring->engine);
	uint32_t taken = engineTake(ring->engine);

	engineRetire(ring->engine);
	return taken;
}

#endif
