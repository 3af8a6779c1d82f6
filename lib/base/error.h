/* SPDX-License-Identifier: BSD-3-Clause */
/* error.h - the sentence about the last failure of the calling thread */
#ifndef GIN_LIB_ERROR_H
#define GIN_LIB_ERROR_H

#include "gin.h"

/* Bytes of the longest sentence that is kept or sent to another rank, its NUL included. */
#define SENTENCE_BYTES 480

/* From here on, sentences of this thread begin with the call and the rank (-1: not known yet). */
void errorScope(const char *call, int rank);

/* The scope of this thread. Set it again after a function of the user, which may call libgin. */
void errorScopeNow(const char **call, int *rank);

/*
 * Logs the sentence and keeps it for ginGetLastError(), after the call and the rank. The first
 * function that knows of the failure calls this; its callers pass the result on. Returns `result`.
 */
ginResult_t fail(ginResult_t result, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * While `quiet` is not 0, sentences of this thread are logged as information, not as errors: the
 * caller has an alternative. Returns the previous value.
 */
int errorQuiet(int quiet);

/*
 * As fail(), for a failed call of the operating system. Returns ginErrorSystem. The sentence ends
 * with the meaning of errno and, where a limit is the cause, how to raise the limit.
 */
ginResult_t failErrno(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Keeps a sentence that another rank or thread has logged. Returns `result`. */
ginResult_t failAs(ginResult_t result, const char *sentence);

/* The result with which another rank has failed: ginErrorSystem if the number is no error. */
static inline ginResult_t errorReceived(uint32_t result)
{
	return result > ginSuccess && result <= ginErrorAbi ? (ginResult_t)result : ginErrorSystem;
}

#endif
