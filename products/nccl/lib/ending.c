/* SPDX-License-Identifier: BSD-3-Clause */
/* ending.c - ends windows, device communicators and memory, at once or later */
#include "internal.h"

#include <stdlib.h>

static ncclResult_t endDevComm(ncclComm_t comm, const ncclDevComm_t *dc)
{
	const ginWindow_t window = {(struct ginWindowTable *)(void *)dc->resourceWindow};
	void *memory = NULL;
	ncclConnectionsForget(comm, &dc->gin);
	ginResult_t result = ginDevCommDestroy(comm->gin, &dc->gin), found;

	found = ginWindowPointer(comm->gin, window, &memory);
	if (found == ginSuccess)
		found = ginWindowDeregister(comm->gin, window);
	ncclWindowForget(dc->resourceWindow);
	if (found == ginSuccess)
		found = ginMemFree(comm->gin, memory);
	return ncclFromGin(result == ginSuccess ? found : result);
}

static ncclResult_t run(ncclComm_t comm, const struct ending *p)
{
	const ginWindow_t window = {(struct ginWindowTable *)(void *)p->window};

	if (p->kind == endingOfMemory)
		return ncclFromGin(ginMemFree(NULL, p->memory));
	if (p->kind == endingOfDevComm)
		return endDevComm(comm, &p->devComm);
	ncclResult_t result = ncclFromGin(ginWindowDeregister(comm->gin, window));
	ncclWindowForget(p->window);
	return result;
}

ncclResult_t ncclEnd(ncclComm_t comm, const struct ending *ending)
{
	if (comm->localRanks == 1)
		return run(comm, ending);
	struct ending *kept = malloc(sizeof(*kept));
	if (!kept)
		return ncclFail(ncclSystemError, "no memory");
	*kept = *ending;
	kept->next = NULL;
	pthread_mutex_lock(&comm->lock);
	*comm->lastEnding = kept;
	comm->lastEnding = &kept->next;
	pthread_mutex_unlock(&comm->lock);
	return ncclSuccess;
}

/* What the kept calls end; memory is a rank's own. */
static uint64_t hashOf(const struct ending *p)
{
	uint64_t hash = 0;

	for (; p; p = p->next) {
		const uint64_t what[2] = {p->kind,
					  p->kind == endingOfDevComm ? p->devComm.gin.id : 0};
		if (p->kind != endingOfMemory)
			hash = ncclCommKey(hash, what, sizeof(what));
	}
	return hash;
}

/* Collective. Returns 1 if all ranks' kept calls end equal objects, or ginCommAllgather() fails. */
static int ranksAgree(ncclComm_t comm)
{
	uint64_t mine = hashOf(comm->endings);
	uint64_t *all = malloc((size_t)comm->nRanks * sizeof(*all));
	int agree = 1;

	if (ginCommAllgather(comm->gin, all ? &mine : NULL, all, sizeof(mine)) == ginSuccess)
		for (int r = 0; r < comm->nRanks; r++)
			agree = agree && all[r] == mine;
	free(all);
	return agree;
}

/* Of a call that is not made: what is left to do when ginCommDestroy() has ended its object. */
static void leave(ncclComm_t comm, struct ending *p)
{
	const ncclWindow_t window =
		p->kind == endingOfWindow ? p->window : p->devComm.resourceWindow;
	const ginWindow_t own = {(struct ginWindowTable *)(void *)window};
	void *memory = NULL;

	if (p->kind == endingOfMemory)
		return;
	if (p->kind == endingOfDevComm)
		ginWindowPointer(comm->gin, own, &memory);
	ncclWindowForget(window);
	p->kind = endingOfMemory;
	p->memory = memory;
}

ncclResult_t ncclEndLast(ncclComm_t comm)
{
	if (comm->localRanks < comm->nRanks || ranksAgree(comm))
		return ncclEndKept(comm);
	for (struct ending *p = comm->endings; p; p = p->next)
		leave(comm, p);
	return ncclSuccess;
}

ncclResult_t ncclEndKept(ncclComm_t comm)
{
	ncclResult_t result = ncclSuccess;

	pthread_mutex_lock(&comm->lock);
	struct ending *p = comm->endings;
	comm->endings = NULL;
	comm->lastEnding = &comm->endings;
	pthread_mutex_unlock(&comm->lock);
	while (p) {
		struct ending *next = p->next;
		ncclResult_t one = run(comm, p);
		if (result == ncclSuccess)
			result = one;
		free(p);
		p = next;
	}
	return result;
}
