/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flush.c - makes data that the NIC has written into GPU memory visible there
 *
 * A completion is written to host memory. PCIe keeps the order of writes to one destination, so
 * data in GPU memory may arrive later than the completion. A read by the NIC does not pass earlier
 * writes of the NIC to the GPU. So each endpoint reads 8 bytes of GPU memory, by a queue pair to
 * itself, before it reports that a message has arrived or that a read into GPU memory is done. One
 * such flush serves all that completed before it was begun.
 */
#include <stdlib.h>

#include "verbs.h"

static int connectSelf(struct fabricEnd *end, char *why)
{
	uint64_t self = (uintptr_t)end->self;

	return verbsPairConnect(end, self, &end->fabric->address, &end->self->mine, why);
}

int verbsFlushOpen(struct fabricEnd *end, char *why)
{
	struct rdmaEnd unused;
	uint64_t self = 0;

	if (!end->fabric->hasGpu)
		return fabricOk;
	end->held = calloc((size_t)end->room * end->receives, sizeof(*end->held));
	if (!end->held)
		return verbsFail(why, "no memory");
	if (verbsPairOpen(end, &unused, &self, why))
		return fabricFailed;
	end->self = (struct verbsPeer *)(uintptr_t)self;
	return connectSelf(end, why);
}

uint64_t verbsFlushOf(struct fabricEnd *end)
{
	return end->flushWanted = end->flushBegun + 1;
}

void verbsFlushTurn(struct fabricEnd *end)
{
	const struct fabricRegion *gpu = atomic_load(&end->fabric->gpu);

	if (end->flushWanted == end->flushBegun || end->flushBegun != end->flushed || !gpu)
		return;
	if (verbsPostFlush(end, gpu, end->self->message[0]) == fabricOk)
		end->flushBegun++;
}

void verbsFlushDone(struct fabricEnd *end)
{
	end->flushed = end->flushBegun;
	verbsFlushRelease(end);
}

void verbsFlushRelease(struct fabricEnd *end)
{
	while (end->waiting) {
		struct verbsPeer *peer = end->waiting;
		end->waiting = peer->nextNews;
		peer->hasNews = 0;
		verbsPeerHasNews(peer);
	}
}

/* A message does not overtake an earlier message that waits. */
int verbsHolds(const struct fabricEnd *end)
{
	return end->self &&
	       (end->firstHeld != end->endHeld || atomic_load(&end->fabric->gpuWindows));
}

static uint64_t slotOf(const struct fabricEnd *end, uint64_t serial)
{
	return serial % (end->room * end->receives);
}

void verbsHold(struct fabricEnd *end, const struct verbsHeld *held)
{
	struct verbsHeld *at = &end->held[slotOf(end, end->endHeld++)];

	*at = *held;
	at->flush = verbsFlushOf(end);
}

const struct verbsHeld *verbsHeldReady(const struct fabricEnd *end)
{
	if (end->firstHeld == end->endHeld)
		return NULL;
	const struct verbsHeld *held = &end->held[slotOf(end, end->firstHeld)];
	return held->flush <= end->flushed || end->self->isDead ? held : NULL;
}
