/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * branch.c - ranks that meet over blocks on other devices than before
 *
 * A communicator has one device of each rank. If a rank takes a block of another device, all ranks
 * need a further communicator, also those that keep their device. So a meeting begins with the
 * devices of all ranks, on the group's own communicator, which also carries the start of the
 * further one.
 */
#include "symm.h"

#include <stdlib.h>

/* What a rank tells the others at first. */
struct arrival {
	int32_t device, result; /* of its preparations */
};

ginResult_t symmSettle(struct ginSymmGroup *group)
{
	ginResult_t result = ginSuccess;

	if (group->gpu && group->hasRetired)
		result = symmGpuSync(group->gpu);
	group->hasRetired = 0;
	return result;
}

static ginResult_t prepare(struct ginSymmGroup *group, const struct symmBlock *block)
{
	if (symmIsCapturing(block->memory.gpu))
		return symmFail(ginErrorInvalidUsage,
				"rank %d: rendezvous over a new tensor while the current stream of "
				"device %d is being captured: do it before the capture",
				group->rank, block->device);
	return symmSettle(group);
}

static int through(void *arg, const void *in, void *out, size_t bytes)
{
	return ginCommAllgather(((struct ginSymmGroup *)arg)->comm, in, out, bytes) ? -1 : 0;
}

static void append(struct ginSymmGroup *group, struct ginSymmGroup *branch)
{
	struct ginSymmGroup **at = &group->branch;

	pthread_mutex_lock(&symmLock);
	while (*at)
		at = &(*at)->branch;
	*at = branch;
	branch->of = group;
	group->refs++;
	pthread_mutex_unlock(&symmLock);
}

static ginResult_t openBranch(struct ginSymmGroup *group, int device, struct ginSymmGroup **out)
{
	struct ginSymmGroup *branch = calloc(1, sizeof(*branch));

	if (!branch) /* the other ranks wait for this one */
		abort();
	*branch = (struct ginSymmGroup){.device = device,
					.rank = group->rank,
					.nRanks = group->nRanks,
					.poll = group->poll,
					.pollArg = group->pollArg};
	ginResult_t result = symmGroupOpen(branch, through, group);
	if (result)
		return result;
	append(group, branch);
	*out = branch;
	return ginSuccess;
}

static struct ginSymmGroup *nextBranch(struct ginSymmGroup *group)
{
	pthread_mutex_lock(&symmLock);
	struct ginSymmGroup *next = group->branch;
	pthread_mutex_unlock(&symmLock);
	return next;
}

static int hasDevices(const struct ginSymmGroup *group, const struct arrival *all)
{
	for (int r = 0; r < group->nRanks; r++)
		if (group->devices[r] != all[r].device)
			return 0;
	return 1;
}

static ginResult_t choose(struct ginSymmGroup *group, const struct arrival *all,
			  struct ginSymmGroup **out)
{
	const struct arrival *own = &all[group->rank];

	if (own->result) /* with prepare()'s sentence */
		return (ginResult_t)own->result;
	for (int r = 0; r < group->nRanks; r++)
		if (all[r].result)
			return symmFail((ginResult_t)all[r].result,
					"rendezvous: rank %d cannot meet the others: %s", r,
					ginGetErrorString((ginResult_t)all[r].result));
	for (struct ginSymmGroup *g = group; g; g = nextBranch(g))
		if (hasDevices(g, all)) {
			*out = g;
			return ginSuccess;
		}
	return openBranch(group, own->device, out);
}

ginResult_t symmBranchFor(struct ginSymmGroup *group, const struct symmBlock *block,
			  struct ginSymmGroup **out)
{
	const struct arrival own = {block->device, prepare(group, block)};
	struct arrival *all = calloc((size_t)group->nRanks, sizeof(*all));

	if (!all) /* the other ranks wait for this one */
		abort();
	ginResult_t result = ginCommAllgather(group->comm, &own, all, sizeof(own));
	result = result ? symmFailGin(result, "rendezvous") : choose(group, all, out);
	free(all);
	return result;
}

ginResult_t ginSymmComm(ginSymmGroup_t group, int number, int *device, ginComm_t *comm)
{
	struct ginSymmGroup *g = group;

	if (!group->comm)
		return symmFail(ginErrorInvalidUsage, "the group is closed");
	for (int i = 0; g && i < number; i++)
		g = nextBranch(g);
	if (!g)
		return symmFail(ginErrorInvalidArgument, "the group has no communicator %d",
				number);
	*device = g->device;
	*comm = g->comm;
	return ginSuccess;
}

ginResult_t ginSymmCheck(ginSymmGroup_t group)
{
	ginResult_t result = ginSuccess;

	for (struct ginSymmGroup *g = group; g && !result; g = nextBranch(g))
		result = symmGroupStopped(g);
	return result;
}

static struct ginSymmGroup *takeBranch(struct ginSymmGroup *group)
{
	pthread_mutex_lock(&symmLock);
	struct ginSymmGroup *branch = group->branch;
	if (branch)
		group->branch = branch->branch;
	pthread_mutex_unlock(&symmLock);
	return branch;
}

static void drop(struct ginSymmGroup *group)
{
	pthread_mutex_lock(&symmLock);
	symmGroupDrop(group);
	pthread_mutex_unlock(&symmLock);
}

ginResult_t ginSymmClose(ginSymmGroup_t group)
{
	struct ginSymmGroup *branch;
	ginResult_t result = ginSuccess;

	if (symmIsChild())
		return ginSuccess;
	pthread_mutex_lock(&group->meeting);
	while ((branch = takeBranch(group))) {
		ginResult_t closed = symmGroupClose(branch);
		result = result ? result : closed;
		drop(branch);
	}
	ginResult_t closed = symmGroupClose(group);
	pthread_mutex_unlock(&group->meeting);
	drop(group);
	symmSweep();
	return result ? result : closed;
}
