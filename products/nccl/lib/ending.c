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
