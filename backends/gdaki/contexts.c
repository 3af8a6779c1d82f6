/* SPDX-License-Identifier: BSD-3-Clause */
/* contexts.c - makes a device communicator's send queues and the tables that kernels read */
#include "contexts.h"

#include <stdlib.h>

/*
 * `landing`: the sink, then one block of results for each context, then one for the shared queues.
 */
enum { SINK_BYTES = 64, VALUE_BYTES = GIN_QUEUE_RESULTS * sizeof(uint64_t) };

static size_t tableBytes(const struct gdakiContexts *s)
{
	return s->count * sizeof(*s->queues) + (s->contexts + 1) * sizeof(*s->results);
}

/* The table, and `turn` and `counter` of each slot. */
static size_t tablesBytes(const struct gdakiContexts *s)
{
	return tableBytes(s) +
	       (size_t)s->count * s->depth * (sizeof(*s->turn) + sizeof(*s->counter));
}

static uint64_t valuesOf(uint32_t context)
{
	return SINK_BYTES + (uint64_t)context * VALUE_BYTES;
}

static uint64_t landingBytes(const struct gdakiContexts *s)
{
	return valuesOf(s->contexts + 1);
}

static uint32_t depthWithin(uint32_t most, uint32_t wanted)
{
	if (wanted < GDAKI_MIN_DEPTH)
		return GDAKI_MIN_DEPTH;
	return wanted < most ? wanted : most;
}

static uint32_t depthFor(const struct gdaki *g, uint32_t wanted)
{
	uint32_t most =
		g->features.maxDepth < GDAKI_MAX_DEPTH ? g->features.maxDepth : GDAKI_MAX_DEPTH;

	return depthWithin(most, wanted);
}

static ginResult_t allocTables(struct gdakiContexts *s)
{
	const struct device *d = s->g->host->device;
	size_t slots = (size_t)s->count * s->depth;
	size_t bytes = tablesBytes(s);
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
	const struct rdmaUser user = gdakiUser(s->g);
	void *at = NULL;
	uint64_t bytes = landingBytes(s);
	ginResult_t result = slabMemory(d, bytes, &at);

	if (result != ginSuccess)
		return result;
	s->landing = at;
	result = deviceWrite(d, at, NULL, bytes);
	if (result != ginSuccess)
		return result;
	return rdmaRegister(&user, at, bytes, rdmaLocal, &s->region, &s->keys);
}

static ginResult_t assignDoorbell(struct gdakiContexts *s, uint32_t i, void **doorbell)
{
	struct rdmaRegister where;

	s->g->rdma->queueRegister(s->pairs->queues, i, &where);
	if (s->ringerWords) {
		s->ringerWords->registers[i] = where.at;
		*doorbell = &s->ringerWords->words[i];
		return ginSuccess;
	}
	ginResult_t result = doorbellMap(s->g->host->device, &where, doorbell);
	s->mapped += result == ginSuccess;
	return result;
}

/* reach() makes sure that the peer's NIC has equal atomics. */
static uint8_t hasMaskedAtomics(const struct gdaki *g)
{
	return (g->addresses[g->host->rank].atomics & rdmaAtomicsMasked) != 0;
}

