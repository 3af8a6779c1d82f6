/* SPDX-License-Identifier: BSD-3-Clause */
/* window.c - windows as the NIC has them: a key by which order is kept, and one by which it is not */
#include <stdlib.h>
#include <string.h>

#include "gin/gdaki/mlx5.h"
#include "dmabuf.h"
#include "within.h"

_Static_assert(sizeof(struct gdakiPart) <= BACKEND_OFFER, "a part travels as an offer");

static ginResult_t openRegion(const struct gdaki *g, const struct rdmaMemory *memory,
			      unsigned access, struct rdmaRegion **region, struct rdmaKeys *keys)
{
	char why[RDMA_WHY];

	if (g->rdma->regionOpen(g->port, memory, access, region, keys, why))
		return fail(ginErrorSystem, "gdaki: %s", why);
	return ginSuccess;
}

/* Where the device keeps order in any case one key does for both. */
static ginResult_t openShared(struct gdakiWindow *w, const struct rdmaMemory *memory)
{
	struct rdmaKeys strict, relaxed;
	ginResult_t result = openRegion(w->g, memory, rdmaRemote, &w->strict, &strict);

	if (result != ginSuccess)
		return result;
	relaxed = strict;
	if (w->g->features.relaxedOrdering)
		result = openRegion(w->g, memory, rdmaRemote | rdmaRelaxed, &w->relaxed, &relaxed);
	w->own = (struct gdakiPart){strict.first, ginMlx5Key(relaxed.remote),
				    ginMlx5Key(strict.remote)};
	w->localKey = ginMlx5Key(strict.local);
	return result;
}

static ginResult_t openLocal(struct gdakiWindow *w, const struct rdmaMemory *memory)
{
	struct rdmaKeys keys = {0};
	ginResult_t result = openRegion(w->g, memory, rdmaLocal, &w->strict, &keys);

	w->own.first = keys.first;
	w->localKey = ginMlx5Key(keys.local);
	return result;
}

/* The NIC reads this GPU's memory through its L2. */
static uint32_t fenceOf(const struct memory *memory)
{
	return memory->kind == memoryVmm || memory->kind == memoryIpc ? ginScopeDevice
								      : ginScopeSystem;
}

static ginResult_t openMemory(struct gdakiWindow *w, const struct memory *memory, int isShared)
{
	w->fence = fenceOf(memory);
	if (!memory->bytes)
		return ginSuccess;
	struct rdmaMemory whole = dmabufOf(w->g->host->device, memory->address, memory->bytes);
	ginResult_t result = isShared ? openShared(w, &whole) : openLocal(w, &whole);
	dmabufClose(&whole);
	w->source = (struct ginSourceEntry){.address = (uintptr_t)memory->address,
					    .bytes = memory->bytes,
					    .nicAddress = w->own.first,
					    .nicKey = w->localKey};
	return result;
}

static ginResult_t list(struct gdakiWindow *w)
{
	return w->source.bytes ? sourcesAdd(&w->g->sources, &w->source, &w->slot) : ginSuccess;
}

void gdakiWindowDeregister(void *state, void *window)
{
	struct gdaki *g = state;
	struct gdakiWindow *w = window;

	if (w->slot != GDAKI_NO_SLOT)
		sourcesRemove(&g->sources, w->slot);
	if (w->relaxed)
		g->rdma->regionClose(w->relaxed);
	if (w->strict)
		g->rdma->regionClose(w->strict);
	free(w);
}

ginResult_t gdakiWindowOffer(void *state, const struct memory *memory, void *offer, void **window)
{
	struct gdaki *g = state;
	size_t parts = offer ? (size_t)g->host->nRanks : 0;
	struct gdakiWindow *w = calloc(1, sizeof(*w) + parts * sizeof(w->part[0]));

	if (!w)
		return fail(ginErrorSystem, "no memory");
	w->g = g;
	w->isLocal = !offer;
	w->slot = GDAKI_NO_SLOT;
	ginResult_t result = openMemory(w, memory, offer != NULL);
	if (result == ginSuccess && !offer)
		result = list(w);
	if (result != ginSuccess) {
		gdakiWindowDeregister(g, w);
		return result;
	}
	if (offer)
		memcpy(offer, &w->own, sizeof(w->own));
	*window = w;
	return ginSuccess;
}

ginResult_t gdakiWindowRegister(void *state, const char *call, ginResult_t mine,
				const uint8_t *offers, size_t stride, void *window)
{
	struct gdaki *g = state;
	struct gdakiWindow *w = window;

	(void)call;
	if (mine != ginSuccess)
		return mine;
	for (int r = 0; r < g->host->nRanks; r++)
		memcpy(&w->part[r], offers + (size_t)r * stride, sizeof(w->part[r]));
	return list(w);
}

void gdakiWindowTell(void *window, struct ginWindowTable *table)
{
	const struct gdakiWindow *w = window;

	table->nicKey = w->localKey;
	table->nicAddress = w->own.first;
	table->fence = w->fence;
	table->agent = ginAgentNic;
}

void gdakiWindowTellPeer(void *window, int peer, struct ginWindowPeer *entry)
{
	const struct gdakiWindow *w = window;

	if (!entry->bytes || w->isLocal)
		return;
	entry->nicAddress = w->part[peer].first;
	entry->nicKey = w->part[peer].key;
	entry->nicStrictKey = w->part[peer].strictKey;
}
