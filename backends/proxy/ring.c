/* SPDX-License-Identifier: BSD-3-Clause */
/* ring.c - allocates and lays out the memory of a device communicator's rings */
#include "ring.h"

#include <stdlib.h>
#include <string.h>

#include "gin/proxy/descriptor.h"

#define LINE 64u

static size_t lines(size_t bytes)
{
	return (bytes + LINE - 1) / LINE * LINE;
}

static size_t ringBytes(const struct proxyRings *q)
{
	return (size_t)q->want.depth * GIN_DESCRIPTOR_WORDS * sizeof(uint64_t);
}

/* Of `done` or `posted`: a word for each peer, and a word for all. */
static size_t peerWordsBytes(const struct proxyRings *q)
{
	return lines((q->nRanks + 1u) * sizeof(uint64_t));
}

/* The counters of all contexts are one block at the beginning of `host`. */
static size_t counterBytes(const struct proxyRings *q)
{
	return lines((size_t)q->want.contexts * q->want.counters * sizeof(uint64_t));
}

static uint64_t *counters(const struct proxyRings *q)
{
	return (uint64_t *)(void *)q->host;
}

/*
 * A context has, in this order: descriptors, `consumed`, `failed`, results, resultTickets, `done`;
 * each begins a cache line.
 */
struct proxyRing proxyRingOf(const struct proxyRings *q, uint32_t context)
{
	char *at = q->host + counterBytes(q) + context * q->contextBytes;
	struct proxyRing host = {.descriptors = (uint64_t *)(void *)at};

	at += ringBytes(q);
	host.consumed = (uint64_t *)(void *)at;
	host.failed = (uint64_t *)(void *)(at + LINE);
	host.results = (uint64_t *)(void *)(at + 2 * LINE);
	host.resultTickets = host.results + GIN_QUEUE_RESULTS;
	host.done = host.resultTickets + GIN_QUEUE_RESULTS;
	host.counters = counters(q) + (size_t)context * q->want.counters;
	return host;
}

static size_t mirrorBytes(const struct proxyRings *q)
{
	return lines((q->nRanks + 1u) * sizeof(struct ginMirror));
}

/*
 * After the array of struct ginQueue: `posted` of every context, then `doneMirror` of every
 * context.
 */
static uint64_t *postedOf(const struct proxyRings *q, uint32_t context)
{
	char *first = (char *)(q->kernel + q->want.contexts);

	return (uint64_t *)(void *)(first + context * peerWordsBytes(q));
}

static struct ginMirror *doneMirrorOf(const struct proxyRings *q, uint32_t context)
{
	char *first = (char *)postedOf(q, q->want.contexts);

	return (struct ginMirror *)(void *)(first + context * mirrorBytes(q));
}

static struct ginQueue kernelRing(const struct proxyRings *q, uint32_t context)
{
	const struct proxyRing host = proxyRingOf(q, context);

	return (struct ginQueue){.ring = host.descriptors,
				 .consumed = host.consumed,
				 .done = host.done,
				 .failed = {{.word = host.failed}, {.word = host.failed + 1}},
				 .doneMirror = doneMirrorOf(q, context),
				 .posted = postedOf(q, context),
				 .result = host.results,
				 .resultTickets = host.resultTickets,
				 .logDepth = (uint32_t)__builtin_ctz(q->want.depth),
				 .nRanks = q->nRanks,
				 .freeResults = (1ull << GIN_QUEUE_RESULTS) - 1};
}

static ginResult_t writeKernel(struct proxyRings *q, size_t bytes)
{
	struct ginQueue *copy = calloc(1, bytes);

	if (!copy)
		return fail(ginErrorSystem, "no memory");
	for (uint32_t c = 0; c < q->want.contexts; c++)
		copy[c] = kernelRing(q, c);
	ginResult_t result = deviceWrite(q->device, q->kernel, copy, bytes);
	free(copy);
	return result;
}

/* A description without memory. */
static struct proxyRings ringsOf(int nRanks, const struct backendContexts *want)
{
	struct proxyRings q = {.nRanks = (uint32_t)nRanks, .want = *want};

	q.contextBytes = ringBytes(&q) + 2 * LINE + 2 * GIN_QUEUE_RESULTS * sizeof(uint64_t) +
			 peerWordsBytes(&q);
	return q;
}

static size_t hostBytes(const struct proxyRings *q)
{
	return counterBytes(q) + q->want.contexts * q->contextBytes;
}

static size_t kernelBytes(const struct proxyRings *q)
{
	return q->want.contexts * (sizeof(struct ginQueue) + peerWordsBytes(q) + mirrorBytes(q));
}

void proxyRingsPlan(struct plan *plan)
{
	const struct proxyRings q = ringsOf(plan->nRanks, plan->want);

	plan->memory[planCreate].pinned += hostBytes(&q);
	plan->memory[planCreate].device += kernelBytes(&q);
}

ginResult_t proxyRingsMake(const struct device *d, int nRanks, const struct backendContexts *want,
			   struct proxyRings *q)
{
	void *host = NULL, *kernel = NULL;

	*q = ringsOf(nRanks, want);
	q->device = d;
	size_t bytes = hostBytes(q);
	ginResult_t result = pinnedAlloc(d, bytes, d->numaNode, &host);
	if (result != ginSuccess)
		return result;
	q->host = host;
	bytes = kernelBytes(q);
	result = memoryAlloc(d, bytes, &kernel);
	q->kernel = kernel;
	if (result == ginSuccess)
		result = writeKernel(q, bytes);
	if (result != ginSuccess)
		proxyRingsFree(q);
	return result;
}

ginResult_t proxyRingsWaits(const struct proxyRings *q, uint32_t context, uint64_t *waits)
{
	const uint64_t *word = &q->kernel[context].waits;

	if (q->device->cuda)
		return deviceRead(q->device, waits, word, sizeof(*waits));
	*waits = __atomic_load_n(word, __ATOMIC_RELAXED);
	return ginSuccess;
}

void proxyRingsDescribe(const struct proxyRings *q, ginDevComm *d)
{
	d->queues = q->kernel;
	d->hostCounter = counters(q);
}

void proxyRingsFree(struct proxyRings *q)
{
	if (!q->device)
		return;
	if (q->kernel)
		memoryFree(q->device, q->kernel);
	pinnedFree(q->device, q->host);
	*q = (struct proxyRings){.device = NULL};
}
