/* SPDX-License-Identifier: BSD-3-Clause */
/* window.c - windows as the workers find them */
#include "window.h"

#include <stdlib.h>

enum {
	SLOTS_BYTES = GIN_DESCRIPTOR_SLOTS * sizeof(struct proxyWindow *),
	TAKEN_BYTES = GIN_DESCRIPTOR_SLOTS
};

ginResult_t slotsOpen(struct proxySlots *slots)
{
	slots->at = calloc(1, SLOTS_BYTES);
	slots->taken = calloc(1, TAKEN_BYTES);
	slots->used = 0;
	if (!slots->at || !slots->taken) {
		free(slots->at);
		free(slots->taken);
		slots->at = NULL;
		slots->taken = NULL;
		return fail(ginErrorSystem, "no memory");
	}
	pthread_mutex_init(&slots->lock, NULL);
	return ginSuccess;
}

void slotsClose(struct proxySlots *slots)
{
	if (slots->at)
		pthread_mutex_destroy(&slots->lock);
	free(slots->at);
	free(slots->taken);
}

static uint32_t firstFree(const struct proxySlots *slots)
{
	uint32_t slot = 0;

	while (slot < slots->used && slots->taken[slot])
		slot++;
	return slot;
}

ginResult_t slotsTake(struct proxySlots *slots, struct proxyWindow *window)
{
	pthread_mutex_lock(&slots->lock);
	uint32_t slot = slots->used < GIN_DESCRIPTOR_SLOTS ? slots->used : firstFree(slots);
	if (slot < GIN_DESCRIPTOR_SLOTS) {
		window->slot = slot;
		window->hasSlot = 1;
		slots->taken[slot] = 1;
		if (slot == slots->used)
			__atomic_store_n(&slots->used, slot + 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&slots->lock);
	if (slot < GIN_DESCRIPTOR_SLOTS)
		return ginSuccess;
	return fail(ginErrorInvalidUsage,
		    "%u windows are registered, the most that the proxy supports at a time: "
		    "deregister some",
		    GIN_DESCRIPTOR_SLOTS);
}

void slotsPublish(struct proxySlots *slots, struct proxyWindow *window)
{
	window->isPublished = 1;
	__atomic_store_n(&slots->at[window->slot], window, __ATOMIC_RELEASE);
}

void slotsGive(struct proxySlots *slots, struct proxyWindow *window)
{
	pthread_mutex_lock(&slots->lock);
	__atomic_store_n(&slots->at[window->slot], NULL, __ATOMIC_RELEASE);
	slots->taken[window->slot] = 0;
	pthread_mutex_unlock(&slots->lock);
}

static int holds(const struct proxyWindow *w, const void *address, uint64_t bytes)
{
	const struct proxyPart *own = &w->part[w->rank];
	uint64_t offset = (uintptr_t)address - (uintptr_t)own->at;

	return own->at && offset < own->bytes && bytes <= own->bytes - offset;
}

const struct proxyWindow *slotsSearch(const struct proxySlots *slots, const void *address,
				      uint64_t bytes)
{
	uint32_t used = __atomic_load_n(&slots->used, __ATOMIC_ACQUIRE);

	for (uint32_t slot = 0; slot < used; slot++) {
		const struct proxyWindow *w = slotsFind(slots, slot);
		if (w && holds(w, address, bytes))
			return w;
	}
	return NULL;
}

/* A source in this GPU's memory is read through the GPU's L2: see label D in ordering.cuh. */
static uint32_t fenceOf(const struct memory *memory)
{
	if (memoryIsGpus(memory) && paramChoice(paramProxyFence) == proxyFenceAuto)
		return ginScopeDevice;
	return ginScopeSystem;
}

int proxyReachedByCpu(const struct device *d, enum memoryKind kind)
{
	return !d->cuda || kind == memoryShared;
}

static size_t windowBytes(size_t nRanks)
{
	return sizeof(struct proxyWindow) + nRanks * sizeof(struct proxyPart);
}

void proxyWindowPlan(struct plan *plan)
{
	plan->memory[planStart].heap += SLOTS_BYTES + TAKEN_BYTES;
	plan->memory[planWindow].heap += windowBytes((size_t)plan->nRanks);
}

ginResult_t proxyWindowMake(const struct backendHost *host, const struct memory *memory,
			    struct proxyWindow **out)
{
	struct proxyWindow *w = calloc(1, windowBytes((size_t)host->nRanks));

	if (!w)
		return fail(ginErrorSystem, "no memory");
	w->rank = (uint32_t)host->rank;
	w->nRanks = (uint32_t)host->nRanks;
	w->fence = fenceOf(memory);
	w->copiesOnly = host->copiesOnly;
	w->part[w->rank] = (struct proxyPart){
		.at = memory->bytes ? memory->address : NULL,
		.bytes = memory->bytes,
		.isReached = 1,
		.byCpu = (uint8_t)proxyReachedByCpu(host->device, memory->kind),
		.isChangeable = (uint8_t)proxyReachedByCpu(host->device, memory->kind),
		.skew = (uintptr_t)memory->address % 8,
	};
	*out = w;
	return ginSuccess;
}

void proxyWindowOwn(const struct proxyWindow *window, struct proxyOffer *offer)
{
	const struct proxyPart *own = &window->part[window->rank];

	offer->bytes = own->bytes;
	offer->slot = window->slot;
	offer->byCpu = own->byCpu;
	offer->skew = own->skew;
	offer->isChangeable = own->isChangeable;
}

void proxyWindowPeer(struct proxyWindow *window, int rank, const struct proxyOffer *offer)
{
	struct proxyPart *part = &window->part[rank];

	part->bytes = offer->bytes;
	part->slot = offer->slot;
	part->byCpu = offer->byCpu;
	part->skew = offer->skew % 8;
	part->isChangeable = offer->isChangeable;
}

uint32_t proxyWindowAgent(const struct proxyWindow *window)
{
	if (window->copiesOnly)
		return ginAgentGpu;
	for (uint32_t r = 0; r < window->nRanks; r++)
		if (window->part[r].bytes && !window->part[r].isChangeable)
			return ginAgentNone;
	return ginAgentProxy;
}