static ginResult_t fillQueue(struct gdakiContexts *s, uint32_t i, struct ginSendQueue *out)
{
	const struct rdmaLayout layout = rdmaLayoutOf(i, s->depth);
	char *slab = s->pairs->slab;
	void *doorbell = NULL;
	ginResult_t result = assignDoorbell(s, i, &doorbell);

	if (result != ginSuccess)
		return result;
	*out = (struct ginSendQueue){0};
	out->fixed = (struct ginSendFixed){
		.wqes = (void *)(slab + layout.wqes),
		.turn = s->turn + (size_t)i * s->depth,
		.counter = s->counter + (size_t)i * s->depth,
		.cqe = (void *)(slab + layout.cqe),
		.record = (void *)(slab + layout.record),
		.doorbell = doorbell,
		.queue = ginMlx5Queue(s->pairs->ends[i].number),
		.logDepth = (uint16_t)__builtin_ctz(s->depth),
		.gpuMemory = (uint8_t)slabIsInGpu(s->g->host->device),
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

/* The turn token starts at index 0 of every queue. */
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

static struct rdmaPath pathFor(const struct gdaki *g, const struct backendContexts *want)
{
	struct rdmaPath path = g->path;

	if (want->trafficClass >= 0)
		path.trafficClass = (uint8_t)want->trafficClass;
	return path;
}

static struct gdakiPairsWanted pairsFor(const struct gdaki *g, const struct backendContexts *want,
					uint32_t depth)
{
	uint32_t queues = (want->contexts + 1) * (uint32_t)g->host->nRanks;

	return (struct gdakiPairsWanted){.host = g->host,
					 .rdma = g->rdma,
					 .port = g->port,
					 .addresses = g->addresses,
					 .serves = isPeer,
					 .of = g->host,
					 .path = pathFor(g, want),
					 .contexts = want->contexts,
					 .depth = depth,
					 .shared = g->host->mixed,
					 .registers =
						 least(paramNumber(paramGdakiDoorbells), queues)};
}

/* Of gdakiContexts.seen and reported. */
static size_t seenBytes(const struct gdakiContexts *s)
{
	return s->count * (sizeof(*s->seen) + sizeof(*s->reported));
}

void gdakiContextsPlan(struct plan *plan)
{
	const struct gdakiContexts s = {.contexts = plan->want->contexts,
					.count = (uint32_t)plan->nRanks * plan->want->contexts,
					.depth = depthWithin(GDAKI_MAX_DEPTH, plan->want->depth)};

	pairsPlan(plan, s.depth);
	plan->regions[planCreate]++; /* the landing */
	plan->memory[planCreate].heap += seenBytes(&s);
	plan->memory[planCreate].device += tablesBytes(&s) + landingBytes(&s);
}

static ginResult_t makeTables(struct gdakiContexts *s)
{
	s->count = pairsCount(s->pairs);
	if (!s->count)
		return ginSuccess;
	s->seen = calloc(seenBytes(s), 1);
	s->reported = (uint8_t *)(s->seen + s->count);
	ginResult_t result = s->seen ? allocTables(s) : fail(ginErrorSystem, "no memory");
	if (result == ginSuccess)
		result = openLanding(s);
	if (result == ginSuccess && s->g->ringer.started)
		result = ringerWordsMake(s->g->host->device, s->count, &s->ringerWords);
	return result == ginSuccess ? fillTables(s) : result;
}

/* Adds complete contexts to the lists of the ringer and the monitor. */
static void start(struct gdakiContexts *s)
{
	if (s->ringerWords)
		ringerAdd(&s->g->ringer, s->ringerWords);
	monitorAdd(s->g, s);
	s->running = 1;
}

static void stop(struct gdakiContexts *s)
{
	if (!s->running)
		return;
	monitorRemove(s->g, s);
	if (s->ringerWords)
		ringerRemove(&s->g->ringer, s->ringerWords);
}

ginResult_t gdakiContextsOpen(void *state, const char *call, ginResult_t mine,
			      const struct backendContexts *want, void **contexts)
{
	struct gdaki *g = state;
	const uint32_t depth = depthFor(g, want->depth);
	const struct gdakiPairsWanted wanted = pairsFor(g, want, depth);
	struct gdakiContexts *s = calloc(1, sizeof(*s));
	struct gdakiPairs *pairs = NULL;

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

/*
 * Unmaps doorbells before the queues that own them are closed, and closes everything that lets a
 * NIC write before the memory is freed.
 */
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
	if (s->ringerWords)
		ringerWordsFree(d, s->ringerWords);
	if (s->region)
		g->rdma->regionClose(s->region);
	if (s->landing)
		memoryFree(d, s->landing);
	if (s->queues)
		memoryFree(d, s->queues);
	free(s->seen);
	free(s);
}

void gdakiContextsDescribe(void *contexts, ginDevComm *devComm)
{
	const struct gdakiContexts *s = contexts;

	devComm->sendQueues = s->queues;
	devComm->results = s->results;
	devComm->sources = s->g->sources.table;
	devComm->nSendQueues = s->pairs->peers;
}

void gdakiContextsDescribePeer(void *contexts, int peer, struct ginPeer *entry)
{
	const struct gdakiContexts *s = contexts;

	entry->nicSignals = s->words->part[peer].first;
	entry->nicKey = s->words->part[peer].strictKey;
	entry->sendQueue = s->pairs->index[peer];
}
