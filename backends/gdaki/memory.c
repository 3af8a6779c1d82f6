/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.c - memory that the NIC reads and writes: slabs of queues, windows, sources of putFrom */
#include "memory.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "gin/core/mlx5.h"
#include "gdaki.h"

static ginResult_t blank(const struct device *d, uint32_t count, uint32_t depth, char *slab)
{
	const struct ginMlx5Cqe empty = {.state = ginMlx5CqeEmpty()};
	ginResult_t result = deviceWrite(d, slab, NULL, rdmaSlabBytes(count, depth));

	for (uint32_t i = 0; i < count && result == ginSuccess; i++)
		result = deviceWrite(d, slab + rdmaLayoutOf(i, depth).cqe, &empty, sizeof(empty));
	return result;
}

int slabIsInGpu(const struct device *d)
{
	return d->cuda && paramChoice(paramGdakiQueues) != gdakiQueuesHost;
}

ginResult_t slabMemory(const struct device *d, size_t bytes, void **at)
{
	if (paramChoice(paramGdakiQueues) == gdakiQueuesHost)
		return memoryAllocOnNode(d, bytes, d->numaNode, at);
	return memoryAlloc(d, bytes, at);
}

ginResult_t slabAlloc(const struct device *d, uint32_t count, uint32_t depth, char **slab)
{
	size_t bytes = rdmaSlabBytes(count, depth);
	void *at = NULL;
	ginResult_t result = slabMemory(d, bytes, &at);

	if (result != ginSuccess)
		return result;
	result = blank(d, count, depth, at);
	if (result == ginSuccess)
		*slab = at;
	else
		memoryFree(d, at);
	return result;
}

void slabFree(const struct device *d, char *slab)
{
	if (slab)
		memoryFree(d, slab);
}

ginResult_t slabQueues(const struct device *d, const struct rdma *rdma, struct rdmaPort *port,
		       char *slab, const struct rdmaSlab *shape, struct rdmaQueues **queues)
{
	struct rdmaSlab whole = *shape;
	char why[RDMA_WHY];

	whole.memory = dmabufOf(d, slab, rdmaSlabBytes(shape->count, shape->depth));
	int failed = rdma->queuesOpen(port, &whole, queues, why);
	dmabufClose(&whole.memory);
	return failed ? fail(ginErrorSystem, "gdaki: %s", why) : ginSuccess;
}

static size_t sourcesBytes(void)
{
	return sizeof(struct ginSources) + SOURCES_MOST * sizeof(struct ginSourceEntry);
}

/* Entries from `used` on are never read and stay uninitialized. */
ginResult_t sourcesOpen(const struct device *d, struct gdakiSources *s)
{
	size_t bytes = sourcesBytes();
	void *table = NULL;

	*s = (struct gdakiSources){.device = d, .taken = calloc(SOURCES_MOST, 1)};
	ginResult_t result =
		s->taken ? memoryAlloc(d, bytes, &table) : fail(ginErrorSystem, "no memory");
	if (result == ginSuccess)
		result = deviceWrite(d, table, NULL, sizeof(struct ginSources));
	if (result != ginSuccess) {
		if (table)
			memoryFree(d, table);
		free(s->taken);
		return result;
	}
	pthread_mutex_init(&s->lock, NULL);
	s->table = table;
	return ginSuccess;
}

void sourcesClose(struct gdakiSources *s)
{
	if (!s->table)
		return;
	memoryFree(s->device, s->table);
	pthread_mutex_destroy(&s->lock);
	free(s->taken);
}

static struct ginSourceEntry *entryAt(const struct gdakiSources *s, uint32_t slot)
{
	return (struct ginSourceEntry *)(void *)(s->table + 1) + slot;
}

/*
 * Stores one word of the table while kernels may read it (ginSourceFind(): ginHostWordObserve()).
 * Words become visible in the order of the calls: a copy to the GPU is complete when deviceWrite()
 * returns.
 */
static ginResult_t storeWord(const struct gdakiSources *s, uint64_t *at, uint64_t value)
{
	if (s->device->cuda)
		return deviceWrite(s->device, at, &value, sizeof(value));
	__atomic_store_n(at, value, __ATOMIC_RELEASE);
	return ginSuccess;
}

/* The size is 0 during the update, so that no address matches, and is stored last. */
static ginResult_t writeEntry(struct gdakiSources *s, uint32_t slot,
			      const struct ginSourceEntry *entry)
{
	struct ginSourceEntry *at = entryAt(s, slot);
	ginResult_t result = storeWord(s, &at->bytes, 0);

	if (result == ginSuccess)
		result = storeWord(s, &at->address, entry->address);
	if (result == ginSuccess)
		result = storeWord(s, &at->nicAddress, entry->nicAddress);
	if (result == ginSuccess)
		result = storeWord(s, (uint64_t *)(void *)&at->nicKey, entry->nicKey);
	if (result == ginSuccess)
		result = storeWord(s, &at->bytes, entry->bytes);
	if (result == ginSuccess && slot == s->used)
		result = storeWord(s, &s->table->used, slot + 1);
	return result;
}

