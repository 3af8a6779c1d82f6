/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * word_lock.h - the lock of the words in one GPU's memory, which lanes get in order of arrival
 *
 * A lane holds the lock while its stream reads and writes a word. A lane tries to take it between
 * its other tasks, and some lanes try much more often than others: without an order they would keep
 * the lock. So a lane that finds the lock taken takes a ticket, and the lock is for the lane whose
 * ticket is served.
 *
 * That lane may not come back: its process may have died. When another lane that waits has seen the
 * lock free WORD_LOCK_LOOKS times, it passes over the ticket. A lane whose ticket was passed over
 * tries once without a ticket, and then takes a new one. Only `taken` excludes other lanes, so a
 * ticket that is passed over too early loses its place and nothing else.
 */
#ifndef GIN_PROXY_WORD_LOCK_H
#define GIN_PROXY_WORD_LOCK_H

#include <stdint.h>

#define WORD_LOCK_LOOKS 10000u /* by estimate a millisecond of a lane that does nothing else */

/* In host memory that all ranks of the host map. Zero at first. */
struct wordLock {
	uint64_t taken; /* 1: a lane changes a word. It stays 1 if the lane's process dies. */
	uint64_t next;	/* the number of the next ticket */
	uint64_t served;
};

/* A lane's ticket: the lane waits for one lock at a time. Zero at first. */
struct wordTicket {
	struct wordLock *lock; /* NULL: the lane does not wait */
	uint64_t number;
	uint64_t served; /* at the last load */
	uint32_t looks;	 /* with the lock free, since `served` is served */
};

/* 1: the lane has the lock. 0: the lane calls again later. */
int wordLockTry(struct wordLock *lock, struct wordTicket *ticket);

void wordLockRelease(struct wordLock *lock);

#endif
