/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reach.c - which pairs of ranks each backend can connect, before and after the search for networks
 */
#include "reach.h"

#include <stdio.h>

#include "comm.h"
#include "lib/base/param.h"

/*
 * Most ranks of one host for which reach is exchanged. A rank beyond it has no route on its host.
 */
#define REACH_RANKS 1024

/* Which ranks of its host a rank reaches, per backend: a bit for each rank of the host. */
struct hostReach {
	uint8_t bits[BACKENDS_COUNT][REACH_RANKS / 8];
	uint8_t isNotDirect;   /* the rank does not reach some rank of its host directly */
	uint8_t isUnconnected; /* nor by the last network backend */
};

_Static_assert(BACKENDS_COUNT <= 8, "ginComm.reached has one bit for each backend");

const char *reachForbidden(const struct backendOps *ops)
{
	int route = paramChoice(paramRoute);

	if (ops->network && route == routeDirect)
		return "GIN_ROUTE=direct rules it out";
	if (!ops->network && route == routeNetwork)
		return "GIN_ROUTE=network rules it out";
	return NULL;
}

int reachPair(ginComm_t comm, int backend, int peer, char *why)
{
	const struct backendProbe *mine = &comm->probed[comm->rank][backend];
	const struct backendProbe *theirs = &comm->probed[peer][backend];
	const char *rule = reachForbidden(backendsTable[backend]);

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

/* A bit for each backend that reaches the rank of this host. */
static uint8_t reachedBy(ginComm_t comm, int r)
{
	char why[BACKEND_WHY];
	uint8_t reached = 0;

	for (int b = 0; b < BACKENDS_COUNT; b++)
		if (reachPair(comm, b, r, why))
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
		if (comm->probed[peer][b].allowed && reachPair(comm, b, peer, why))
			reached |= (uint8_t)(1u << b);
	return reached;
}

static void keepReach(ginComm_t comm, const struct hostReach *all)
{
	const struct hostReach *mine = &all[comm->rank];
	unsigned me = comm->localIndex[comm->rank], index = 0;

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

/* The lowest rank f for which the ranks f to r - 1 are all direct peers of r. */
static int lowestDirect(ginComm_t comm, const struct hostReach *all, int r)
{
	const uint32_t *index = comm->localIndex;
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
 * which divides the ranks evenly. The answer is equal on all ranks. `lowest`: [nRanks], scratch.
 */
static int findDomainSize(ginComm_t comm, const struct hostReach *all, unsigned *lowest)
{
	int size = comm->nRanks;

	for (int r = 0; r < comm->nRanks; r++)
		lowest[r] = (unsigned)lowestDirect(comm, all, r);
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
 * directly. A network backend counts only for ranks that do not reach each other directly.
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

void reachPlan(struct plan *plan)
{
	planAdd(plan, (struct planExchange){planStart, 1, sizeof(struct hostReach), 0});
}

ginResult_t reachAgree(ginComm_t comm, ginResult_t mine)
{
	struct hostReach bits = {0}, *all = calloc((size_t)comm->nRanks, sizeof(*all));
	unsigned *lowest = calloc((size_t)comm->nRanks, sizeof(*lowest));

	if (mine == ginSuccess && (!all || !lowest))
		mine = fail(ginErrorSystem, "no memory");
	if (mine == ginSuccess)
		mine = checkForced(comm);
	if (mine == ginSuccess)
		fillReach(comm, &bits);
	mine = controlAllgather(&comm->control, "reach", mine, &bits, all, sizeof(bits));
	if (mine == ginSuccess) {
		keepReach(comm, all);
		comm->domainSize = findDomainSize(comm, all, lowest);
	}
	for (int b = 0; mine == ginSuccess && b < BACKENDS_COUNT; b++)
		comm->backend[b].used = anyReach(comm, all, b);
	free(lowest);
	free(all);
	return mine;
}

/* On which pairs the search of the last network backend depends: the widest answer of all ranks. */
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

/* The answer is equal on all ranks. */
static int needsSearch(ginComm_t comm)
{
	enum backendSearch most = mostSearched(comm);

	if (most == searchAnyway)
		return severalHosts(comm) || comm->anyNotDirect;
	return most == searchMissing && (severalHosts(comm) || comm->anyUnconnected);
}

/* Adds the findings of all ranks, which may connect more pairs. */
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
			      reachPair(comm, BACKENDS_LAST, r, why);
		comm->reached[r] = (uint8_t)((comm->reached[r] & ~bit) | (reached ? bit : 0));
	}
}

ginResult_t reachSearch(ginComm_t comm)
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
