/* SPDX-License-Identifier: BSD-3-Clause */
/* routes.c - which backend each pair of ranks uses */
#include <stdio.h>

#include "comm.h"
#include "lib/base/log.h"
#include "lib/base/param.h"

/* Ranks of one host that can be direct peers of each other. */
#define REACH_RANKS 1024

/* By the number of the peer among the host's ranks. */
struct reach {
	uint8_t bits[COMM_BACKENDS][REACH_RANKS / 8];
};

static const struct backendOps *const backends[COMM_BACKENDS] = {
	[COMM_DIRECT] = &backendDirect,
	[COMM_GDAKI] = &backendGdaki,
	[COMM_PROXY] = &backendProxy,
};

/* Why GIN_ROUTE forbids a backend, or NULL. It may differ per rank: both ends must allow it. */
static const char *forbidden(const struct backendOps *ops)
{
	int route = paramChoice(paramRoute);

	if (ops->network && route == routeDirect)
		return "GIN_ROUTE=direct rules it out";
	if (!ops->network && route == routeNetwork)
		return "GIN_ROUTE=network rules it out";
	return NULL;
}

void routesProbe(ginComm_t comm, struct probed mine[COMM_BACKENDS])
{
	for (int b = 0; b < COMM_BACKENDS; b++) {
		struct backendUse *use = &comm->backend[b];
		use->ops = backends[b];
		use->usable = use->ops->probe(&comm->host, mine[b].blob, use->why);
		mine[b].usable = (uint8_t)use->usable;
		mine[b].allowed = !forbidden(use->ops);
		if (!use->usable)
			logWrite(logInfo, "rank %d: %s: %s", comm->rank, use->ops->name, use->why);
	}
}

int commForced(const char *name)
{
	int forced = paramChoice(paramBackend);

	for (int b = COMM_DIRECT + 1; b < COMM_BACKENDS && name && !forced; b++)
		forced = strcmp(name, backends[b]->name) ? 0 : b;
	return forced || !name ? forced : -1;
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
				    "%d: all ranks must use the same one",
				    backends[forced[first]]->name, first, backends[forced[r]]->name,
				    r);
	}
	comm->forced = first < 0 ? 0 : forced[first];
	return ginSuccess;
}

static int reaches(ginComm_t comm, int backend, int peer, char *why)
{
	const struct probed *mine = &comm->probed[comm->rank][backend];
	const struct probed *theirs = &comm->probed[peer][backend];
	const char *rule = forbidden(backends[backend]);

	if (rule) {
		snprintf(why, BACKEND_WHY, "%s", rule);
		return 0;
	}
	if (mine->usable && theirs->usable)
		return backends[backend]->reach(&comm->host, peer, mine->blob, theirs->blob, why);
	if (mine->usable)
		snprintf(why, BACKEND_WHY, "rank %d cannot use it", peer);
	else
		snprintf(why, BACKEND_WHY, "%s", comm->backend[backend].why);
	return 0;
}

static unsigned localIndex(ginComm_t comm, int peer)
{
	unsigned index = 0;

	for (int r = 0; r < peer; r++)
		index += identitySameHost(&comm->ranks[r], &comm->ranks[peer]) != 0;
	return index;
}

static void fillReach(ginComm_t comm, struct reach *mine)
{
	char why[BACKEND_WHY];
	unsigned index = 0;

	for (int r = 0; r < comm->nRanks; r++) {
		if (!identitySameHost(&comm->ranks[r], &comm->ranks[comm->rank]))
			continue;
		for (int b = 0; b < COMM_BACKENDS && index < REACH_RANKS; b++)
			if (reaches(comm, b, r, why))
				mine->bits[b][index / 8] |= (uint8_t)(1u << index % 8);
		index++;
	}
}

static int reachBit(const struct reach *reach, int backend, unsigned index)
{
	return index < REACH_RANKS && (reach->bits[backend][index / 8] >> index % 8 & 1);
}

/* By which backends this rank and `peer`, of another host, reach each other. */
static uint8_t reachedAfar(ginComm_t comm, int peer)
{
	char why[BACKEND_WHY];
	uint8_t reached = 0;

	for (int b = 0; b < COMM_BACKENDS; b++)
		if (comm->probed[peer][b].allowed && reaches(comm, b, peer, why))
			reached |= (uint8_t)(1u << b);
	return reached;
}

