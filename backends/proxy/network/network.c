/* SPDX-License-Identifier: BSD-3-Clause */
/* network.c - the transport over a network, by a plug-in with a fabric: opening and windows */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/proxy/verbs/sizes.h"
#include "choice/gpu.h"
#include "choice/interface.h"
#include "network.h"

/* Touched by the calls of the communicator, one at a time. */
struct networkTransport {
	const struct transportScope *scope;
	const struct fabricCalls *calls;
	struct fabricAbout about;
	uint32_t rails;
	struct fabric *fabric[NETWORK_RAILS];
	struct networkGpu gpu[NETWORK_RAILS];
	uint8_t reachesGpu; /* `gpu` is open */
	struct networkLane *lane[];
};

static ginResult_t networkFail(const char *what, const char *why)
{
	return fail(ginErrorSystem, "%s: %s", what, why);
}

static void networkClose(void *state)
{
	struct networkTransport *t = state;

	for (uint32_t i = 0; i < t->scope->lanes; i++)
		networkLaneFree(t->lane[i]);
	for (uint32_t i = 0; i < t->rails; i++) {
		networkGpuClose(t->scope->host->device, t->calls, &t->gpu[i]);
		if (t->fabric[i])
			t->calls->close(t->fabric[i]);
	}
	free(t);
}

/*
 * Does this rank, or a rank that it reaches by the network, have windows that the network does not
 * reach?
 */
static int anyBounces(const struct transportScope *scope)
{
	const struct backendHost *host = scope->host;

	for (int r = 0; r < host->nRanks; r++)
		if ((scope->serves[r] || r == host->rank) && proxyBlobOf(host, r).bounces)
			return 1;
	return 0;
}

static size_t laneBytes(int nRanks)
{
	return sizeof(struct networkLane) + (size_t)nRanks * sizeof(struct networkPeer);
}

static size_t windowBytes(int nRanks)
{
	return sizeof(struct networkWindow) + (size_t)nRanks * sizeof(struct networkPart);
}

/* Without a GPU, and without the limits of a device. */
static void planVerbs(struct plan *plan, uint32_t lanes)
{
	uint32_t n = (uint32_t)plan->nRanks;
	struct verbsShape s = verbsShapeOf(n, 0, UINT32_MAX, UINT32_MAX);
	size_t ofPeers = n * (VERBS_PEER_BYTES + verbsOpsBytes(&s));

	plan->queuePairs += (uint64_t)lanes * n;
	plan->regions[planStart] += lanes;
	plan->memory[planStart].heap +=
		lanes * (verbsBuffersBytes(&s) + verbsTableBytes(&s) + ofPeers);
}

static void networkPlan(struct plan *plan, uint32_t lanes)
{
	if (plan->network == planConnected)
		planVerbs(plan, lanes);
	else
		plan->addresses += (uint64_t)lanes * (uint32_t)plan->nRanks;
	plan->memory[planStart].heap += lanes * laneBytes(plan->nRanks);
	plan->memory[planWindow].heap += windowBytes(plan->nRanks);
	plan->regions[planWindow]++;
}

static struct fabric *fabricOf(const struct networkTransport *t, uint32_t lane)
{
	return t->fabric[lane % t->rails];
}

static ginResult_t openLane(struct networkTransport *t, uint32_t index)
{
	struct networkLane *lane = calloc(1, laneBytes(t->scope->host->nRanks));

	if (!lane)
		return fail(ginErrorSystem, "no memory");
	t->lane[index] = lane;
	lane->scope = t->scope;
	lane->fabric = t->calls;
	lane->mostBytes = t->about.mostBytes;
	lane->isOrdered = t->about.ordered;
	lane->proves = t->about.hasStrangers;
	lane->hasImmediates = t->about.ordered && t->about.immediates && !lane->proves;
	lane->bouncesAll = paramChoice(paramBounce) == bounceAlways;
	lane->reachesGpu = t->reachesGpu;
	lane->index = index;
	ginResult_t result = ginSuccess;
	int bounces = anyBounces(t->scope);
	if (bounces || t->reachesGpu)
		result = bounceOpen(lane, fabricOf(t, index), bounces, t->about.name);
	if (result == ginSuccess && t->scope->locks)
		result = deviceWordOpen(t->scope->host->device, &lane->word);
	return result;
}

/* Opens the provider that networkSearch() has found and that the peers know. */
static int openFabric(struct networkTransport *t, const char *name, uint32_t rail, char *why)
{
	struct networkWanted want;

	if (!networkWant(t->scope->host, name, (struct rdmaRail){rail, t->rails}, &want, why))
		return 0;
	want.fabric.provider = t->about.provider;
	if (t->calls->open(&want.fabric, &t->fabric[rail], why))
		return 0;
	return !t->reachesGpu || !networkGpuOpen(t->scope->host->device, t->calls, t->fabric[rail],
						 &t->gpu[rail], why);
}

