/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_log.c - where log lines go: to standard error, to no other file that has its number, and to
 * GIN_LOG_FILE
 *
 * Each test runs in a process of its own, whose exit status shows a failure: it has no standard
 * error to write to.
 */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "expect.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/base/net/socket.h"
#include "lib/gpu/memory.h"
#include "pinning.h"

static off_t bytesOf(int fd)
{
	struct stat file;

	EXPECT(!fstat(fd, &file));
	return file.st_size;
}

/* A file without a name, opened with `flags`, becomes descriptor 2. Returns another descriptor. */
static int redirect(int flags)
{
	char name[] = "/tmp/unit_log-XXXXXX", other[64];
	int fd = mkstemp(name);

	EXPECT(fd >= 0);
	snprintf(other, sizeof(other), "/proc/self/fd/%d", fd);
	int again = open(other, flags);
	EXPECT(again >= 0);
	EXPECT_EQUAL(dup2(again, STDERR_FILENO), STDERR_FILENO);
	close(again);
	unlink(name);
	return fd;
}

/* `content`: the bytes of the file before libgin writes. */
static void expectLine(int flags, off_t content, int expected)
{
	int file = redirect(flags);

	EXPECT(!ftruncate(file, content));
	logWrite(logError, "a line");
	EXPECT_EQUAL(bytesOf(file) > content, expected);
	close(file);
}

/* Redirects standard error as freopen(), a shell or a daemon does. */
static void toLogFiles(void)
{
	expectLine(O_WRONLY, 0, 1);
	expectLine(O_WRONLY | O_APPEND, 100, 1);
	expectLine(O_RDWR | O_APPEND, 100, 1);
	expectLine(O_RDWR, 0, 1); /* as programs capture standard error: a temporary file */
}

