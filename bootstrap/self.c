/* SPDX-License-Identifier: BSD-3-Clause */
/* self.c - bootstrap of a single rank */
#include <stdio.h>

#include "bootstrap.h"

static int selfOpen(const struct bootstrapWanted *wanted, void **state, int *rank, int *nRanks,
		    char *why)
{
	(void)wanted;
	(void)why;
	*state = NULL;
	*rank = 0;
	*nRanks = 1;
	return 0;
}

static int selfExchange(void *state, const struct bootstrapEntry *mine, int parent,
			struct bootstrapEntry *root, struct bootstrapEntry *parents, char *why)
{
	(void)state;
	(void)parent;
	*root = *mine;
	*parents = *mine;
	return bootstrapCheckEntry(mine, mine, 0, why);
}

const struct bootstrapOps bootstrapSelfOps = {
	.name = "self",
	.open = selfOpen,
	.exchange = selfExchange,
};