static void keepReach(ginComm_t comm, const struct reach *all)
{
	const struct reach *mine = &all[comm->rank];
	unsigned me = localIndex(comm, comm->rank), index = 0;

	for (int r = 0; r < comm->nRanks; r++) {
		if (!identitySameHost(&comm->ranks[r], &comm->ranks[comm->rank])) {
			comm->reached[r] = reachedAfar(comm, r);
			continue;
		}
		for (int b = 0; b < COMM_BACKENDS; b++)
			if (reachBit(mine, b, index) && reachBit(&all[r], b, me))
				comm->reached[r] |= (uint8_t)(1u << b);
		index++;
	}
}

static int severalHosts(ginComm_t comm)
{
	for (int r = 1; r < comm->nRanks; r++)
		if (!identitySameHost(&comm->ranks[0], &comm->ranks[r]))
			return 1;
	return 0;
}

/*
 * Could any pair of any ranks use the backend? Direct: a rank that reaches any reaches itself. A
 * network backend: some rank does not reach directly whom it may reach by this.
 */
static int anyReach(ginComm_t comm, const struct reach *all, int backend)
{
	if (backend == COMM_GDAKI && severalHosts(comm))
		return 1;
	for (int r = 0; r < comm->nRanks; r++)
		for (unsigned i = 0; i < REACH_RANKS / 8; i++) {
			unsigned direct = all[r].bits[COMM_DIRECT][i];
			if (all[r].bits[backend][i] & (backend == COMM_DIRECT ? ~0u : ~direct))
				return 1;
		}
	return 0;
}

static ginResult_t checkForced(ginComm_t comm)
{
	const struct backendUse *use = &comm->backend[comm->forced];

	if (!comm->forced || use->usable)
		return ginSuccess;
	return fail(ginErrorUnsupported, "GIN_BACKEND=%s: %s", use->ops->name, use->why);
}

/* Routes are symmetric: both ends must reach each other. */
ginResult_t routesAgree(ginComm_t comm, ginResult_t mine)
{
	struct reach bits = {0}, *all = calloc((size_t)comm->nRanks, sizeof(*all));

	if (mine == ginSuccess && !all)
		mine = fail(ginErrorSystem, "no memory");
	if (mine == ginSuccess)
		mine = checkForced(comm);
	if (mine == ginSuccess)
		fillReach(comm, &bits);
	mine = controlAllgather(&comm->control, "reach", mine, &bits, all, sizeof(bits));
	if (mine == ginSuccess)
		keepReach(comm, all);
	for (int b = 0; mine == ginSuccess && b < COMM_BACKENDS; b++)
		comm->backend[b].used = anyReach(comm, all, b);
	free(all);
	return mine;
}

int commBackendUsable(const struct backendUse *use, char why[BACKEND_WHY])
{
	int route = paramChoice(paramRoute);

	snprintf(why, BACKEND_WHY, "%s", use->usable ? "" : use->why);
	if (!use->usable || route != (use->ops->network ? routeDirect : routeNetwork))
		return use->usable;
	snprintf(why, BACKEND_WHY, "GIN_ROUTE=%s rules it out: unset it, or set it to auto",
		 paramText(paramRoute));
	return 0;
}

/* By the backend of this index. */
static void backendWhy(ginComm_t comm, int b, int peer, char *why)
{
	if (!reaches(comm, b, peer, why) || comm->routes[peer] == backends[b]->route)
		return;
	if (comm->reached[peer] >> b & 1)
		snprintf(why, BACKEND_WHY, "%s", comm->backend[b].left);
	else
		snprintf(why, BACKEND_WHY, "rank %d does not reach this rank: see its own report",
			 peer);
}

/* Of a network backend also why it is not a better one. */
static const char *routeWhy(ginComm_t comm, int b, int peer, char why[BACKEND_WHY])
{
	backendWhy(comm, b, peer, why);
	size_t length = strlen(why);
	for (int other = COMM_DIRECT + 1; other < b; other++)
		if (comm->backend[other].left[0])
			snprintf(why + length, BACKEND_WHY - length, "; not %s: %s",
				 backends[other]->name, comm->backend[other].left);
	return why;
}

/* Of each backend at most `room` bytes; returns how long it would have been. */
static size_t listWhy(ginComm_t comm, int peer, int room, char why[BACKEND_WHY])
{
	char each[BACKEND_WHY];
	size_t length = 0;

	for (int b = 0; b < COMM_BACKENDS; b++) {
		size_t left = length < BACKEND_WHY ? BACKEND_WHY - length : 0;
		backendWhy(comm, b, peer, each);
		length += (size_t)snprintf(why + BACKEND_WHY - left, left, "%s%s: %.*s",
					   b ? "; " : "", backends[b]->name, room, each);
	}
	return length;
}

