/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_interrupted.c - calls of the operating system that a signal interrupts are made again
 *
 * This file intercepts the library's calls. Each fails with EINTR a few times before it is made.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "expect.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/random.h"
#include "lib/base/net/socket.h"
#include "lib/gpu/memory.h"
#include "pinning.h"

#define TIMES 3

/* Fails each call TIMES times; 0: makes the call. */
static int interrupts(int *left)
{
	if (--*left < 0) {
		*left = TIMES;
		return 0;
	}
	errno = EINTR;
	return 1;
}

static int fallocates = TIMES, accepts = TIMES, sends = TIMES, receives = TIMES, polls = TIMES,
	   randoms = TIMES, writes = TIMES;

int fallocate(int fd, int mode, off_t offset, off_t bytes)
{
	return interrupts(&fallocates) ? -1 : (int)syscall(SYS_fallocate, fd, mode, offset, bytes);
}

int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
	return interrupts(&accepts) ? -1 : (int)syscall(SYS_accept4, fd, address, length, flags);
}

ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
	return interrupts(&sends) ? -1 : syscall(SYS_sendto, fd, data, bytes, flags, NULL, 0);
}

ssize_t recv(int fd, void *data, size_t bytes, int flags)
{
	return interrupts(&receives) ? -1
				     : syscall(SYS_recvfrom, fd, data, bytes, flags, NULL, NULL);
}

int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	return interrupts(&polls) ? -1 : (int)syscall(SYS_poll, fds, count, timeout);
}

ssize_t getrandom(void *out, size_t bytes, unsigned flags)
{
	return interrupts(&randoms) ? -1 : syscall(SYS_getrandom, out, bytes, flags);
}

ssize_t write(int fd, const void *data, size_t bytes)
{
	return interrupts(&writes) ? -1 : syscall(SYS_write, fd, data, bytes);
}

/* More than one piece. */
static void memory(void)
{
	const size_t bytes = 1000000;
	void *at = NULL;

	EXPECT_SUCCESS(memoryAllocHost(&hostThreads, bytes, &at));
	memset(at, 1, bytes);
	EXPECT_SUCCESS(memoryFree(&hostThreads, at));
}

static void sockets(void)
{
	const struct netAddress loopback = {.family = AF_INET, .bytes = {127, 0, 0, 1}};
	const uint64_t deadline = clockNow() + 10 * SECOND;
	char sent[100] = "text", received[100] = "";
	uint16_t port;
	int listener = socketListen(NULL, &port);

	EXPECT(listener >= 0);
	int to = socketConnect(&loopback, port, deadline);
	EXPECT(to >= 0);
	int from = socketAccept(listener, deadline);
	EXPECT(from >= 0);
	for (int i = 0; i < 3; i++) /* a program started by posix_spawn() must not get them */
		EXPECT(fcntl((int[]){listener, to, from}[i], F_GETFD) & FD_CLOEXEC);
	EXPECT(!socketSend(to, sent, sizeof(sent), deadline));
	EXPECT(!socketReceive(from, received, sizeof(received), deadline));
	EXPECT_TEXT(received, sent);
}

static void secrets(void)
{
	uint64_t word[2] = {0, 0};

	EXPECT(!randomBytes(word, sizeof(word)));
	EXPECT(word[0] && word[1]);
}

static void logLine(void)
{
	char line[256] = "";
	int ends[2];

	EXPECT(!pipe(ends));
	EXPECT_EQUAL(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	logWrite(logError, "whole");
	EXPECT(read(ends[0], line, sizeof(line) - 1) > 0);
	EXPECT_HAS(line, "whole\n");
}

int main(void)
{
	setenv("GIN_LOG", "error", 1);
	expectChild("memory", memory);
	expectChild("sockets", sockets);
	expectChild("random bytes", secrets);
	expectChild("a log line", logLine);
	return expectFailures != 0;
}
