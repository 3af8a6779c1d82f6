/* SPDX-License-Identifier: BSD-3-Clause */
/* uniqueid.c - bootstrap by a unique id, which the caller copies to all ranks */
#include "meeting.h"

static int idOpen(const struct bootstrapWanted *wanted, void **state, int *rank, int *nRanks,
		  char *why)
{
	struct meeting *meeting = meetingMake(wanted->uniqueId, NULL, wanted->seconds, why);

	if (!meeting)
		return -1;
	*rank = meeting->rank = wanted->rank;
	*nRanks = meeting->nRanks = wanted->nRanks;
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
