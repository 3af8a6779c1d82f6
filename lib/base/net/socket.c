/* SPDX-License-Identifier: BSD-3-Clause */
/* socket.c - TCP with deadlines */
#include "socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/interrupt.h"

union socketAddress {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

void socketAddress(const struct sockaddr *from, struct netAddress *out)
{
	*out = (struct netAddress){.family = from->sa_family};
	if (from->sa_family == AF_INET)
		memcpy(out->bytes, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
	else
		memcpy(out->bytes, &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr,
		       16);
}

int socketIsLoopback(const struct netAddress *address)
{
	static const uint8_t v6[16] = {[15] = 1};

	if (address->family == AF_INET)
		return address->bytes[0] == 127;
	return !memcmp(address->bytes, v6, sizeof(v6));
}

int socketIsLinkLocal(const struct netAddress *address)
{
	return address->family == AF_INET6 && address->bytes[0] == 0xfe &&
	       (address->bytes[1] & 0xc0) == 0x80;
}

static int closeFailed(int fd)
{
	int reason = errno;
	close(fd);
	errno = reason;
	return -1;
}

static socklen_t fillAddress(union socketAddress *out, const struct netAddress *to, uint16_t port)
{
	if (to->family == AF_INET) {
		*out = (union socketAddress){
			.v4 = {.sin_family = AF_INET, .sin_port = htons(port)}};
		memcpy(&out->v4.sin_addr, to->bytes, 4);
		return sizeof(out->v4);
	}
	*out = (union socketAddress){.v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)}};
	memcpy(&out->v6.sin6_addr, to->bytes, 16);
	return sizeof(out->v6);
}

static int bindTo(const struct netAddress *at, uint16_t port)
{
	union socketAddress address;
	socklen_t length = fillAddress(&address, at, port);
	int on = 1, off = 0, fd;

	fd = fileAboveStandard(socket(at->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0)
		return -1;
	if (port) /* which an earlier job may have used */
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (at->family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	return bind(fd, &address.any, length) ? closeFailed(fd) : fd;
}

int socketListenAt(const struct netAddress *at, uint16_t port)
{
	static const struct netAddress anyV6 = {.family = AF_INET6}, anyV4 = {.family = AF_INET};
	/* Dual-stack where the host has IPv6, otherwise IPv4. */
	int fd = bindTo(at ? at : &anyV6, port);

	if (fd < 0 && !at && errno != EADDRINUSE)
		fd = bindTo(&anyV4, port);
	if (fd >= 0 && listen(fd, SOMAXCONN))
		return closeFailed(fd);
	return fd;
}

int socketListen(const struct netAddress *at, uint16_t *port)
{
	union socketAddress bound;
	socklen_t length = sizeof(bound);
	int fd = socketListenAt(at, 0);

	if (fd < 0)
		return -1;
	if (getsockname(fd, &bound.any, &length))
		return closeFailed(fd);
	*port = ntohs(bound.any.sa_family == AF_INET ? bound.v4.sin_port : bound.v6.sin6_port);
	return fd;
}

void socketPeer(int fd, char *out, size_t bytes)
{
	union socketAddress peer = {.any = {0}};
	socklen_t length = sizeof(peer);
	char service[16];

	if (getpeername(fd, &peer.any, &length) ||
	    getnameinfo(&peer.any, length, out, (socklen_t)bytes, service, sizeof(service),
			NI_NUMERICHOST | NI_NUMERICSERV))
		snprintf(out, bytes, "a connection that has ended");
}

/* A listener of IPv6 has IPv4 addresses in this form. */
static void unmap(struct netAddress *address)
{
	static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

	if (address->family != AF_INET6 || memcmp(address->bytes, prefix, sizeof(prefix)))
		return;
	struct netAddress v4 = {.family = AF_INET};
	memcpy(v4.bytes, address->bytes + sizeof(prefix), 4);
	*address = v4;
}

int socketOwn(int fd, struct netAddress *out)
{
	union socketAddress mine = {0}, theirs = {0};
	socklen_t mineLength = sizeof(mine), theirsLength = sizeof(theirs);
	struct netAddress here, there;

	if (getsockname(fd, &mine.any, &mineLength) || getpeername(fd, &theirs.any, &theirsLength))
		return 1;
	socketAddress(&mine.any, &here);
	socketAddress(&theirs.any, &there);
	unmap(&here);
	*out = here;
	unmap(&there);
	return memcmp(&here, &there, sizeof(here)) != 0;
}

/* Do both ends have one address? An end on another host has an address of its host. */
static int isWithinHost(int fd)
{
	struct netAddress here;

	return !socketOwn(fd, &here);
}

/*
 * A vanished host is detected within 30 s. The kernel compares this time with the silence whenever
 * it sends a probe of setProbes(): after 10, 15, 20, 25 and 30 s.
 */
#define UNACKNOWLEDGED_SECONDS 25

/* The kernel counts a closed window as unacknowledged data, even when the other host answers. */
void socketPatience(int fd, unsigned seconds)
{
	unsigned most = INT_MAX / 1000, wanted = seconds ? seconds : UNACKNOWLEDGED_SECONDS;
	int ms = (int)((wanted < most ? wanted : most) * 1000);

	if (!isWithinHost(fd))
		setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
}

uint64_t socketUnanswered(int fd)
{
	struct tcp_info info = {0};
	socklen_t length = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length))
		return UINT64_MAX;
	return info.tcpi_last_ack_recv * (SECOND / 1000);
}

