/* SPDX-License-Identifier: BSD-3-Clause */
/* error.c - the sentence about a thread's last failure */
#include "ep.h"

#include <stdio.h>

static __thread char sentence[512];

const char *ginEpGetLastError(void)
{
	return sentence;
}

ginResult_t epFail(ginResult_t result, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	return result;
}

ginResult_t epFailGin(ginResult_t result, const char *what)
{
	return epFail(result, "%s: %s", what, ginGetLastError());
}
