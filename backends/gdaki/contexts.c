/* SPDX-License-Identifier: BSD-3-Clause */
/* contexts.c - a device communicator's queues: their memory, their queue pairs, their doorbells */
#include "contexts.h"

#include <stdlib.h>

#include "dmabuf.h"
#include "doorbell.h"
#include "slab.h"

/* The sink, then each context's old values, then those of the queues of all contexts. */
enum { SINK_BYTES = 64, VALUE_BYTES = GIN_QUEUE_RESULTS * sizeof(uint64_t) };

static size_t tableBytes(const struct gdakiContexts *s)
{
	return s->count * sizeof(*s->queues) + (s->contexts + 1) * sizeof(*s->results);
}

static uint64_t valuesOf(uint32_t context)
{
	return SINK_BYTES + (uint64_t)context * VALUE_BYTES;
}

static uint32_t depthFor(const struct gdaki *g, uint32_t wanted)
{
	uint32_t most =
		g->features.maxDepth < GDAKI_MAX_DEPTH ? g->features.maxDepth : GDAKI_MAX_DEPTH;

	if (wanted < GDAKI_MIN_DEPTH)
		return GDAKI_MIN_DEPTH;
	return wanted < most ? wanted : most;
}

static ginResult_t allocTables(struct gdakiContexts *s)
{
	const struct device *d = s->g->host->device;
	size_t slots = (size_t)s->count * s->depth;
	size_t bytes = tableBytes(s) + slots * (sizeof(*s->turn) + sizeof(*s->counter));
	void *at = NULL;
	ginResult_t result = memoryAlloc(d, bytes, &at);

	if (result != ginSuccess)
		return result;
	s->queues = at;
	s->results = (struct ginSendResults *)(void *)(s->queues + s->count);
	s->turn = (uint32_t *)(void *)(s->results + s->contexts + 1);
	s->counter = s->turn + slots;
	return deviceWrite(d, at, NULL, bytes);
}

static ginResult_t openLanding(struct gdakiContexts *s)
{
	const struct device *d = s->g->host->device;
	char why[RDMA_WHY];
	void *at = NULL;
	uint64_t bytes = valuesOf(s->contexts + 1);
	ginResult_t result = slabMemory(d, bytes, &at);

	if (result != ginSuccess)
		return result;
	s->landing = at;
	result = deviceWrite(d, at, NULL, bytes);
	if (result != ginSuccess)
		return result;
	struct rdmaMemory memory = dmabufOf(d, at, bytes);
	int failed =
		s->g->rdma->regionOpen(s->g->port, &memory, rdmaLocal, &s->region, &s->keys, why);
	dmabufClose(&memory);
	return failed ? fail(ginErrorSystem, "gdaki: %s", why) : ginSuccess;
}

static ginResult_t giveDoorbell(struct gdakiContexts *s, uint32_t i, void **doorbell)
{
	struct rdmaRegister where;

	s->g->rdma->queueRegister(s->pairs->queues, i, &where);
	if (s->rings) {
		s->rings->registers[i] = where.at;
		*doorbell = &s->rings->words[i];
		return ginSuccess;
	}
	ginResult_t result = doorbellMap(s->g->host->device, &where, doorbell);
	s->mapped += result == ginSuccess;
	return result;
}

/* Peers have the same ones. */
static uint8_t hasMaskedAtomics(const struct gdaki *g)
{
	return (g->addresses[g->host->rank].atomics & rdmaAtomicsMasked) != 0;
}

static ginResult_t fillQueue(struct gdakiContexts *s, uint32_t i, struct ginSendQueue *out)
{
	const struct rdmaPlace place = rdmaPlaceOf(i, s->depth);
	char *slab = s->pairs->slab;
	void *doorbell = NULL;
	ginResult_t result = giveDoorbell(s, i, &doorbell);

	if (result != ginSuccess)
		return result;
	*out = (struct ginSendQueue){0};
	out->fixed = (struct ginSendFixed){
		.wqes = (void *)(slab + place.wqes),
		.turn = s->turn + (size_t)i * s->depth,
		.counter = s->counter + (size_t)i * s->depth,
		.cqe = (void *)(slab + place.cqe),
		.record = (void *)(slab + place.record),
		.doorbell = doorbell,
		.queue = ginMlx5Queue(s->pairs->ends[i].number),
		.logDepth = (uint16_t)__builtin_ctz(s->depth),
		.gpuMemory = (uint8_t)slabIsNear(s->g->host->device),
		.masked = hasMaskedAtomics(s->g),
		.sinkKey = ginMlx5Key(s->keys.local),
		.sink = (uint32_t)s->keys.first,
	};
	return ginSuccess;
}

static struct ginSendResults resultsOf(const struct gdakiContexts *s, uint32_t context)
{
	return (struct ginSendResults){
		.result = (uint64_t *)(void *)(s->landing + valuesOf(context)),
		.nicAddress = s->keys.first + valuesOf(context),
		.nicKey = ginMlx5Key(s->keys.local),
		.freeResults = (1ull << GIN_QUEUE_RESULTS) - 1,
	};
}

