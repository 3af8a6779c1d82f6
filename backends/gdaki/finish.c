/* SPDX-License-Identifier: BSD-3-Clause */
/* finish.c - how far queues have come, and the end of what was posted */
#include <stdlib.h>
#include <time.h>

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "contexts.h"

enum { RING_AGAIN_NS = 10000000, PAUSE_NS = 50000 };

const struct ginSendQueue *gdakiSnapshot(const struct gdakiContexts *s)
{
	size_t bytes = s->count * sizeof(*s->queues);

	if (!s->g->host->device->cuda)
		return s->queues;
	struct ginSendQueue *copy = malloc(bytes);
	if (copy && deviceRead(s->g->host->device, copy, s->queues, bytes) != ginSuccess) {
		free(copy);
		copy = NULL;
	}
	return copy;
}

void gdakiSnapshotFree(const struct gdakiContexts *s, const struct ginSendQueue *queues)
{
	if (s->g->host->device->cuda)
		free((void *)(uintptr_t)queues);
}

static uint64_t load(const uint64_t *at)
{
	return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

/* A word of the CQE: in the slab, which may be GPU memory. A GPU that is gone says 0. */
static uint32_t cqeWord(const struct gdakiContexts *s, const uint32_t *at)
{
	const struct device *d = s->g->host->device;
	uint32_t word = 0;

	if (!d->cuda)
		return __atomic_load_n(at, __ATOMIC_ACQUIRE);
	deviceRead(d, &word, at, sizeof(word));
	return word;
}

/* As ginSendRefresh in gin/gdaki/queue.cuh: first `done`, then the CQE. */
struct gdakiLook gdakiLook(const struct gdakiContexts *s, const struct ginSendQueue *q)
{
	struct gdakiLook look = {.posted = load(&q->handed),
				 .completed = load(&q->done) & ~GIN_SEND_CREDITING};
	uint64_t latched = load(&q->latched);

	if (latched) {
		look.syndrome = (uint32_t)(latched >> 56);
		look.vendor = (uint32_t)(latched >> 48) & 0xff;
		return look;
	}
	if (look.completed >= look.posted)
		return look;
	uint32_t state = cqeWord(s, &q->fixed.cqe->state), opcode = ginMlx5CqeOpcode(state);
	if (opcode == ginMlx5CqeRequest) {
		look.completed +=
			(ginMlx5CqeCounter(state) + 1 - (uint32_t)look.completed) & 0xffff;
	} else if (opcode != ginMlx5CqeInvalid) {
		uint32_t error = cqeWord(s, &q->fixed.cqe->timestampLow);
		look.syndrome = ginMlx5CqeSyndrome(error);
		look.vendor = ginMlx5CqeVendorSyndrome(error);
	}
	return look;
}

/*
 * What was held back, or if the NIC has lost the last one: by the CPU's mapping of the register, or by
 * who rings for all.
 */
static void ring(const struct gdakiContexts *s, uint32_t i, const struct ginSendQueue *q)
{
	const struct device *d = s->g->host->device;
	uint32_t next = (uint32_t)load(&q->handed), record = ginMlx5RecordWord(next);
	struct rdmaRegister where;

	s->g->rdma->queueRegister(s->pairs->queues, i, &where);
	if (d->cuda)
		deviceWrite(d, &q->fixed.record->send, &record, sizeof(record));
	else
		__atomic_store_n(&q->fixed.record->send, record, __ATOMIC_RELEASE);
	__atomic_store_n(s->rings ? &s->rings->words[i] : (uint64_t *)where.at,
			 ginMlx5Doorbell(q->fixed.queue, next), __ATOMIC_RELEASE);
}

/* How many queues have something under way; each is rung for if `again`. */
static uint32_t underWay(const struct gdakiContexts *s, int again)
{
	const struct ginSendQueue *queues = gdakiSnapshot(s);
	uint32_t left = 0;

	for (uint32_t i = 0; queues && i < s->count; i++) {
		struct gdakiLook look = gdakiLook(s, &queues[i]);
		if (gdakiEnded(&look))
			continue;
		left++;
		if (again)
			ring(s, i, &queues[i]);
	}
	gdakiSnapshotFree(s, queues);
	return left;
}

static void pause(void)
{
	const struct timespec time = {0, PAUSE_NS};

	nanosleep(&time, NULL);
}

static void giveUp(const struct gdakiContexts *s, uint32_t left)
{
	char why[RDMA_WHY];
	int peer = pairsFailed(s->pairs, why);

	logWrite(logWarn, "rank %d: gdaki: %u queues are not done after %u s%s%s", s->g->host->rank,
		 left, paramNumber(paramTimeout), peer < 0 ? "" : ": ", peer < 0 ? "" : why);
}

void gdakiContextsFinish(void *state, void *contexts)
{
	const struct gdakiContexts *s = contexts;
	uint64_t now = clockNow(), next = now, end = now + paramNumber(paramTimeout) * SECOND;
	uint32_t left;

	(void)state;
	while ((left = underWay(s, now >= next))) {
		if (now > end) {
			giveUp(s, left);
			return;
		}
		next = now >= next ? now + RING_AGAIN_NS : next;
		pause();
		now = clockNow();
	}
}

ginResult_t gdakiContextsStats(void *contexts, uint32_t context, ginStats_t *stats)
{
	const struct gdakiContexts *s = contexts;
	const struct ginSendQueue *queues = gdakiSnapshot(s);
	uint32_t peers = s->pairs->peers;

	if (!queues && s->count)
		return fail(ginErrorCuda, "the queues cannot be read");
	for (uint32_t i = context * peers; i < (context + 1) * peers; i++) {
		struct gdakiLook look = gdakiLook(s, &queues[i]);
		stats->posted += look.posted;
		stats->completed += look.completed;
		stats->failed += look.syndrome ? look.posted - look.completed : 0;
	}
	gdakiSnapshotFree(s, queues);
	return ginSuccess;
}
