/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * word_locks.h - a lock for each rank: of the words in its GPU memory, see device_word.h
 *
 * A lock (word_lock.h) is in host memory of its rank, which all ranks of the host map. If the
 * holder dies, the communicator fails, and no lane waits for the lock.
 */
#ifndef GIN_PROXY_WORD_LOCKS_H
#define GIN_PROXY_WORD_LOCKS_H

#include "backends/peermem/peermem.h"
#include "word_lock.h"

struct wordLocks {
	const struct backendHost *host;
	const uint8_t *serves; /* [nRanks]: the ranks that map each other's memory */
	struct peermem *peermem;
	struct peermemWindow *window;
	void *own;
	struct wordLock **of; /* [nRanks]; NULL: not mapped */
};

/* Makes room for the locks. `serves` is symmetric, and outlives the locks. Not collective. */
ginResult_t wordLocksMake(const struct backendHost *host, const uint8_t *serves,
			  struct wordLocks *locks);

/*
 * Collective, on all ranks or none: makes this rank's lock and maps its peers' locks. `mine` is
 * this rank's result so far. All ranks return one result.
 */
ginResult_t wordLocksConnect(struct wordLocks *locks, const char *call, ginResult_t mine);

/* No lane uses the locks any more. */
void wordLocksClose(struct wordLocks *locks);

#endif
