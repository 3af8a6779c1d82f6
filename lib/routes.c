/* SPDX-License-Identifier: BSD-3-Clause */
/* routes.c - which backend each pair of ranks uses, and what the backends share */
#include <stdio.h>

#include "comm.h"
#include "log.h"
#include "param.h"

/* Ranks of one host that can be direct peers of each other. */
#define REACH_RANKS 1024

struct reach {
	uint8_t bits[REACH_RANKS / 8]; /* by the number of the peer among the host's ranks */
};

static const struct backendOps *const backends[COMM_BACKENDS] = {&backendDirect};

void routesProbe(ginComm_t comm, struct probed mine[COMM_BACKENDS])
{
	for (int b = 0; b < COMM_BACKENDS; b++) {
		struct backendUse *use = &comm->backend[b];
		use->ops = backends[b];
		use->usable = use->ops->probe(&comm->host, mine[b].blob, use->why);
		mine[b].usable = (uint8_t)use->usable;
		if (!use->usable)
			logWrite(logInfo, "rank %d: %s: %s", comm->rank, use->ops->name, use->why);
	}
}

static int reaches(ginComm_t comm, int backend, int peer, char *why)
{
	const struct probed *mine = &comm->probed[comm->rank][backend];
	const struct probed *theirs = &comm->probed[peer][backend];

	if (mine->usable && theirs->usable)
		return backends[backend]->reach(&comm->host, peer, mine->blob, theirs->blob, why);
	snprintf(why, BACKEND_WHY, "rank %d cannot use it", mine->usable ? peer : comm->rank);
	return 0;
}

/* GIN_ROUTE may differ per rank: a pair is direct when both ends want it. */
static int reachesDirect(ginComm_t comm, int peer, char *why)
{
	if (paramChoice(paramRoute) != routeNetwork)
		return reaches(comm, COMM_DIRECT, peer, why);
	snprintf(why, BACKEND_WHY, "GIN_ROUTE=network rules direct routes out");
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
		if (index < REACH_RANKS && reachesDirect(comm, r, why))
			mine->bits[index / 8] |= (uint8_t)(1u << index % 8);
		index++;
	}
}

static int reachBit(const struct reach *reach, unsigned index)
{
	return index < REACH_RANKS && (reach->bits[index / 8] >> index % 8 & 1);
}

/* Has any rank a direct pair? A rank that reaches any reaches itself. */
static int anyReach(const struct reach *all, int nRanks)
{
	static const struct reach none;

	for (int r = 0; r < nRanks; r++)
		if (memcmp(&all[r], &none, sizeof(none)))
			return 1;
	return 0;
}

