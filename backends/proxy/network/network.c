/* SPDX-License-Identifier: BSD-3-Clause */
/* network.c - the transport over a network, by a plug-in with a fabric: opening and windows */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interface.h"
#include "load.h"
#include "network.h"

struct networkTransport {
	const struct transportScope *scope;
	const struct fabricCalls *calls;
	struct fabricAbout about;
	struct fabric *fabric;
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
	if (t->fabric)
		t->calls->close(t->fabric);
	free(t);
}

static ginResult_t openLane(struct networkTransport *t, struct networkLane **out)
{
	size_t n = (size_t)t->scope->host->nRanks;
	struct networkLane *lane = *out = calloc(1, sizeof(*lane) + n * sizeof(lane->peer[0]));

	if (!lane)
		return fail(ginErrorSystem, "no memory");
	lane->scope = t->scope;
	lane->fabric = t->calls;
	lane->mostBytes = t->about.mostBytes;
	return ginSuccess;
}

/* What networkSearch() has found, and told the peers. */
static int openFabric(struct networkTransport *t, char *why)
{
	struct networkInterface interface;
	const struct fabricWanted want = {t->about.provider, interface.name, interface.address};

	return networkInterfaceFind(t->scope->host, &interface, why) &&
	       !t->calls->open(&want, &t->fabric, why);
}

static ginResult_t openAll(struct networkTransport *t)
{
	char why[BACKEND_WHY] = "";
	ginResult_t result = ginSuccess;

	if (!openFabric(t, why))
		return networkFail(t->about.name, why);
	for (uint32_t i = 0; i < t->scope->lanes && result == ginSuccess; i++)
		result = openLane(t, &t->lane[i]);
	return result;
}

static ginResult_t networkOpen(const struct transportScope *scope, void **state)
{
	struct networkTransport *t = calloc(1, sizeof(*t) + scope->lanes * sizeof(t->lane[0]));

	if (!t)
		return fail(ginErrorSystem, "no memory");
	t->scope = scope;
	t->calls = networkLoaded(&t->about);
	ginResult_t result = openAll(t);
	if (result == ginSuccess)
		*state = t;
	else
		networkClose(t);
	return result;
}

static ginResult_t networkAddress(void *state, uint32_t index, void *address)
{
	struct networkTransport *t = state;
	char why[FABRIC_WHY] = "";

	if (t->calls->endOpen(t->fabric, &t->lane[index]->end, address, why))
		return networkFail(t->about.name, why);
	return ginSuccess;
}

static ginResult_t networkConnect(void *state, uint32_t index, int peer, const void *address)
{
	struct networkTransport *t = state;
	struct networkLane *lane = t->lane[index];
	char why[FABRIC_WHY] = "";

	if (t->calls->connect(lane->end, address, &lane->peer[peer].address, why))
		return networkFail(t->about.name, why);
	return ginSuccess;
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

	if (w->region)
		t->calls->memoryRemove(w->region);
	free(w);
}

static ginResult_t networkWindowOffer(void *state, const struct memory *memory,
				      struct proxyOffer *offer, void **link)
{
	struct networkTransport *t = state;
	size_t n = (size_t)t->scope->host->nRanks;
	struct networkWindow *w = calloc(1, sizeof(*w) + n * sizeof(w->key[0]));
	struct fabricKey key = {0, 0};
	char why[FABRIC_WHY] = "";

	if (!w)
		return fail(ginErrorSystem, "no memory");
	*link = w;
	if (!memory->bytes)
		return ginSuccess;
	if (!proxyReachedByCpu(t->scope->host->device, memory->kind))
		return fail(ginErrorUnsupported,
			    "the network of the proxy (%s) moves host memory only: allocate the "
			    "window by ginMemAllocHost()",
			    t->about.name);
	if (t->calls->memoryAdd(t->fabric, memory->address, memory->bytes, &w->region, &key, why))
		return networkFail(t->about.name, why);
	memcpy(offer->network, &key, sizeof(key));
	return ginSuccess;
}

static ginResult_t networkWindowRegister(void *state, ginResult_t mine, const uint8_t *offers,
					 size_t stride, void *link)
{
	struct networkTransport *t = state;
	struct networkWindow *w = link;

	for (int r = 0; r < t->scope->host->nRanks && mine == ginSuccess; r++)
		memcpy(&w->key[r],
		       offers + (size_t)r * stride + offsetof(struct proxyOffer, network),
		       sizeof(w->key[r]));
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
	.connect = networkConnect,
	.lane = networkLaneOf,
	.order = networkOrder,
	.windowOffer = networkWindowOffer,
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
};
