/* SPDX-License-Identifier: BSD-3-Clause */
/* transports.c - the transports of a communicator */
#include "transports.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/rdma/rdma.h"

static const struct transportOps *const table[TRANSPORTS] = {&transportIpc, &transportNetwork};

_Static_assert(TRANSPORTS <= WINDOW_LINKS, "a window has a link for each transport");

/* Bytes of a rank's addresses. */
static size_t laneAddresses(uint32_t lanes)
{
	return (size_t)lanes * TRANSPORT_ADDRESS;
}

int transportsProbe(const struct backendHost *host, void *blob, char *why)
{
	struct proxyBlob mine = {.hasNetwork = 0};

	peermemDescribe(host->device, &mine.memory);
	mine.bounces = (uint8_t)networkBounces(host->device);
	if (!networkProbe(&mine, why))
		return 0;
	networkProbeNic(host, &mine);
	memcpy(blob, &mine, sizeof(mine));
	why[0] = '\0';
	return 1;
}

enum backendSearch transportsSearches(const void *blob)
{
	struct proxyBlob theirs;

	memcpy(&theirs, blob, sizeof(theirs));
	return theirs.searches <= searchAnyway ? theirs.searches : searchNever;
}

ginResult_t transportsSearch(const struct backendHost *host, void *blob)
{
	struct proxyBlob mine;

	memcpy(&mine, blob, sizeof(mine));
	ginResult_t result = networkSearch(host, &mine);
	memcpy(blob, &mine, sizeof(mine));
	return result;
}

int transportsHaveFound(const void *blob)
{
	struct proxyBlob theirs;

	memcpy(&theirs, blob, sizeof(theirs));
	return theirs.hasNetwork;
}

/*
 * Before the search: by the view of this rank. After the search: only if both ranks have found the
 * way.
 */
static int reachByIpc(const struct backendHost *host, int peer, const struct proxyBlob *mine,
		      const struct proxyBlob *theirs, char *why)
{
	if (!mine->allowsIpc || !theirs->allowsIpc) {
		snprintf(why, BACKEND_WHY, "GIN_TRANSPORT rules shared memory out");
		return 0;
	}
	if (!transportIpc.reach(host, peer, mine, theirs, why))
		return 0;
	if (!mine->hasSearched || host->foundFirst(host->core, peer, ginRouteProxy))
		return 1;
	snprintf(why, BACKEND_WHY, "rank %d does not reach this rank by shared memory", peer);
	return 0;
}

/* `byNetwork` says why the network reaches the peer or not; *why says why ipc does not. */
static void explain(const struct backendHost *host, int peer, int reaches, const char *byNetwork,
		    char *why)
{
	char notIpc[BACKEND_WHY];

	memcpy(notIpc, why, sizeof(notIpc));
	if (!identitySameHost(&host->ranks[peer], &host->ranks[host->rank]))
		snprintf(why, BACKEND_WHY, "%s", byNetwork);
	else if (reaches)
		snprintf(why, BACKEND_WHY, "%.80s; not ipc: %.60s", byNetwork, notIpc);
	else
		snprintf(why, BACKEND_WHY, "%.70s; %.80s", notIpc, byNetwork);
}

/*
 * The transport of a pair, or TRANSPORTS. After the search the answer is equal on both ranks. The
 * network comes first where GIN_TRANSPORT of one of them names it first.
 */
static int choose(const struct backendHost *host, int peer, const void *mineAt,
		  const void *theirsAt, char *why)
{
	char byNetwork[BACKEND_WHY];
	struct proxyBlob mine, theirs;

	memcpy(&mine, mineAt, sizeof(mine));
	memcpy(&theirs, theirsAt, sizeof(theirs));
	int reaches = networkReaches(&mine, &theirs, byNetwork);
	int prefers = reaches && (mine.prefersNetwork || theirs.prefersNetwork);
	int shares = reachByIpc(host, peer, &mine, &theirs, why);
	if (shares && !prefers)
		return TRANSPORT_IPC;
	if (shares)
		snprintf(why, BACKEND_WHY, "GIN_TRANSPORT names a network first");
	explain(host, peer, reaches, byNetwork, why);
	return reaches ? TRANSPORT_NETWORK : TRANSPORTS;
}

