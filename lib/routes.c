/* SPDX-License-Identifier: BSD-3-Clause */
/* routes.c - probes backends, gives each pair of ranks its route, opens the backends in use */
#include "routes.h"

#include <stdio.h>
#include <string.h>

#include "comm.h"
#include "lib/base/log.h"
#include "lib/base/param.h"
#include "reach.h"

void routesProbe(ginComm_t comm, struct backendProbe mine[BACKENDS_COUNT])
{
	for (int b = 0; b < BACKENDS_COUNT; b++) {
		struct backendUse *use = &comm->backend[b];

		use->ops = backendsTable[b];
		use->usable = use->ops->probe(&comm->host, mine[b].blob, use->why);
		mine[b].usable = (uint8_t)use->usable;
		mine[b].allowed = !reachForbidden(use->ops);
		if (!use->usable)
			logWrite(logInfo, "%s: %s", use->ops->name, use->why);
	}
}

int routesForced(const char *name)
{
	int forced = paramChoice(paramBackend);

	if (!forced && name)
		forced = backendsFind(name);
	return forced || !name ? forced : -1;
}

int routesWantCopies(int wants)
{
	int choice = paramChoice(paramCopyEngine);

	return choice == copyEngineAuto ? wants != 0 : choice == copyEngineOn;
}

ginResult_t routesForce(ginComm_t comm, const uint8_t *forced)
{
	int first = -1;

	for (int r = 0; r < comm->nRanks; r++) {
		if (!forced[r])
			continue;
		if (first < 0)
			first = r;
		if (forced[r] != forced[first])
			return fail(ginErrorInvalidArgument,
				    "GIN_BACKEND or config.backend is %s on rank %d and %s on rank "
				    "%d: set one backend on all ranks",
				    backendsTable[forced[first]]->name, first,
				    backendsTable[forced[r]]->name, r);
	}
	comm->forced = first < 0 ? 0 : forced[first];
	return ginSuccess;
}

int routesUsable(const struct backendUse *use, char why[BACKEND_WHY])
{
	int route = paramChoice(paramRoute);

	snprintf(why, BACKEND_WHY, "%s", use->usable ? "" : use->why);
	if (!use->usable || route != (use->ops->network ? routeDirect : routeNetwork))
		return use->usable;
	snprintf(why, BACKEND_WHY, "GIN_ROUTE=%s rules it out: unset it, or set it to auto",
		 paramText(paramRoute));
	return 0;
}

/* Why this rank and `peer` do, or do not, use the backend. */
static void backendWhy(ginComm_t comm, int b, int peer, char *why)
{
	if (!reachPair(comm, b, peer, why) || comm->routes[peer] == backendsTable[b]->route)
		return;
	if (comm->reached[peer] >> b & 1)
		snprintf(why, BACKEND_WHY, "%s", comm->backend[b].whyUnused);
	else
		snprintf(why, BACKEND_WHY, "rank %d does not reach this rank: see its own report",
			 peer);
}

/* How the pair is connected and, for a network backend, why no preferred one is used. */
static const char *routeWhy(ginComm_t comm, int b, int peer, char why[BACKEND_WHY])
{
	backendWhy(comm, b, peer, why);
	size_t length = strlen(why);
	for (int other = BACKENDS_NETWORK; other < b; other++)
		if (comm->backend[other].whyUnused[0])
			snprintf(why + length, BACKEND_WHY - length, "; not %s: %s",
				 backendsTable[other]->name, comm->backend[other].whyUnused);
	return why;
}

/*
 * Why no backend connects the pair: at most `room` bytes about each backend. Returns the length
 * without the limit of BACKEND_WHY.
 */
static size_t listWhy(ginComm_t comm, int peer, int room, char why[BACKEND_WHY])
{
	char each[BACKEND_WHY];
	size_t length = 0;

	for (int b = 0; b < BACKENDS_COUNT; b++) {
		size_t left = length < BACKEND_WHY ? BACKEND_WHY - length : 0;
		backendWhy(comm, b, peer, each);
		length += (size_t)snprintf(why + BACKEND_WHY - left, left, "%s%s: %.*s",
					   b ? "; " : "", backendsTable[b]->name, room, each);
	}
	return length;
}

const char *routesWhy(ginComm_t comm, int peer, char why[BACKEND_WHY])
{
	for (int b = 0; b < BACKENDS_COUNT; b++)
		if (comm->routes[peer] == backendsTable[b]->route)
			return routeWhy(comm, b, peer, why);
	for (int room = BACKEND_WHY; room && listWhy(comm, peer, room, why) >= BACKEND_WHY;)
		room -= 4;
	return why;
}

const char *routesName(ginComm_t comm, int peer)
{
	for (int b = 0; b < BACKENDS_COUNT; b++)
		if (comm->routes[peer] == backendsTable[b]->route)
			return backendsTable[b]->name;
	return "none";
}

