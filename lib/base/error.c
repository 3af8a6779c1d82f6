/* SPDX-License-Identifier: BSD-3-Clause */
/* error.c - the sentence about the last failure of the calling thread, and results in words */
#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "log.h"

static _Thread_local char sentence[SENTENCE_BYTES];
static _Thread_local const char *scopeCall = "libgin";
static _Thread_local int scopeRank = -1;
static _Thread_local int isQuiet;

void errorScope(const char *call, int rank)
{
	scopeCall = call;
	scopeRank = rank;
}

void errorScopeNow(const char **call, int *rank)
{
	*call = scopeCall;
	*rank = scopeRank;
}

int errorQuiet(int quiet)
{
	int before = isQuiet;

	isQuiet = quiet;
	return before;
}

static size_t writePrefix(char *out, size_t bytes)
{
	int length = scopeRank < 0 ? snprintf(out, bytes, "%s: ", scopeCall)
				   : snprintf(out, bytes, "%s: rank %d: ", scopeCall, scopeRank);
	return length < 0 ? 0 : (size_t)length;
}

/* Without the rank, which the head of a line in the log names. */
static void logSentence(void)
{
	const size_t prefix = writePrefix(NULL, 0);

	logWrite(isQuiet ? logInfo : logError, "%s: %s", scopeCall, sentence + prefix);
}

/* Returns the length of the sentence, which is cut where it does not fit. */
static size_t writeSentence(const char *format, va_list args)
{
	size_t used = writePrefix(sentence, sizeof(sentence));

	vsnprintf(sentence + used, sizeof(sentence) - used, format, args);
	return strlen(sentence);
}

ginResult_t fail(ginResult_t result, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	writeSentence(format, args);
	va_end(args);
	logSentence();
	return result;
}

static unsigned long long limitOf(int resource)
{
	struct rlimit limit = {0};

	getrlimit(resource, &limit);
	return limit.rlim_cur;
}

/* The remedy when a limit of the system is the cause; otherwise "". */
static void writeRemedy(char *out, size_t bytes, int reason)
{
	out[0] = '\0';
	if (reason == EMFILE)
		snprintf(out, bytes, ": this process may open %llu, raise ulimit -n",
			 limitOf(RLIMIT_NOFILE));
	else if (reason == ENFILE)
		snprintf(out, bytes, ": raise fs.file-max by sysctl");
	else if (reason == ENOMEM && limitOf(RLIMIT_AS) != RLIM_INFINITY)
		snprintf(out, bytes, ": this process may map %llu bytes, raise ulimit -v",
			 limitOf(RLIMIT_AS));
	else if (reason == ENOMEM)
		snprintf(out, bytes, ": ask for less, or raise vm.max_map_count by sysctl");
	else if (reason == EFBIG)
		snprintf(out, bytes, ": raise ulimit -f");
	else if (reason == EAGAIN && limitOf(RLIMIT_AS) != RLIM_INFINITY) /* a thread's stack */
		snprintf(out, bytes, ": raise ulimit -u, or ulimit -v, which is %llu bytes",
			 limitOf(RLIMIT_AS));
	else if (reason == EAGAIN)
		snprintf(out, bytes, ": raise ulimit -u");
}

ginResult_t failErrno(const char *format, ...)
{
	int reason = errno;
	char remedy[96];
	va_list args;

	va_start(args, format);
	size_t used = writeSentence(format, args);
	va_end(args);
	writeRemedy(remedy, sizeof(remedy), reason);
	errno = reason;
	snprintf(sentence + used, sizeof(sentence) - used, ": %m%s", remedy);
	logSentence();
	return ginErrorSystem;
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