static ginResult_t openAll(struct networkTransport *t, const char *name)
{
	char why[BACKEND_WHY] = "";
	ginResult_t result = ginSuccess;

	for (uint32_t i = 0; i < t->rails; i++)
		if (!openFabric(t, name, i, why))
			return networkFail(t->about.name, why);
	for (uint32_t i = 0; i < t->scope->lanes && result == ginSuccess; i++)
		result = openLane(t, i);
	return result;
}

static ginResult_t networkOpen(const struct transportScope *scope, void **state)
{
	struct networkTransport *t = calloc(1, sizeof(*t) + scope->lanes * sizeof(t->lane[0]));
	const struct proxyBlob own = proxyBlobOf(scope->host, scope->host->rank);

	if (!t)
		return fail(ginErrorSystem, "no memory");
	t->scope = scope;
	t->calls = networkLoaded(own.plugin, &t->about);
	t->reachesGpu = own.reachesGpu;
	t->rails = networkRails(&own);
	ginResult_t result = openAll(t, own.plugin);
	if (result == ginSuccess)
		*state = t;
	else
		networkClose(t);
	return result;
}

_Static_assert(FABRIC_ADDRESS + sizeof(struct bounceOffer) <= TRANSPORT_ADDRESS,
	       "they travel together");

/* The endpoint's address, then the offer of slots. */
static ginResult_t networkAddress(void *state, uint32_t index, void *address)
{
	struct networkTransport *t = state;
	struct networkLane *lane = t->lane[index];
	const struct bounceOffer none = {.slotBytes = 0};
	char why[FABRIC_WHY] = "";

	if (t->calls->endOpen(fabricOf(t, index), &lane->end, address, why))
		return networkFail(t->about.name, why);
	memcpy((char *)address + FABRIC_ADDRESS, lane->bounce ? &lane->bounce->offer : &none,
	       sizeof(none));
	return ginSuccess;
}

static ginResult_t networkPair(void *state, uint32_t index, int peer, void *pair)
{
	struct networkTransport *t = state;
	struct networkLane *lane = t->lane[index];
	char why[FABRIC_WHY] = "";

	if (t->calls->pairOpen(lane->end, pair, &lane->peer[peer].address, why))
		return networkFail(t->about.name, why);
	return ginSuccess;
}

static ginResult_t networkConnect(void *state, uint32_t index, int peer, const void *address,
				  const void *pair)
{
	struct networkTransport *t = state;
	struct networkLane *lane = t->lane[index];
	struct bounceOffer offer;
	char why[FABRIC_WHY] = "";

	int failed = pair ? t->calls->pairConnect(lane->end, lane->peer[peer].address, address,
						  pair, why)
			  : t->calls->connect(lane->end, address, &lane->peer[peer].address, why);
	if (failed)
		return networkFail(t->about.name, why);
	if (lane->proves)
		networkMakeKeys(lane, (uint32_t)peer);
	memcpy(&offer, (const char *)address + FABRIC_ADDRESS, sizeof(offer));
	bounceConnect(lane, (uint32_t)peer, &offer);
	return ginSuccess;
}

static ginResult_t networkMeet(void *state)
{
	struct networkTransport *t = state;
	ginResult_t result = ginSuccess;

	for (uint32_t i = 0; i < t->scope->lanes && result == ginSuccess; i++)
		result = networkMeetLane(t->lane[i]);
	return result;
}

static void *networkLaneOf(void *state, uint32_t index)
{
	struct networkTransport *t = state;

	return t->lane[index];
}

static enum transportOrder networkOrder(const void *state)
{
	const struct networkTransport *t = state;

	return t->about.ordered ? transportOrdered : transportUnordered;
}

static void networkWindowDeregister(void *state, void *link)
{
	struct networkTransport *t = state;
	struct networkWindow *w = link;

	for (uint32_t i = 0; i < t->rails; i++)
		if (w->region[i])
			t->calls->memoryRemove(w->region[i]);
	for (uint32_t i = 0; i < t->scope->lanes; i++)
		if (t->lane[i]->bounce)
			copiesWait(&t->lane[i]->bounce->copies);
	free(w);
}

static ginResult_t addMemory(struct networkTransport *t, const struct memory *memory, int isHost,
			     uint32_t rail, struct networkWindow *w, struct fabricKey *key)
{
	const struct device *d = t->scope->host->device;
	struct fabric *f = t->fabric[rail];
	char why[FABRIC_WHY] = "";

	if (isHost &&
	    t->calls->memoryAdd(f, memory->address, memory->bytes, &w->region[rail], key, why))
		return networkFail(t->about.name, why);
	if (!isHost && networkGpuAdd(d, t->calls, f, memory, &w->region[rail], key, why))
		return fail(ginErrorSystem,
			    "%s: %s; allocate the window by ginMemAlloc(), or set "
			    "GIN_BOUNCE=always on all ranks",
			    t->about.name, why);
	return ginSuccess;
}

