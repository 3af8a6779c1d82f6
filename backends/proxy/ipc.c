/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ipc.c - the transport between ranks of one host, which map each other's memory
 *
 * A CPU copies between memory that CPUs reach. Copy engines do all other copies: each copy goes
 * into one of several streams, and after each batch the stream writes how many copies it has done.
 * All copies of one context to one peer go into one stream, and so land in order.
 *
 * No copy may need an SM, because waiting kernels may hold all of them. The driver copies within
 * one GPU by a kernel, whatever the flags (measured: driver 580, H200). Such a copy therefore goes
 * through pinned host memory: out by one copy engine, back by another. Fills of 64 KiB are kernels
 * too, and are not used.
 *
 * Words in GPU memory, of signals at offsets and atomics, go by device_word.h.
 */
#include <stdlib.h>
#include <string.h>

#include "backends/peermem/peermem.h"
#include "cpu_copy.h"
#include "direct_copies.h"
#include "lib/base/log.h"
#include "transport.h"
#include "words/device_word.h"

#define STREAMS 4u

/* Pinned memory of each stream, for copies within the GPU. */
#define STAGE_BYTES (1u << 20)

struct ipcStream {
	cuStream stream;     /* NULL without a GPU */
	uint64_t *done;	     /* pinned; the stream writes how many copies it has done */
	uint64_t sent;	     /* copies submitted to the stream */
	uint64_t chained;    /* value of the last write to `done` that is in the stream */
	ginResult_t failure; /* of the stream: it is not known which of its copies have landed */
	struct proxyWork *head, *tail;
	char *stage; /* STAGE_BYTES, pinned, used in stream order; NULL: no peer is on this GPU */
};

struct ipcLane {
	const struct device *device;
	struct ipcStream stream[STREAMS];
	uint32_t inStreams;	  /* works of all streams that have not landed */
	uint64_t *lines;	  /* one cache line for each stream's `done` */
	char *stages;		  /* the stages of all streams; NULL: no peer is on this GPU */
	const uint8_t *onThisGpu; /* the transport's */
	const struct transportScope *scope;
	struct deviceWord word;
	struct proxyWork *raised, *lastRaised; /* list; the first is in progress or is the next */
};

struct ipcTransport {
	const struct transportScope *scope;
	struct peermem *peermem;
	uint8_t *onThisGpu; /* [nRanks]: findOnThisGpu() */
	struct ipcLane *lane[];
};

static void closeLane(struct ipcLane *ipc)
{
	if (!ipc)
		return;
	for (uint32_t s = 0; s < STREAMS; s++)
		if (ipc->stream[s].stream)
			ipc->device->cuda->streamDestroy(ipc->stream[s].stream);
	deviceWordClose(&ipc->word);
	pinnedFree(ipc->device, ipc->stages);
	pinnedFree(ipc->device, ipc->lines);
	free(ipc);
}

static ginResult_t openStreams(struct ipcLane *ipc)
{
	const struct cuda *cuda = ipc->device->cuda;
	cuResult result = 0;

	for (uint32_t s = 0; s < STREAMS && !result; s++) {
		ipc->stream[s].done = ipc->lines + s * 8;
		ipc->stream[s].stage = ipc->stages ? ipc->stages + s * STAGE_BYTES : NULL;
		if (cuda)
			result = cuda->streamCreate(&ipc->stream[s].stream, cuNonBlocking);
	}
	return result ? cudaFail(cuda, "cuStreamCreate", result) : ginSuccess;
}

static int ipcReach(const struct backendHost *host, int peer, const void *mine, const void *theirs,
		    char *why)
{
	struct peermemBlob blob;
	struct peermemLink link;

	(void)mine;
	memcpy(&blob, theirs, sizeof(blob));
	return peermemReach(host, peer, &blob, &link, why);
}

/* Does a copy engine make puts to `peer`, which may be this rank? */
static int copiesFor(const struct backendHost *host, int peer)
{
	if (host->routes[peer] == ginRouteDirect)
		return peer == host->rank && directCopiesMay(host);
	return host->routes[peer] == ginRouteProxy;
}

/* Marks the peers on this GPU to which copy engines copy. Returns 1 if there is one. */
static int findOnThisGpu(const struct transportScope *scope, uint8_t *onThisGpu)
{
	const struct backendHost *host = scope->host;
	int any = 0;

	for (int r = 0; r < host->nRanks; r++) {
		onThisGpu[r] = scope->serves[r] && copiesFor(host, r) && proxyOnThisGpu(host, r);
		any |= onThisGpu[r];
	}
	return any;
}