int transportsReach(const struct backendHost *host, int peer, const void *mine, const void *theirs,
		    char *why)
{
	return choose(host, peer, mine, theirs, why) < TRANSPORTS;
}

/*
 * Also for direct peers: atomics and signals at window offsets have one agent for all peers, which
 * is the proxy wherever it is in use. Direct peers share memory, whatever GIN_TRANSPORT says.
 */
static int chooseFor(const struct backendHost *host, int peer)
{
	const void *mine = host->blob(host->core, host->rank, ginRouteProxy);
	const void *theirs = host->blob(host->core, peer, ginRouteProxy);
	char why[BACKEND_WHY];

	if (host->routes[peer] == ginRouteNone)
		return TRANSPORTS;
	if (host->routes[peer] == ginRouteDirect)
		return TRANSPORT_IPC;
	return choose(host, peer, mine, theirs, why);
}

static void chooseAll(struct proxyTransports *t)
{
	for (int r = 0; r < t->host->nRanks; r++) {
		int chosen = chooseFor(t->host, r);
		t->of[r] = chosen < TRANSPORTS ? (uint8_t)chosen : TRANSPORT_IPC;
		if (chosen < TRANSPORTS)
			t->serves[chosen * t->host->nRanks + r] = 1;
	}
}

static size_t ofBytes(size_t nRanks)
{
	return nRanks;
}

static size_t servesBytes(size_t nRanks)
{
	return TRANSPORTS * nRanks;
}

/*
 * Shared memory is always open. Over a network, ranks search, then exchange the addresses of their
 * lanes, and agree that these are connected, and that they reach each other.
 */
void transportsPlan(struct plan *plan)
{
	uint32_t threads = paramNumber(paramProxyThreads), lanes = threads ? threads : 1;

	plan->memory[planStart].heap +=
		ofBytes((size_t)plan->nRanks) + servesBytes((size_t)plan->nRanks);
	transportIpc.plan(plan, lanes);
	if (plan->network == planNoNetwork)
		return;
	transportNetwork.plan(plan, lanes);
	planAdd(plan, (struct planExchange){planStart, 1, BACKEND_BLOB, 0});
	planAdd(plan, (struct planExchange){planStart, 1, laneAddresses(lanes), 0});
	if (plan->network == planConnected)
		planAdd(plan,
			(struct planExchange){planStart, 1, 0, lanes * sizeof(struct rdmaEnd)});
	planAdd(plan, (struct planExchange){planStart, 2, 0, 0});
}

static int servesAny(const struct proxyTransports *t, int transport)
{
	return memchr(t->serves + transport * t->host->nRanks, 1, (size_t)t->host->nRanks) != NULL;
}

/* ipc is always open: another rank may need this rank in the exchange of handles. */
static ginResult_t openAll(struct proxyTransports *t, const struct proxySlots *slots)
{
	ginResult_t result = ginSuccess;

	for (int i = 0; i < TRANSPORTS && result == ginSuccess; i++) {
		t->scope[i] = (struct transportScope){
			t->host, slots, t->serves + i * t->host->nRanks, t->lanes, t->locks.of};
		if (i == TRANSPORT_IPC || servesAny(t, i))
			result = table[i]->open(&t->scope[i], &t->state[i]);
	}
	return result;
}

int transportsNeedLocks(const struct proxyTransports *t)
{
	for (int r = 0; r < t->host->nRanks && !t->host->copiesOnly; r++)
		if (proxyBlobOf(t->host, r).memory.hasGpu)
			return 1;
	return 0;
}

int transportsChangeWords(const struct proxyTransports *t)
{
	const struct device *d = t->host->device;

	return d->cuda && t->locks.of &&
	       (!t->state[TRANSPORT_NETWORK] || networkBounces(d) ||
		proxyBlobOf(t->host, t->host->rank).reachesGpu);
}

ginResult_t transportsOpen(const struct backendHost *host, const struct proxySlots *slots,
			   uint32_t lanes, struct proxyTransports *t)
{
	size_t n = (size_t)host->nRanks;

	*t = (struct proxyTransports){.host = host,
				      .lanes = lanes,
				      .of = calloc(1, ofBytes(n)),
				      .serves = calloc(1, servesBytes(n))};
	if (!t->of || !t->serves)
		return fail(ginErrorSystem, "no memory");
	chooseAll(t);
	ginResult_t result = ginSuccess;
	if (transportsNeedLocks(t))
		result = wordLocksMake(host, t->serves + TRANSPORT_IPC * n, &t->locks);
	return result == ginSuccess ? openAll(t, slots) : result;
}

