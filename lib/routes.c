/* SPDX-License-Identifier: BSD-3-Clause */
/* routes.c - probes backends, gives each pair of ranks its route, opens what is used */
#include "routes.h"

#include <stdio.h>

#include "comm.h"
#include "lib/base/log.h"
#include "lib/base/param.h"

/* Most ranks of one host for which reach is exchanged. A rank beyond has no route on its host. */
#define REACH_RANKS 1024

/* Which ranks of its host a rank reaches, per backend: a bit for each rank of the host. */
struct hostReach {
	uint8_t bits[BACKENDS_COUNT][REACH_RANKS / 8];
	uint8_t isNotDirect;   /* the rank does not reach some rank of its host directly */
	uint8_t isUnconnected; /* nor by the last network backend */
};

_Static_assert(BACKENDS_COUNT <= 8, "ginComm.reached has one bit for each backend");

/* Why GIN_ROUTE forbids a backend, or NULL. Ranks may differ: both ends of a pair must allow it. */
static const char *forbidden(const struct backendOps *ops)
{
	int route = paramChoice(paramRoute);

	if (ops->network && route == routeDirect)
		return "GIN_ROUTE=direct rules it out";
	if (!ops->network && route == routeNetwork)
		return "GIN_ROUTE=network rules it out";
	return NULL;
}