static size_t onThisGpuBytes(int nRanks)
{
	return (size_t)nRanks;
}

/* A cache line for each stream. The stages are left out: only ranks that share a GPU have them. */
static void ipcPlan(struct plan *plan, uint32_t lanes)
{
	plan->memory[planStart].heap += onThisGpuBytes(plan->nRanks);
	plan->memory[planStart].pinned += (uint64_t)lanes * STREAMS * 64;
	peermemPlan(plan);
}

static ginResult_t openStages(struct ipcLane *ipc)
{
	void *stages = NULL;
	ginResult_t result =
		pinnedAlloc(ipc->device, STREAMS * STAGE_BYTES, ipc->device->numaNode, &stages);

	ipc->stages = stages;
	return result;
}

/* Creates streams and memory before any kernel waits for a copy. */
static ginResult_t openLane(struct ipcTransport *t, int hasStages, struct ipcLane **out)
{
	const struct device *d = t->scope->host->device;
	struct ipcLane *ipc = *out = calloc(1, sizeof(*ipc));
	void *lines = NULL;

	if (!ipc)
		return fail(ginErrorSystem, "no memory");
	ipc->device = d;
	ipc->onThisGpu = t->onThisGpu;
	ipc->scope = t->scope;
	ginResult_t result = pinnedAlloc(d, STREAMS * 64, d->numaNode, &lines);
	ipc->lines = lines;
	if (result == ginSuccess && hasStages)
		result = openStages(ipc);
	if (result == ginSuccess && t->scope->locks)
		result = deviceWordOpen(d, &ipc->word);
	return result == ginSuccess ? openStreams(ipc) : result;
}

static void ipcClose(void *state)
{
	struct ipcTransport *t = state;

	for (uint32_t i = 0; i < t->scope->lanes; i++)
		closeLane(t->lane[i]);
	peermemClose(t->peermem);
	free(t->onThisGpu);
	free(t);
}

static int isServed(const void *of, int rank)
{
	const struct transportScope *scope = of;

	return scope->serves[rank];
}

static ginResult_t openAll(struct ipcTransport *t)
{
	const struct backendHost *host = t->scope->host;
	const struct peermemPeers peers = {isServed, t->scope};
	ginResult_t result = peermemOpen(host, "proxy", &peers, &t->peermem);

	t->onThisGpu = calloc(1, onThisGpuBytes(host->nRanks));
	if (result == ginSuccess && !t->onThisGpu)
		result = fail(ginErrorSystem, "no memory");
	int hasStages = result == ginSuccess && findOnThisGpu(t->scope, t->onThisGpu);
	for (uint32_t i = 0; i < t->scope->lanes && result == ginSuccess; i++)
		result = openLane(t, hasStages, &t->lane[i]);
	return result;
}

static ginResult_t ipcOpen(const struct transportScope *scope, void **state)
{
	struct ipcTransport *t = calloc(1, sizeof(*t) + scope->lanes * sizeof(t->lane[0]));

	if (!t)
		return fail(ginErrorSystem, "no memory");
	t->scope = scope;
	ginResult_t result = openAll(t);
	if (result == ginSuccess)
		*state = t;
	else
		ipcClose(t);
	return result;
}

static void *ipcLane(void *state, uint32_t index)
{
	struct ipcTransport *t = state;

	return t->lane[index];
}

static enum transportOrder ipcOrder(const void *state)
{
	(void)state;
	return transportHere;
}

static ginResult_t ipcWindowOffer(void *state, const struct memory *memory,
				  struct proxyOffer *offer, void **link)
{
	struct ipcTransport *t = state;
	struct peermemWindow *window = NULL;
	ginResult_t result = peermemOffer(t->peermem, memory, offer->ipc, &window);

	*link = window;
	return result;
}

static ginResult_t ipcWindowRegister(void *state, ginResult_t mine, const uint8_t *offers,
				     size_t stride, void *link)
{
	struct ipcTransport *t = state;

	return peermemRegister(t->peermem, mine, offers, stride, link);
}

static void ipcWindowDeregister(void *state, void *link)
{
	struct ipcTransport *t = state;

	peermemDeregister(t->peermem, link);
}

