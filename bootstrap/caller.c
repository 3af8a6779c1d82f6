/* SPDX-License-Identifier: BSD-3-Clause */
/* caller.c - bootstrap by the caller's own allgather */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap.h"

static int callerOpen(const struct bootstrapWanted *wanted, void **state, int *rank, int *nRanks,
		      char *why)
{
	struct bootstrapWanted *caller = malloc(sizeof(*caller));

	if (!caller) {
		snprintf(why, BOOTSTRAP_WHY, "no memory");
		return -1;
	}
	*caller = *wanted;
	*rank = caller->rank;
	*nRanks = caller->nRanks;
	*state = caller;
	return 0;
}

/* There is no time limit here: the caller's allgather may have its own. */
static int callerExchange(void *state, const struct bootstrapEntry *mine, int parent,
			  struct bootstrapEntry *root, struct bootstrapEntry *parents, char *why)
{
	const struct bootstrapWanted *caller = state;
	struct bootstrapEntry *all = calloc((size_t)caller->nRanks, sizeof(*all));
	int result = -1;

	if (!all) {
		snprintf(why, BOOTSTRAP_WHY, "no memory for the entries of %d ranks",
			 caller->nRanks);
		return -1;
	}
	int returned = caller->allgather(caller->allgatherArg, mine, all, sizeof(*all));
	if (returned) {
		snprintf(why, BOOTSTRAP_WHY, "config.allgather returned %d", returned);
		goto out;
	}
	result = 0;
	for (int r = 0; r < caller->nRanks && !result; r++)
		result = bootstrapCheckEntry(mine, &all[r], r, why);
	*root = all[0];
	*parents = all[parent];
out:
	free(all);
	return result;
}

const struct bootstrapOps bootstrapCallerOps = {
	.name = "caller",
	.open = callerOpen,
	.exchange = callerExchange,
	.close = free,
};