static void setProbes(int fd, int idle, int interval, int count)
{
	int on = 1;

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

/*
 * A host that vanishes does not end its connections. The kernel's keepalive detects this, and
 * tolerates a stopped process, in a debugger for example.
 *
 * Within a host the kernel ends the connections of a process that dies, so silence does not mean
 * that a process is dead. The kernel may send the probes of thousands of connections at one
 * instant, and the loopback device queues 1,000 packets at most. So probes within a host only serve
 * to find an end whose reset was lost: they are rare but before a listener's first word, and
 * descriptors have different intervals.
 */
void socketProbe(int fd, int soon)
{
	int apart = soon ? 2 + fd % 7 : 60 + fd % 61, most = 127;

	if (isWithinHost(fd))
		setProbes(fd, apart, apart, most);
	else
		setProbes(fd, 10, 5, 4);
}

static void setOptions(int fd)
{
	int on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	socketProbe(fd, 0);
	socketPatience(fd, 0);
}

/* 0 when fd is ready for `events`; -1 with errno. */
static int await(int fd, short events, uint64_t deadline)
{
	struct pollfd p = {.fd = fd, .events = events};

	for (;;) {
		int ready = poll(&p, 1, clockLeftMs(deadline, interruptMsHere(INT_MAX)));
		if (ready > 0)
			return 0;
		if (ready < 0 && errno != EINTR)
			return -1;
		if (interruptedHere())
			errno = ECANCELED;
		else if (ready < 0 || clockNow() < deadline)
			continue;
		else
			errno = ETIMEDOUT;
		return -1;
	}
}

/*
 * Where no process of this host listens on the port, the kernel may choose this port for this end
 * of the connection, and so connect the socket to itself.
 */
static int isOwnPeer(int fd)
{
	union socketAddress mine = {0}, theirs = {0};
	socklen_t mineLength = sizeof(mine), theirsLength = sizeof(theirs);

	return !getsockname(fd, &mine.any, &mineLength) &&
	       !getpeername(fd, &theirs.any, &theirsLength) && mineLength == theirsLength &&
	       !memcmp(&mine, &theirs, mineLength);
}

int socketConnectEnd(int fd)
{
	const struct linger atOnce = {.l_onoff =
					      1}; /* otherwise the port stays in use for a minute */
	int reason = 0;
	socklen_t length = sizeof(reason);

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &reason, &length))
		return -1;
	if (!reason && isOwnPeer(fd)) {
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &atOnce, sizeof(atOnce));
		reason = ECONNREFUSED;
	}
	if (!reason)
		setOptions(fd);
	errno = reason;
	return reason ? -1 : 0;
}

int socketConnectBegin(const struct netAddress *to, uint16_t port)
{
	union socketAddress address;
	socklen_t length = fillAddress(&address, to, port);
	int fd = fileAboveStandard(
		socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));

	if (fd < 0)
		return -1;
	if (connect(fd, &address.any, length) && errno != EINPROGRESS && errno != EINTR)
		return closeFailed(fd);
	return fd;
}

int socketConnect(const struct netAddress *to, uint16_t port, uint64_t deadline)
{
	int fd = socketConnectBegin(to, port);

	if (fd >= 0 && (await(fd, POLLOUT, deadline) || socketConnectEnd(fd)))
		return closeFailed(fd);
	return fd;
}

int socketAccept(int listener, uint64_t deadline)
{
	int fd;

	do {
		if (await(listener, POLLIN, deadline))
			return -1;
		fd = fileAboveStandard(accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
	} while (fd < 0 && errno == EINTR);
	if (fd >= 0)
		setOptions(fd);
	return fd;
}

/* After a failed send() or recv(): 0 to try again, -1 to give up. */
static int again(int fd, short events, uint64_t deadline)
{
	if (errno == EINTR)
		return 0;
	return errno == EAGAIN || errno == EWOULDBLOCK ? await(fd, events, deadline) : -1;
}

int socketSend(int fd, const void *data, size_t bytes, uint64_t deadline)
{
	const char *p = data;

	while (bytes) {
		ssize_t sent = send(fd, p, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent < 0) {
			if (again(fd, POLLOUT, deadline))
				return -1;
			continue;
		}
		p += sent;
		bytes -= (size_t)sent;
	}
	return 0;
}

int socketReceive(int fd, void *data, size_t bytes, uint64_t deadline)
{
	char *p = data;

	while (bytes) {
		ssize_t got = recv(fd, p, bytes, MSG_DONTWAIT);
		if (got == 0)
			errno = ECONNRESET;
		if (got == 0 || (got < 0 && again(fd, POLLIN, deadline)))
			return -1;
		if (got < 0)
			continue;
		p += got;
		bytes -= (size_t)got;
	}
	return 0;
}