static void ipcWindowDescribe(void *state, void *link, int peer, struct proxyPart *part)
{
	const struct ipcTransport *t = state;

	part->at = peermemAddress(link, peer);
	part->isReached = part->at != NULL;
	part->byCpu = (uint8_t)proxyReachedByCpu(t->scope->host->device, peermemKind(link, peer));
}

static struct ipcStream *streamOf(struct ipcLane *ipc, const struct proxyWork *w)
{
	return &ipc->stream[(w->peer + w->context) % STREAMS];
}

/* An aligned value of 4 or 8 bytes needs no copy engine. */
static cuResult sendValue(const struct cuda *cuda, const struct proxyWork *w, cuStream stream)
{
	cuPtr to = (cuPtr)(uintptr_t)spotAddress(&w->there, w->peer);

	if (w->bytes == 8 && to % 8 == 0)
		return cuda->streamWrite64(stream, to, w->value[0], 0);
	if (w->bytes == 4 && to % 4 == 0)
		return cuda->streamWrite32(stream, to, (uint32_t)w->value[0], 0);
	return cuda->copyToDevice(to, w->value, w->bytes, stream);
}

/* The source and target of a put or get. */
struct ipcEnds {
	struct proxyOperand to, from;
};

static struct ipcEnds endsOf(const struct proxyWork *w)
{
	const struct proxyPart *part = &w->there.window->part[w->peer];
	const struct proxyOperand there = {part->at + w->there.offset, part->byCpu};

	return w->op == ginOpGet ? (struct ipcEnds){w->here, there}
				 : (struct ipcEnds){there, w->here};
}

/* The stream's order keeps a chunk in the stage until the copy out of it is done. */
static cuResult copyByStage(const struct cuda *cuda, const struct ipcEnds *ends,
			    const struct proxyWork *w, const struct ipcStream *s)
{
	cuPtr to = (cuPtr)(uintptr_t)ends->to.at, from = (cuPtr)(uintptr_t)ends->from.at;
	cuPtr stage = (cuPtr)(uintptr_t)s->stage;
	cuResult result = 0;

	for (uint64_t at = 0; at < w->bytes && !result; at += STAGE_BYTES) {
		uint64_t left = w->bytes - at;
		size_t bytes = left < STAGE_BYTES ? left : STAGE_BYTES;
		result = cuda->copy(stage, from + at, bytes, s->stream);
		if (!result)
			result = cuda->copy(to + at, stage, bytes, s->stream);
	}
	return result;
}

static cuResult sendCopy(const struct ipcLane *ipc, const struct proxyWork *w,
			 const struct ipcStream *s)
{
	const struct cuda *cuda = ipc->device->cuda;
	const struct ipcEnds ends = endsOf(w);

	if (ipc->onThisGpu[w->peer] && !ends.to.byCpu && !ends.from.byCpu)
		return copyByStage(cuda, &ends, w, s);
	return cuda->copy((cuPtr)(uintptr_t)ends.to.at, (cuPtr)(uintptr_t)ends.from.at, w->bytes,
			  s->stream);
}

static ginResult_t enqueue(struct ipcLane *ipc, struct proxyWork *w)
{
	const struct cuda *cuda = ipc->device->cuda;
	struct ipcStream *s = streamOf(ipc, w);
	cuResult result;

	if (w->op == ginOpPutValue)
		result = sendValue(cuda, w, s->stream);
	else
		result = sendCopy(ipc, w, s);
	if (result)
		return cudaFail(cuda, "a copy", result);
	w->landsAt = ++s->sent;
	workAppend(&s->head, &s->tail, w);
	ipc->inStreams++;
	return ginSuccess;
}

static ginResult_t ipcStart(void *lane, struct proxyWork *w)
{
	const struct proxyPart *part = &w->there.window->part[w->peer];
	char *there = part->at + w->there.offset;

	if (!part->byCpu || !w->here.byCpu)
		return enqueue(lane, w);
	if (w->op == ginOpGet)
		copyByCpu(w->here.at, there, w->bytes);
	else
		copyByCpu(there, w->op == ginOpPutValue ? (char *)w->value : w->here.at, w->bytes);
	w->state = workLanded;
	return ginSuccess;
}

/*
 * Serves words in order of arrival, so that a flow that always has a next word cannot starve
 * others.
 */
