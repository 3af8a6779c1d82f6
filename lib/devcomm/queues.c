/* SPDX-License-Identifier: BSD-3-Clause */
/* queues.c - the send queues or rings of a device communicator, of every backend that has them */
#include "queues.h"

#include "lib/comm.h"

static ginResult_t openContexts(struct backendUse *use, const char *call, ginResult_t mine,
				const struct backendContexts *want, void *words, void **out)
{
	struct backendContexts own = *want;

	own.words = words;
	return use->ops->contextsOpen(use->state, call, mine, &own, out);
}

ginResult_t queuesOpen(ginComm_t comm, const char *call, ginResult_t mine,
		       const struct backendContexts *want, const struct sharedMemory *words,
		       struct devCommQueues *queues)
{
	*queues = (struct devCommQueues){{NULL}};
	for (int b = 0; b < BACKENDS_COUNT; b++) {
		struct backendUse *use = &comm->backend[b];
		if (use->state && use->ops->contextsOpen)
			mine = openContexts(use, call, mine, want,
					    words[use->ops->writer].window[b], &queues->of[b]);
	}
	return mine;
}

int queuesAny(const struct devCommQueues *queues)
{
	for (int b = 0; b < BACKENDS_COUNT; b++)
		if (queues->of[b])
			return 1;
	return 0;
}

int queuesHave(const struct devCommQueues *queues, const void *contexts)
{
	for (int b = 0; b < BACKENDS_COUNT; b++)
		if (queues->of[b] == contexts)
			return 1;
	return 0;
}

void queuesDescribe(ginComm_t comm, const struct devCommQueues *queues, ginDevComm *devComm)
{
	for (int b = 0; b < BACKENDS_COUNT; b++)
		if (queues->of[b])
			comm->backend[b].ops->contextsDescribe(queues->of[b], devComm);
}

void queuesDescribePeer(ginComm_t comm, const struct devCommQueues *queues, int peer,
			struct ginPeer *entry)
{
	for (int b = 0; b < BACKENDS_COUNT; b++)
		if (queues->of[b] && comm->backend[b].ops->contextsDescribePeer)
			comm->backend[b].ops->contextsDescribePeer(queues->of[b], peer, entry);
}

/* Only network backends have queues, and only one network backend is in use. */
ginResult_t queuesStats(ginComm_t comm, const struct devCommQueues *queues, uint32_t context,
			ginStats_t *stats)
{
	for (int b = 0; b < BACKENDS_COUNT; b++)
		if (queues->of[b])
			return comm->backend[b].ops->contextsStats(queues->of[b], context, stats);
	return ginSuccess;
}

ginResult_t queuesPeerStats(ginComm_t comm, const struct devCommQueues *queues, int peer,
			    ginPeerStats_t *stats)
{
	for (int b = 0; b < BACKENDS_COUNT; b++)
		if (queues->of[b])
			return comm->backend[b].ops->contextsPeerStats(queues->of[b], peer, stats);
	return ginSuccess;
}

uint64_t queuesOutstanding(ginComm_t comm, const struct devCommQueues *queues, int peer,
			   uint64_t *completed)
{
	for (int b = 0; b < BACKENDS_COUNT; b++)
		if (queues->of[b])
			return comm->backend[b].ops->contextsOutstanding(queues->of[b], peer,
									 completed);
	return 0;
}

ginResult_t queuesDrain(ginComm_t comm, const struct devCommQueues *queues)
{
	ginResult_t result = ginSuccess;

	for (int b = 0; b < BACKENDS_COUNT && result == ginSuccess; b++)
		if (queues->of[b])
			result = comm->backend[b].ops->contextsDrain(comm->backend[b].state,
								     queues->of[b]);
	return result;
}

void queuesClose(ginComm_t comm, struct devCommQueues *queues)
{
	for (int b = BACKENDS_COUNT - 1; b >= 0; b--)
		if (queues->of[b])
			comm->backend[b].ops->contextsClose(comm->backend[b].state, queues->of[b]);
	*queues = (struct devCommQueues){{NULL}};
}
