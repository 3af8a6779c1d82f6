/* SPDX-License-Identifier: BSD-3-Clause */
/* share.h - memory that the backends in use make reachable for the peers */
#ifndef GIN_LIB_SHARE_H
#define GIN_LIB_SHARE_H

#include "backends.h"

/* For the backends of every writer class. */
#define SHARE_ALL (-1)

/* The object of each backend for the memory; NULL: none. */
struct sharedMemory {
	void *window[BACKENDS_COUNT];
};

/*
 * Collective; `call` and `mine` as controlAllgather's. Shares the memory by the backends of one
 * writer class, or of SHARE_ALL. `bytes`, [nRanks], gets the sizes at all ranks; it may be NULL. It
 * may fail on some ranks only: the caller lets all ranks agree, and releases on failure.
 */
ginResult_t shareMemory(ginComm_t comm, const char *call, ginResult_t mine,
			const struct memory *memory, int writer, struct sharedMemory *shared,
			uint64_t *bytes);

/* Adds the exchange of shareMemory(). */
void sharePlan(struct plan *plan, enum planPhase phase);

/* Not collective: for memory that is a source of this rank's transfers only. */
ginResult_t shareLocal(ginComm_t comm, const struct memory *memory, struct sharedMemory *shared);

/* Let network backends fill in their members of a window's table, and of one peer's entry. */
void shareDescribe(ginComm_t comm, const struct sharedMemory *shared, struct ginWindowTable *table);
void shareDescribePeer(ginComm_t comm, const struct sharedMemory *shared, int peer,
		       struct ginWindowPeer *entry);

/* Where this rank loads and stores the memory of `peer`, or NULL. */
char *shareAddress(ginComm_t comm, const struct sharedMemory *shared, int peer);

/* Not collective; also after a failure. */
void shareRelease(ginComm_t comm, struct sharedMemory *shared);

/* Is a backend in use that raises signals as this writer class? */
int shareHasWriter(ginComm_t comm, int writer);

#endif
