/* SPDX-License-Identifier: BSD-3-Clause */
/* pairs.c - makes and connects the queue pairs of a device communicator */
#include "pairs.h"

#include <stdio.h>
#include <stdlib.h>

#include "memory.h"

static uint32_t ranks(const struct gdakiPairs *p)
{
	return (uint32_t)p->wanted.host->nRanks;
}

/* Groups of queues: one for each context, and one of the shared queues. */
static uint32_t groups(const struct gdakiPairs *p)
{
	return p->wanted.contexts + (p->wanted.shared ? 1 : 0);
}

uint32_t pairsCount(const struct gdakiPairs *p)
{
	return p->peers * p->wanted.contexts + p->others;
}

uint32_t pairsQueue(const struct gdakiPairs *p, uint32_t context, int peer)
{
	int served = p->wanted.serves(p->wanted.of, peer) != 0;
	int shared = context == p->wanted.contexts;

	return served == shared ? PAIRS_NONE : context * p->peers + p->index[peer];
}

static uint32_t contextOf(const struct gdakiPairs *p, uint32_t queue)
{
	uint32_t own = p->peers * p->wanted.contexts;

	return queue < own ? queue / p->peers : p->wanted.contexts;
}

void pairsOwner(const struct gdakiPairs *p, uint32_t queue, char text[PAIRS_OWNER])
{
	uint32_t context = contextOf(p, queue);

	if (context < p->wanted.contexts)
		snprintf(text, PAIRS_OWNER, "context %u", context);
	else
		snprintf(text, PAIRS_OWNER, "all contexts");
}

int pairsPeer(const struct gdakiPairs *p, uint32_t queue)
{
	int peer = 0;

	while (pairsQueue(p, contextOf(p, queue), peer) != queue)
		peer++;
	return peer;
}

static size_t indexBytes(uint32_t nRanks)
{
	return nRanks * sizeof(uint32_t);
}

/* Never 0. */
static size_t endsBytes(uint32_t queues)
{
	return (queues + (size_t)1) * sizeof(struct rdmaEnd);
}

static ginResult_t findPeers(struct gdakiPairs *p)
{
	const struct gdakiPairsWanted *want = &p->wanted;

	p->index = malloc(indexBytes(ranks(p)));
	if (!p->index)
		return fail(ginErrorSystem, "no memory");
	for (uint32_t r = 0; r < ranks(p); r++)
		p->index[r] = want->serves(want->of, (int)r) ? p->peers++ : p->others++;
	if (!want->shared)
		p->others = 0;
	p->ends = calloc(1, endsBytes(pairsCount(p)));
	return p->ends ? ginSuccess : fail(ginErrorSystem, "no memory");
}

static ginResult_t openQueues(struct gdakiPairs *p)
{
	const struct gdakiPairsWanted *want = &p->wanted;
	const struct device *d = want->host->device;
	const struct rdmaSlab shape = {
		.count = pairsCount(p), .depth = want->depth, .registers = want->registers};
	ginResult_t result = slabAlloc(d, shape.count, shape.depth, &p->slab);

	if (result != ginSuccess)
		return result;
	return slabQueues(d, want->rdma, want->port, p->slab, &shape, &p->queues);
}

/* Bytes of the ends of some groups between two ranks. */
static size_t pairsBlock(uint32_t groupCount)
{
	return groupCount * sizeof(struct rdmaEnd);
}

/* Groups whose ends travel together: one exchange, of 64 KiB for all peers, takes one round. */
static uint32_t pairsBatchGroups(uint32_t nRanks)
{
	size_t most = GIN_ALLGATHER_BYTES / (nRanks * sizeof(struct rdmaEnd));

	return most ? (uint32_t)most : 1;
}

static ginResult_t failPair(const struct gdakiPairs *p, uint32_t queue, uint32_t peer,
			    const char *why)
{
	char owner[PAIRS_OWNER];

	pairsOwner(p, queue, owner);
	return fail(ginErrorSystem,
		    "gdaki: queue pair of %s to rank %u: %s; use fewer contexts, or "
		    "GIN_BACKEND=proxy",
		    owner, peer, why);
}

static ginResult_t makeQueues(struct gdakiPairs *p, uint32_t context)
{
	const struct rdma *rdma = p->wanted.rdma;
	char why[RDMA_WHY];

	for (uint32_t r = 0; r < ranks(p); r++) {
		uint32_t i = pairsQueue(p, context, (int)r);
		if (i != PAIRS_NONE && rdma->queueMake(p->queues, i, i, &p->ends[i], why))
			return failPair(p, i, r, why);
	}
	return ginSuccess;
}

static ginResult_t make(struct gdakiPairs *p)
{
	ginResult_t result = findPeers(p);

	if (result != ginSuccess || !pairsCount(p))
		return result;
	result = openQueues(p);
	for (uint32_t c = 0; c < groups(p) && result == ginSuccess; c++)
		result = makeQueues(p, c);
	return result;
}

