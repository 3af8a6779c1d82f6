/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "mlx5/dev/host/options.h"
#include "packet.h"

enum { PEERS = 256, READY = 64, BUFFER = 1 << 20 };

struct end {
	int fd, pid;
};

/* Processes that this process sends to, and processes that send to it. */
static struct end outgoing[PEERS];
static int outgoingCount;
static int incoming[PEERS], incomingCount;
static int dead[PEERS], deadCount;
static int listener = -1, events = -1, wake = -1;

/* Came while we could not send. */
static struct packet *waiting, **waitingEnd = &waiting;

static void quit(const char *what)
{
	fprintf(stderr, "mlx5dev: %s: %s\n", what, strerror(errno));
	exit(2);
}

static socklen_t addressOf(int pid, struct sockaddr_un *address)
{
	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(address->sun_path, sizeof(address->sun_path), "%s/wire.%d", options.directory,
		 pid);
	return sizeof(*address);
}

void wireWatch(int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	if (epoll_ctl(events, EPOLL_CTL_ADD, fd, &event))
		quit("epoll_ctl");
}

void wireOpen(void)
{
	struct sockaddr_un address;
	socklen_t length = addressOf(getpid(), &address);

	events = epoll_create1(EPOLL_CLOEXEC);
	wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	unlink(address.sun_path);
	if (events < 0 || wake < 0 || listener < 0 ||
	    bind(listener, (struct sockaddr *)&address, length) || listen(listener, PEERS))
		quit(address.sun_path);
	wireWatch(wake);
	wireWatch(listener);
}

static int connectTo(int pid)
{
	struct sockaddr_un address;
	socklen_t length = addressOf(pid, &address);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), room = BUFFER;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	if (outgoingCount == PEERS || connect(fd, (struct sockaddr *)&address, length)) {
		close(fd);
		return -1;
	}
	outgoing[outgoingCount++] = (struct end){fd, pid};
	wireWatch(fd); /* says when the other end goes */
	return fd;
}

static int outgoingTo(int pid)
{
	for (int i = 0; i < outgoingCount; i++)
		if (outgoing[i].pid == pid)
			return outgoing[i].fd;
	return connectTo(pid);
}

static void acceptAll(void)
{
	int fd;

	while (incomingCount < PEERS &&
	       (fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
		incoming[incomingCount++] = fd;
		wireWatch(fd);
	}
}

static void incomingEnded(int fd)
{
	for (int i = 0; i < incomingCount; i++) {
		if (incoming[i] != fd)
			continue;
		incoming[i] = incoming[--incomingCount];
		close(fd);
		return;
	}
}

/* Nothing is sent to us on these: that they are readable says that the peer is gone. */
static bool outgoingEnded(int fd)
{
	for (int i = 0; i < outgoingCount; i++) {
		if (outgoing[i].fd != fd)
			continue;
		if (deadCount < PEERS)
			dead[deadCount++] = outgoing[i].pid;
		outgoing[i] = outgoing[--outgoingCount];
		close(fd);
		return true;
	}
	return false;
}

static bool receiveFrom(int fd, struct packet *packet)
{
	ssize_t length;

	if (fd == listener)
		acceptAll();
	if (fd == listener || fd == wake || outgoingEnded(fd))
		return false;
	length = recv(fd, packet, sizeof(*packet), MSG_DONTWAIT);
	if (length == 0 || (length < 0 && errno == ECONNRESET))
		incomingEnded(fd);
	return length > 0;
}

/* One call of the kernel when nothing has come. */
static bool receiveAny(struct packet *packet)
{
	static struct epoll_event ready[READY];
	static int count, next;

	if (next == count) {
		next = 0;
		count = epoll_wait(events, ready, READY, 0);
		if (count < 0)
			count = 0;
	}
	for (; next < count; next++)
		if (receiveFrom(ready[next].data.fd, packet))
			return true;
	return false;
}

bool wireReceive(struct packet *packet)
{
	struct packet *first = waiting;

	if (!first)
		return receiveAny(packet);
	waiting = first->next;
	if (!waiting)
		waitingEnd = &waiting;
	memcpy(packet, first, packetBytes(first));
	free(first);
	return true;
}

/* The other end may be in the same place as we are: each takes what the other sends. */
static void makeRoom(int fd)
{
	static struct packet packet;
	struct pollfd room = {.fd = fd, .events = POLLOUT};

	while (receiveAny(&packet)) {
		*waitingEnd = packetCopy(&packet);
		waitingEnd = &(*waitingEnd)->next;
	}
	if (waiting)
		wireWake();
	poll(&room, 1, 1);
}

bool wireSend(int pid, const struct packet *packet)
{
	int fd = outgoingTo(pid);

	if (fd < 0)
		return false;
	while (send(fd, packet, packetBytes(packet), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN && errno != ENOBUFS)
			return false;
		makeRoom(fd);
	}
	return true;
}

int wireDead(void)
{
	return deadCount ? dead[--deadCount] : 0;
}

void wireWait(int64_t timeout)
{
	struct timespec limit = {timeout / 1000000000, timeout % 1000000000};
	struct pollfd ready = {.fd = events, .events = POLLIN};
	uint64_t count;
	int got = ppoll(&ready, 1, timeout < 0 ? NULL : &limit, NULL);

	if (got > 0 && read(wake, &count, sizeof(count)) < 0 && errno != EAGAIN)
		quit("eventfd");
}

void wireWake(void)
{
	uint64_t one = 1;

	if (wake >= 0 && write(wake, &one, sizeof(one)) < 0 && errno != EAGAIN)
		quit("eventfd");
}
