/* SPDX-License-Identifier: BSD-3-Clause */
/* error.c - the sentence about the calling thread's last failure, and results in words */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>

#include "log.h"

static _Thread_local char sentence[SENTENCE_BYTES];
static _Thread_local const char *scopeCall = "libgin";
static _Thread_local int scopeRank = -1;

void errorScope(const char *call, int rank)
{
	scopeCall = call;
	scopeRank = rank;
}

static size_t writePrefix(char *out, size_t bytes)
{
	int length = scopeRank < 0 ? snprintf(out, bytes, "%s: ", scopeCall)
				   : snprintf(out, bytes, "%s: rank %d: ", scopeCall, scopeRank);
	return length < 0 ? 0 : (size_t)length;
}

ginResult_t fail(ginResult_t result, const char *format, ...)
{
	size_t used = writePrefix(sentence, sizeof(sentence));
	va_list args;

	va_start(args, format);
	vsnprintf(sentence + used, sizeof(sentence) - used, format, args);
	va_end(args);
	logWrite(logError, "%s", sentence);
	return result;
}

ginResult_t failAs(ginResult_t result, const char *other)
{
	snprintf(sentence, sizeof(sentence), "%s", other);
	return result;
}

const char *ginGetLastError(void)
{
	return sentence;
}

const char *ginGetErrorString(ginResult_t result)
{
	switch (result) {
	case ginSuccess:
		return "success";
	case ginErrorInvalidArgument:
		return "invalid argument";
	case ginErrorInvalidUsage:
		return "invalid usage";
	case ginErrorUnsupported:
		return "not supported here";
	case ginErrorBootstrap:
		return "bootstrap failed";
	case ginErrorSystem:
		return "operating system error";
	case ginErrorCuda:
		return "CUDA driver error";
	case ginErrorTimeout:
		return "timeout";
	case ginErrorAborted:
		return "aborted";
	case ginErrorPeer:
		return "a peer failed";
	case ginErrorAbi:
		return "built against another libgin";
	}
	return "unknown result";
}

ginResult_t ginGetVersion(int *version)
{
	errorScope("ginGetVersion", -1);
	if (!version)
		return fail(ginErrorInvalidArgument, "version is NULL");
	*version = GIN_VERSION;
	return ginSuccess;
}
