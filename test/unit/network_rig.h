/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * network_rig.h - two ranks in one thread: each has one context of the proxy and one lane of the
 * network transport, and posts to the other rank
 */
#ifndef GIN_TEST_NETWORK_RIG_H
#define GIN_TEST_NETWORK_RIG_H

#ifdef RIG_IS_SMALL /* for many rigs */
#define DEPTH 256u
#define CELLS 256u
#define HISTORY 512u
#define ENGINE_ROOM 512u
#else
#define DEPTH 1024u
#define CELLS 4096u /* more than are in flight at a time */
#define HISTORY 8192u
#endif

#include "backends/proxy/engine.h"
#include "backends/proxy/network/choice/choice.h"
#include "backends/proxy/network/network.h"

#include "lib/base/serial.h"

#include "expect.h"
#include "fake_engine.h"
#include "proxy_post.h"

#define RANKS_OF_RIG 2
#define SIGNALS 4
#define FIRST_BARRIER SIGNALS
#define WORDS (SIGNALS + GIN_BARRIER_ROUNDS)
#define CELL_BYTES 64u
#define LONG 4096u /* bytes of a long put or get */
#define GET_PATTERN 0x0123456789abcdefll

enum { STRONG, WEAK, TURN }; /* signals */

/* Memory that the other rank reaches. */
struct sideMemory {
	uint64_t word[WORDS][GIN_CPU_WORD_STRIDE];
	uint64_t cell[CELLS][CELL_BYTES / 8], source[CELLS][CELL_BYTES / 8];
	uint64_t pattern, got, added, turned, turnGot, spare;
	uint64_t longSource[LONG / 8], longTarget[LONG / 8]; /* of puts */
	uint64_t longPattern[LONG / 8], longGot[LONG / 8];   /* of gets */
};

/* What a side records about a descriptor that it has posted. */
struct posted {
	uint64_t strong, epoch, added; /* of this and all earlier ones */
	uint64_t stamp;		       /* + 1; 0: none */
	int isGet, isLongGet;
	uint64_t isLong; /* the words of a long put; 0: none */
};

/* An atomic that waits for its old value. */
struct wanted {
	int isUsed;
	uint64_t ticket, old;
};

struct side {
	uint32_t rank;
	struct side *other;
	uint64_t random;
	struct device device;
	struct identity ranks[RANKS_OF_RIG];
	struct backendHost host;
	struct proxySlots slots;
	uint8_t serves[RANKS_OF_RIG], of[RANKS_OF_RIG];
	struct transportScope scope;
	struct wordLock lock, *locks[RANKS_OF_RIG]; /* of words in GPU memory */
	void *network;
	struct transportLanes lanes;
	struct proxyWindow *words, *data, *shared, *gpu;
	struct proxyEngine *engine;
	struct sideMemory memory;
	struct {
		uint64_t place[DEPTH][GIN_DESCRIPTOR_WORDS];
		uint64_t consumed, failed[2], done[RANKS_OF_RIG + 1], counter;
		uint64_t results[GIN_QUEUE_RESULTS], resultTickets[GIN_QUEUE_RESULTS];
	} ring;

	uint64_t postedCount, checked, stalls, failures, ownFailures;
	char why[BACKEND_WHY];
	struct posted posted[HISTORY];
	struct wanted wanted[GIN_QUEUE_RESULTS];
	uint64_t stamps, stampsSeen, strong, strongSeen, weak, weakStamp, epoch, added;
	uint64_t turns, turnTicket, longs, longTicket;
	int weakUnderWay;
	uint32_t limit; /* most descriptors in flight */
	uint64_t stampsOfSignal[HISTORY];
	uint8_t isFull[HISTORY]; /* a put fills its cell, and has the stamp at its end, too */
};

static struct side side[RANKS_OF_RIG];

/* The network, and where it may be found. */
static const char *rigPlugin = "weak";
static unsigned char rigAddress[RANKS_OF_RIG][TRANSPORT_ADDRESS];
static const uint8_t rigKey[AUTH_KEY_BYTES] = "of this job only";

/* Set: `data` is GPU memory, which the network does not reach unless rigReachesGpu. */
static const struct cuda *rigCuda;
static int rigReachesGpu;
static int rigOneGpu; /* set: rank 1 alone has a GPU */
static uint8_t rigRails = 1;
static uint32_t rigOpening; /* the rank that opens its network */

static inline uint32_t chanceOf(struct side *s, uint32_t below)
{
	s->random ^= s->random << 13;
	s->random ^= s->random >> 7;
	s->random ^= s->random << 17;
	return (uint32_t)(s->random >> 16) % below;
}

static inline const uint64_t *wordOf(const struct side *s, uint32_t index)
{
	return s->memory.word[index];
}

static inline uint64_t inData(const struct side *s, uint64_t offset)
{
	return (uint64_t)s->data->slot << GIN_DESCRIPTOR_OFFSET_BITS | offset;
}