_Static_assert(sizeof(((struct proxyOffer *)0)->network) == sizeof(struct networkKeys),
	       "the keys are an offer");

static ginResult_t offerKeys(const struct networkTransport *t, const struct fabricKey *key,
			     struct proxyOffer *offer)
{
	struct networkKeys keys = {.address = key[0].address};

	if (t->rails == 1)
		keys.one = key[0].key;
	for (uint32_t i = 0; t->rails > 1 && i < t->rails; i++) {
		if (key[i].address != key[0].address || key[i].key >> 32)
			return fail(ginErrorSystem,
				    "%s: a key of a NIC has more than 32 bits, or the NICs name "
				    "one address differently; set GIN_NIC_RAILS=1",
				    t->about.name);
		keys.ofRail[i] = (uint32_t)key[i].key;
	}
	memcpy(offer->network, &keys, sizeof(keys));
	return ginSuccess;
}

static ginResult_t networkWindowOffer(void *state, const struct memory *memory,
				      struct proxyOffer *offer, void **link)
{
	struct networkTransport *t = state;
	struct networkWindow *w = calloc(1, windowBytes(t->scope->host->nRanks));
	struct fabricKey key[NETWORK_RAILS] = {{0, 0}};
	ginResult_t result = ginSuccess;

	if (!w)
		return fail(ginErrorSystem, "no memory");
	*link = w;
	if (!memory->bytes)
		return ginSuccess;
	int isHost = proxyReachedByCpu(t->scope->host->device, memory->kind);
	if (!isHost && !t->reachesGpu && paramChoice(paramBounce) == bounceNever)
		return fail(ginErrorUnsupported,
			    "the network of the proxy (%s) moves host memory only, and "
			    "GIN_BOUNCE=never: allocate the window by ginMemAllocHost(), or set "
			    "GIN_BOUNCE=auto on all ranks",
			    t->about.name);
	offer->bounces = (!isHost && !t->reachesGpu) || paramChoice(paramBounce) == bounceAlways;
	if (offer->bounces)
		return ginSuccess;
	for (uint32_t i = 0; i < t->rails && result == ginSuccess; i++)
		result = addMemory(t, memory, isHost, i, w, &key[i]);
	return result == ginSuccess ? offerKeys(t, key, offer) : result;
}

/* A source of this rank's puts only. The engine reads it by the CPU if the network does not. */
static ginResult_t networkWindowLocal(void *state, const struct memory *memory, void **link)
{
	struct networkTransport *t = state;
	struct proxyOffer unused = {.bounces = 0};

	return t->about.registersSources ? networkWindowOffer(state, memory, &unused, link)
					 : ginSuccess;
}

static ginResult_t networkWindowRegister(void *state, ginResult_t mine, const uint8_t *offers,
					 size_t stride, void *link)
{
	struct networkTransport *t = state;
	struct networkWindow *w = link;

	for (int r = 0; r < t->scope->host->nRanks && mine == ginSuccess; r++) {
		const struct proxyBlob blob = proxyBlobOf(t->scope->host, r);
		struct proxyOffer offer;
		memcpy(&offer, offers + (size_t)r * stride, sizeof(offer));
		memcpy(&w->part[r].keys, offer.network, sizeof(offer.network));
		w->part[r].rails = (uint8_t)networkRails(&blob);
		w->part[r].bounces = offer.bounces;
	}
	return mine;
}

static void networkWindowDescribe(void *state, void *link, int peer, struct proxyPart *part)
{
	(void)state, (void)link, (void)peer;
	part->isReached = 1;
}

static int networkReach(const struct backendHost *host, int peer, const void *mine,
			const void *theirs, char *why)
{
	(void)host, (void)peer;
	return networkReaches(mine, theirs, why);
}

const struct transportOps transportNetwork = {
	.name = "network",
	.reach = networkReach,
	.open = networkOpen,
	.close = networkClose,
	.address = networkAddress,
	.pair = networkPair,
	.connect = networkConnect,
	.meet = networkMeet,
	.lane = networkLaneOf,
	.order = networkOrder,
	.windowOffer = networkWindowOffer,
	.windowLocal = networkWindowLocal,
	.windowRegister = networkWindowRegister,
	.windowDeregister = networkWindowDeregister,
	.windowDescribe = networkWindowDescribe,
	.start = networkStart,
	.raise = networkRaise,
	.receive = networkReceiveAll,
	.arm = networkArm,
	.chain = networkChain,
	.landed = networkNext,
	.drain = networkDrain,
	.stop = networkStop,
	.plan = networkPlan,
};
