/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deadline.h - the limit of a call: all its steps together take GIN_TIMEOUT
 *
 * A call that waits in several steps begins a deadline at its entry. Each step, in any layer, waits
 * until deadlineHere(), on the thread that makes the call.
 */
#ifndef GIN_LIB_DEADLINE_H
#define GIN_LIB_DEADLINE_H

#include <stdint.h>

/*
 * Begins the deadline of a call of this thread, and a range with its name for profilers. A call
 * inside another one keeps the deadline of the outer call. Returns what deadlineEnd() takes.
 */
uint64_t deadlineBegin(void);
void deadlineEnd(uint64_t before);

/* As clockNow(): when the call of this thread ends; outside such calls, GIN_TIMEOUT from now on. */
uint64_t deadlineHere(void);

/*
 * For a step that gives up by itself, before a collective of the call: a tenth of GIN_TIMEOUT
 * earlier, so that the other ranks still learn the reason.
 */
uint64_t deadlineToTell(void);

#endif
