/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * interrupt.h - ginConfig.poll: the caller's function that may end a collective
 *
 * Loops that wait for other ranks call it some ten times a second, on the caller's thread and
 * without a lock. Loops without a communicator use the interrupt of the thread.
 */
#ifndef GIN_LIB_INTERRUPT_H
#define GIN_LIB_INTERRUPT_H

#include <stdint.h>

#define INTERRUPT_MS 100

/* All zeros: nothing interrupts. */
struct interrupt {
	int (*poll)(void *arg); /* NULL: none */
	void *arg;
	uint64_t next; /* when to call it again: clockNow() */
	int ended;     /* it has returned nonzero, and is not called again */
};

/*
 * Sets the interrupt of this thread. Returns the previous one, which the caller sets again later.
 */
struct interrupt *interruptSet(struct interrupt *one);

/* Calls poll() if it is time to. Has it ever returned nonzero? */
int interruptEnded(struct interrupt *one);

/* interruptEnded() of this thread's interrupt. */
int interruptedHere(void);

/* Milliseconds to wait before the next interruptEnded() of `one`, at most `most`. */
int interruptMs(const struct interrupt *one, int most);

/* interruptMs() of this thread's interrupt. */
int interruptMsHere(int most);

#endif