void routesProbe(ginComm_t comm, struct backendProbe mine[BACKENDS_COUNT])
{
	for (int b = 0; b < BACKENDS_COUNT; b++) {
		struct backendUse *use = &comm->backend[b];

		use->ops = backendsTable[b];
		use->usable = use->ops->probe(&comm->host, mine[b].blob, use->why);
		mine[b].usable = (uint8_t)use->usable;
		mine[b].allowed = !forbidden(use->ops);
		if (!use->usable)
			logWrite(logInfo, "rank %d: %s: %s", comm->rank, use->ops->name, use->why);
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

static int reaches(ginComm_t comm, int backend, int peer, char *why)
{
	const struct backendProbe *mine = &comm->probed[comm->rank][backend];
	const struct backendProbe *theirs = &comm->probed[peer][backend];
	const char *rule = forbidden(backendsTable[backend]);

	if (rule) {
		snprintf(why, BACKEND_WHY, "%s", rule);
		return 0;
	}
	if (mine->usable && theirs->usable)
		return backendsTable[backend]->reach(&comm->host, peer, mine->blob, theirs->blob,
						     why);
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

/* A bit for each backend that reaches the rank of this host. */
static uint8_t reachedBy(ginComm_t comm, int r)
{
	char why[BACKEND_WHY];
	uint8_t reached = 0;

	for (int b = 0; b < BACKENDS_COUNT; b++)
		if (reaches(comm, b, r, why))
			reached |= (uint8_t)(1u << b);
	return reached;
}

static void fillReach(ginComm_t comm, struct hostReach *mine)
{
	unsigned index = 0;

	for (int r = 0; r < comm->nRanks; r++) {
		if (!identitySameHost(&comm->ranks[r], &comm->ranks[comm->rank]))
			continue;
		unsigned by = reachedBy(comm, r);
		for (int b = 0; b < BACKENDS_COUNT && index < REACH_RANKS; b++)
			mine->bits[b][index / 8] |= (uint8_t)((by >> b & 1) << index % 8);
		mine->isNotDirect |= !(by >> BACKENDS_DIRECT & 1);
		mine->isUnconnected |= !(by & (1u << BACKENDS_DIRECT | 1u << BACKENDS_LAST));
		index++;
	}
}

static int reachBit(const struct hostReach *reach, int backend, unsigned index)
{
	return index < REACH_RANKS && (reach->bits[backend][index / 8] >> index % 8 & 1);
}

/* A bit for each backend by which this rank and `peer`, of another host, reach each other. */
static uint8_t reachOtherHost(ginComm_t comm, int peer)
{
	char why[BACKEND_WHY];
	uint8_t reached = 0;

	for (int b = 0; b < BACKENDS_COUNT; b++)
		if (comm->probed[peer][b].allowed && reaches(comm, b, peer, why))
			reached |= (uint8_t)(1u << b);
	return reached;
}

static void keepReach(ginComm_t comm, const struct hostReach *all)
{
	const struct hostReach *mine = &all[comm->rank];
	unsigned me = localIndex(comm, comm->rank), index = 0;

	for (int r = 0; r < comm->nRanks; r++) {
		if (!identitySameHost(&comm->ranks[r], &comm->ranks[comm->rank])) {
			comm->reached[r] = reachOtherHost(comm, r);
			continue;
		}
		for (int b = 0; b < BACKENDS_COUNT; b++)
			if (reachBit(mine, b, index) && reachBit(&all[r], b, me))
				comm->reached[r] |= (uint8_t)(1u << b);
		index++;
	}
	memcpy(comm->reachedFirst, comm->reached, (size_t)comm->nRanks);
	for (int r = 0; r < comm->nRanks; r++) {
		comm->anyNotDirect |= all[r].isNotDirect;
		comm->anyUnconnected |= all[r].isUnconnected;
	}
}

/* The number of each rank among the ranks of its host. */
static void numberLocally(ginComm_t comm, unsigned *index)
{
	for (int r = 0; r < comm->nRanks; r++) {
		int before = r - 1;
		while (before >= 0 && !identitySameHost(&comm->ranks[before], &comm->ranks[r]))
			before--;
		index[r] = before < 0 ? 0 : index[before] + 1;
	}
}

/* The lowest rank f for which the ranks f to r - 1 are all direct peers of r. */
static int lowestDirect(ginComm_t comm, const struct hostReach *all, const unsigned *index, int r)
{
	int f = r;

	while (f > 0 && identitySameHost(&comm->ranks[f - 1], &comm->ranks[r]) &&
	       reachBit(&all[f - 1], BACKENDS_DIRECT, index[r]) &&
	       reachBit(&all[r], BACKENDS_DIRECT, index[f - 1]))
		f--;
	return f;
}

/* `lowest`, [nRanks]: of lowestDirect(). */
static int isDomainSize(const unsigned *lowest, int nRanks, int size)
{
	for (int r = 0; r < nRanks; r++)
		if (lowest[r] > (unsigned)(r / size * size))
			return 0;
	return 1;
}

/*
 * The largest size for which each block of that many consecutive ranks has direct peers only, and
 * which divides the ranks evenly. All ranks find one answer. `scratch` has 2 * nRanks entries.
 */
static int findDomainSize(ginComm_t comm, const struct hostReach *all, unsigned *scratch)
{
	unsigned *lowest = scratch + comm->nRanks;
	int size = comm->nRanks;

	numberLocally(comm, scratch);
	for (int r = 0; r < comm->nRanks; r++)
		lowest[r] = (unsigned)lowestDirect(comm, all, scratch, r);
	while (size > 1 && (comm->nRanks % size || !isDomainSize(lowest, comm->nRanks, size)))
		size--;
	return size;
}

static int severalHosts(ginComm_t comm)
{
	for (int r = 1; r < comm->nRanks; r++)
		if (!identitySameHost(&comm->ranks[0], &comm->ranks[r]))
			return 1;
	return 0;
}

/*
 * Could any pair of ranks use the backend? A rank that reaches any rank directly reaches itself
 * directly. A network backend counts for ranks that do not reach each other directly.
 */
static int anyReach(ginComm_t comm, const struct hostReach *all, int backend)
{
	if (severalHosts(comm) && backendsTable[backend]->otherHosts)
		return 1;
	for (int r = 0; r < comm->nRanks; r++)
		for (unsigned i = 0; i < REACH_RANKS / 8; i++) {
			unsigned direct = all[r].bits[BACKENDS_DIRECT][i];
			if (all[r].bits[backend][i] & (backend == BACKENDS_DIRECT ? ~0u : ~direct))
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
	struct hostReach bits = {0}, *all = calloc((size_t)comm->nRanks, sizeof(*all));
	unsigned *scratch = calloc((size_t)comm->nRanks, 2 * sizeof(*scratch));

	if (mine == ginSuccess && (!all || !scratch))
		mine = fail(ginErrorSystem, "no memory");
	if (mine == ginSuccess)
		mine = checkForced(comm);
	if (mine == ginSuccess)
		fillReach(comm, &bits);
	mine = controlAllgather(&comm->control, "reach", mine, &bits, all, sizeof(bits));
	if (mine == ginSuccess) {
		keepReach(comm, all);
		comm->domainSize = findDomainSize(comm, all, scratch);
	}
	for (int b = 0; mine == ginSuccess && b < BACKENDS_COUNT; b++)
		comm->backend[b].used = anyReach(comm, all, b);
	free(scratch);
	free(all);
	return mine;
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
	if (!reaches(comm, b, peer, why) || comm->routes[peer] == backendsTable[b]->route)
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

/* Gives each pair a route: direct, else the network backend of this index, else none. */
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
		logWrite(logInfo, "rank %d: not %s: %s", comm->rank, use->ops->name,
			 use->whyUnused);
	use->used = 0;
}

/* The lowest rank that cannot use the backend, or -1; all ranks find one answer. */
static int lacking(ginComm_t comm, int b)
{
	int r = 0;

	while (r < comm->nRanks && comm->probed[r][b].usable)
		r++;
	return r < comm->nRanks ? r : -1;
}

/* May the backend be tried? All ranks find one answer. */
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
		if (reaches(comm, b, r, why))
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

/* On which pairs the search of the last network backend depends: of the rank that asks for most. */
static enum backendSearch mostSearched(ginComm_t comm)
{
	const struct backendOps *ops = backendsTable[BACKENDS_LAST];
	enum backendSearch most = searchNever;

	for (int r = 0; ops->searches && r < comm->nRanks; r++) {
		const struct backendProbe *probe = &comm->probed[r][BACKENDS_LAST];
		enum backendSearch asks = ops->searches(probe->blob);
		if (probe->usable && probe->allowed && asks > most)
			most = asks;
	}
	return most;
}

/* All ranks find one answer. */
static int needsSearch(ginComm_t comm)
{
	enum backendSearch most = mostSearched(comm);

	if (most == searchAnyway)
		return severalHosts(comm) || comm->anyNotDirect;
	return most == searchMissing && (severalHosts(comm) || comm->anyUnconnected);
}

/* What all ranks have found may connect more pairs. */
static void keepSearch(ginComm_t comm, const uint8_t *blobs)
{
	struct backendUse *use = &comm->backend[BACKENDS_LAST];
	const unsigned bit = 1u << BACKENDS_LAST;
	char why[BACKEND_WHY];

	for (int r = 0; r < comm->nRanks; r++) {
		struct backendProbe *probe = &comm->probed[r][BACKENDS_LAST];
		memcpy(probe->blob, blobs + (size_t)r * BACKEND_BLOB, BACKEND_BLOB);
		use->used |= probe->usable && use->ops->hasFound(probe->blob);
	}
	for (int r = 0; r < comm->nRanks; r++) {
		int reached = comm->probed[r][BACKENDS_LAST].allowed &&
			      reaches(comm, BACKENDS_LAST, r, why);
		comm->reached[r] = (uint8_t)((comm->reached[r] & ~bit) | (reached ? bit : 0));
	}
}

/* Collective: the last network backend searches, if some pair needs that. */
static ginResult_t searchLast(ginComm_t comm)
{
	struct backendUse *use = &comm->backend[BACKENDS_LAST];
	uint8_t blob[BACKEND_BLOB], *all;
	ginResult_t mine = ginSuccess;

	if (!needsSearch(comm))
		return ginSuccess;
	all = malloc((size_t)comm->nRanks * BACKEND_BLOB);
	if (!all)
		mine = fail(ginErrorSystem, "no memory");
	memcpy(blob, comm->probed[comm->rank][BACKENDS_LAST].blob, sizeof(blob));
	if (mine == ginSuccess && use->usable)
		mine = use->ops->search(&comm->host, blob);
	mine = controlAllgather(&comm->control, "networks", mine, blob, all, sizeof(blob));
	if (mine == ginSuccess)
		keepSearch(comm, all);
	free(all);
	return mine;
}

/* Collective. The last network backend: its failure is the communicator's. */
static ginResult_t openLast(ginComm_t comm, ginResult_t mine)
{
	setRoutes(comm, BACKENDS_LAST);
	if (mine == ginSuccess)
		mine = openBackend(comm, BACKENDS_LAST);
	mine = controlAgree(&comm->control, "routes", mine);
	return mine == ginSuccess ? connectBackend(&comm->backend[BACKENDS_LAST]) : mine;
}

/*
 * The first network backend from `b` on that may be tried, or BACKENDS_LAST. All ranks find one
 * answer.
 */
static int nextNetwork(ginComm_t comm, int b)
{
	while (b < BACKENDS_LAST && !mayTry(comm, b))
		b++;
	return b;
}

/* Collective: the network backends from `b` on, up to the first that works on all ranks. */
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
	ginResult_t mine = searchLast(comm);
	return mine == ginSuccess ? openLast(comm, mine) : mine;
}

/*
 * Opens network backend `b`, which no pair uses, for its copies, if some rank asks for copy
 * engines. All ranks find one answer.
 */
static void addCopies(ginComm_t comm, int b)
{
	struct backendUse *use = &comm->backend[b];

	if (!comm->copyEngines || comm->nRanks < 2 || use->used || !use->ops->copies ||
	    lacking(comm, b) >= 0)
		return;
	use->used = use->copiesOnly = comm->host.copiesOnly = 1;
	logWrite(logInfo, "rank %d: %s: only copies for direct peers", comm->rank, use->ops->name);
}

/*
 * With only the last network backend left, one round of the control plane agrees on everything, after
 * one round more if this backend searches.
 */
ginResult_t routesOpen(ginComm_t comm, ginResult_t mine)
{
	if (mine != ginSuccess)
		return mine;
	int b = nextNetwork(comm, BACKENDS_NETWORK);
	if (b == BACKENDS_LAST)
		mine = searchLast(comm);
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