/* The turn lies at the first index. */
static ginResult_t putTurns(const struct gdakiContexts *s)
{
	static const uint32_t turn = GIN_TURN;
	ginResult_t result = ginSuccess;

	for (uint32_t i = 0; i < s->count && result == ginSuccess; i++)
		result = deviceWrite(s->g->host->device, s->turn + (size_t)i * s->depth, &turn,
				     sizeof(turn));
	return result;
}

static ginResult_t fillTables(struct gdakiContexts *s)
{
	struct ginSendQueue *queues = calloc(1, tableBytes(s));
	ginResult_t result = queues ? ginSuccess : fail(ginErrorSystem, "no memory");

	for (uint32_t i = 0; i < s->count && result == ginSuccess; i++)
		result = fillQueue(s, i, &queues[i]);
	if (result == ginSuccess) {
		struct ginSendResults *results = (void *)(queues + s->count);
		for (uint32_t c = 0; c <= s->contexts; c++)
			results[c] = resultsOf(s, c);
		result = deviceWrite(s->g->host->device, s->queues, queues, tableBytes(s));
	}
	free(queues);
	return result == ginSuccess ? putTurns(s) : result;
}

static int isPeer(const void *of, int rank)
{
	const struct backendHost *host = of;

	return host->routes[rank] == ginRouteGdaki;
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static struct pairsWanted pairsFor(const struct gdaki *g, uint32_t contexts, uint32_t depth)
{
	uint32_t queues = (contexts + 1) * (uint32_t)g->host->nRanks;

	return (struct pairsWanted){.host = g->host,
				    .rdma = g->rdma,
				    .port = g->port,
				    .addresses = g->addresses,
				    .serves = isPeer,
				    .of = g->host,
				    .path = g->path,
				    .contexts = contexts,
				    .depth = depth,
				    .shared = g->host->mixed,
				    .registers = least(paramNumber(paramGdakiDoorbells), queues)};
}

static ginResult_t makeTables(struct gdakiContexts *s)
{
	s->count = pairsCount(s->pairs);
	if (!s->count)
		return ginSuccess;
	s->told = calloc(s->count, 1);
	ginResult_t result = s->told ? allocTables(s) : fail(ginErrorSystem, "no memory");
	if (result == ginSuccess)
		result = openLanding(s);
	if (result == ginSuccess && s->g->ringer.started)
		result = ringsMake(s->g->host->device, s->count, &s->rings);
	return result == ginSuccess ? fillTables(s) : result;
}

/* All is there: threads may look at it. */
static void start(struct gdakiContexts *s)
{
	if (s->rings)
		ringerAdd(&s->g->ringer, s->rings);
	watchAdd(s->g, s);
	s->running = 1;
}

static void stop(struct gdakiContexts *s)
{
	if (!s->running)
		return;
	watchRemove(s->g, s);
	if (s->rings)
		ringerRemove(&s->g->ringer, s->rings);
}

ginResult_t gdakiContextsOpen(void *state, const char *call, ginResult_t mine,
			      const struct backendContexts *want, void **contexts)
{
	struct gdaki *g = state;
	const uint32_t depth = depthFor(g, want->depth);
	const struct pairsWanted wanted = pairsFor(g, want->contexts, depth);
	struct gdakiContexts *s = calloc(1, sizeof(*s));
	struct pairs *pairs = NULL;

	if (mine == ginSuccess && !s)
		mine = fail(ginErrorSystem, "no memory");
	mine = pairsOpen(&wanted, call, mine, &pairs);
	if (!s)
		return mine;
	*s = (struct gdakiContexts){.g = g,
				    .words = want->words,
				    .contexts = want->contexts,
				    .depth = depth,
				    .pairs = pairs};
	if (mine == ginSuccess)
		mine = makeTables(s);
	if (mine == ginSuccess) {
		start(s);
		*contexts = s;
	} else {
		gdakiContextsClose(g, s);
	}
	return mine;
}

/* Doorbells before the queues that they belong to, and all NIC's writers before the memory. */
void gdakiContextsClose(void *state, void *contexts)
{
	struct gdaki *g = state;
	struct gdakiContexts *s = contexts;
	const struct device *d = g->host->device;
	struct rdmaRegister where;

	stop(s);
	while (s->mapped) {
		g->rdma->queueRegister(s->pairs->queues, --s->mapped, &where);
		doorbellUnmap(d, &where);
	}
	if (s->pairs)
		pairsClose(s->pairs);
	if (s->rings)
		ringsFree(d, s->rings);
	if (s->region)
		g->rdma->regionClose(s->region);
	if (s->landing)
		memoryFree(d, s->landing);
	if (s->queues)
		memoryFree(d, s->queues);
	free(s->told);
	free(s);
}

void gdakiContextsTell(void *contexts, ginDevComm *devComm)
{
	const struct gdakiContexts *s = contexts;

	devComm->sendQueues = s->queues;
	devComm->results = s->results;
	devComm->sources = s->g->sources.table;
	devComm->nSendQueues = s->pairs->peers;
}

void gdakiContextsTellPeer(void *contexts, int peer, struct ginPeer *entry)
{
	const struct gdakiContexts *s = contexts;

	entry->nicSignals = s->words->part[peer].first;
	entry->nicKey = s->words->part[peer].strictKey;
	entry->sendQueue = s->pairs->place[peer];
}
