/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device_word.h - changes words in GPU memory, which CPUs do not reach: signals at offsets, atomics
 *
 * A stream reads the word into pinned memory, the CPU computes the new value, and the stream writes
 * it. The two copies are not atomic, so every rank has a lock for the words in its GPU memory
 * (word_locks.h): a lane that changes a word holds the lock of the word's rank.
 *
 * A lane changes one word at a time. All calls are made under the worker's lock.
 */
#ifndef GIN_PROXY_DEVICE_WORD_H
#define GIN_PROXY_DEVICE_WORD_H

#include <stdint.h>

#include "lib/gpu/device.h"
#include "word_lock.h"

struct proxyWork;

/* A change, as wordChange() makes it. `at` is mapped in this process. */
struct deviceWordOrder {
	struct wordLock *lock; /* of the word's rank; NULL: this rank does not reach it */
	char *at;
	uint64_t operand, compare;
	uint8_t op, bytes;
};

struct deviceWord {
	const struct device *device;
	cuStream stream; /* NULL: not open */
	uint64_t *line;	 /* pinned: the value; then how many steps the stream has done */
	uint64_t sent;	 /* steps that were submitted */
	struct wordTicket ticket;
	struct deviceWordOrder order; /* lock NULL: no change is in progress */
	uint64_t old;
	uint8_t isWriting, hasFailed;
};

/* Does nothing without a GPU. On an error deviceWordClose() frees what was made. */
ginResult_t deviceWordOpen(const struct device *device, struct deviceWord *word);

/* Waits for a change in progress. */
void deviceWordClose(struct deviceWord *word);

/* transportBusy: the lane changes a word, or the lock is taken; nothing was begun. */
ginResult_t deviceWordStart(struct deviceWord *word, const struct deviceWordOrder *order);

/*
 * transportBusy: the change is still in progress. Success: the word has changed, and *old is set.
 */
ginResult_t deviceWordStep(struct deviceWord *word, uint64_t *old);

/* Waits for the stream. deviceWordStep() then makes progress. */
void deviceWordDrain(struct deviceWord *word);

#endif