const char *commRouteWhy(ginComm_t comm, int peer, char why[BACKEND_WHY])
{
	for (int b = 0; b < COMM_BACKENDS; b++)
		if (comm->routes[peer] == backends[b]->route)
			return routeWhy(comm, b, peer, why);
	if (listWhy(comm, peer, BACKEND_WHY, why) >= BACKEND_WHY)
		listWhy(comm, peer, BACKEND_WHY / COMM_BACKENDS - 12, why);
	return why;
}

/* With this network backend. */
static void setRoutes(ginComm_t comm, int network)
{
	for (int r = 0; r < comm->nRanks; r++) {
		int direct = comm->reached[r] >> COMM_DIRECT & 1;
		int other = comm->reached[r] >> network & 1;
		comm->routes[r] = (uint8_t)(direct  ? ginRouteDirect
					    : other ? backends[network]->route
						    : (uint32_t)ginRouteNone);
	}
}

/* A backend is opened on all ranks when it has a pair on any: its registrations are collective. */
static ginResult_t openBackend(ginComm_t comm, int b)
{
	struct backendUse *use = &comm->backend[b];

	return use->used ? use->ops->open(&comm->host, &use->state) : ginSuccess;
}

static void closeBackend(struct backendUse *use)
{
	if (use->state)
		use->ops->close(use->state);
	use->state = NULL;
}

/* All do without it. What the probe said is in the log already. */
static void leave(ginComm_t comm, int b, const char *why)
{
	struct backendUse *use = &comm->backend[b];

	snprintf(use->left, sizeof(use->left), "%.*s", BACKEND_WHY - 1, why);
	if (use->used && why != use->why)
		logWrite(logInfo, "rank %d: not %s: %s", comm->rank, use->ops->name, use->left);
	use->used = 0;
}

/* The first rank that cannot use it, or -1: the same on all ranks. */
static int lacking(ginComm_t comm, int b)
{
	int r = 0;

	while (r < comm->nRanks && comm->probed[r][b].usable)
		r++;
	return r < comm->nRanks ? r : -1;
}

/* May it be tried? All ranks say the same. */
static int mayTry(ginComm_t comm, int b)
{
	struct backendUse *use = &comm->backend[b];
	int lacks = lacking(comm, b);
	char why[BACKEND_WHY];

	if (comm->forced && comm->forced != b) {
		snprintf(why, sizeof(why), "GIN_BACKEND=%s rules it out",
			 backends[comm->forced]->name);
		leave(comm, b, why);
		return 0;
	}
	if (lacks < 0)
		return use->used || comm->forced;
	snprintf(why, sizeof(why), "rank %d cannot use it", lacks);
	leave(comm, b, use->usable ? why : use->why);
	return 0;
}

/* Does it connect this rank with all that are no direct peers? */
static ginResult_t connectsAll(ginComm_t comm, int b)
{
	char why[BACKEND_WHY];

	for (int r = 0; r < comm->nRanks; r++) {
		if (comm->routes[r] != ginRouteNone)
			continue;
		if (reaches(comm, b, r, why))
			snprintf(why, sizeof(why), "rank %d does not reach this rank", r);
		return fail(ginErrorUnsupported, "%s: to rank %d: %s", backends[b]->name, r, why);
	}
	return ginSuccess;
}

/* Collective. It works on all ranks, or is open on none. */
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
		return ginSuccess;
	closeBackend(use);
	leave(comm, b, ginGetLastError());
	return mine;
}

static ginResult_t openLast(ginComm_t comm, ginResult_t mine)
{
	setRoutes(comm, COMM_PROXY);
	if (comm->forced == COMM_GDAKI)
		comm->backend[COMM_PROXY].used = 0;
	if (mine == ginSuccess)
		mine = openBackend(comm, COMM_PROXY);
	return controlAgree(&comm->control, "routes", mine);
}

ginResult_t routesOpen(ginComm_t comm, ginResult_t mine)
{
	int tried = mine == ginSuccess && mayTry(comm, COMM_GDAKI);

	comm->host.mixed = comm->backend[COMM_DIRECT].used;
	if (mine == ginSuccess) {
		setRoutes(comm, COMM_GDAKI);
		mine = openBackend(comm, COMM_DIRECT);
	}
	if (!tried)
		return openLast(comm, mine);
	mine = controlAgree(&comm->control, "direct", mine);
	if (mine != ginSuccess)
		return mine;
	mine = tryNetwork(comm, COMM_GDAKI);
	if (mine == ginSuccess)
		comm->backend[COMM_PROXY].used = 0;
	if (mine == ginSuccess || comm->forced || controlError(&comm->control) != ginSuccess)
		return mine;
	return openLast(comm, ginSuccess);
}

void routesClose(ginComm_t comm)
{
	for (int b = 0; b < COMM_BACKENDS; b++)
		closeBackend(&comm->backend[b]);
}