static void toPipes(void)
{
	int ends[2];
	char first;

	EXPECT(!pipe2(ends, O_NONBLOCK));
	EXPECT_EQUAL(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	logWrite(logError, "a line");
	EXPECT_EQUAL(read(ends[0], &first, 1), 1);
	close(ends[0]);
	close(ends[1]);
}

static void notToDataFiles(void)
{
	expectLine(O_RDWR, 1000, 0);
	expectLine(O_RDONLY, 0, 0);
}

static void notToSockets(void)
{
	int pair[2];
	char byte;

	EXPECT(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	EXPECT_EQUAL(dup2(pair[0], STDERR_FILENO), STDERR_FILENO);
	logWrite(logError, "a line");
	EXPECT_ERRNO((int)recv(pair[1], &byte, 1, MSG_DONTWAIT), EAGAIN);
}

static void notToMemory(void)
{
	void *at = NULL;
	struct memory m;

	close(STDERR_FILENO);
	EXPECT_SUCCESS(memoryAllocHost(&hostThreads, 4096, &at));
	EXPECT_SUCCESS(memoryDescribe(&hostThreads, at, 4096, &m));
	EXPECT(m.fd > STDERR_FILENO);
	EXPECT_EQUAL(dup2(m.fd, STDERR_FILENO), STDERR_FILENO);
	logWrite(logError, "a line");
	EXPECT_EQUAL(*(const char *)at, 0);
}

static void socketsAreAbove(void)
{
	uint16_t port;

	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		close(fd);
	int listener = socketListen(NULL, &port);
	EXPECT(listener > STDERR_FILENO);
	EXPECT_ERRNO(fcntl(STDERR_FILENO, F_GETFD), EBADF);
	logWrite(logError, "a line"); /* goes nowhere */
}

static void readerIsGone(int ends[2])
{
	close(ends[0]);
	EXPECT_EQUAL(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	close(ends[1]);
	errno = ENOTTY;
	logWrite(logError, "a line");
	EXPECT_EQUAL(errno, ENOTTY);
}

static int isPending(void)
{
	sigset_t pending;

	EXPECT(!sigpending(&pending));
	return sigismember(&pending, SIGPIPE);
}

/* A blocked signal would stay pending. */
static void pipeWithoutReader(void)
{
	sigset_t pipeSignal;
	int ends[2];

	EXPECT(!pipe(ends));
	readerIsGone(ends);
	sigemptyset(&pipeSignal);
	sigaddset(&pipeSignal, SIGPIPE);
	EXPECT(!sigprocmask(SIG_BLOCK, &pipeSignal, NULL));
	logWrite(logError, "a line");
	EXPECT(!isPending());
	raise(SIGPIPE);
	logWrite(logError, "a line");
	EXPECT(isPending());
}

static char line[512], folder[] = "/tmp/unit_log-XXXXXX";

static long long microseconds(void)
{
	struct timespec at;

	clock_gettime(CLOCK_REALTIME, &at);
	return at.tv_sec * 1000000ll + at.tv_nsec / 1000;
}

/* "2026-01-31T09:05:00.123456Z HOST:PID:TID rank 3 gin ERROR a line", written after `since` */
static void expectParts(const char *host, int pid, long long since)
{
	char words[128];
	struct tm utc = {0};
	const char *rest = strptime(line, "%Y-%m-%dT%H:%M:%S.", &utc);

	EXPECT(rest && strspn(rest, "0123456789") == 6 && rest[6] == 'Z');
	long long at = timegm(&utc) * 1000000ll + strtol(rest, NULL, 10);
	EXPECT(at >= since && at <= microseconds());
	snprintf(words, sizeof(words), "Z %s:%d:%d rank 3 gin ERROR a line\n", host, pid, pid);
	EXPECT_HAS(line, words);
}

/* Writes one line to the file that this process opens as `rank`. */
static void expectFile(int rank)
{
	char path[512], host[64] = "";

	logRank(rank);
	logRank(9); /* another communicator of the process */
	long long since = microseconds();
	logWrite(logError, "a line");
	gethostname(host, sizeof(host) - 1);
	snprintf(path, sizeof(path), "%s/%s.%d.%d.%%.%%x", folder, host, rank, (int)getpid());
	int fd = open(path, O_RDONLY);
	memset(line, 0, sizeof(line));
	EXPECT(fd >= 0 && read(fd, line, sizeof(line) - 1) > 0);
	expectParts(host, (int)getpid(), since);
	close(fd);
	unlink(path);
}

/* A forked child that gets a rank has a file of its own. */
static void toItsFile(void)
{
	char pattern[64];
	int status = -1, before = redirect(O_WRONLY);

	EXPECT(mkdtemp(folder));
	snprintf(pattern, sizeof(pattern), "%s/%%h.%%r.%%p.%%%%.%%x", folder);
	setenv("GIN_LOG_FILE", pattern, 1);
	logWrite(logError, "without a rank");
	off_t content = bytesOf(before);
	EXPECT(content > 0);
	errorScope("call", 3);
	expectFile(3);
	pid_t child = fork();
	if (!child) {
		expectFile(4);
		_exit(expectFailures != 0);
	}
	EXPECT(waitpid(child, &status, 0) == child && !status);
	EXPECT_EQUAL(bytesOf(before), content);
	EXPECT(!rmdir(folder));
}

/* Says why, once, and goes on to standard error. */
static void noSuchFile(void)
{
	int before = redirect(O_WRONLY);

	setenv("GIN_LOG", "warn", 1);
	setenv("GIN_LOG_FILE", "/no folder/%r", 1);
	logRank(0);
	logRank(0);
	logWrite(logError, "a line");
	memset(line, 0, sizeof(line));
	EXPECT(pread(before, line, sizeof(line) - 1, 0) > 0);
	char *first = strstr(line, "WARN GIN_LOG_FILE=/no folder/%r cannot be opened: No such");
	EXPECT(first && !strstr(first + 1, "WARN"));
	EXPECT_HAS(line, "gin ERROR a line");
}

/* A path that does not fit is none, whether letters or what they mean is too long. */
static void longPaths(void)
{
	char pattern[PATH_MAX + 1], path[PATH_MAX];

	memset(pattern, 'a', PATH_MAX);
	pattern[PATH_MAX] = '\0';
	EXPECT_EQUAL(logPath(path, pattern, 0), 0);
	pattern[PATH_MAX - 1] = '\0';
	EXPECT_EQUAL(logPath(path, pattern, 0), 1);
	EXPECT_TEXT(path, pattern);
	memcpy(pattern + PATH_MAX - 3, "%r", 3);
	EXPECT_EQUAL(logPath(path, pattern, 12), 1);
	EXPECT_EQUAL(logPath(path, pattern, 123), 0);
}

/* The line has the caller's errno, whatever libgin has called meanwhile. */
static void meaningOfErrno(void)
{
	int file = redirect(O_WRONLY);

	setenv("TZ", ":/no file", 1); /* for the time in the head */
	errno = EDOM;
	logWrite(logError, "%m");
	EXPECT(pread(file, line, sizeof(line) - 1, 0) > 0);
	EXPECT_HAS(line, strerror(EDOM));
}

/* The head names the rank of a failure; the program's sentence has no head, and names it too. */
static void rankOnce(void)
{
	int file = redirect(O_WRONLY);

	errorScope("call", 3);
	EXPECT_EQUAL(fail(ginErrorPeer, "words"), ginErrorPeer);
	EXPECT(!strcmp(ginGetLastError(), "call: rank 3: words"));
	memset(line, 0, sizeof(line));
	EXPECT(pread(file, line, sizeof(line) - 1, 0) > 0);
	EXPECT_HAS(line, " rank 3 gin ERROR call: words\n");
}

int main(void)
{
	setenv("GIN_LOG", "error", 1);
	expectChild("a log file gets lines", toLogFiles);
	expectChild("a pipe gets lines", toPipes);
	expectChild("a data file gets none", notToDataFiles);
	expectChild("a socket gets none", notToSockets);
	expectChild("memory gets none", notToMemory);
	expectChild("sockets are above standard error", socketsAreAbove);
	expectChild("a pipe without a reader", pipeWithoutReader);
	expectChild("the meaning of errno", meaningOfErrno);
	expectChild("a failure's rank", rankOnce);
	expectChild("a file for each rank", toItsFile);
	expectChild("a file that cannot be opened", noSuchFile);
	expectChild("paths that are too long", longPaths);
	return expectFailures != 0;
}
