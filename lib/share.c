/* SPDX-License-Identifier: BSD-3-Clause */
/* share.c - memory that the backends in use make reachable for the peers */
#include "share.h"

#include <stdlib.h>

#include "comm.h"

/* A rank's description of its part of a window, for all other ranks. */
struct windowPart {
	uint64_t bytes;
	uint8_t offer[][BACKEND_OFFER]; /* of each backend that takes part */
};

static size_t partBytes(uint32_t offers)
{
	return sizeof(struct windowPart) + (size_t)offers * BACKEND_OFFER;
}

/* Is the backend open, and of this writer class? */
static int takesPart(const struct backendUse *use, int writer)
{
	return use->state &&
	       (writer == SHARE_ALL || (use->ops->writer == (uint32_t)writer && !use->copiesOnly));
}

/* The answer is equal on all ranks. */
static uint32_t countOffers(ginComm_t comm, int writer)
{
	uint32_t count = 0;

	for (int b = 0; b < BACKENDS_COUNT; b++)
		count += takesPart(&comm->backend[b], writer) != 0;
	return count;
}

static ginResult_t offerAll(ginComm_t comm, const struct memory *memory, int writer,
			    struct sharedMemory *shared, struct windowPart *part)
{
	ginResult_t result = ginSuccess;
	uint32_t offer = 0;

	part->bytes = memory->bytes;
	for (int b = 0; b < BACKENDS_COUNT && result == ginSuccess; b++) {
		struct backendUse *use = &comm->backend[b];
		if (takesPart(use, writer))
			result = use->ops->windowOffer(use->state, memory, part->offer[offer++],
						       &shared->window[b]);
	}
	return result;
}

/* `stride`: bytes of each part. */
static ginResult_t registerAll(ginComm_t comm, const char *call, const struct windowPart *parts,
			       size_t stride, int writer, struct sharedMemory *shared)
{
	ginResult_t mine = ginSuccess;
	uint32_t offer = 0;

	for (int b = 0; b < BACKENDS_COUNT; b++) {
		struct backendUse *use = &comm->backend[b];
		if (!takesPart(use, writer))
			continue;
		/*
		 * A rank still waiting for handles of the previous backend must not get this one's.
		 */
		if (offer)
			mine = controlAgree(&comm->control, call, mine);
		mine = use->ops->windowRegister(use->state, call, mine, parts->offer[offer++],
						stride, shared->window[b]);
	}
	return mine;
}

void sharePlan(struct plan *plan, enum planPhase phase)
{
	planAdd(plan, (struct planExchange){phase, 1, partBytes(1), 0});
}

ginResult_t shareMemory(ginComm_t comm, const char *call, ginResult_t mine,
			const struct memory *memory, int writer, struct sharedMemory *shared,
			uint64_t *bytes)
{
	size_t stride = partBytes(countOffers(comm, writer));
	struct windowPart *own = calloc(1, stride), *parts = calloc((size_t)comm->nRanks, stride);

	*shared = (struct sharedMemory){{NULL}};
	if (mine == ginSuccess && (!own || !parts))
		mine = fail(ginErrorSystem, "no memory");
	if (mine == ginSuccess)
		mine = offerAll(comm, memory, writer, shared, own);
	mine = controlAllgather(&comm->control, call, mine, own, parts, stride);
	for (int r = 0; mine == ginSuccess && bytes && r < comm->nRanks; r++)
		memcpy(&bytes[r], (const char *)parts + (size_t)r * stride, sizeof(bytes[r]));
	if (mine == ginSuccess)
		mine = registerAll(comm, call, parts, stride, writer, shared);
	free(own);
	free(parts);
	return mine;
}

ginResult_t shareLocal(ginComm_t comm, const struct memory *memory, struct sharedMemory *shared)
{
	ginResult_t result = ginSuccess;

	*shared = (struct sharedMemory){{NULL}};
	for (int b = 0; b < BACKENDS_COUNT && result == ginSuccess; b++) {
		struct backendUse *use = &comm->backend[b];
		if (use->state && use->ops->network)
			result =
				use->ops->windowOffer(use->state, memory, NULL, &shared->window[b]);
	}
	return result;
}

void shareDescribe(ginComm_t comm, const struct sharedMemory *shared, struct ginWindowTable *table)
{
	for (int b = 0; b < BACKENDS_COUNT; b++)
		if (shared->window[b] && comm->backend[b].ops->windowDescribe)
			comm->backend[b].ops->windowDescribe(shared->window[b], table);
}

/* The backend of this rank's route to `peer`, and its index; or NULL. */
static const struct backendUse *useOf(ginComm_t comm, int peer, int *index)
{
	for (*index = 0; *index < BACKENDS_COUNT; ++*index)
		if (comm->backend[*index].ops->route == comm->routes[peer])
			return &comm->backend[*index];
	return NULL;
}

void shareDescribePeer(ginComm_t comm, const struct sharedMemory *shared, int peer,
		       struct ginWindowPeer *entry)
{
	for (int b = 0; b < BACKENDS_COUNT; b++)
		if (shared->window[b] && comm->backend[b].ops->windowDescribePeer)
			comm->backend[b].ops->windowDescribePeer(shared->window[b], peer, entry);
}

void shareRelease(ginComm_t comm, struct sharedMemory *shared)
{
	for (int b = BACKENDS_COUNT - 1; b >= 0; b--)
		if (shared->window[b])
			comm->backend[b].ops->windowDeregister(comm->backend[b].state,
							       shared->window[b]);
	*shared = (struct sharedMemory){{NULL}};
}

char *shareAddress(ginComm_t comm, const struct sharedMemory *shared, int peer)
{
	int b;
	const struct backendUse *use = useOf(comm, peer, &b);

	if (use && shared->window[b] && use->ops->windowAddress)
		return use->ops->windowAddress(shared->window[b], peer);
	return NULL;
}

int shareHasWriter(ginComm_t comm, int writer)
{
	for (int b = 0; b < BACKENDS_COUNT; b++)
		if (takesPart(&comm->backend[b], writer))
			return 1;
	return 0;
}
