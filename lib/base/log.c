/* SPDX-License-Identifier: BSD-3-Clause */
/* log.c - lines on standard error or in a file, by GIN_LOG and GIN_LOG_FILE */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "error.h"
#include "file.h"
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

static int out = STDERR_FILENO; /* or the file of GIN_LOG_FILE */

/* Returns 0, or the error number: there is no place to report a failure. */
static int writeLine(const char *line, size_t length)
{
	while (write(__atomic_load_n(&out, __ATOMIC_RELAXED), line, length) < 0)
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

static void hostName(char name[64])
{
	struct utsname system;

	snprintf(name, 64, "%.63s", uname(&system) ? "" : system.nodename);
}

/* Appends what `letter` means in GIN_LOG_FILE; an unknown letter stays, with its %. */
static size_t appendPart(char *at, size_t room, char letter, int rank)
{
	char host[64];

	hostName(host);
	int length = letter == 'h'   ? snprintf(at, room, "%s", host)
		     : letter == 'r' ? snprintf(at, room, "%d", rank)
		     : letter == 'p' ? snprintf(at, room, "%d", (int)getpid())
		     : letter == '%' ? snprintf(at, room, "%%")
				     : snprintf(at, room, "%%%c", letter);
	return length < 0 ? 0 : (size_t)length;
}

int logPath(char *path, const char *pattern, int rank)
{
	size_t used = 0;

	for (; *pattern && used < PATH_MAX; pattern++) {
		if (*pattern == '%' && pattern[1])
			used += appendPart(path + used, PATH_MAX - used, *++pattern, rank);
		else
			path[used++] = *pattern;
	}
	if (used >= PATH_MAX)
		return 0;
	path[used] = '\0';
	return 1;
}

/* Appends, so that processes whose paths are equal share a file. Returns -1 and errno. */
static int openFile(const char *pattern, int rank)
{
	char path[PATH_MAX];

	errno = ENAMETOOLONG;
	if (!logPath(path, pattern, rank))
		return -1;
	return fileAboveStandard(open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
}

void logRank(int rank)
{
	static int opener; /* a forked child opens a file of its own */
	const char *pattern = paramText(paramLogFile);
	int pid = (int)getpid();

	if (!*pattern || !logWants(logError) ||
	    __atomic_exchange_n(&opener, pid, __ATOMIC_RELAXED) == pid)
		return;
	int fd = openFile(pattern, rank);
	if (fd < 0)
		logWrite(logWarn, "GIN_LOG_FILE=%s cannot be opened: %m", pattern);
	else
		__atomic_store_n(&out, fd, __ATOMIC_RELAXED);
}

/* "2026-01-31T09:05:00.123456Z host:pid:tid rank 3 gin LEVEL ", without a rank that is unknown. */
static size_t writeHead(char *line, size_t bytes, enum logLevel level)
{
	char host[64], time[32] = "", who[24] = "";
	struct timespec now;
	const char *call;
	struct tm utc;
	int rank;

	hostName(host);
	clock_gettime(CLOCK_REALTIME, &now);
	if (gmtime_r(&now.tv_sec, &utc))
		strftime(time, sizeof(time), "%Y-%m-%dT%H:%M:%S", &utc);
	errorScopeNow(&call, &rank);
	if (rank >= 0)
		snprintf(who, sizeof(who), " rank %d", rank);
	return (size_t)snprintf(line, bytes, "%s.%06ldZ %s:%d:%ld%s gin %s ", time,
				now.tv_nsec / 1000, host, (int)getpid(), (long)syscall(SYS_gettid),
				who, levelName(level));
}

static int isWritten(enum logLevel level)
{
	return logWants(level) &&
	       (__atomic_load_n(&out, __ATOMIC_RELAXED) != STDERR_FILENO || takesLines());
}

/* One write() for each line: lines of ranks that share a terminal do not mix. */
void logWrite(enum logLevel level, const char *format, ...)
{
	char line[1024];
	va_list args;
	int reason = errno; /* the caller's, for %m */

	if (!isWritten(level)) {
		errno = reason;
		return;
	}
	size_t used = writeHead(line, sizeof(line), level);
	va_start(args, format);
	errno = reason;
	int more = vsnprintf(line + used, sizeof(line) - used - 1, format, args);
	va_end(args);
	size_t length = used + (more < 0 ? 0 : (size_t)more);
	if (length > sizeof(line) - 2)
		length = sizeof(line) - 2;
	line[length++] = '\n';
	writeWithoutSignal(line, length);
	errno = reason;
}
