/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stalled.c - ranks to which posts are outstanding, and none completes
 *
 * Flushes, waits for counters and old values, and calls that need room in a ring or a send queue
 * wait for completions. Kernels do not tell the host of these waits, which would cost them
 * registers: the host sees that nothing completes, and to which rank. told.c warns.
 */
#include "stalled.h"

#include "devcomm.h"

void stalledLook(ginComm_t comm, struct devComm *dc, uint64_t now)
{
	for (int r = 0; r < comm->nRanks && queuesAny(&dc->queues); r++) {
		struct stalled *s = &dc->stalled[r];
		uint64_t completed = 0;
		uint64_t outstanding = queuesOutstanding(comm, &dc->queues, r, &completed);

		if (!outstanding || !s->outstanding || completed != s->completed) {
			s->since = now;
			s->isWarned = 0;
		}
		s->outstanding = outstanding;
		s->completed = completed;
		s->looked = now;
	}
}

uint64_t stalledFor(const struct devComm *dc, int peer)
{
	const struct stalled *s = &dc->stalled[peer];

	return s->outstanding ? s->looked - s->since : 0;
}

void stalledFormat(const struct ginComm *comm, const struct devComm *dc, int peer,
		   const char *state, char *out, size_t bytes)
{
	const struct stalled *s = &dc->stalled[peer];

	snprintf(out, bytes,
		 "%llu posts of device communicator %llu to rank %d (host %s), which %s, have not "
		 "completed: flushes, counters and calls that need room wait for them",
		 (unsigned long long)s->outstanding, (unsigned long long)dc->device.id, peer,
		 comm->ranks[peer].host, state);
}
