/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trap.h - stores to pages that a program has read-only: done by the device, in the thread that
 * stored
 *
 * The page stays read-only, so no other thread's store slips through meanwhile.
 */
#ifndef MLX5DEV_TRAP_H
#define MLX5DEV_TRAP_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

/* Handles SIGSEGV; faults elsewhere go to the handler that was set before. Without the lock. */
void trapOpen(void);

/* Doorbell pages from `first` on are there. */
void trapAdd(void *address, size_t bytes, uint32_t first);

/* libc's sigaction(); a file that interposes sigaction() sets it. */
extern int (*trapSigaction)(int number, const struct sigaction *action, struct sigaction *before);

/*
 * A program's sigaction(SIGSEGV): takes effect for faults outside of doorbells. 0 before
 * trapOpen().
 */
int trapOthers(const struct sigaction *action, struct sigaction *before);

#endif
