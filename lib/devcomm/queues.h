/* SPDX-License-Identifier: BSD-3-Clause */
/* queues.h - the send queues or rings of a device communicator, of every backend that has them */
#ifndef GIN_LIB_QUEUES_H
#define GIN_LIB_QUEUES_H

#include "lib/share.h"

/* The result of each backend's contextsOpen(); NULL: it has neither send queues nor rings. */
struct devCommQueues {
	void *of[BACKENDS_COUNT];
};

/*
 * Collective. `words`, per writer class: the memory of the device communicator's signals. It may
 * fail on some ranks only: the caller lets all ranks agree, and closes on failure.
 */
ginResult_t queuesOpen(ginComm_t comm, const char *call, ginResult_t mine,
		       const struct backendContexts *want, const struct sharedMemory *words,
		       struct devCommQueues *queues);

/* Lets the backends fill in their members for kernels. */
void queuesDescribe(ginComm_t comm, const struct devCommQueues *queues, ginDevComm *devComm);
void queuesDescribePeer(ginComm_t comm, const struct devCommQueues *queues, int peer,
			struct ginPeer *entry);

/* Has any backend queues? */
int queuesAny(const struct devCommQueues *queues);

/* Are `contexts` the queues of a backend? */
int queuesHave(const struct devCommQueues *queues, const void *contexts);

/* As backendOps.contextsStats and contextsPeerStats; without queues nothing is counted. */
ginResult_t queuesStats(ginComm_t comm, const struct devCommQueues *queues, uint32_t context,
			ginStats_t *stats);
ginResult_t queuesPeerStats(ginComm_t comm, const struct devCommQueues *queues, int peer,
			    ginPeerStats_t *stats);

/* As backendOps.contextsOutstanding; without queues 0. */
uint64_t queuesOutstanding(ginComm_t comm, const struct devCommQueues *queues, int peer,
			   uint64_t *completed);

/* As backendOps.contextsDrain and contextsClose. */
ginResult_t queuesDrain(ginComm_t comm, const struct devCommQueues *queues);
void queuesClose(ginComm_t comm, struct devCommQueues *queues);

#endif