static uint32_t freeSlot(const struct gdakiSources *s)
{
	uint32_t slot = s->used;

	if (slot < SOURCES_MOST)
		return slot;
	for (slot = 0; slot < SOURCES_MOST && s->taken[slot];)
		slot++;
	return slot;
}

static ginResult_t addLocked(struct gdakiSources *s, const struct ginSourceEntry *entry,
			     uint32_t *out)
{
	uint32_t slot = freeSlot(s);

	if (slot == SOURCES_MOST)
		return fail(ginErrorInvalidUsage,
			    "%d windows are registered, the most that gdaki supports at a time: "
			    "deregister some",
			    SOURCES_MOST);
	ginResult_t result = writeEntry(s, slot, entry);
	if (result != ginSuccess)
		return result;
	s->taken[slot] = 1;
	s->used += slot == s->used;
	*out = slot;
	return ginSuccess;
}

ginResult_t sourcesAdd(struct gdakiSources *s, const struct ginSourceEntry *entry, uint32_t *slot)
{
	pthread_mutex_lock(&s->lock);
	ginResult_t result = addLocked(s, entry, slot);
	pthread_mutex_unlock(&s->lock);
	return result;
}

void sourcesRemove(struct gdakiSources *s, uint32_t slot)
{
	pthread_mutex_lock(&s->lock);
	storeWord(s, &entryAt(s, slot)->bytes, 0);
	s->taken[slot] = 0;
	pthread_mutex_unlock(&s->lock);
}

_Static_assert(sizeof(struct gdakiPart) <= BACKEND_OFFER, "a part travels as an offer");

/* The NIC reads this GPU's memory through the GPU's L2: release to the device is enough. */
static uint32_t fenceOf(const struct memory *memory)
{
	return memoryIsGpus(memory) ? ginScopeDevice : ginScopeSystem;
}

/* A local window has no keys for peers. */
static void nameKeys(struct gdakiWindow *w, int isShared)
{
	const struct rdmaWindow *nic = &w->nic;

	w->own.first = nic->strictKeys.first;
	w->localKey = ginMlx5Key(nic->strictKeys.local);
	if (!isShared)
		return;
	w->own.key = ginMlx5Key(nic->relaxedKeys.remote);
	w->own.strictKey = ginMlx5Key(nic->strictKeys.remote);
}

static ginResult_t openMemory(struct gdakiWindow *w, const struct memory *memory, int isShared)
{
	w->fence = fenceOf(memory);
	if (!memory->bytes)
		return ginSuccess;
	const struct rdmaUser user = gdakiUser(w->g);
	ginResult_t result =
		rdmaWindowOpen(&user, memory->address, memory->bytes, isShared, &w->nic);
	nameKeys(w, isShared);
	w->source = (struct ginSourceEntry){.address = (uintptr_t)memory->address,
					    .bytes = memory->bytes,
					    .nicAddress = w->own.first,
					    .nicKey = w->localKey};
	return result;
}

static ginResult_t addSource(struct gdakiWindow *w)
{
	return w->source.bytes ? sourcesAdd(&w->g->sources, &w->source, &w->slot) : ginSuccess;
}

void gdakiWindowDeregister(void *state, void *window)
{
	struct gdaki *g = state;
	struct gdakiWindow *w = window;
	const struct rdmaUser user = gdakiUser(g);

	if (w->slot != GDAKI_NO_SLOT)
		sourcesRemove(&g->sources, w->slot);
	rdmaWindowClose(&user, &w->nic);
	free(w);
}

static size_t windowBytes(size_t parts)
{
	return sizeof(struct gdakiWindow) + parts * sizeof(struct gdakiPart);
}

void gdakiMemoryPlan(struct plan *plan)
{
	plan->memory[planStart].heap += SOURCES_MOST;
	plan->memory[planStart].device += sourcesBytes();
	plan->memory[planWindow].heap += windowBytes((size_t)plan->nRanks);
	plan->regions[planWindow] += RDMA_WINDOW_REGIONS;
}

ginResult_t gdakiWindowOffer(void *state, const struct memory *memory, void *offer, void **window)
{
	struct gdaki *g = state;
	struct gdakiWindow *w = calloc(1, windowBytes(offer ? (size_t)g->host->nRanks : 0));

	if (!w)
		return fail(ginErrorSystem, "no memory");
	w->g = g;
	w->isLocal = !offer;
	w->slot = GDAKI_NO_SLOT;
	ginResult_t result = openMemory(w, memory, offer != NULL);
	if (result == ginSuccess && !offer)
		result = addSource(w);
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
	return addSource(w);
}

void gdakiWindowDescribe(void *window, struct ginWindowTable *table)
{
	const struct gdakiWindow *w = window;

	table->nicKey = w->localKey;
	table->nicAddress = w->own.first;
	table->fence = w->fence;
	table->agent = ginAgentNic;
}

void gdakiWindowDescribePeer(void *window, int peer, struct ginWindowPeer *entry)
{
	const struct gdakiWindow *w = window;

	if (!entry->bytes || w->isLocal)
		return;
	entry->nicAddress = w->part[peer].first;
	entry->nicKey = w->part[peer].key;
	entry->nicStrictKey = w->part[peer].strictKey;
}