/* Lanes of one index talk to each other. */
static ginResult_t compareLanes(const struct proxyTransports *t)
{
	for (int r = 0; r < t->host->nRanks; r++)
		if (transportServes(t, TRANSPORT_NETWORK, r) &&
		    proxyBlobOf(t->host, r).lanes != t->lanes)
			return fail(ginErrorInvalidArgument,
				    "GIN_PROXY_THREADS is %u on this rank and %u on rank %d: ranks "
				    "that a network connects need one number",
				    t->lanes, proxyBlobOf(t->host, r).lanes, r);
	return ginSuccess;
}

static ginResult_t makeAddresses(struct proxyTransports *t, uint8_t *own)
{
	ginResult_t result = compareLanes(t);

	for (uint32_t i = 0; i < t->lanes && result == ginSuccess; i++)
		result = transportNetwork.address(t->state[TRANSPORT_NETWORK], i,
						  own + i * TRANSPORT_ADDRESS);
	return result;
}

/* The data that lanes exchange: addresses for all ranks, and pairs for one rank each. */
struct laneExchange {
	size_t addressBytes, pairBytes; /* of a rank */
	uint8_t *own, *all;		/* addresses */
	uint8_t *ownPairs, *pairs;	/* [nRanks][lanes]; NULL: the network has no pairs */
};

/* The pair of a lane, in `pairs` or `ownPairs`. */
static uint8_t *pairAt(const struct proxyTransports *t, const struct laneExchange *x,
		       uint8_t *pairs, int rank, uint32_t lane)
{
	size_t bytes = proxyBlobOf(t->host, t->host->rank).pairBytes;

	return bytes ? pairs + (size_t)rank * x->pairBytes + lane * bytes : NULL;
}

static ginResult_t makePairs(struct proxyTransports *t, const struct laneExchange *x)
{
	ginResult_t result = ginSuccess;

	for (int r = 0; r < t->host->nRanks; r++)
		for (uint32_t i = 0; i < t->lanes && result == ginSuccess; i++) {
			uint8_t *pair = pairAt(t, x, x->ownPairs, r, i);
			if (pair && transportServes(t, TRANSPORT_NETWORK, r))
				result = transportNetwork.pair(t->state[TRANSPORT_NETWORK], i, r,
							       pair);
		}
	return result;
}

static ginResult_t connectLanes(struct proxyTransports *t, const struct laneExchange *x)
{
	ginResult_t result = ginSuccess;

	for (int r = 0; r < t->host->nRanks; r++)
		for (uint32_t i = 0; i < t->lanes && result == ginSuccess; i++)
			if (transportServes(t, TRANSPORT_NETWORK, r))
				result = transportNetwork.connect(
					t->state[TRANSPORT_NETWORK], i, r,
					x->all + (size_t)r * x->addressBytes +
						i * TRANSPORT_ADDRESS,
					pairAt(t, x, x->pairs, r, i));
	return result;
}

/* Lanes of the rank with most lanes, equal on all ranks. 0: no rank has a network. */
static uint32_t mostLanes(const struct proxyTransports *t)
{
	uint32_t most = 0;

	for (int r = 0; r < t->host->nRanks; r++) {
		const struct proxyBlob blob = proxyBlobOf(t->host, r);
		if (blob.hasNetwork && blob.lanes > most)
			most = blob.lanes;
	}
	return most;
}

int transportsNeedConnect(const struct proxyTransports *t)
{
	return mostLanes(t) != 0;
}

/* Of all lanes of a rank, for one rank; equal on all ranks. */
static size_t mostPairBytes(const struct proxyTransports *t)
{
	size_t most = 0;

	for (int r = 0; r < t->host->nRanks; r++) {
		const struct proxyBlob blob = proxyBlobOf(t->host, r);
		if (blob.hasNetwork && blob.pairBytes > most)
			most = blob.pairBytes;
	}
	return most * mostLanes(t);
}

static ginResult_t exchangeEnds(struct proxyTransports *t, const char *call, ginResult_t mine,
				struct laneExchange *x)
{
	const struct backendHost *host = t->host;
	int inUse = t->state[TRANSPORT_NETWORK] != NULL;

