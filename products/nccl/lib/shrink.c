/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shrink.c - ncclCommShrink(): a communicator without some ranks, on ginCommShrink()
 *
 * libgin's new communicator inherits the windows of the older one; NCCL's has none. So the call
 * deregisters the inherited windows.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

struct shrinkArgs {
	ncclComm_t comm;
	int *excluded; /* a copy; runShrink() frees it */
	int count, flags;
	struct ncclChoices choices;
	ncclComm_t *out;
};

/* Collective over the new communicator's ranks, which deregister in one order. */
static ncclResult_t dropWindows(ncclComm_t older, ginComm_t made)
{
	size_t count;
	ncclWindow_t *all = ncclWindowsOf(older, &count);
	ginResult_t result = ginSuccess;

	for (size_t i = 0; all && i < count && result == ginSuccess; i++) {
		const ginWindow_t old = {(struct ginWindowTable *)(void *)all[i]};
		ginWindow_t inherited;
		/* A window that a rank has not registered is not inherited. */
		if (ginWindowInherited(made, old, &inherited) == ginSuccess)
			result = ginWindowDeregister(made, inherited);
	}
	free(all);
	return all ? ncclFromGin(result) : ncclFail(ncclSystemError, "no memory");
}

/* Collective over the new communicator's ranks: rank 0 names it for all. */
static ncclResult_t agreeOnKey(ncclComm_t older, ginComm_t made, uint64_t *key)
{
	const uint64_t name[2] = {++older->splits, (uint64_t)older->rank};
	const uint64_t own = ncclCommKey(older->key, name, sizeof(name));
	ginCommInfo_t info = GIN_COMM_INFO_INIT;
	uint64_t *all = NULL;
	ginResult_t result = ginCommQuery(made, &info);

	if (result != ginSuccess)
		return ncclFromGin(result);
	all = calloc((size_t)info.nRanks, sizeof(*all));
	if (!all)
		return ncclFail(ncclSystemError, "no memory");
	result = ginCommAllgather(made, &own, all, sizeof(own));
	*key = all[0];
	free(all);
	return ncclFromGin(result);
}

static ncclResult_t adopt(const struct shrinkArgs *a, ginComm_t made)
{
	uint64_t key = 0;
	ncclResult_t result = dropWindows(a->comm, made);

	if (result == ncclSuccess)
		result = agreeOnKey(a->comm, made, &key);
	if (result == ncclSuccess)
		return ncclCommWrap(made, key, &a->choices, a->out);
	ginCommDestroy(made);
	return result;
}

static ncclResult_t runShrink(void *args)
{
	const struct shrinkArgs *a = args;
	ginComm_t made = NULL;
	ginResult_t result = ginSuccess;

	if (a->flags & NCCL_SHRINK_ABORT)
		result = ncclEndWaits(a->comm);
	if (result == ginSuccess)
		result = ginCommShrink(a->comm->gin, a->excluded, a->count, &made);
	free(a->excluded);
	return result == ginSuccess ? adopt(a, made) : ncclFromGin(result);
}

static ncclResult_t checkShrink(ncclComm_t comm, const int *excluded, int count,
				const ncclComm_t *rest, const ncclConfig_t *config, int flags)
{
	if (!comm || !rest)
		return ncclFail(ncclInvalidArgument, "ncclCommShrink: %s is NULL",
				comm ? "the new communicator" : "comm");
	if (count < 0 || (count && !excluded))
		return ncclFail(ncclInvalidArgument,
				"ncclCommShrink: the excluded ranks are %s, and their number is %d",
				excluded ? "set" : "NULL", count);
	if (flags & ~NCCL_SHRINK_ABORT)
		return ncclFail(ncclInvalidArgument,
				"ncclCommShrink: the flags are 0x%x: must be NCCL_SHRINK_DEFAULT "
				"or NCCL_SHRINK_ABORT",
				(unsigned)flags);
	return ncclConfigCheck("ncclCommShrink", config);
}

ncclResult_t ncclCommShrink(ncclComm_t comm, int *excluded, int count, ncclComm_t *rest,
			    ncclConfig_t *config, int flags)
{
	struct shrinkArgs args = {.comm = comm, .count = count, .flags = flags, .out = rest};
	const size_t bytes = (size_t)(count > 0 ? count : 0) * sizeof(int);
	ncclResult_t result = checkShrink(comm, excluded, count, rest, config, flags);

	if (result != ncclSuccess)
		return result;
	args.choices = ncclConfigChoices(config, &comm->choices);
	args.excluded = malloc(bytes + 1);
	if (!args.excluded)
		return ncclFail(ncclSystemError, "no memory");
	if (bytes)
		memcpy(args.excluded, excluded, bytes);
	return ncclGroupDo(comm, runShrink, &args, sizeof(args));
}
