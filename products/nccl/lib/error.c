/* SPDX-License-Identifier: BSD-3-Clause */
/* error.c - results, and the sentence about the last failure */
#include "internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char sentence[512];

ncclResult_t ncclFail(ncclResult_t result, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	return result;
}

const char *ncclSentence(void)
{
	return sentence;
}

void ncclSetSentence(const char *text)
{
	snprintf(sentence, sizeof(sentence), "%s", text);
}

static ncclResult_t resultOf(ginResult_t result)
{
	switch (result) {
	case ginSuccess:
		return ncclSuccess;
	case ginErrorInvalidArgument:
		return ncclInvalidArgument;
	case ginErrorInvalidUsage:
	case ginErrorUnsupported:
	case ginErrorAbi:
		return ncclInvalidUsage;
	case ginErrorBootstrap:
	case ginErrorSystem:
		return ncclSystemError;
	case ginErrorCuda:
		return ncclUnhandledCudaError;
	case ginErrorTimeout:
		return ncclTimeout;
	case ginErrorAborted:
	case ginErrorPeer:
		return ncclRemoteError;
	}
	return ncclInternalError;
}

ncclResult_t ncclFromGin(ginResult_t result)
{
	if (result != ginSuccess)
		ncclSetSentence(ginGetLastError());
	return resultOf(result);
}

const char *ncclGetErrorString(ncclResult_t result)
{
	static const char *const words[ncclNumResults] = {
		"no error",
		"a call of the CUDA driver failed",
		"a call of the operating system failed, or the ranks did not find each other",
		"internal error",
		"invalid argument",
		"invalid usage, or not supported by libgin",
		"another rank failed or aborted",
		"in progress",
		"the time is over",
	};

	return (unsigned)result < ncclNumResults ? words[result] : "unknown result";
}

const char *ncclGetLastError(ncclComm_t comm)
{
	(void)comm;
	return sentence;
}