	if (mine == ginSuccess && inUse)
		mine = makeAddresses(t, x->own);
	if (mine == ginSuccess && inUse && x->pairBytes)
		mine = makePairs(t, x);
	mine = host->allgather(host->core, call, mine, x->own, x->all, x->addressBytes);
	if (x->pairBytes)
		mine = host->alltoall(host->core, call, mine, x->ownPairs, x->pairs, x->pairBytes);
	if (mine == ginSuccess && inUse)
		mine = connectLanes(t, x);
	mine = host->allgather(host->core, call, mine, NULL, NULL, 0);
	return mine == ginSuccess && inUse ? transportNetwork.meet(t->state[TRANSPORT_NETWORK])
					   : mine;
}

ginResult_t transportsConnect(struct proxyTransports *t, const char *call)
{
	size_t n = (size_t)t->host->nRanks, address = laneAddresses(mostLanes(t));
	size_t pair = mostPairBytes(t);
	struct laneExchange x = {.addressBytes = address,
				 .pairBytes = pair,
				 .own = calloc(1, address),
				 .all = calloc(n, address),
				 .ownPairs = pair ? calloc(n, pair) : NULL,
				 .pairs = pair ? calloc(n, pair) : NULL};
	ginResult_t mine = ginSuccess;

	if (!x.own || !x.all || (pair && (!x.ownPairs || !x.pairs)))
		mine = fail(ginErrorSystem, "no memory");
	mine = exchangeEnds(t, call, mine, &x);
	free(x.own);
	free(x.all);
	free(x.ownPairs);
	free(x.pairs);
	return mine;
}

void transportsClose(struct proxyTransports *t)
{
	for (int i = TRANSPORTS - 1; i >= 0; i--)
		if (t->state[i])
			table[i]->close(t->state[i]);
	if (t->locks.host)
		wordLocksClose(&t->locks);
	free(t->of);
	free(t->serves);
}

struct transportLanes transportsLanes(const struct proxyTransports *t, uint32_t index)
{
	struct transportLanes out = {.of = t->of};

	for (int i = 0; i < TRANSPORTS; i++)
		if (t->state[i])
			out.lane[i] =
				(struct transportLane){table[i], table[i]->lane(t->state[i], index),
						       table[i]->order(t->state[i])};
	return out;
}

ginResult_t transportsOffer(struct proxyTransports *t, const struct memory *memory,
			    struct proxyOffer *offer, struct proxyWindow *window)
{
	ginResult_t result = ginSuccess;

	for (int i = 0; i < TRANSPORTS && result == ginSuccess; i++)
		if (t->state[i])
			result =
				table[i]->windowOffer(t->state[i], memory, offer, &window->link[i]);
	return result;
}

ginResult_t transportsLocal(struct proxyTransports *t, const struct memory *memory,
			    struct proxyWindow *window)
{
	ginResult_t result = ginSuccess;

	for (int i = 0; i < TRANSPORTS && result == ginSuccess; i++)
		if (t->state[i] && table[i]->windowLocal)
			result = table[i]->windowLocal(t->state[i], memory, &window->link[i]);
	return result;
}

ginResult_t transportsRegister(struct proxyTransports *t, ginResult_t mine, const uint8_t *offers,
			       size_t stride, struct proxyWindow *window)
{
	for (int i = 0; i < TRANSPORTS; i++)
		if (t->state[i])
			mine = table[i]->windowRegister(t->state[i], mine, offers, stride,
							window->link[i]);
	window->part[window->rank].slot = window->slot;
	for (int r = 0; r < t->host->nRanks && mine == ginSuccess; r++) {
		struct proxyOffer offer;
		int i = t->of[r];
		memcpy(&offer, offers + (size_t)r * stride, sizeof(offer));
		if (r == t->host->rank)
			continue;
		proxyWindowPeer(window, r, &offer);
		if (transportServes(t, i, r))
			table[i]->windowDescribe(t->state[i], window->link[i], r, &window->part[r]);
	}
	return mine;
}

void transportsDeregister(struct proxyTransports *t, struct proxyWindow *window)
{
	for (int i = TRANSPORTS - 1; i >= 0; i--)
		if (window->link[i])
			table[i]->windowDeregister(t->state[i], window->link[i]);
}
