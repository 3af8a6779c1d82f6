/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_sockets.h - pairs of sockets in memory, for fuzz targets: a call of the kernel takes longer
 * than the parser
 *
 * mk/fuzz.mk links a target with --wrap for the calls below. Descriptors of other files go to libc.
 */
#ifndef GIN_TEST_FUZZ_FAKE_SOCKETS_H
#define GIN_TEST_FUZZ_FAKE_SOCKETS_H

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "expect.h"

#define FAKE_FIRST 100000 /* ends 2n and 2n + 1 are a pair */
#define FAKE_ENDS 128
#define FAKE_ROOM 65536 /* bytes that an end holds before its peer gets EAGAIN */

struct fakeEnd {
	size_t begin, end; /* of what has come and is not read */
	int isOpen, isShut;
	uint8_t data[FAKE_ROOM];
};

static struct fakeEnd fakeEnds[FAKE_ENDS];
static int fakeCount;

/* All ends are closed by then. */
static void fakeReset(void)
{
	for (int i = 0; i < fakeCount; i++)
		EXPECT(!fakeEnds[i].isOpen);
	fakeCount = 0;
}

static void fakePair(int fds[2])
{
	EXPECT(fakeCount + 2 <= FAKE_ENDS);
	for (int i = 0; i < 2; i++) {
		struct fakeEnd *end = &fakeEnds[fakeCount];
		end->begin = end->end = 0;
		end->isOpen = 1;
		end->isShut = 0;
		fds[i] = FAKE_FIRST + fakeCount++;
	}
}

static struct fakeEnd *fakeOf(int fd)
{
	if (fd < FAKE_FIRST || fd >= FAKE_FIRST + fakeCount)
		return NULL;
	EXPECT(fakeEnds[fd - FAKE_FIRST].isOpen); /* not closed twice, nor used after that */
	return &fakeEnds[fd - FAKE_FIRST];
}

static struct fakeEnd *fakePeer(const struct fakeEnd *end)
{
	return &fakeEnds[(end - fakeEnds) ^ 1];
}

static ssize_t fakeAppend(struct fakeEnd *peer, const void *bytes, size_t count)
{
	size_t room;

	if (!peer->isOpen || peer->isShut) {
		errno = EPIPE;
		return -1;
	}
	if (peer->begin == peer->end)
		peer->begin = peer->end = 0;
	room = FAKE_ROOM - peer->end;
	count = count < room ? count : room;
	if (!count) {
		errno = EAGAIN;
		return -1;
	}
	memcpy(peer->data + peer->end, bytes, count);
	peer->end += count;
	return (ssize_t)count;
}

ssize_t __real_send(int fd, const void *bytes, size_t count, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t count, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t count, int flags)
{
	struct fakeEnd *end = fakeOf(fd);

	return end ? fakeAppend(fakePeer(end), bytes, count) : __real_send(fd, bytes, count, flags);
}

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
	struct fakeEnd *end = fakeOf(fd);
	ssize_t all = 0;

	if (!end)
		return __real_sendmsg(fd, message, flags);
	for (size_t i = 0; i < message->msg_iovlen; i++) {
		const struct iovec *part = &message->msg_iov[i];
		if (!part->iov_len)
			continue;
		ssize_t sent = fakeAppend(fakePeer(end), part->iov_base, part->iov_len);
		if (sent < 0)
			return all ? all : sent;
		all += sent;
		if ((size_t)sent < part->iov_len)
			break;
	}
	return all;
}

ssize_t __real_recv(int fd, void *bytes, size_t count, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t count, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t count, int flags)
{
	struct fakeEnd *end = fakeOf(fd);
	size_t there;

	if (!end)
		return __real_recv(fd, bytes, count, flags);
	there = end->end - end->begin;
	if (!there && fakePeer(end)->isOpen && !end->isShut) {
		errno = EAGAIN;
		return -1;
	}
	count = count < there ? count : there;
	memcpy(bytes, end->data + end->begin, count);
	end->begin += count;
	return (ssize_t)count;
}

int __real_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how)
{
	struct fakeEnd *end = fakeOf(fd);

	if (!end)
		return __real_shutdown(fd, how);
	if (how != SHUT_RD)
		fakePeer(end)->isShut = 1;
	if (how != SHUT_WR)
		end->isShut = 1;
	return 0;
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
	struct fakeEnd *end = fakeOf(fd);

	if (!end)
		return __real_close(fd);
	end->isOpen = 0;
	return 0;
}

int __real_epoll_ctl(int poll, int op, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int poll, int op, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int poll, int op, int fd, struct epoll_event *event)
{
	return fakeOf(fd) ? 0 : __real_epoll_ctl(poll, op, fd, event);
}

#endif
