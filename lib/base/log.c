/* SPDX-License-Identifier: BSD-3-Clause */
/* log.c - lines on standard error, by GIN_LOG */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
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

/* Descriptor 2 when libgin was loaded; st_ino is 0 when it was closed. */
static struct stat loaded;

__attribute__((constructor)) static void seeStandardError(void)
{
	if (fstat(STDERR_FILENO, &loaded))
		loaded = (struct stat){0};
}

/*
 * A process may close descriptor 2, and another file may then get the number. A file that was not
 * descriptor 2 when libgin was loaded gets lines only if it looks like a log: a terminal, a file or
 * pipe that is open for writing only or for appending, or a regular file whose offset is at its
 * end. Sockets, shared memory and data files are open for reading and writing, at another offset.
 */
static int takesLines(void)
{
	struct stat seen;

	if (fstat(STDERR_FILENO, &seen))
		return 0;
	if (loaded.st_ino && seen.st_dev == loaded.st_dev && seen.st_ino == loaded.st_ino)
		return 1;
	int flags = fcntl(STDERR_FILENO, F_GETFL);
	if (flags < 0)
		return 0;
	if ((flags & O_ACCMODE) == O_WRONLY || (flags & O_APPEND) || isatty(STDERR_FILENO))
		return 1;
	/* Another thread may have written since fstat(): the offset is then past the size. */
	return S_ISREG(seen.st_mode) && lseek(STDERR_FILENO, 0, SEEK_CUR) >= seen.st_size;
}

/* Returns 0, or the error number: there is no place to report a failure. */
static int writeLine(const char *line, size_t length)
{
	while (write(STDERR_FILENO, line, length) < 0)
		if (errno != EINTR)
			return errno;
	return 0;
}

/*
 * A pipe or socket without a reader raises SIGPIPE in the thread that writes: removes this signal.
 */
static void writeWithoutSignal(const char *line, size_t length)
{
	static const struct timespec atOnce;
	sigset_t pipeSignal, pending, before;

	sigemptyset(&pipeSignal);
	sigaddset(&pipeSignal, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipeSignal, &before);
	sigpending(&pending);
	/* A signal that was pending before belongs to the program. */
	if (writeLine(line, length) == EPIPE && !sigismember(&pending, SIGPIPE))
		while (sigtimedwait(&pipeSignal, NULL, &atOnce) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* One write() for each line: lines of ranks that share a terminal do not mix. */
void logWrite(enum logLevel level, const char *format, ...)
{
	char line[1024];
	struct utsname name;
	va_list args;
	int reason = errno; /* the caller's, for %m */

	if (!logWants(level) || !takesLines()) {
		errno = reason;
		return;
	}
	if (uname(&name))
		name.nodename[0] = '\0';
	int used = snprintf(line, sizeof(line), "%.63s:%d:%ld gin %s ", name.nodename,
			    (int)getpid(), (long)syscall(SYS_gettid), levelName(level));
	va_start(args, format);
	errno = reason;
	int more = vsnprintf(line + used, sizeof(line) - (size_t)used - 1, format, args);
	va_end(args);
	size_t length = (size_t)used + (more < 0 ? 0 : (size_t)more);
	if (length > sizeof(line) - 2)
		length = sizeof(line) - 2;
	line[length++] = '\n';
	writeWithoutSignal(line, length);
	errno = reason;
}
