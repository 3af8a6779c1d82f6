/* SPDX-License-Identifier: BSD-3-Clause */
/* parting.c - ends of windows, device communicators and memory, at once or later */
#include "internal.h"

#include <stdlib.h>

static ncclResult_t endDevComm(ncclComm_t comm, const ncclDevComm_t *dc)
{
	const ginWindow_t window = {(struct ginWindowTable *)(void *)dc->resourceWindow};
	void *memory = NULL;
	ginResult_t result = ginDevCommDestroy(comm->gin, &dc->gin), found;

	found = ginWindowPointer(comm->gin, window, &memory);
	if (found == ginSuccess)
		found = ginWindowDeregister(comm->gin, window);
	if (found == ginSuccess)
		found = ginMemFree(comm->gin, memory);
	return ncclFromGin(result == ginSuccess ? found : result);
}

static ncclResult_t run(ncclComm_t comm, const struct parting *p)
{
	const ginWindow_t window = {(struct ginWindowTable *)(void *)p->window};

	if (p->kind == partMemory)
		return ncclFromGin(ginMemFree(NULL, p->memory));
	if (p->kind == partDevComm)
		return endDevComm(comm, &p->devComm);
	ncclResult_t result = ncclFromGin(ginWindowDeregister(comm->gin, window));
	ncclWindowForget(p->window);
	return result;
}

ncclResult_t ncclPart(ncclComm_t comm, const struct parting *parting)
{
	if (comm->localRanks == 1)
		return run(comm, parting);
	struct parting *kept = malloc(sizeof(*kept));
	if (!kept)
		return ncclFail(ncclSystemError, "no memory");
	*kept = *parting;
	kept->next = NULL;
	pthread_mutex_lock(&comm->lock);
	*comm->lastParting = kept;
	comm->lastParting = &kept->next;
	pthread_mutex_unlock(&comm->lock);
	return ncclSuccess;
}

ncclResult_t ncclPartAll(ncclComm_t comm)
{
	ncclResult_t result = ncclSuccess;

	pthread_mutex_lock(&comm->lock);
	struct parting *p = comm->partings;
	comm->partings = NULL;
	comm->lastParting = &comm->partings;
	pthread_mutex_unlock(&comm->lock);
	while (p) {
		struct parting *next = p->next;
		ncclResult_t one = run(comm, p);
		if (result == ncclSuccess)
			result = one;
		free(p);
		p = next;
	}
	return result;
}
