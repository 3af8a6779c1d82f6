/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c - memory that the NIC reads and writes
 *
 * Keys of windows allow relaxed ordering of writes: a word is changed by the receiving proxy after
 * the completion of a message, which the NIC writes in order after the data.
 */
#include <stdlib.h>
#include <string.h>

#include "backends/rdma/nic/memory.h"
#include "verbs.h"

int verbsMemoryOpen(struct fabric *f, const struct rdmaMemory *memory, unsigned access,
		    uint8_t isGpu, struct fabricRegion **out, char *why)
{
	struct fabricRegion *region = calloc(1, sizeof(*region));
	char reason[RDMA_WHY];

	if (!region)
		return verbsFail(why, "no memory");
	*region = (struct fabricRegion){
		.fabric = f, .at = memory->address, .bytes = memory->bytes, .isGpu = isGpu};
	if (regionOpen(f->port, memory, access, &region->region, &region->keys, reason)) {
		free(region);
		return verbsFail(why, reason);
	}
	pthread_mutex_lock(&f->lock);
	region->next = f->regions;
	f->regions = region;
	pthread_mutex_unlock(&f->lock);
	*out = region;
	return fabricOk;
}

int verbsMemoryAdd(struct fabric *f, void *at, size_t bytes, struct fabricRegion **out,
		   struct fabricKey *key, char *why)
{
	const struct rdmaMemory memory = {.address = at, .bytes = bytes, .dmabuf = -1};

	if (verbsMemoryOpen(f, &memory, rdmaRemote | rdmaRelaxed, 0, out, why))
		return fabricFailed;
	*key = (struct fabricKey){(*out)->keys.first, (*out)->keys.remote};
	return fabricOk;
}

/* The first region is for flushes. */
int verbsGpuMemoryAdd(struct fabric *f, const struct rdmaMemory *memory, struct fabricRegion **out,
		      struct fabricKey *key, const char **how, char *why)
{
	int isFirst = !atomic_load(&f->gpu);
	unsigned access = isFirst ? rdmaRemote : rdmaRemote | rdmaRelaxed;

	if (verbsMemoryOpen(f, memory, access, 1, out, why))
		return fabricFailed;
	struct fabricRegion *region = *out;
	region->isWindow = !isFirst;
	if (isFirst)
		atomic_store(&f->gpu, region);
	else
		atomic_fetch_add(&f->gpuWindows, 1);
	*key = (struct fabricKey){region->keys.first, region->keys.remote};
	*how = region->keys.via == rdmaViaDmabuf ? "dma-buf" : "nvidia-peermem";
	return fabricOk;
}

void verbsMemoryRemove(struct fabricRegion *region)
{
	struct fabric *f = region->fabric;
	struct fabricRegion **at = &f->regions;

	pthread_mutex_lock(&f->lock);
	while (*at != region)
		at = &(*at)->next;
	*at = region->next;
	pthread_mutex_unlock(&f->lock);
	if (region->isWindow)
		atomic_fetch_sub(&f->gpuWindows, 1);
	if (region == atomic_load(&f->gpu))
		atomic_store(&f->gpu, NULL);
	regionClose(region->region);
	free(region);
}

static struct ibv_sge within(const struct fabricRegion *r, const char *at, uint32_t bytes)
{
	return (struct ibv_sge){r->keys.first + (uint64_t)(at - r->at), bytes, r->keys.local};
}

struct ibv_sge verbsBuffer(const struct fabricEnd *end, const void *at, uint32_t bytes)
{
	return within(end->region, at, bytes);
}

int verbsMemoryFind(struct fabric *f, const char *at, uint64_t bytes, struct ibv_sge *out,
		    uint8_t *isGpu)
{
	int found = 0;

	pthread_mutex_lock(&f->lock);
	for (const struct fabricRegion *r = f->regions; r && !found; r = r->next) {
		if (at < r->at || bytes > r->bytes || (size_t)(at - r->at) > r->bytes - bytes)
			continue;
		*out = within(r, at, (uint32_t)bytes);
		*isGpu = r->isGpu;
		found = 1;
	}
	pthread_mutex_unlock(&f->lock);
	return found;
}
