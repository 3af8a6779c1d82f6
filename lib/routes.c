/* SPDX-License-Identifier: BSD-3-Clause */
/* routes.c - which backend each pair of ranks uses, and what the backends share */
#include <stdio.h>

#include "comm.h"
#include "log.h"
#include "param.h"

/* Ranks of one host that can be direct peers of each other. */
#define REACH_RANKS 1024

/* By the number of the peer among the host's ranks. */
struct reach {
	uint8_t bits[COMM_BACKENDS][REACH_RANKS / 8];
};

static const struct backendOps *const backends[COMM_BACKENDS] = {
	[COMM_DIRECT] = &backendDirect,
	[COMM_PROXY] = &backendProxy,
};

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
	snprintf(why, BACKEND_WHY, "rank %d cannot use it", mine->usable ? peer : comm->rank);
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

/* The first backend by which two ranks reach each other. */
static uint8_t chooseRoute(const struct reach *mine, unsigned peer, const struct reach *theirs,
			   unsigned me)
{
	for (int b = 0; b < COMM_BACKENDS; b++)
		if (reachBit(mine, b, peer) && reachBit(theirs, b, me))
			return (uint8_t)backends[b]->route;
	return ginRouteNone;
}

/*
 * Could any pair of any ranks use the backend? Direct: a rank that reaches any reaches itself. A
 * network backend: some rank does not reach directly whom it reaches by this.
 */
static int anyReach(const struct reach *all, int nRanks, int backend)
{
	for (int r = 0; r < nRanks; r++)
		for (unsigned i = 0; i < REACH_RANKS / 8; i++) {
			unsigned direct = all[r].bits[COMM_DIRECT][i];
			if (all[r].bits[backend][i] & (backend == COMM_DIRECT ? ~0u : ~direct))
				return 1;
		}
	return 0;
}

/* Routes are symmetric: both ends must reach each other. */
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
		comm->routes[r] = chooseRoute(&bits, index++, &all[r], me);
	}
	for (int b = 0; mine == ginSuccess && b < COMM_BACKENDS; b++)
		comm->backend[b].used = anyReach(all, comm->nRanks, b);
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
	if (reaches(comm, b, peer, why) && comm->routes[peer] != backends[b]->route)
		snprintf(why, BACKEND_WHY, "rank %d does not reach this rank: see its own report",
			 peer);
}

