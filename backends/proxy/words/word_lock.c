/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * word_lock.c - the lock of the words in one GPU's memory
 *
 * `next` and `served` only choose the lane that tries, so accesses to them are relaxed: `taken`
 * orders the words.
 */
#include "word_lock.h"

#include <stddef.h>

static uint64_t look(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

/* Serves the ticket after `served`, if no other lane has done so. */
static void serveAfter(struct wordLock *lock, uint64_t served)
{
	__atomic_compare_exchange_n(&lock->served, &served, served + 1, 0, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
}

static void takeTicket(struct wordLock *lock, struct wordTicket *ticket)
{
	*ticket = (struct wordTicket){
		.lock = lock, .number = __atomic_fetch_add(&lock->next, 1, __ATOMIC_RELAXED)};
}

/* The lane waits, and the ticket of another lane is served. */
static void countLook(struct wordLock *lock, struct wordTicket *ticket, uint64_t served)
{
	if (ticket->served != served)
		ticket->looks = 0;
	ticket->served = served;
	if (!look(&lock->taken) && ++ticket->looks == WORD_LOCK_LOOKS)
		serveAfter(lock, served);
}

static int take(struct wordLock *lock)
{
	/*
	 * Acquire: pairs with wordLockRelease(). The stream reads what the last holder's stream
	 * wrote.
	 */
	return !look(&lock->taken) && !__atomic_exchange_n(&lock->taken, 1, __ATOMIC_ACQUIRE);
}

/* The lane has no ticket of this lock: it tries if no lane waits. */
static int tryAtOnce(struct wordLock *lock, struct wordTicket *ticket)
{
	if (look(&lock->served) == look(&lock->next) && take(lock))
		return 1;
	if (!ticket->lock)
		takeTicket(lock, ticket);
	return 0;
}

int wordLockTry(struct wordLock *lock, struct wordTicket *ticket)
{
	const uint64_t served = look(&lock->served);

	if (ticket->lock != lock)
		return tryAtOnce(lock, ticket);
	if (served < ticket->number) {
		countLook(lock, ticket, served);
		return 0;
	}
	if (take(lock)) {
		serveAfter(lock, ticket->number);
		ticket->lock = NULL;
		return 1;
	}
	if (served > ticket->number)
		takeTicket(lock, ticket);
	return 0;
}

void wordLockRelease(struct wordLock *lock)
{
	/* Release: pairs with the acquire in take(). */
	__atomic_store_n(&lock->taken, 0, __ATOMIC_RELEASE);
}