/* Some groups, whose ends travel in one exchange. */
struct pairsBatch {
	uint32_t first, count;
};

/* `ends`: of the peers, by rank; for each rank the groups of the batch. */
static ginResult_t connectQueues(struct gdakiPairs *p, struct pairsBatch batch,
				 const struct rdmaEnd *ends)
{
	const struct gdakiPairsWanted *want = &p->wanted;
	char why[RDMA_WHY];

	for (uint32_t at = 0; at < batch.count * ranks(p); at++) {
		uint32_t r = at / batch.count;
		uint32_t i = pairsQueue(p, batch.first + at % batch.count, (int)r);
		if (i != PAIRS_NONE && want->rdma->queueConnect(p->queues, i, &want->addresses[r],
								&ends[at], &want->path, why))
			return failPair(p, i, r, why);
	}
	return ginSuccess;
}

static void fillEnds(const struct gdakiPairs *p, struct pairsBatch batch, struct rdmaEnd *mine)
{
	for (uint32_t at = 0; at < batch.count * ranks(p); at++) {
		uint32_t i = pairsQueue(p, batch.first + at % batch.count, (int)(at / batch.count));
		if (i != PAIRS_NONE)
			mine[at] = p->ends[i];
	}
}

/* Gives each peer the ends of its queue pairs, and connects the queue pairs of a batch. */
static ginResult_t connectBatch(struct gdakiPairs *p, const char *call, ginResult_t mine,
				struct pairsBatch batch)
{
	const struct backendHost *host = p->wanted.host;
	size_t block = pairsBlock(batch.count);
	struct rdmaEnd *own = calloc(ranks(p), block), *peers = calloc(ranks(p), block);

	if (mine == ginSuccess && (!own || !peers))
		mine = fail(ginErrorSystem, "no memory");
	if (mine == ginSuccess)
		fillEnds(p, batch, own);
	mine = host->alltoall(host->core, call, mine, own, peers, block);
	if (mine == ginSuccess)
		mine = connectQueues(p, batch, peers);
	free(own);
	free(peers);
	return mine;
}

static ginResult_t connectAll(struct gdakiPairs *p, const char *call, ginResult_t mine)
{
	struct pairsBatch batch = {.count = pairsBatchGroups(ranks(p))};

	for (; batch.first < groups(p); batch.first += batch.count) {
		if (batch.count > groups(p) - batch.first)
			batch.count = groups(p) - batch.first;
		mine = connectBatch(p, call, mine, batch);
	}
	return mine;
}

void pairsPlan(struct plan *plan, uint32_t depth)
{
	uint32_t n = (uint32_t)plan->nRanks, contexts = plan->want->contexts;
	uint32_t most = pairsBatchGroups(n), last = contexts % most;

	plan->queuePairs += (uint64_t)n * contexts;
	plan->regions[planCreate]++; /* the slab */
	plan->memory[planCreate].heap += indexBytes(n) + endsBytes(n * contexts);
	plan->memory[planCreate].device += rdmaSlabBytes(n * contexts, depth);
	planAdd(plan, (struct planExchange){planCreate, contexts / most, 0, pairsBlock(most)});
	planAdd(plan, (struct planExchange){planCreate, last != 0, 0, pairsBlock(last)});
}

ginResult_t pairsOpen(const struct gdakiPairsWanted *wanted, const char *call, ginResult_t mine,
		      struct gdakiPairs **pairs)
{
	struct gdakiPairs *p = calloc(1, sizeof(*p)), none = {.wanted = *wanted};

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

void pairsClose(struct gdakiPairs *p)
{
	if (p->queues)
		p->wanted.rdma->queuesClose(p->queues);
	slabFree(p->wanted.host->device, p->slab);
	free(p->ends);
	free(p->index);
	free(p);
}

int pairsIsBroken(const struct gdakiPairs *p, uint32_t i)
{
	char why[RDMA_WHY];
	int state;

	return !p->wanted.rdma->queueState(p->queues, i, &state, why) && state == rdmaError;
}

static int hasFailed(const struct gdakiPairs *p, uint32_t i, char *why)
{
	int state;

	if (p->wanted.rdma->queueState(p->queues, i, &state, why))
		return 1;
	if (state == rdmaReadyToSend)
		return 0;
	snprintf(why, RDMA_WHY, "queue pair 0x%x is in %s", p->ends[i].number,
		 state == rdmaError ? "the error state" : "a state in which it cannot send");
	return 1;
}

int pairsFailed(const struct gdakiPairs *p, char *why)
{
	for (uint32_t i = 0; i < pairsCount(p); i++)
		if (hasFailed(p, i, why))
			return pairsPeer(p, i);
	return -1;
}