/* In host memory, whatever `data` lies in. */
static inline uint64_t inHost(const struct side *s, uint64_t offset)
{
	return (uint64_t)s->shared->slot << GIN_DESCRIPTOR_OFFSET_BITS | offset;
}

static inline int hasRoom(const struct side *s)
{
	return s->postedCount - s->ring.consumed < DEPTH;
}

static inline struct posted *lastPosted(struct side *s)
{
	return &s->posted[(s->postedCount - 1) % HISTORY];
}

static inline void postTo(struct side *s, const uint64_t *full)
{
	uint64_t lap = s->postedCount / DEPTH;

	if (!hasRoom(s))
		EXPECT(hasRoom(s));
	s->posted[s->postedCount % HISTORY] =
		(struct posted){.strong = s->strong, .epoch = s->epoch, .added = s->added};
	writePlace(s->ring.place[s->postedCount++ % DEPTH], full,
		   lap & 1 ? 0 : GIN_DESCRIPTOR_PHASE);
}

/* A pass of the proxy, as turn() in worker.c. */
static inline void sideTurn(struct side *s)
{
	struct transportLane *lane = &s->lanes.lane[TRANSPORT_NETWORK];
	struct proxyWork *work;

	engineStep();
	lane->ops->receive(lane->state);
	s->stalls += (uint64_t)engineResume(s->engine);
	engineTake(s->engine);
	lane->ops->chain(lane->state);
	while ((work = lane->ops->landed(lane->state)))
		engineLanded(work);
	engineRetire(s->engine);
}

static inline void sideFailed(void *core, int peer, const char *why)
{
	struct side *s = core;

	s->failures += peer == (int)s->other->rank;
	s->ownFailures += peer == (int)s->rank;
	if (s->why[0])
		return;
	snprintf(s->why, sizeof(s->why), "%s", why);
}

static inline const void *sideBlob(void *core, int rank, uint32_t route)
{
	static struct proxyBlob blob;

	(void)core, (void)route;
	blob.rails = rigRails;
	blob.reachesGpu = (uint8_t)rigReachesGpu;
	blob.bounces = networkBounces(&side[rank].device) && !rigReachesGpu;
	snprintf(blob.plugin, sizeof(blob.plugin), "%s", rigPlugin);
	return &blob;
}

static inline struct proxyWindow *sideWindow(struct side *s, enum memoryKind kind, void *at,
					     size_t bytes, struct proxyOffer *offer)
{
	const struct memory memory = {.kind = kind, .address = at, .bytes = bytes};
	struct proxyWindow *w = NULL;

	EXPECT_SUCCESS(proxyWindowMake(&s->host, &memory, &w));
	EXPECT_SUCCESS(transportNetwork.windowOffer(s->network, &memory, offer,
						    &w->link[TRANSPORT_NETWORK]));
	EXPECT_SUCCESS(slotsTake(&s->slots, w));
	w->part[s->rank].isChangeable = 1;
	proxyWindowOwn(w, offer);
	return w;
}

static inline void sideRegister(struct side *s, struct proxyWindow *w, struct proxyOffer *offers)
{
	uint32_t peer = s->other->rank;

	EXPECT_SUCCESS(transportNetwork.windowRegister(s->network, ginSuccess,
						       (const uint8_t *)offers, sizeof(*offers),
						       w->link[TRANSPORT_NETWORK]));
	proxyWindowPeer(w, (int)peer, &offers[peer]);
	w->part[peer].isReached = 1;
	slotsPublish(&s->slots, w);
}

/* Tables of half a megabyte serve all rigs of a process: fuzz targets make a rig for each input. */
static inline void slotsReuse(uint32_t rank, struct proxySlots *out)
{
	static struct proxySlots kept[RANKS_OF_RIG];

	if (!kept[rank].at)
		EXPECT_SUCCESS(slotsOpen(&kept[rank]));
	*out = kept[rank];
}

static inline void slotsClear(struct proxySlots *slots)
{
	memset(slots->at, 0, slots->used * sizeof(slots->at[0]));
	memset(slots->taken, 0, slots->used * sizeof(slots->taken[0]));
}

static inline void sidePrepare(struct side *s, uint32_t rank, uint64_t seed)
{
	*s = (struct side){.rank = rank, .other = &side[1 - rank]};
	s->random = (seed + rank) * 0x9e3779b97f4a7c15ull | 1;
	s->memory.pattern = GET_PATTERN;
	for (uint64_t i = 0; i < LONG / 8; i++)
		s->memory.longPattern[i] = i * GET_PATTERN;
	s->device.cuda = rigOneGpu && !rank ? NULL : rigCuda;
	snprintf(s->ranks[1 - rank].host, sizeof(s->ranks[0].host), "host-%u", 1 - rank);
	s->device.numaNode = -1;
	s->host = (struct backendHost){.rank = (int)rank,
				       .nRanks = RANKS_OF_RIG,
				       .ranks = s->ranks,
				       .device = &s->device,
				       .key = rigKey,
				       .blob = sideBlob,
				       .peerFailed = sideFailed,
				       .core = s};
	s->serves[1 - rank] = 1;
	s->of[0] = s->of[1] = TRANSPORT_NETWORK;
	slotsReuse(rank, &s->slots);
	s->locks[rank] = &s->lock;
	s->scope = (struct transportScope){&s->host, &s->slots, s->serves, 1, s->locks};
}