const char *commRouteWhy(ginComm_t comm, int peer, char why[BACKEND_WHY])
{
	char each[BACKEND_WHY];
	size_t length = 0;

	why[0] = '\0';
	for (int b = 0; b < COMM_BACKENDS; b++) {
		if (comm->routes[peer] == backends[b]->route) {
			backendWhy(comm, b, peer, why);
			return why;
		}
		backendWhy(comm, b, peer, each);
		int room = (int)((BACKEND_WHY - length) / (size_t)(COMM_BACKENDS - b)) - 12;
		length += (size_t)snprintf(why + length, BACKEND_WHY - length, "%s%s: %.*s",
					   b ? "; " : "", backends[b]->name, room, each);
	}
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

/* Is the backend open, and does it raise words of the class? */
static int takesPart(const struct backendUse *use, int writer)
{
	return use->state && (writer == ROUTES_ALL || use->ops->writer == (uint32_t)writer);
}

static ginResult_t offerAll(ginComm_t comm, const struct memory *memory, int writer,
			    struct shared *shared, struct part *part)
{
	ginResult_t result = ginSuccess;

	part->bytes = memory->bytes;
	for (int b = 0; b < COMM_BACKENDS && result == ginSuccess; b++) {
		struct backendUse *use = &comm->backend[b];
		if (takesPart(use, writer))
			result = use->ops->windowOffer(use->state, memory, part->offer[b],
						       &shared->window[b]);
	}
	return result;
}

static ginResult_t registerAll(ginComm_t comm, const char *call, const struct part *parts,
			       int writer, struct shared *shared)
{
	ginResult_t mine = ginSuccess;
	int others = 0;

	for (int b = 0; b < COMM_BACKENDS; b++) {
		struct backendUse *use = &comm->backend[b];
		if (!takesPart(use, writer))
			continue;
		/* No handle of this one comes to a rank that waits for those of the one before. */
		if (others++)
			mine = controlAgree(&comm->control, call, mine);
		mine = use->ops->windowRegister(use->state, call, mine, parts->offer[b],
						sizeof(*parts), shared->window[b]);
	}
	return mine;
}

ginResult_t routesShare(ginComm_t comm, const char *call, ginResult_t mine,
			const struct memory *memory, int writer, struct shared *shared,
			uint64_t *bytes)
{
	struct part own = {0}, *parts = calloc((size_t)comm->nRanks, sizeof(*parts));

	*shared = (struct shared){{NULL}};
	if (mine == ginSuccess && !parts)
		mine = fail(ginErrorSystem, "no memory");
	if (mine == ginSuccess)
		mine = offerAll(comm, memory, writer, shared, &own);
	mine = controlAllgather(&comm->control, call, mine, &own, parts, sizeof(own));
	for (int r = 0; mine == ginSuccess && bytes && r < comm->nRanks; r++)
		bytes[r] = parts[r].bytes;
	if (mine == ginSuccess)
		mine = registerAll(comm, call, parts, writer, shared);
	free(parts);
	return mine;
}

ginResult_t routesShareLocal(ginComm_t comm, const struct memory *memory, struct shared *shared)
{
	ginResult_t result = ginSuccess;

	*shared = (struct shared){{NULL}};
	for (int b = 0; b < COMM_BACKENDS && result == ginSuccess; b++) {
		struct backendUse *use = &comm->backend[b];
		if (use->state && use->ops->network)
			result =
				use->ops->windowOffer(use->state, memory, NULL, &shared->window[b]);
	}
	return result;
}

void routesTell(ginComm_t comm, const struct shared *shared, struct ginWindowTable *table)
{
	for (int b = 0; b < COMM_BACKENDS; b++)
		if (shared->window[b] && comm->backend[b].ops->windowTell)
			comm->backend[b].ops->windowTell(shared->window[b], table);
}

/* The backend of this rank's route to `peer`, or NULL. */
static const struct backendUse *useOf(ginComm_t comm, int peer, int *index)
{
	for (*index = 0; *index < COMM_BACKENDS; ++*index)
		if (comm->backend[*index].ops->route == comm->routes[peer])
			return &comm->backend[*index];
	return NULL;
}

void routesTellPeer(ginComm_t comm, const struct shared *shared, int peer,
		    struct ginWindowPeer *entry)
{
	int b;
	const struct backendUse *use = useOf(comm, peer, &b);

	if (use && shared->window[b] && use->ops->windowTellPeer)
		use->ops->windowTellPeer(shared->window[b], peer, entry);
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
	int b;
	const struct backendUse *use = useOf(comm, peer, &b);

	if (use && shared->window[b] && use->ops->windowAddress)
		return use->ops->windowAddress(shared->window[b], peer);
	return NULL;
}

int routesWriterUsed(ginComm_t comm, int writer)
{
	for (int b = 0; b < COMM_BACKENDS; b++)
		if (takesPart(&comm->backend[b], writer))
			return 1;
	return 0;
}

static ginResult_t openContexts(struct backendUse *use, const char *call, ginResult_t mine,
				const struct backendContexts *want, void *words, void **out)
{
	struct backendContexts own = *want;

	own.words = words;
	return use->ops->contextsOpen(use->state, call, mine, &own, out);
}

ginResult_t routesContextsOpen(ginComm_t comm, const char *call, ginResult_t mine,
			       const struct backendContexts *want, const struct shared *words,
			       struct contexts *contexts)
{
	*contexts = (struct contexts){{NULL}};
	for (int b = 0; b < COMM_BACKENDS; b++) {
		struct backendUse *use = &comm->backend[b];
		if (use->state && use->ops->contextsOpen)
			mine = openContexts(use, call, mine, want,
					    words[use->ops->writer].window[b], &contexts->of[b]);
	}
	return mine;
}

int routesContextsAny(const struct contexts *contexts)
{
	for (int b = 0; b < COMM_BACKENDS; b++)
		if (contexts->of[b])
			return 1;
	return 0;
}

void routesContextsTell(ginComm_t comm, const struct contexts *contexts, ginDevComm *devComm)
{
	for (int b = 0; b < COMM_BACKENDS; b++)
		if (contexts->of[b])
			comm->backend[b].ops->contextsTell(contexts->of[b], devComm);
}

void routesContextsTellPeer(ginComm_t comm, const struct contexts *contexts, int peer,
			    struct ginPeer *entry)
{
	int b;
	const struct backendUse *use = useOf(comm, peer, &b);

	if (use && contexts->of[b] && use->ops->contextsTellPeer)
		use->ops->contextsTellPeer(contexts->of[b], peer, entry);
}

/* All that have queues are network backends, and one of these is in use. */
ginResult_t routesContextsStats(ginComm_t comm, const struct contexts *contexts, uint32_t context,
				ginStats_t *stats)
{
	for (int b = 0; b < COMM_BACKENDS; b++)
		if (contexts->of[b])
			return comm->backend[b].ops->contextsStats(contexts->of[b], context, stats);
	return ginErrorUnsupported;
}

void routesContextsFinish(ginComm_t comm, const struct contexts *contexts)
{
	for (int b = 0; b < COMM_BACKENDS; b++)
		if (contexts->of[b])
			comm->backend[b].ops->contextsFinish(comm->backend[b].state,
							     contexts->of[b]);
}

void routesContextsClose(ginComm_t comm, struct contexts *contexts)
{
	for (int b = COMM_BACKENDS - 1; b >= 0; b--)
		if (contexts->of[b])
			comm->backend[b].ops->contextsClose(comm->backend[b].state,
							    contexts->of[b]);
	*contexts = (struct contexts){{NULL}};
}
