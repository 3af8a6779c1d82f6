/* SPDX-License-Identifier: BSD-3-Clause */
/* comm_split.c - a communicator made from another, whose control plane serves as bootstrap */
#include "comm.h"

#include <stdio.h>

/* What each rank passes to ginCommSplit(). */
struct splitVote {
	int32_t color, key;
};

/* The part that will contain this rank; no ranks when it is in none. */
struct commSplit {
	ginComm_t comm;
	int rank, nRanks; /* in the part; nRanks 0: none */
	int *members;	  /* [nRanks]: ranks of `comm` */
};

static int splitOpen(const struct bootstrapWanted *wanted, void **state, int *rank, int *nRanks,
		     char *why)
{
	struct commSplit *split = wanted->allgatherArg;

	(void)why;
	*rank = split->rank;
	*nRanks = split->nRanks;
	*state = split;
	return 0;
}

/* One collective of the communicator that is split serves all its parts. */
static int splitExchange(void *state, const struct bootstrapEntry *mine, int parent,
			 struct bootstrapEntry *root, struct bootstrapEntry *parents, char *why)
{
	const struct commSplit *split = state;
	struct bootstrapEntry *all = calloc((size_t)split->comm->nRanks, sizeof(*all));
	ginResult_t result = (ginResult_t)mine->refused;

	if (result == ginSuccess && !all)
		result = fail(ginErrorSystem, "no memory");
	result = controlAllgather(&split->comm->control, "ginCommSplit", result, mine, all,
				  sizeof(*mine));
	if (result != ginSuccess)
		snprintf(why, BOOTSTRAP_WHY, "%s", ginGetLastError());
	else if (split->nRanks) {
		*root = all[split->members[0]];
		*parents = all[split->members[parent]];
	}
	free(all);
	return result;
}

/* The exchange has sent the nonce of the part's rank 0 in clear. */
static void splitDerive(const void *state, const void *nonce, size_t bytes,
			uint8_t key[BOOTSTRAP_KEY])
{
	authDerive(((const struct commSplit *)state)->comm->control.key, nonce, bytes, key);
}

/* A rank that dies is found by the communicator that is split, whose ranks are all connected. */
static int splitLost(void *state, char *why)
{
	ginResult_t lost = controlError(&((const struct commSplit *)state)->comm->control);

	if (lost != ginSuccess)
		snprintf(why, BOOTSTRAP_WHY, "%s", ginGetLastError());
	return lost;
}

static void splitClose(void *state)
{
	(void)state;
}

static const struct bootstrapOps splitOps = {
	.name = "split",
	.open = splitOpen,
	.exchange = splitExchange,
	.lost = splitLost,
	.derive = splitDerive,
	.close = splitClose,
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
	int me = split->comm->rank;

	for (int r = 0; r < split->comm->nRanks; r++)
		if (votes[r].color == votes[me].color)
			split->members[split->nRanks++] = r;
	qsort_r(split->members, (size_t)split->nRanks, sizeof(int), compareMembers, votes);
	while (split->members[split->rank] != me)
		split->rank++;
}

static ginResult_t gatherVotes(struct commSplit *split, ginResult_t mine,
			       const struct splitVote *vote)
{
	size_t n = (size_t)split->comm->nRanks;
	struct splitVote *votes = calloc(n, sizeof(*votes));

	split->members = calloc(n, sizeof(*split->members));
	if (mine == ginSuccess && (!votes || !split->members))
		mine = fail(ginErrorSystem, "no memory");
	mine = controlAllgather(&split->comm->control, "ginCommSplit", mine, vote, votes,
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
	struct commSplit split = {.comm = comm};
	struct splitVote vote = {color, key};
	ginComm_t made = NULL;

	if (result != ginSuccess)
		return result;
	if (!part)
		result = fail(ginErrorInvalidArgument, "part is NULL");
	else if (color < 0 && color != GIN_NO_COLOR)
		result = fail(ginErrorInvalidArgument,
			      "color is %d: must be 0 or more, or GIN_NO_COLOR", color);
	result = gatherVotes(&split, result, &vote);
	if (result == ginSuccess) /* on all ranks; later steps may fail in one part alone */
		windowsRelease(comm);
	struct commStart start = {.device = comm->device.ordinal,
				  .forced = comm->forced,
				  .copyEngines = comm->copyEngines,
				  .interrupt = {.poll = comm->control.interrupt.poll,
						.arg = comm->control.interrupt.arg},
				  .bootstrap = &splitOps,
				  .wanted = {.allgatherArg = &split}};
	if (result == ginSuccess)
		result = split.nRanks ? commOpen("ginCommSplit", &start, &made) : stayOut(&split);
	free(split.members);
	if (result == ginSuccess)
		*part = made;
	return result;
}
