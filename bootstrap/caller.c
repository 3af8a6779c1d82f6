/* SPDX-License-Identifier: BSD-3-Clause */
/* caller.c - by the caller's own allgather */
#include <stdio.h>
#include <stdlib.h>

#include "bootstrap.h"

static int callerOpen(void *arg, void **state, int *rank, int *nRanks, char *why)
{
	struct bootstrapCaller *caller = malloc(sizeof(*caller));

	if (!caller) {
		snprintf(why, BOOTSTRAP_WHY, "no memory");
		return -1;
	}
	*caller = *(const struct bootstrapCaller *)arg;
	*rank = caller->rank;
	*nRanks = caller->nRanks;
	*state = caller;
	return 0;
}

/* Its time is the caller's own affair. */
static int callerAllgather(void *state, const void *in, void *out, size_t bytes, unsigned seconds,
			   char *why)
{
	const struct bootstrapCaller *caller = state;
	int result = caller->allgather(caller->arg, in, out, bytes);

	(void)seconds;
	if (!result)
		return 0;
	snprintf(why, BOOTSTRAP_WHY, "config.allgather returned %d", result);
	return -1;
}

const struct bootstrapOps bootstrapCallerOps = {
	.size = sizeof(bootstrapCallerOps),
	.name = "caller",
	.open = callerOpen,
	.allgather = callerAllgather,
	.close = free,
};
