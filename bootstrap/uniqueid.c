/* SPDX-License-Identifier: BSD-3-Clause */
/* uniqueid.c - bootstrap by a unique id, which the caller copies to all ranks */
#include <stdio.h>
#include <stdlib.h>

#include "meeting.h"

static int idOpen(const struct bootstrapWanted *wanted, void **state, int *rank, int *nRanks,
		  char *why)
{
	struct meeting *meeting = calloc(1, sizeof(*meeting));

	if (!meeting) {
		snprintf(why, BOOTSTRAP_WHY, "no memory");
		return -1;
	}
	*meeting = (struct meeting){.contact = *wanted->uniqueId,
				    .rank = wanted->rank,
				    .nRanks = wanted->nRanks,
				    .watch = -1,
				    .seconds = wanted->seconds};
	*rank = wanted->rank;
	*nRanks = wanted->nRanks;
	*state = meeting;
	return 0;
}

const struct bootstrapOps bootstrapUniqueIdOps = {
	.name = "unique id",
	.open = idOpen,
	.exchange = meetingExchange,
	.watch = meetingWatch,
	.lost = meetingLost,
	.joined = meetingJoined,
	.derive = meetingDerive,
	.close = meetingClose,
};
