/* SPDX-License-Identifier: BSD-3-Clause */
/* comm_split.c - a communicator made from another, whose control plane serves as bootstrap */
#include "comm_from.h"

#include <stdio.h>

#include "lib/base/deadline.h"

/* The arguments of a rank to ginCommSplit(). */
struct splitVote {
	int32_t color, key;
};

/* The part that will contain this rank. */
struct commSplit {
	struct commFrom from; /* first; from.nRanks 0: this rank is in no part */
	int *members;	      /* [from.nRanks]: ranks of from.comm */
};

/* One collective of the older communicator serves all its parts. */
static int splitExchange(void *state, const struct bootstrapEntry *mine, int parent,
			 struct bootstrapEntry *root, struct bootstrapEntry *parents, char *why)
{
	const struct commSplit *split = state;
	struct bootstrapEntry *all = calloc((size_t)split->from.comm->nRanks, sizeof(*all));
	ginResult_t result = (ginResult_t)mine->refused;

	if (result == ginSuccess && !all)
		result = fail(ginErrorSystem, "no memory");
	result = controlAllgather(&split->from.comm->control, "ginCommSplit", result, mine, all,
				  sizeof(*mine));
	if (result != ginSuccess)
		snprintf(why, BOOTSTRAP_WHY, "%s", ginGetLastError());
	else if (split->from.nRanks) {
		*root = all[split->members[0]];
		*parents = all[split->members[parent]];
	}
	free(all);
	return result;
}

/* The older communicator, whose ranks are all connected, finds a rank that dies. */
static int splitLost(void *state, char *why)
{
	ginResult_t lost = controlError(&((const struct commSplit *)state)->from.comm->control);

	if (lost != ginSuccess)
		snprintf(why, BOOTSTRAP_WHY, "%s", ginGetLastError());
	return lost;
}

static const struct bootstrapOps splitOps = {
	.name = "split",
	.open = fromOpen,
	.exchange = splitExchange,
	.lost = splitLost,
	.derive = fromDerive,
	.isLocal = fromIsLocal,
};

/* By key, then rank. */
static int compareMembers(const void *a, const void *b, void *votesAt)
{
	const struct splitVote *votes = votesAt;
	int x = *(const int *)a, y = *(const int *)b;

	if (votes[x].key != votes[y].key)
		return votes[x].key < votes[y].key ? -1 : 1;
	return x < y ? -1 : x > y;
}

static void findMembers(struct commSplit *split, struct splitVote *votes)
{
	int me = split->from.comm->rank;

	for (int r = 0; r < split->from.comm->nRanks; r++)
		if (votes[r].color == votes[me].color)
			split->members[split->from.nRanks++] = r;
	qsort_r(split->members, (size_t)split->from.nRanks, sizeof(int), compareMembers, votes);
	while (split->members[split->from.rank] != me)
		split->from.rank++;
}

static ginResult_t gatherVotes(struct commSplit *split, ginResult_t mine,
			       const struct splitVote *vote)
{
	size_t n = (size_t)split->from.comm->nRanks;
	struct splitVote *votes = calloc(n, sizeof(*votes));

	split->members = calloc(n, sizeof(*split->members));
	if (mine == ginSuccess && (!votes || !split->members))
		mine = fail(ginErrorSystem, "no memory");
	mine = controlAllgather(&split->from.comm->control, "ginCommSplit", mine, vote, votes,
				sizeof(*vote));
	if (mine == ginSuccess && vote->color != GIN_NO_COLOR)
		findMembers(split, votes);
	free(votes);
	return mine;
}

/* A rank outside every part still takes part in the exchange, which is collective. */
static ginResult_t stayOut(struct commSplit *split)
{
	struct bootstrapEntry entry = {.magic = IDENTITY_MAGIC};
	char why[BOOTSTRAP_WHY] = "";

	return (ginResult_t)splitExchange(split, &entry, 0, NULL, NULL, why);
}

ginResult_t ginCommSplit(ginComm_t comm, int color, int key, ginComm_t *part)
{
	ginResult_t result = commEnter(comm, "ginCommSplit");
	struct commSplit split = {.from = {.comm = comm}};
	struct splitVote vote = {color, key};
	ginComm_t made = NULL;

	if (result != ginSuccess)
		return result;
	if (!part)
		result = fail(ginErrorInvalidArgument, "part is NULL");
	else if (color < 0 && color != GIN_NO_COLOR)
		result = fail(ginErrorInvalidArgument,
			      "color is %d: must be 0 or more, or GIN_NO_COLOR", color);
	uint64_t before = deadlineBegin();
	result = gatherVotes(&split, result, &vote);
	if (result == ginSuccess) /* on all ranks; later steps may fail in one part alone */
		windowsRelease(comm);
	if (result == ginSuccess)
		result = split.from.nRanks
				 ? commFromOpen("ginCommSplit", &split.from, &splitOps, &made)
				 : stayOut(&split);
	deadlineEnd(before);
	free(split.members);
	if (result == ginSuccess)
		*part = made;
	return result;
}