/* The peers to which the routes are equal, in words. */
struct routeKind {
	char words[BACKEND_WHY + 16];
	int first, count;
};

enum { KINDS = 8 };

/* The kind with these words, or a new one; the last place has all others. */
static struct routeKind *kindOf(struct routeKind kind[KINDS], const char *words, int peer)
{
	int k = 0;

	while (k < KINDS - 1 && kind[k].count && strcmp(kind[k].words, words))
		k++;
	if (!kind[k].count) {
		snprintf(kind[k].words, sizeof(kind[k].words), "%s", words);
		kind[k].first = peer;
	} else if (strcmp(kind[k].words, words)) {
		snprintf(kind[k].words, sizeof(kind[k].words), "others, see gin_info(1)");
	}
	return &kind[k];
}

void routesLog(ginComm_t comm)
{
	struct routeKind kind[KINDS] = {{.count = 0}};
	char why[BACKEND_WHY], words[sizeof(kind[0].words)];

	if (!logWants(logInfo))
		return;
	for (int r = 0; r < comm->nRanks; r++) {
		routesWhy(comm, r, why);
		snprintf(words, sizeof(words), "%s, %s", routesName(comm, r), why);
		kindOf(kind, words, r)->count++;
	}
	for (int k = 0; k < KINDS && kind[k].count; k++) {
		char more[24] = "";
		if (kind[k].count > 1)
			snprintf(more, sizeof(more), " and %d more", kind[k].count - 1);
		logWrite(logInfo, "route to rank %d%s: %s", kind[k].first, more, kind[k].words);
	}
}

/* A user who sets GIN_TRANSPORT may believe that its network was measured. */
void routesNoteTransport(ginComm_t comm)
{
	const struct backendUse *last = &comm->backend[BACKENDS_LAST];
	static int isTold;

	if (comm->rank || comm->nRanks == 1 || !*paramText(paramTransport) ||
	    (last->used && !last->copiesOnly) || __atomic_exchange_n(&isTold, 1, __ATOMIC_RELAXED))
		return;
	logWrite(logWarn,
		 "GIN_TRANSPORT=%s has no effect: no pair of ranks uses the proxy; "
		 "GIN_ROUTE=network and GIN_BACKEND=proxy make all pairs use it",
		 paramText(paramTransport));
}

/* Gives each pair a route: direct, otherwise the network backend of this index, otherwise none. */
static void setRoutes(ginComm_t comm, int network)
{
	for (int r = 0; r < comm->nRanks; r++) {
		int direct = comm->reached[r] >> BACKENDS_DIRECT & 1;
		int other = comm->reached[r] >> network & 1;
		comm->routes[r] = (uint8_t)(direct  ? ginRouteDirect
					    : other ? backendsTable[network]->route
						    : (uint32_t)ginRouteNone);
	}
}

/* A backend used by any pair is opened on all ranks, since its registrations are collective. */
static ginResult_t openBackend(ginComm_t comm, int b)
{
	struct backendUse *use = &comm->backend[b];

	return use->used ? use->ops->open(&comm->host, &use->state) : ginSuccess;
}

/* Collective, when the backend is open on all ranks, or on none. */
static ginResult_t connectBackend(struct backendUse *use)
{
	if (!use->state || !use->ops->connect)
		return ginSuccess;
	return use->ops->connect(use->state, use->ops->name);
}

static void closeBackend(struct backendUse *use)
{
	if (use->state)
		use->ops->close(use->state);
	use->state = NULL;
}

/* Marks backend b unused on every rank. The log has the probe's answer already. */
static void markUnused(ginComm_t comm, int b, const char *why)
{
	struct backendUse *use = &comm->backend[b];

	snprintf(use->whyUnused, sizeof(use->whyUnused), "%.*s", BACKEND_WHY - 1, why);
	if (use->used && why != use->why)
		logWrite(logInfo, "not %s: %s", use->ops->name, use->whyUnused);
	use->used = 0;
}

/* The lowest rank that cannot use the backend, or -1; equal on all ranks. */
static int lacking(ginComm_t comm, int b)
{
	int r = 0;

	while (r < comm->nRanks && comm->probed[r][b].usable)
		r++;
	return r < comm->nRanks ? r : -1;
}

/* May the backend be tried? The answer is equal on all ranks. */
static int mayTry(ginComm_t comm, int b)
{
	struct backendUse *use = &comm->backend[b];
	int lacks = lacking(comm, b);
	char why[BACKEND_WHY];

	if (comm->forced && comm->forced != b) {
		snprintf(why, sizeof(why), "GIN_BACKEND=%s rules it out",
			 backendsTable[comm->forced]->name);
		markUnused(comm, b, why);
		return 0;
	}
	if (lacks < 0)
		return use->used || comm->forced;
	snprintf(why, sizeof(why), "rank %d cannot use it", lacks);
	markUnused(comm, b, use->usable ? why : use->why);
	return 0;
}

