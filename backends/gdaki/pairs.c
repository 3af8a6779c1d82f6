/* SPDX-License-Identifier: BSD-3-Clause */
#include "pairs.h"

#include <stdio.h>
#include <stdlib.h>

#include "../../include/gin/mlx5.h"

static uint32_t ranks(const struct pairs *p)
{
	return (uint32_t)p->wanted.host->nRanks;
}

static uint32_t count(const struct pairs *p)
{
	return p->peers * p->wanted.contexts;
}

uint32_t pairsQueue(const struct pairs *p, uint32_t context, int peer)
{
	uint32_t place = p->place[peer];

	return place == PAIRS_NONE ? PAIRS_NONE : context * p->peers + place;
}

static ginResult_t findPeers(struct pairs *p)
{
	const struct pairsWanted *want = &p->wanted;

	p->place = malloc(ranks(p) * sizeof(*p->place));
	if (!p->place)
		return fail(ginErrorSystem, "no memory");
	for (uint32_t r = 0; r < ranks(p); r++)
		p->place[r] = want->serves(want->of, (int)r) ? p->peers++ : PAIRS_NONE;
	p->ends = calloc(count(p) + 1, sizeof(*p->ends));
	return p->ends ? ginSuccess : fail(ginErrorSystem, "no memory");
}

/* Every completion entry empty; all else is zero. */
static void blank(struct pairs *p)
{
	for (uint32_t i = 0; i < count(p); i++) {
		uint64_t at = rdmaPlaceOf(i, p->wanted.depth).cqe;
		((struct ginMlx5Cqe *)(void *)(p->slab + at))->state = ginMlx5CqeEmpty();
	}
}

static ginResult_t openQueues(struct pairs *p)
{
	const struct pairsWanted *want = &p->wanted;
	const struct device *d = want->host->device;
	size_t bytes = rdmaSlabBytes(count(p), want->depth);
	struct rdmaSlab slab = {.count = count(p), .depth = want->depth};
	char why[RDMA_WHY];
	void *memory;

	ginResult_t result = memoryAllocNear(d, bytes, d->numaNode, &memory);
	if (result != ginSuccess)
		return result;
	p->slab = memory;
	blank(p);
	slab.memory = (struct rdmaMemory){memory, bytes, -1, 0};
	slab.registers = want->registers;
	if (want->rdma->queuesOpen(want->port, &slab, &p->queues, why))
		return fail(ginErrorSystem, "gdaki: %s", why);
	return ginSuccess;
}

static ginResult_t failPair(uint32_t context, uint32_t peer, const char *why)
{
	return fail(ginErrorSystem, "gdaki: queue pair of context %u to rank %u: %s", context, peer,
		    why);
}

static ginResult_t makeQueues(struct pairs *p, uint32_t context)
{
	const struct rdma *rdma = p->wanted.rdma;
	char why[RDMA_WHY];

	for (uint32_t r = 0; r < ranks(p); r++) {
		uint32_t i = pairsQueue(p, context, (int)r);
		if (i != PAIRS_NONE && rdma->queueMake(p->queues, i, i, &p->ends[i], why))
			return failPair(context, r, why);
	}
	return ginSuccess;
}

static ginResult_t make(struct pairs *p)
{
	ginResult_t result = findPeers(p);

	if (result != ginSuccess || !p->peers)
		return result;
	result = openQueues(p);
	for (uint32_t c = 0; c < p->wanted.contexts && result == ginSuccess; c++)
		result = makeQueues(p, c);
	return result;
}

static ginResult_t connectQueues(struct pairs *p, uint32_t context, const struct rdmaEnd *all)
{
	const struct pairsWanted *want = &p->wanted;
	const uint32_t me = (uint32_t)want->host->rank;
	char why[RDMA_WHY];

	for (uint32_t r = 0; r < ranks(p); r++) {
		uint32_t i = pairsQueue(p, context, (int)r);
		if (i == PAIRS_NONE)
			continue;
		const struct rdmaEnd *peer = &all[(r * want->contexts + context) * ranks(p) + me];
		if (want->rdma->queueConnect(p->queues, i, &want->addresses[r], peer, &want->path,
					     why))
			return failPair(context, r, why);
	}
	return ginSuccess;
}

/* By context and rank. */
static void tell(const struct pairs *p, struct rdmaEnd *mine)
{
	for (uint32_t c = 0; c < p->wanted.contexts; c++)
		for (uint32_t r = 0; r < ranks(p); r++) {
			uint32_t i = pairsQueue(p, c, (int)r);
			if (i != PAIRS_NONE)
				mine[c * ranks(p) + r] = p->ends[i];
		}
}

/* The one exchange: every rank tells its ends, and takes those that are for it. */
static ginResult_t connectAll(struct pairs *p, const char *call, ginResult_t mine)
{
	const struct backendHost *host = p->wanted.host;
	size_t ends = (size_t)p->wanted.contexts * ranks(p);
	struct rdmaEnd *told = calloc(ends, sizeof(*told));
	struct rdmaEnd *all = calloc(ends, ranks(p) * sizeof(*all));

	if (mine == ginSuccess && (!told || !all))
		mine = fail(ginErrorSystem, "no memory");
	if (mine == ginSuccess)
		tell(p, told);
	mine = host->allgather(host->core, call, mine, told, all, ends * sizeof(*told));
	for (uint32_t c = 0; c < p->wanted.contexts && mine == ginSuccess; c++)
		mine = connectQueues(p, c, all);
	free(told);
	free(all);
	return mine;
}

ginResult_t pairsOpen(const struct pairsWanted *wanted, const char *call, ginResult_t mine,
		      struct pairs **pairs)
{
	struct pairs *p = calloc(1, sizeof(*p)), none = {.wanted = *wanted};

	if (!p)
		return connectAll(&none, call, fail(ginErrorSystem, "no memory"));
	p->wanted = *wanted;
	if (mine == ginSuccess)
		mine = make(p);
	mine = connectAll(p, call, mine);
	if (mine == ginSuccess)
		*pairs = p;
	else
		pairsClose(p);
	return mine;
}

void pairsClose(struct pairs *p)
{
	if (p->queues)
		p->wanted.rdma->queuesClose(p->queues);
	if (p->slab)
		memoryFree(p->wanted.host->device, p->slab);
	free(p->ends);
	free(p->place);
	free(p);
}

static int hasFailed(const struct pairs *p, uint32_t i, char *why)
{
	int state;

	if (p->wanted.rdma->queueState(p->queues, i, &state, why))
		return 1;
	if (state == rdmaReadyToSend)
		return 0;
	snprintf(why, RDMA_WHY, "queue pair 0x%x is in %s", p->ends[i].number,
		 state == rdmaError ? "the error state" : "no state in which it sends");
	return 1;
}

int pairsFailed(const struct pairs *p, char *why)
{
	for (uint32_t c = 0; p->peers && c < p->wanted.contexts; c++)
		for (uint32_t r = 0; r < ranks(p); r++) {
			uint32_t i = pairsQueue(p, c, (int)r);
			if (i != PAIRS_NONE && hasFailed(p, i, why))
				return (int)r;
		}
	return -1;
}
