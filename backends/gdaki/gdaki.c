/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gdaki.c - the gdaki backend: GPU threads write work requests of an mlx5 NIC and ring its doorbell
 *
 * The host makes and connects queue pairs (pairs.c), registers windows (memory.c) and writes the
 * tables that kernels read (contexts.c). No CPU thread moves data; where the GPU cannot map
 * doorbell registers, a CPU thread rings them (doorbell.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/log.h"
#include "contexts.h"
#include "backends/rdma/port.h"

static int probe(const struct backendHost *host, void *blob, char *why)
{
	struct rdmaAddress mine;

	if (!rdmaProbe(host, &mine, why))
		return 0;
	memcpy(blob, &mine, sizeof(mine));
	return 1;
}

/* Symmetric: both ranks get equal answers. */
static int reach(const struct backendHost *host, int peer, const void *mine, const void *theirs,
		 char *why)
{
	struct rdmaAddress here, there;

	(void)host;
	(void)peer;
	memcpy(&here, mine, sizeof(here));
	memcpy(&there, theirs, sizeof(there));
	if (!rdmaReaches(&here, &there, why))
		return 0;
	if (here.atomics != there.atomics)
		snprintf(why, BACKEND_WHY, "the two NICs have different atomics");
	else
		snprintf(why, BACKEND_WHY, "mlx5 NICs, %s",
			 here.ethernet ? "Ethernet" : "InfiniBand");
	return here.atomics == there.atomics;
}

static size_t addressesBytes(int nRanks)
{
	return (size_t)nRanks * sizeof(struct rdmaAddress);
}

static ginResult_t keepAddresses(struct gdaki *g)
{
	const struct backendHost *host = g->host;

	g->addresses = calloc(1, addressesBytes(host->nRanks));
	if (!g->addresses)
		return fail(ginErrorSystem, "no memory");
	for (int r = 0; r < host->nRanks; r++)
		memcpy(&g->addresses[r], host->blob(host->core, r, ginRouteGdaki),
		       sizeof(g->addresses[r]));
	return ginSuccess;
}

static ginResult_t tryRegion(const struct gdaki *g, char *slab, size_t bytes)
{
	const struct rdmaUser user = gdakiUser(g);
	struct rdmaRegion *region;
	struct rdmaKeys keys;
	ginResult_t result = rdmaRegister(&user, slab, bytes, rdmaRemote, &region, &keys);

	if (result == ginSuccess)
		g->rdma->regionClose(region);
	return result;
}

/* Starts the ringer thread if the GPU cannot map the register. */
static ginResult_t tryDoorbell(struct gdaki *g, const struct rdmaRegister *where)
{
	const struct device *d = g->host->device;
	int wanted = paramChoice(paramUarMap) != uarMapCpu;
	void *doorbell;

	int quiet = errorQuiet(1);
	int mapped = wanted && doorbellMap(d, where, &doorbell) == ginSuccess;
	errorQuiet(quiet);
	if (mapped) {
		doorbellUnmap(d, where);
		return ginSuccess;
	}
	if (wanted)
		logWrite(logWarn, "a CPU thread rings doorbells: %s", ginGetLastError());
	return ringerOpen(&g->ringer);
}

static ginResult_t tryQueue(struct gdaki *g, struct rdmaQueues *queues)
{
	struct rdmaRegister where;
	struct rdmaEnd end;
	char why[RDMA_WHY];

	if (g->rdma->queueMake(queues, 0, 0, &end, why))
		return fail(ginErrorSystem, "gdaki: %s", why);
	g->rdma->queueRegister(queues, 0, &where);
	return tryDoorbell(g, &where);
}

/*
 * Makes and frees every kind of object that windows and device communicators need: a machine that
 * cannot make one fails in open(), where all ranks can still use another backend.
 */
static ginResult_t tryAll(struct gdaki *g)
{
	const struct device *d = g->host->device;
	const struct rdmaSlab shape = {.count = 1, .depth = GDAKI_MIN_DEPTH, .registers = 1};
	struct rdmaQueues *queues = NULL;
	char *slab = NULL;
	ginResult_t result = slabAlloc(d, shape.count, shape.depth, &slab);

	if (result == ginSuccess)
		result = tryRegion(g, slab, rdmaSlabBytes(shape.count, shape.depth));
	if (result == ginSuccess)
		result = slabQueues(d, g->rdma, g->port, slab, &shape, &queues);
	if (result == ginSuccess)
		result = tryQueue(g, queues);
	if (queues)
		g->rdma->queuesClose(queues);
	slabFree(d, slab);
	return result;
}

static void closeGdaki(void *state)
{
	struct deviceScope scope;
	struct gdaki *g = state;

	monitorClose(g);
	ringerClose(&g->ringer);
	ginResult_t entered = deviceEnter(g->host->device, &scope);

	sourcesClose(&g->sources);
	if (entered == ginSuccess)
		deviceLeave(g->host->device, &scope);
	if (g->port)
		g->rdma->portClose(g->port);
	free(g->addresses);
	free(g);
}

static ginResult_t openGdaki(struct gdaki *g)
{
	struct rdmaAddress own;
	ginResult_t result = keepAddresses(g);

	if (result == ginSuccess)
		result = rdmaPathOf(g->addresses[g->host->rank].ethernet, &g->path);
	if (result == ginSuccess)
		result = rdmaPortOpen(g->host, "gdaki", &g->rdma, &g->port);
	if (result == ginSuccess) {
		g->rdma->portDescribe(g->port, &own, &g->features);
		result = sourcesOpen(g->host->device, &g->sources);
	}
	if (result == ginSuccess)
		result = tryAll(g);
	return result == ginSuccess ? monitorOpen(g) : result;
}

static ginResult_t open(const struct backendHost *host, void **state)
{
	struct deviceScope scope;
	struct gdaki *g = calloc(1, sizeof(*g));

	if (!g)
		return fail(ginErrorSystem, "no memory");
	g->host = host;
	ginResult_t result = deviceEnter(host->device, &scope);
	if (result == ginSuccess) {
		result = openGdaki(g);
		deviceLeave(host->device, &scope);
	}
	if (result == ginSuccess)
		*state = g;
	else
		closeGdaki(g);
	return result;
}

/* All ranks agree after open() has been tried. */
static void planGdaki(struct plan *plan)
{
	plan->memory[planStart].heap += addressesBytes(plan->nRanks);
	gdakiMemoryPlan(plan);
	gdakiContextsPlan(plan);
	planAdd(plan, (struct planExchange){planStart, 1, 0, 0});
}

const struct backendOps backendGdaki = {
	.name = "gdaki",
	.route = ginRouteGdaki,
	.writer = ginWriterNic,
	.network = 1,
	.otherHosts = 1,
	.nic = rdmaNic,
	.probe = probe,
	.reach = reach,
	.open = open,
	.close = closeGdaki,
	.windowOffer = gdakiWindowOffer,
	.windowRegister = gdakiWindowRegister,
	.windowDeregister = gdakiWindowDeregister,
	.windowDescribe = gdakiWindowDescribe,
	.windowDescribePeer = gdakiWindowDescribePeer,
	.contextsOpen = gdakiContextsOpen,
	.contextsDescribe = gdakiContextsDescribe,
	.contextsDescribePeer = gdakiContextsDescribePeer,
	.contextsStats = gdakiContextsStats,
	.contextsPeerStats = gdakiContextsPeerStats,
	.contextsOutstanding = gdakiContextsOutstanding,
	.contextsDrain = gdakiContextsDrain,
	.contextsClose = gdakiContextsClose,
	.plan = planGdaki,
};
