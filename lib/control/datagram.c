/* SPDX-License-Identifier: BSD-3-Clause */
/* datagram.c - UDP, and which addresses refuse it */
#include "datagram.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/file.h"

static socklen_t lengthOf(const union datagramAddress *a)
{
	return a->any.sa_family == AF_INET ? sizeof(a->v4) : sizeof(a->v6);
}

static void fill(union datagramAddress *out, const struct netAddress *to, uint16_t port)
{
	*out = (union datagramAddress){.v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)}};
	if (to->family == AF_INET) {
		out->v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
		memcpy(&out->v4.sin_addr, to->bytes, 4);
	} else {
		memcpy(&out->v6.sin6_addr, to->bytes, 16);
	}
}

/* An IPv4 address, as sockets of IPv6 have it. */
static void mapAddress(union datagramAddress *a)
{
	struct sockaddr_in6 mapped = {.sin6_family = AF_INET6, .sin6_port = a->v4.sin_port};

	mapped.sin6_addr.s6_addr[10] = mapped.sin6_addr.s6_addr[11] = 0xff;
	memcpy(&mapped.sin6_addr.s6_addr[12], &a->v4.sin_addr, 4);
	a->v6 = mapped;
}

/* The kernel reports datagrams that come back only to sockets that ask for it. */
static void askForErrors(int fd, int family)
{
	int on = 1, off = 0;

	setsockopt(fd, IPPROTO_IP, IP_RECVERR, &on, sizeof(on));
	if (family != AF_INET6)
		return;
	setsockopt(fd, IPPROTO_IPV6, IPV6_RECVERR, &on, sizeof(on));
	setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
}

static int bindTo(const struct netAddress *at)
{
	union datagramAddress address;
	int fd =
		fileAboveStandard(socket(at->family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));

	if (fd < 0)
		return -1;
	askForErrors(fd, at->family);
	fill(&address, at, 0);
	if (!bind(fd, &address.any, lengthOf(&address)))
		return fd;
	int reason = errno;
	close(fd);
	errno = reason;
	return -1;
}

static int ownAddress(int fd, union datagramAddress *out)
{
	socklen_t length = sizeof(*out);

	return getsockname(fd, &out->any, &length);
}

int datagramOpen(const struct netAddress *at, uint16_t *port)
{
	static const struct netAddress anyV6 = {.family = AF_INET6}, anyV4 = {.family = AF_INET};
	union datagramAddress own;
	int fd = bindTo(at ? at : &anyV6);

	if (fd < 0 && !at)
		fd = bindTo(&anyV4);
	if (fd < 0 || ownAddress(fd, &own))
		return fd;
	*port = ntohs(own.any.sa_family == AF_INET ? own.v4.sin_port : own.v6.sin6_port);
	return fd;
}

int datagramAddress(int fd, const struct netAddress *to, uint16_t port, union datagramAddress *out)
{
	union datagramAddress own;

	if (ownAddress(fd, &own))
		return -1;
	fill(out, to, port);
	if (own.any.sa_family == out->any.sa_family)
		return 0;
	if (own.any.sa_family == AF_INET)
		return -1;
	mapAddress(out);
	return 0;
}

int datagramSameAddress(const union datagramAddress *a, const union datagramAddress *b)
{
	if (a->any.sa_family != b->any.sa_family)
		return 0;
	if (a->any.sa_family == AF_INET)
		return a->v4.sin_port == b->v4.sin_port &&
		       a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
	return a->v6.sin6_port == b->v6.sin6_port &&
	       !memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof(a->v6.sin6_addr));
}

/* An error of an earlier datagram is reported once by the next call, which then sends nothing. */
void datagramSend(int fd, const void *data, size_t bytes, const union datagramAddress *to)
{
	for (int i = 0; i < 3; i++)
		if (sendto(fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT, &to->any, lengthOf(to)) >=
		    0)
			return;
}

ssize_t datagramReceive(int fd, void *data, size_t bytes, union datagramAddress *from)
{
	for (int i = 0; i < 8; i++) {
		socklen_t length = sizeof(*from);
		ssize_t got = recvfrom(fd, data, bytes, MSG_DONTWAIT, &from->any, &length);
		if (got >= 0 || errno == EAGAIN || errno == EWOULDBLOCK)
			return got;
	}
	return -1;
}

static int reasonOf(struct msghdr *message)
{
	for (struct cmsghdr *h = CMSG_FIRSTHDR(message); h; h = CMSG_NXTHDR(message, h)) {
		struct sock_extended_err error;
		if ((h->cmsg_level == IPPROTO_IP && h->cmsg_type == IP_RECVERR) ||
		    (h->cmsg_level == IPPROTO_IPV6 && h->cmsg_type == IPV6_RECVERR)) {
			memcpy(&error, CMSG_DATA(h), sizeof(error));
			return (int)error.ee_errno;
		}
	}
	return 0;
}

int datagramReturned(int fd, union datagramAddress *to, int *refused)
{
	char byte, ancillary[512];
	struct iovec part = {&byte, 1};
	struct msghdr message = {.msg_name = to,
				 .msg_namelen = sizeof(*to),
				 .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = ancillary,
				 .msg_controllen = sizeof(ancillary)};

	if (recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
		return 0;
	*refused = reasonOf(&message) == ECONNREFUSED;
	return 1;
}
