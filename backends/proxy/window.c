/* SPDX-License-Identifier: BSD-3-Clause */
/* window.c - windows as the workers find them */
#include "window.h"

#include <stdlib.h>
#include <string.h>

/* The part's length is at the end of the offer, after struct peermemOffer. */
#define OFFER_BYTES_AT (BACKEND_OFFER - sizeof(uint64_t))

ginResult_t slotsOpen(struct proxySlots *slots)
{
	slots->at = calloc(GIN_DESCRIPTOR_SLOTS, sizeof(struct proxyWindow *));
	slots->used = 0;
	if (!slots->at)
		return fail(ginErrorSystem, "no memory");
	pthread_mutex_init(&slots->lock, NULL);
	return ginSuccess;
}

void slotsClose(struct proxySlots *slots)
{
	if (slots->at)
		pthread_mutex_destroy(&slots->lock);
	free(slots->at);
}

static uint32_t firstFree(const struct proxySlots *slots)
{
	uint32_t slot = 0;

	while (slot < slots->used && slots->at[slot])
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
		__atomic_store_n(&slots->at[slot], window, __ATOMIC_RELEASE);
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

void slotsGive(struct proxySlots *slots, struct proxyWindow *window)
{
	pthread_mutex_lock(&slots->lock);
	__atomic_store_n(&slots->at[window->slot], NULL, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&slots->lock);
}

static int holds(const struct proxyWindow *w, const void *address, uint64_t bytes)
{
	const struct proxyPart *own = &w->part[w->rank];
	uint64_t offset = (uintptr_t)address - (uintptr_t)own->base.at;

	return own->base.at && offset < own->bytes && bytes <= own->bytes - offset;
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
	int isGpu = memory->kind == memoryVmm || memory->kind == memoryIpc;

	if (isGpu && paramChoice(paramProxyFence) == proxyFenceAuto)
		return ginScopeDevice;
	return ginScopeSystem;
}

static int reachedByCpu(const struct device *d, enum memoryKind kind)
{
	return !d->cuda || kind == memoryShared;
}

ginResult_t proxyWindowMake(struct peermem *peermem, const struct backendHost *host,
			    const struct memory *memory, void *offer, struct proxyWindow **out)
{
	size_t n = (size_t)host->nRanks;
	struct proxyWindow *w = calloc(1, sizeof(*w) + n * sizeof(w->part[0]));
	ginResult_t result = ginSuccess;

	if (!w)
		return fail(ginErrorSystem, "no memory");
	w->rank = (uint32_t)host->rank;
	w->nRanks = (uint32_t)host->nRanks;
	w->fence = fenceOf(memory);
	w->copiesOnly = host->copiesOnly;
	w->part[w->rank].base.at = memory->bytes ? memory->address : NULL;
	w->part[w->rank].base.byCpu = reachedByCpu(host->device, memory->kind);
	w->part[w->rank].bytes = memory->bytes;
	if (offer)
		result = peermemOffer(peermem, memory, offer, &w->mapped);
	if (result != ginSuccess) {
		free(w);
		return result;
	}
	if (offer)
		memcpy((char *)offer + OFFER_BYTES_AT, &w->part[w->rank].bytes, sizeof(uint64_t));
	*out = w;
	return ginSuccess;
}

static void fillPart(const struct backendHost *host, struct proxyWindow *w, const uint8_t *offer,
		     int rank)
{
	struct proxyPart *part = &w->part[rank];

	memcpy(&part->bytes, offer + OFFER_BYTES_AT, sizeof(part->bytes));
	if (rank == host->rank)
		return;
	part->base.at = peermemAddress(w->mapped, rank);
	part->base.byCpu = reachedByCpu(host->device, peermemKind(w->mapped, rank));
}

ginResult_t proxyWindowReach(struct peermem *peermem, const struct backendHost *host,
			     ginResult_t mine, const uint8_t *offers, size_t stride,
			     struct proxyWindow *window)
{
	ginResult_t result = peermemRegister(peermem, mine, offers, stride, window->mapped);

	for (int r = 0; result == ginSuccess && r < host->nRanks; r++)
		fillPart(host, window, offers + (size_t)r * stride, r);
	return result;
}

void proxyWindowFree(struct peermem *peermem, struct proxyWindow *window)
{
	if (window->mapped)
		peermemDeregister(peermem, window->mapped);
	free(window);
}

uint32_t proxyWindowAgent(const struct proxyWindow *window)
{
	if (window->copiesOnly)
		return ginAgentGpu;
	for (uint32_t r = 0; r < window->nRanks; r++)
		if (window->part[r].bytes && !window->part[r].base.byCpu)
			return ginAgentNone;
	return ginAgentProxy;
}
