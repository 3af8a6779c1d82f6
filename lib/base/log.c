/* SPDX-License-Identifier: BSD-3-Clause */
/* log.c - lines on standard error, by GIN_LOG */
#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "param.h"

static const char *levelName(enum logLevel level)
{
	static const char *const names[] = {"", "ERROR", "WARN", "INFO", "STATS", "DEBUG"};
	return names[level];
}

int logWants(enum logLevel level)
{
	return (int)level <= paramChoice(paramLog);
}

/* One write() for each line: lines of ranks that share a terminal do not mix. */
void logWrite(enum logLevel level, const char *format, ...)
{
	char line[1024];
	struct utsname name;
	va_list args;

	if (!logWants(level))
		return;
	if (uname(&name))
		name.nodename[0] = '\0';
	int used = snprintf(line, sizeof(line), "%.63s:%d:%ld gin %s ", name.nodename,
			    (int)getpid(), (long)syscall(SYS_gettid), levelName(level));
	va_start(args, format);
	int more = vsnprintf(line + used, sizeof(line) - (size_t)used - 1, format, args);
	va_end(args);
	size_t length = (size_t)used + (more < 0 ? 0 : (size_t)more);
	if (length > sizeof(line) - 2)
		length = sizeof(line) - 2;
	line[length++] = '\n';
	ssize_t written = write(STDERR_FILENO, line, length);
	(void)written; /* there is nowhere to report a failure */
}