/* Does the backend connect this rank with every rank that is no direct peer? */
static ginResult_t connectsAll(ginComm_t comm, int b)
{
	char why[BACKEND_WHY];

	for (int r = 0; r < comm->nRanks; r++) {
		if (comm->routes[r] != ginRouteNone)
			continue;
		if (reachPair(comm, b, r, why))
			snprintf(why, sizeof(why), "rank %d does not reach this rank", r);
		return fail(ginErrorUnsupported, "%s: to rank %d: %s", backendsTable[b]->name, r,
			    why);
	}
	return ginSuccess;
}

/* Collective. Afterwards the backend is open on all ranks, or on none. */
static ginResult_t tryNetwork(ginComm_t comm, int b)
{
	struct backendUse *use = &comm->backend[b];

	setRoutes(comm, b);
	errorQuiet(!comm->forced);
	ginResult_t mine = connectsAll(comm, b);
	if (mine == ginSuccess) {
		mine = openBackend(comm, b);
		use->usable = mine == ginSuccess;
		if (mine != ginSuccess)
			snprintf(use->why, sizeof(use->why), "%.*s", BACKEND_WHY - 1,
				 ginGetLastError());
	}
	errorQuiet(0);
	mine = controlAgree(&comm->control, use->ops->name, mine);
	if (mine == ginSuccess)
		mine = connectBackend(use);
	if (mine == ginSuccess)
		return ginSuccess;
	closeBackend(use);
	markUnused(comm, b, ginGetLastError());
	return mine;
}

/* Collective. Opens the last network backend: its failure is the communicator's. */
static ginResult_t openLast(ginComm_t comm, ginResult_t mine)
{
	setRoutes(comm, BACKENDS_LAST);
	if (mine == ginSuccess)
		mine = openBackend(comm, BACKENDS_LAST);
	mine = controlAgree(&comm->control, "routes", mine);
	return mine == ginSuccess ? connectBackend(&comm->backend[BACKENDS_LAST]) : mine;
}

/*
 * The first network backend from `b` on that may be tried, or BACKENDS_LAST. The answer is equal on
 * all ranks.
 */
static int nextNetwork(ginComm_t comm, int b)
{
	while (b < BACKENDS_LAST && !mayTry(comm, b))
		b++;
	return b;
}

/* Collective: tries the network backends from `b` on, up to the first that works on all ranks. */
static ginResult_t openNetwork(ginComm_t comm, int b)
{
	while (b < BACKENDS_LAST) {
		ginResult_t mine = tryNetwork(comm, b);
		if (mine == ginSuccess)
			for (int other = b + 1; other < BACKENDS_COUNT; other++)
				comm->backend[other].used = 0;
		if (mine == ginSuccess || comm->forced ||
		    controlError(&comm->control) != ginSuccess)
			return mine;
		b = nextNetwork(comm, b + 1);
	}
	ginResult_t mine = reachSearch(comm);
	return mine == ginSuccess ? openLast(comm, mine) : mine;
}

/*
 * Opens network backend `b`, which no pair uses, for its copies, if some rank asks for copy
 * engines. The answer is equal on all ranks.
 */
static void addCopies(ginComm_t comm, int b)
{
	struct backendUse *use = &comm->backend[b];

	if (!comm->copyEngines || use->used || !use->ops->copies || lacking(comm, b) >= 0)
		return;
	use->used = use->copiesOnly = comm->host.copiesOnly = 1;
	logWrite(logInfo, "%s: only copies for direct peers", use->ops->name);
}

/*
 * With only the last network backend left, one round of the control plane agrees on everything,
 * after another round if this backend searches.
 */
ginResult_t routesOpen(ginComm_t comm, ginResult_t mine)
{
	if (mine != ginSuccess)
		return mine;
	int b = nextNetwork(comm, BACKENDS_NETWORK);
	if (b == BACKENDS_LAST)
		mine = reachSearch(comm);
	if (mine != ginSuccess)
		return mine;
	comm->host.mixed = comm->backend[BACKENDS_DIRECT].used;
	setRoutes(comm, b);
	addCopies(comm, b);
	mine = openBackend(comm, BACKENDS_DIRECT);
	if (b == BACKENDS_LAST)
		return openLast(comm, mine);
	mine = controlAgree(&comm->control, "direct", mine);
	return mine == ginSuccess ? openNetwork(comm, b) : mine;
}

void routesClose(ginComm_t comm)
{
	for (int b = 0; b < BACKENDS_COUNT; b++)
		closeBackend(&comm->backend[b]);
}