/* Direct is symmetric: both ends must reach each other. */
ginResult_t routesAgree(ginComm_t comm, ginResult_t mine)
{
	struct reach bits = {0}, *all = calloc((size_t)comm->nRanks, sizeof(*all));
	unsigned me = localIndex(comm, comm->rank), index = 0;

	if (mine == ginSuccess && !all)
		mine = fail(ginErrorSystem, "no memory");
	if (mine == ginSuccess)
		fillReach(comm, &bits);
	mine = controlAllgather(&comm->control, "reach", mine, &bits, all, sizeof(bits));
	for (int r = 0; mine == ginSuccess && r < comm->nRanks; r++) {
		if (!identitySameHost(&comm->ranks[r], &comm->ranks[comm->rank]))
			continue;
		if (reachBit(&bits, index++) && reachBit(&all[r], me))
			comm->routes[r] = ginRouteDirect;
	}
	if (mine == ginSuccess)
		comm->backend[COMM_DIRECT].used = anyReach(all, comm->nRanks);
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

const char *commRouteWhy(ginComm_t comm, int peer, char why[BACKEND_WHY])
{
	if (reachesDirect(comm, peer, why) && comm->routes[peer] != ginRouteDirect)
		snprintf(why, BACKEND_WHY, "rank %d does not reach this rank: see its own report",
			 peer);
	return why;
}

/* A backend is opened on all ranks when it has a pair on any: its registrations are collective. */
ginResult_t routesOpen(ginComm_t comm, ginResult_t mine)
{
	for (int b = 0; b < COMM_BACKENDS && mine == ginSuccess; b++)
		if (comm->backend[b].used)
			mine = backends[b]->open(&comm->host, &comm->backend[b].state);
	return controlAgree(&comm->control, "routes", mine);
}

void routesClose(ginComm_t comm)
{
	for (int b = 0; b < COMM_BACKENDS; b++) {
		struct backendUse *use = &comm->backend[b];
		if (use->state)
			use->ops->close(use->state);
	}
}

/* What a rank tells of its part of a window. */
struct part {
	uint64_t bytes;
	uint8_t offer[COMM_BACKENDS][BACKEND_OFFER];
};

static ginResult_t offerAll(ginComm_t comm, const struct memory *memory, struct shared *shared,
			    struct part *part)
{
	ginResult_t result = ginSuccess;

	part->bytes = memory->bytes;
	for (int b = 0; b < COMM_BACKENDS && result == ginSuccess; b++) {
		struct backendUse *use = &comm->backend[b];
		if (use->state)
			result = use->ops->windowOffer(use->state, memory, part->offer[b],
						       &shared->window[b]);
	}
	return result;
}

static ginResult_t registerAll(ginComm_t comm, const char *call, const struct part *parts,
			       struct shared *shared)
{
	ginResult_t mine = ginSuccess;

	for (int b = 0; b < COMM_BACKENDS; b++) {
		struct backendUse *use = &comm->backend[b];
		if (use->state)
			mine = use->ops->windowRegister(use->state, call, mine, parts->offer[b],
							sizeof(*parts), shared->window[b]);
	}
	return mine;
}

ginResult_t routesShare(ginComm_t comm, const char *call, ginResult_t mine,
			const struct memory *memory, struct shared *shared, uint64_t *bytes)
{
	struct part own = {0}, *parts = calloc((size_t)comm->nRanks, sizeof(*parts));

	*shared = (struct shared){{NULL}};
	if (mine == ginSuccess && !parts)
		mine = fail(ginErrorSystem, "no memory");
	if (mine == ginSuccess)
		mine = offerAll(comm, memory, shared, &own);
	mine = controlAllgather(&comm->control, call, mine, &own, parts, sizeof(own));
	for (int r = 0; mine == ginSuccess && bytes && r < comm->nRanks; r++)
		bytes[r] = parts[r].bytes;
	if (mine == ginSuccess)
		mine = registerAll(comm, call, parts, shared);
	free(parts);
	return mine;
}

void routesUnshare(ginComm_t comm, struct shared *shared)
{
	for (int b = COMM_BACKENDS - 1; b >= 0; b--)
		if (shared->window[b])
			comm->backend[b].ops->windowDeregister(comm->backend[b].state,
							       shared->window[b]);
	*shared = (struct shared){{NULL}};
}

char *routesAddress(ginComm_t comm, const struct shared *shared, int peer)
{
	for (int b = 0; b < COMM_BACKENDS; b++)
		if (shared->window[b] && comm->backend[b].ops->route == comm->routes[peer])
			return comm->backend[b].ops->windowAddress(shared->window[b], peer);
	return NULL;
}

ginResult_t routesContextsOpen(ginComm_t comm, const char *call, ginResult_t mine,
			       const struct backendContexts *want, struct contexts *contexts)
{
	*contexts = (struct contexts){{NULL}};
	for (int b = 0; b < COMM_BACKENDS; b++) {
		struct backendUse *use = &comm->backend[b];
		if (use->state && use->ops->contextsOpen)
			mine = use->ops->contextsOpen(use->state, call, mine, want,
						      &contexts->of[b]);
	}
	mine = controlAgree(&comm->control, call, mine);
	if (mine != ginSuccess)
		routesContextsClose(comm, contexts);
	return mine;
}

void routesContextsClose(ginComm_t comm, struct contexts *contexts)
{
	for (int b = COMM_BACKENDS - 1; b >= 0; b--)
		if (contexts->of[b])
			comm->backend[b].ops->contextsClose(comm->backend[b].state,
							    contexts->of[b]);
	*contexts = (struct contexts){{NULL}};
}