static ginResult_t ipcRaise(void *lane, struct proxyWork *w)
{
	struct ipcLane *ipc = lane;

	workAppend(&ipc->raised, &ipc->lastRaised, w);
	return ginSuccess;
}

/*
 * A failed communicator may have lost the rank that holds the lock. For signals `bytes` is the
 * length of their put.
 */
static ginResult_t startWord(struct ipcLane *ipc, const struct proxyWork *w)
{
	const struct backendHost *host = ipc->scope->host;
	const struct deviceWordOrder order = {
		.lock = ipc->scope->locks[w->peer],
		.at = spotAddress(&w->word, w->peer),
		.operand = workOperand(w),
		.compare = w->value[1],
		.op = w->op,
		.bytes = (uint8_t)(w->op >= ginOpFetchAdd ? w->bytes : sizeof(uint64_t))};
	ginResult_t result = deviceWordStart(&ipc->word, &order);

	if (result == transportBusy && host->hasFailed(host->core))
		return ginErrorPeer;
	return result == ginSuccess ? transportBusy : result;
}

static struct proxyWork *wordLanded(struct ipcLane *ipc)
{
	struct proxyWork *w = ipc->raised;

	if (!w)
		return NULL;
	ginResult_t result =
		ipc->word.order.lock ? deviceWordStep(&ipc->word, &w->value[0]) : startWord(ipc, w);
	if (result == transportBusy)
		return NULL;
	if (result != ginSuccess)
		w->result = (uint8_t)result;
	ipc->raised = w->nextSent;
	return w;
}

/* The stream executes the write after the copies before it. */
static void chainStream(const struct ipcLane *ipc, struct ipcStream *s)
{
	const struct cuda *cuda = ipc->device->cuda;

	if (s->chained == s->sent)
		return;
	cuResult result = cuda->streamWrite64(s->stream, (cuPtr)(uintptr_t)s->done, s->sent, 0);
	s->chained = s->sent;
	if (result)
		s->failure = cudaFail(cuda, "cuStreamWriteValue64", result);
}

static void ipcChain(void *lane)
{
	struct ipcLane *ipc = lane;

	for (uint32_t s = 0; ipc->inStreams && s < STREAMS; s++)
		chainStream(ipc, &ipc->stream[s]);
}

static struct proxyWork *landedIn(struct ipcStream *s)
{
	struct proxyWork *w = s->head;

	if (!w)
		return NULL;
	/* Acquire: the stream's write to `done` follows its copies, which are visible here. */
	if (__atomic_load_n(s->done, __ATOMIC_ACQUIRE) < w->landsAt) {
		if (s->failure == ginSuccess)
			return NULL;
		w->result = (uint8_t)s->failure;
	}
	s->head = w->nextSent;
	return w;
}

static struct proxyWork *ipcLanded(void *lane)
{
	struct ipcLane *ipc = lane;
	struct proxyWork *w = wordLanded(ipc);

	if (w || !ipc->inStreams)
		return w;
	for (uint32_t s = 0; s < STREAMS && !w; s++)
		w = landedIn(&ipc->stream[s]);
	ipc->inStreams -= w != NULL;
	return w;
}

/* A failed stream does not write `done` any more: take its error instead. */
static void drainStream(const struct cuda *cuda, struct ipcStream *s)
{
	cuResult result = cuda->streamSynchronize(s->stream);

	if (result)
		s->failure = cudaFail(cuda, "cuStreamSynchronize", result);
}

static void ipcDrain(void *lane)
{
	struct ipcLane *ipc = lane;

	for (uint32_t s = 0; s < STREAMS; s++)
		if (ipc->stream[s].head)
			drainStream(ipc->device->cuda, &ipc->stream[s]);
	deviceWordDrain(&ipc->word);
}

const struct transportOps transportIpc = {
	.name = "ipc",
	.reach = ipcReach,
	.open = ipcOpen,
	.close = ipcClose,
	.lane = ipcLane,
	.order = ipcOrder,
	.windowOffer = ipcWindowOffer,
	.windowRegister = ipcWindowRegister,
	.windowDeregister = ipcWindowDeregister,
	.windowDescribe = ipcWindowDescribe,
	.start = ipcStart,
	.raise = ipcRaise,
	.chain = ipcChain,
	.landed = ipcLanded,
	.drain = ipcDrain,
	.plan = ipcPlan,
};
