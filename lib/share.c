/* SPDX-License-Identifier: BSD-3-Clause */
/* share.c - what backends in use have of windows and device communicators */
#include <stdlib.h>

#include "comm.h"

/* What a rank tells of its part of a window. */
struct part {
	uint64_t bytes;
	uint8_t offer[BACKENDS_COUNT][BACKEND_OFFER];
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
	for (int b = 0; b < BACKENDS_COUNT && result == ginSuccess; b++) {
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

	for (int b = 0; b < BACKENDS_COUNT; b++) {
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
	for (int b = 0; b < BACKENDS_COUNT && result == ginSuccess; b++) {
		struct backendUse *use = &comm->backend[b];
		if (use->state && use->ops->network)
			result =
				use->ops->windowOffer(use->state, memory, NULL, &shared->window[b]);
	}
	return result;
}

void routesTell(ginComm_t comm, const struct shared *shared, struct ginWindowTable *table)
{
	for (int b = 0; b < BACKENDS_COUNT; b++)
		if (shared->window[b] && comm->backend[b].ops->windowDescribe)
			comm->backend[b].ops->windowDescribe(shared->window[b], table);
}

/* The backend of this rank's route to `peer`, or NULL. */
static const struct backendUse *useOf(ginComm_t comm, int peer, int *index)
{
	for (*index = 0; *index < BACKENDS_COUNT; ++*index)
		if (comm->backend[*index].ops->route == comm->routes[peer])
			return &comm->backend[*index];
	return NULL;
}

void routesTellPeer(ginComm_t comm, const struct shared *shared, int peer,
		    struct ginWindowPeer *entry)
{
	for (int b = 0; b < BACKENDS_COUNT; b++)
		if (shared->window[b] && comm->backend[b].ops->windowDescribePeer)
			comm->backend[b].ops->windowDescribePeer(shared->window[b], peer, entry);
}

void routesUnshare(ginComm_t comm, struct shared *shared)
{
	for (int b = BACKENDS_COUNT - 1; b >= 0; b--)
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
	for (int b = 0; b < BACKENDS_COUNT; b++)
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
	for (int b = 0; b < BACKENDS_COUNT; b++) {
		struct backendUse *use = &comm->backend[b];
		if (use->state && use->ops->contextsOpen)
			mine = openContexts(use, call, mine, want,
					    words[use->ops->writer].window[b], &contexts->of[b]);
	}
	return mine;
}

int routesContextsAny(const struct contexts *contexts)
{
	for (int b = 0; b < BACKENDS_COUNT; b++)
		if (contexts->of[b])
			return 1;
	return 0;
}

void routesContextsTell(ginComm_t comm, const struct contexts *contexts, ginDevComm *devComm)
{
	for (int b = 0; b < BACKENDS_COUNT; b++)
		if (contexts->of[b])
			comm->backend[b].ops->contextsDescribe(contexts->of[b], devComm);
}

void routesContextsTellPeer(ginComm_t comm, const struct contexts *contexts, int peer,
			    struct ginPeer *entry)
{
	for (int b = 0; b < BACKENDS_COUNT; b++)
		if (contexts->of[b] && comm->backend[b].ops->contextsDescribePeer)
			comm->backend[b].ops->contextsDescribePeer(contexts->of[b], peer, entry);
}

/* All that have queues are network backends, and one of these is in use. */
ginResult_t routesContextsStats(ginComm_t comm, const struct contexts *contexts, uint32_t context,
				ginStats_t *stats)
{
	for (int b = 0; b < BACKENDS_COUNT; b++)
		if (contexts->of[b])
			return comm->backend[b].ops->contextsStats(contexts->of[b], context, stats);
	return ginErrorUnsupported;
}

void routesContextsFinish(ginComm_t comm, const struct contexts *contexts)
{
	for (int b = 0; b < BACKENDS_COUNT; b++)
		if (contexts->of[b])
			comm->backend[b].ops->contextsDrain(comm->backend[b].state,
							    contexts->of[b]);
}

void routesContextsClose(ginComm_t comm, struct contexts *contexts)
{
	for (int b = BACKENDS_COUNT - 1; b >= 0; b--)
		if (contexts->of[b])
			comm->backend[b].ops->contextsClose(comm->backend[b].state,
							    contexts->of[b]);
	*contexts = (struct contexts){{NULL}};
}
