/* SPDX-License-Identifier: BSD-3-Clause */
/* comm_progress.c - the turns of backends that the program drives itself */
#include "comm.h"

static int turnAll(ginComm_t comm)
{
	int did = 0;

	for (int b = 0; b < BACKENDS_COUNT; b++) {
		struct backendUse *use = &comm->backend[b];
		if (use->state && use->ops->progress)
			did |= use->ops->progress(use->state);
	}
	return did;
}

ginResult_t ginCommProgress(ginComm_t comm, int *did)
{
	struct deviceScope scope;
	ginResult_t result = commEnter(comm, "ginCommProgress");

	if (result != ginSuccess)
		return result;
	result = deviceEnter(&comm->device, &scope);
	if (result != ginSuccess)
		return result;
	int some = turnAll(comm);
	deviceLeave(&comm->device, &scope);
	if (did)
		*did = some;
	return ginSuccess;
}
