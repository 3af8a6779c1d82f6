/* SPDX-License-Identifier: BSD-3-Clause */
/* error.h - the sentence about the calling thread's last failure */
#ifndef GIN_LIB_ERROR_H
#define GIN_LIB_ERROR_H

#include "gin.h"

/* Longest sentence that is kept or travels to another rank, its end included. */
#define SENTENCE_BYTES 480

/* Says in which call, and on which rank (-1: not known yet), failures of this thread happen now. */
void errorScope(const char *call, int rank);

/*
 * The first function that knows the error calls this: logs the sentence and keeps it for
 * ginGetLastError(), with call and rank in front. Returns `result`.
 */
ginResult_t fail(ginResult_t result, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * As long as it is not 0 this thread's sentences are no errors to the user: there is another way.
 * Returns what it was.
 */
int errorQuiet(int quiet);

/*
 * The same for a call of the operating system: ginErrorSystem, and the sentence goes on with what
 * errno means and, where a limit is the cause, which one it is and how to raise it.
 */
ginResult_t failErrno(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Keeps a sentence that was logged elsewhere, on another rank or thread. Returns `result`. */
ginResult_t failAs(ginResult_t result, const char *sentence);

#endif
