/* SPDX-License-Identifier: BSD-3-Clause */
/* group.c - groups: their communicators, their failures, their ends */
#include "symm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t pageBytes(int nRanks)
{
	return sizeof(struct symmPage) + (size_t)SYMM_RECORDS * (size_t)nRanks;
}

/* Pinned memory of the host: kernels store a record, and see when they have to stop. */
static ginResult_t openPage(struct ginSymmGroup *group)
{
	size_t bytes = pageBytes(group->nRanks);
	void *page = NULL;

	if (!group->gpu) {
		group->page = calloc(1, bytes);
		return group->page ? ginSuccess : symmFail(ginErrorSystem, "no memory");
	}
	ginResult_t result = ginMemAllocHost(group->comm, bytes, &page);
	if (result)
		return symmFailGin(result, "pinned memory");
	group->page = page;
	return ginSuccess;
}

static void closePage(struct ginSymmGroup *group)
{
	if (group->gpu)
		ginMemFree(NULL, group->page);
	else
		free(group->page);
	group->page = NULL;
}

static ginResult_t openComm(struct ginSymmGroup *group, ginAllgather_t allgather, void *arg)
{
	ginConfig_t of = GIN_CONFIG_INIT;
	ginResult_t result;

	/* A GPU is the current context's, which libgin asks the driver for. */
	of.device = group->gpu ? GIN_DEVICE_AUTO : GIN_DEVICE_NONE;
	of.allgather = allgather;
	of.allgatherArg = arg;
	of.rank = group->rank;
	of.nRanks = group->nRanks;
	of.poll = group->poll;
	of.pollArg = group->pollArg;
	if (group->gpu && (result = symmGpuEnter(group->gpu)))
		return result;
	if ((result = ginCommInit(&of, &group->comm)))
		symmFailGin(result, "a group's communicator");
	if (group->gpu)
		symmGpuLeave(group->gpu);
	return result;
}

/* What the ranks tell each other first. */
struct place {
	int32_t device, hasFar;
};

static int isFar(const struct ginSymmGroup *group, int rank)
{
	ginPeerInfo_t info = GIN_PEER_INFO_INIT;

	return rank != group->rank && !ginCommQueryPeer(group->comm, rank, &info) &&
	       info.route != ginRouteDirect;
}

/* Collective: the devices of all ranks. Does any rank have a peer without a direct route? */
static ginResult_t findPlaces(struct ginSymmGroup *group, int *hasFar)
{
	struct place *all = calloc((size_t)group->nRanks, sizeof(*all));
	struct place own = {group->device, 0};

	group->devices = calloc((size_t)group->nRanks, sizeof(int));
	for (int r = 0; r < group->nRanks; r++)
		own.hasFar |= isFar(group, r);
	if (!all || !group->devices) /* the other ranks wait for this one */
		abort();
	ginResult_t result = ginCommAllgather(group->comm, &own, all, sizeof(own));
	*hasFar = 0;
	for (int r = 0; r < group->nRanks; r++) {
		group->devices[r] = all[r].device;
		*hasFar |= all[r].hasFar;
	}
	free(all);
	return result ? symmFailGin(result, "a group's routes") : ginSuccess;
}

/* Collective: devices and routes, and what calls of ranks without a direct route use. */
static ginResult_t openFar(struct ginSymmGroup *group)
{
	ginDevCommRequirements_t of = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginCommInfo_t info = GIN_COMM_INFO_INIT;
	ginResult_t result;
	int hasFar;

	if ((result = findPlaces(group, &hasFar)) || !hasFar)
		return result;
	if ((result = ginCommQuery(group->comm, &info)))
		return symmFailGin(result, "a group's routes");
	if (!info.deviceAtomics)
		return symmFail(ginErrorUnsupported, "a group whose ranks are not all direct peers "
						     "needs GIN_BOUNCE other than never");
	of.signals = of.counters = of.barriers = 0;
	result = ginDevCommCreate(group->comm, &of, &group->devComm);
	return result ? symmFailGin(result, "a group's routes") : ginSuccess;
}

static void freeGroup(struct ginSymmGroup *group)
{
	if (group->page)
		closePage(group);
	pthread_mutex_destroy(&group->meeting);
	free(group->devices);
	free(group);
}

void symmGroupDrop(struct ginSymmGroup *group)
{
	struct ginSymmGroup *of = group->of;

	if (--group->refs)
		return;
	freeGroup(group);
	if (of)
		symmGroupDrop(of);
}

/* Of ranks and a device; frees it if it fails. */
ginResult_t symmGroupOpen(struct ginSymmGroup *group, ginAllgather_t allgather, void *arg)
{
	ginResult_t result = ginSuccess;

	group->refs = 1;
	pthread_mutex_init(&group->meeting, NULL);
	if (group->device != GIN_DEVICE_NONE)
		result = symmGpuOpen(group->device, &group->gpu);
	if (result || (result = openComm(group, allgather, arg)))
		goto discard;
	if ((result = openFar(group)) || (result = openPage(group)) || (result = symmWatch(group)))
		goto destroy;
	return ginSuccess;
destroy:
	ginCommAbort(group->comm); /* other ranks do not wait for this one */
	ginCommDestroy(group->comm);
discard:
	freeGroup(group);
	return result;
}

ginResult_t ginSymmOpen(const ginSymmConfig_t *config, ginSymmGroup_t *out)
{
	struct ginSymmGroup *group = calloc(1, sizeof(*group));

	if (!group)
		return symmFail(ginErrorSystem, "no memory");
	*group = (struct ginSymmGroup){.device = config->device,
				       .rank = config->rank,
				       .nRanks = config->nRanks,
				       .poll = config->poll,
				       .pollArg = config->arg};
	ginResult_t result = symmGroupOpen(group, config->allgather, config->arg);
	if (!result)
		*out = group;
	return result;
}

/* What the group does not do any more; the caller holds symmLock. */
static ginResult_t failure(struct ginSymmGroup *group)
{
	if (!group->comm)
		return symmFail(ginErrorInvalidUsage, "the group is closed");
	if (group->state != symmAlive)
		return symmFail(group->failure, "%s", group->sentence);
	return ginSuccess;
}

ginResult_t symmGroupStopped(struct ginSymmGroup *group)
{
	if (symmIsChild())
		return symmRefuseChild();
	pthread_mutex_lock(&symmLock);
	ginResult_t result = failure(group);
	pthread_mutex_unlock(&symmLock);
	return result ? result : symmRecordFailed(group, symmLater, symmTimeout());
}

/* The windows end with the communicator. Takes it out of the group. */
static ginComm_t takeComm(struct ginSymmGroup *group)
{
	pthread_mutex_lock(&symmLock);
	ginComm_t comm = group->comm;
	for (struct ginSymmPeers *p = group->peers; comm && p; p = p->nextOfGroup)
		symmPeersRetire(p, comm);
	group->peers = NULL;
	group->comm = NULL;
	pthread_mutex_unlock(&symmLock);
	return comm;
}

ginResult_t symmGroupClose(struct ginSymmGroup *group)
{
	ginResult_t result = ginSuccess;

	symmUnwatch(group);
	if (group->gpu)
		symmGpuSync(group->gpu);
	ginComm_t comm = takeComm(group);
	if (comm && group->devComm.self)
		ginDevCommDestroy(comm, &group->devComm);
	if (comm && (result = ginCommDestroy(comm)))
		symmFailGin(result, "close");
	return result;
}
