/* SPDX-License-Identifier: BSD-3-Clause */
/* lanes.c - the transports of a communicator */
#include "lanes.h"

#include <stdlib.h>
#include <string.h>

static const struct transportOps *const table[TRANSPORTS] = {&transportIpc};

_Static_assert(TRANSPORTS <= WINDOW_LINKS, "a window has a link for each transport");

/* The first transport that reaches the peer, or TRANSPORTS. */
static int choose(const struct backendHost *host, int peer, const void *mine, const void *theirs,
		  char *why)
{
	int t = 0;

	while (t < TRANSPORTS && !table[t]->reach(host, peer, mine, theirs, why))
		t++;
	return t;
}

int transportsReach(const struct backendHost *host, int peer, const void *mine, const void *theirs,
		    char *why)
{
	return choose(host, peer, mine, theirs, why) < TRANSPORTS;
}

/*
 * Also for direct peers: atomics and signals at window offsets have one agent for all peers, which
 * is the proxy wherever it is in use.
 */
static void chooseAll(struct proxyTransports *t)
{
	const struct backendHost *host = t->host;
	const void *mine = host->blob(host->core, host->rank, ginRouteProxy);
	char why[BACKEND_WHY];

	for (int r = 0; r < host->nRanks; r++) {
		int chosen = TRANSPORTS;
		if (host->routes[r] != ginRouteNone)
			chosen = choose(host, r, mine, host->blob(host->core, r, ginRouteProxy),
					why);
		t->of[r] = chosen < TRANSPORTS ? (uint8_t)chosen : TRANSPORT_IPC;
		if (chosen < TRANSPORTS)
			t->serves[chosen * host->nRanks + r] = 1;
	}
}

static ginResult_t openAll(struct proxyTransports *t, const struct proxySlots *slots,
			   uint32_t lanes)
{
	ginResult_t result = ginSuccess;

	for (int i = 0; i < TRANSPORTS && result == ginSuccess; i++) {
		t->scope[i] = (struct transportScope){t->host, slots,
						      t->serves + i * t->host->nRanks, lanes};
		result = table[i]->open(&t->scope[i], &t->state[i]);
	}
	return result;
}

ginResult_t transportsOpen(const struct backendHost *host, const struct proxySlots *slots,
			   uint32_t lanes, struct proxyTransports *t)
{
	size_t n = (size_t)host->nRanks;

	*t = (struct proxyTransports){
		.host = host, .of = calloc(n, 1), .serves = calloc(TRANSPORTS, n)};
	if (!t->of || !t->serves)
		return fail(ginErrorSystem, "no memory");
	chooseAll(t);
	return openAll(t, slots, lanes);
}

void transportsClose(struct proxyTransports *t)
{
	for (int i = TRANSPORTS - 1; i >= 0; i--)
		if (t->state[i])
			table[i]->close(t->state[i]);
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
			result = table[i]->windowOffer(t->state[i], memory, offer->transport,
						       &window->link[i]);
	return result;
}

ginResult_t transportsRegister(struct proxyTransports *t, ginResult_t mine, const uint8_t *offers,
			       size_t stride, struct proxyWindow *window)
{
	for (int i = 0; i < TRANSPORTS; i++)
		if (t->state[i])
			mine = table[i]->windowRegister(t->state[i], mine, offers, stride,
							window->link[i]);
	for (int r = 0; r < t->host->nRanks && mine == ginSuccess; r++) {
		struct proxyOffer offer;
		int i = t->of[r];
		memcpy(&offer, offers + (size_t)r * stride, sizeof(offer));
		if (r == t->host->rank)
			continue;
		proxyWindowPeer(window, r, &offer);
		if (t->serves[i * t->host->nRanks + r])
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
