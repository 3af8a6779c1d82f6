/* SPDX-License-Identifier: BSD-3-Clause */
/* error.c - the sentence about a thread's last failure */
#include "symm.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char sentence[768];

const char *ginSymmGetLastError(void)
{
	return sentence;
}

ginResult_t symmFail(ginResult_t result, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	return result;
}

ginResult_t symmFailGin(ginResult_t result, const char *what)
{
	return symmFail(result, "%s: %s", what, ginGetLastError());
}