static inline void sideOpen(struct side *s, void *address)
{
	rigOpening = s->rank;
	EXPECT_SUCCESS(transportNetwork.open(&s->scope, &s->network));
	EXPECT_SUCCESS(transportNetwork.address(s->network, 0, address));
	s->lanes.of = s->of;
	s->lanes.lane[TRANSPORT_NETWORK] =
		(struct transportLane){&transportNetwork, transportNetwork.lane(s->network, 0),
				       transportNetwork.order(s->network)};
}

static inline void sideEngine(struct side *s)
{
	const struct proxyRing ring = {.descriptors = s->ring.place[0],
				       .consumed = &s->ring.consumed,
				       .done = s->ring.done,
				       .failed = s->ring.failed,
				       .results = s->ring.results,
				       .resultTickets = s->ring.resultTickets,
				       .counters = &s->ring.counter};
	const struct descriptorScope scope = {.slots = &s->slots,
					      .words = s->words,
					      .counters = &s->ring.counter,
					      .results = s->ring.results,
					      .resultTickets = s->ring.resultTickets,
					      .firstBarrier = FIRST_BARRIER,
					      .signals = SIGNALS,
					      .nCounters = 1,
					      .nBarrierWords = GIN_BARRIER_ROUNDS,
					      .rank = s->rank,
					      .nRanks = RANKS_OF_RIG};

	EXPECT_SUCCESS(engineMake(&ring, &scope, DEPTH, &s->engine));
	s->engine->lanes = &s->lanes;
}

/* Loads the plug-in, as ginCommInit() does. */
static inline void rigSearch(void)
{
	static const struct identity identity;
	const struct backendHost alone = {.nRanks = 1, .ranks = &identity};
	struct proxyBlob blob = {.hasNetwork = 0};
	char why[BACKEND_WHY];

	expectThat(networkProbe(&blob, why), __FILE__, __LINE__, "%s", why);
	EXPECT_SUCCESS(networkSearch(&alone, &blob));
}

static inline void rigStart(uint64_t seed)
{
	static struct proxyOffer offers[4][RANKS_OF_RIG];

	rigSearch();
	for (uint32_t r = 0; r < RANKS_OF_RIG; r++)
		sidePrepare(&side[r], r, seed);
	for (uint32_t r = 0; r < RANKS_OF_RIG; r++)
		sideOpen(&side[r], rigAddress[r]);
	for (uint32_t r = 0; r < RANKS_OF_RIG; r++) {
		struct side *s = &side[r];
		EXPECT_SUCCESS(transportNetwork.connect(s->network, 0, 1 - (int)r,
							rigAddress[1 - r], NULL));
		s->words = sideWindow(s, memoryShared, s->memory.word, sizeof(s->memory.word),
				      &offers[0][r]);
		s->data = sideWindow(s, s->device.cuda ? memoryVmm : memoryPrivate, &s->memory,
				     sizeof(s->memory), &offers[1][r]);
		s->gpu = sideWindow(s, memoryShared, &s->memory, sizeof(s->memory), &offers[2][r]);
		s->gpu->part[r].byCpu = s->gpu->part[r].isChangeable = 0;
		s->shared =
			sideWindow(s, memoryShared, &s->memory, sizeof(s->memory), &offers[3][r]);
	}
	for (uint32_t r = 0; r < RANKS_OF_RIG; r++) {
		sideRegister(&side[r], side[r].words, offers[0]);
		sideRegister(&side[r], side[r].data, offers[1]);
		sideRegister(&side[r], side[r].gpu, offers[2]);
		sideRegister(&side[r], side[r].shared, offers[3]);
		sideEngine(&side[r]);
	}
}

static inline struct networkLane *sideLane(const struct side *s)
{
	return s->lanes.lane[TRANSPORT_NETWORK].state;
}

static inline void sideStop(struct side *s)
{
	struct proxyWindow *windows[] = {s->words, s->data, s->gpu, s->shared};

	engineFree(s->engine);
	for (int i = 0; i < 4; i++) {
		transportNetwork.windowDeregister(s->network, windows[i]->link[TRANSPORT_NETWORK]);
		free(windows[i]);
	}
	transportNetwork.close(s->network);
	slotsClear(&s->slots);
}

static inline void rigStop(void)
{
	for (uint32_t r = 0; r < RANKS_OF_RIG; r++)
		sideStop(&side[r]);
}

#endif
