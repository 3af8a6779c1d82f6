/* SPDX-License-Identifier: BSD-3-Clause */
/* tree.c - connects the ranks to a tree */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "internal.h"
#include "lib/base/forkguard.h"
#include "lib/base/auth.h"
#include "lib/base/log.h"

#define HANDSHAKE_SECONDS 5 /* the most that a silent stranger can delay the listener */

/* An address may lead to no host or to a stranger: the next address is then tried. */
#define CONNECT_SECONDS 10
#define GREETING_SECONDS 60 /* the parent accepts after it has reached its own parent */

int controlParent(int rank)
{
	return rank ? (rank - 1) / CONTROL_CHILDREN : 0;
}

int controlFirstChild(const struct control *c)
{
	return c->rank ? 1 : 0;
}

int controlLinksOf(int rank, int nRanks)
{
	int64_t first = (int64_t)rank * CONTROL_CHILDREN + 1, left = nRanks - first;
	int children = left < 0 ? 0 : left < CONTROL_CHILDREN ? (int)left : CONTROL_CHILDREN;

	return children + (rank != 0);
}

static int subtreeSize(int rank, int nRanks)
{
	int size = 1;
	int64_t first = (int64_t)rank * CONTROL_CHILDREN + 1;

	for (int64_t child = first; child < first + CONTROL_CHILDREN && child < nRanks; child++)
		size += subtreeSize((int)child, nRanks);
	return size;
}

static struct controlLink *addLink(struct control *c, int fd, int rank)
{
	forkGuard(fd);
	c->link[c->links] = (struct controlLink){.fd = fd, .rank = rank};
	return &c->link[c->links++];
}

static const struct netAddress loopback = {.family = AF_INET, .bytes = {127, 0, 0, 1}};

static uint64_t within(unsigned seconds, uint64_t deadline)
{
	uint64_t end = clockNow() + seconds * SECOND;

	return end < deadline ? end : deadline;
}

/* One attempt at one address: an authenticated connection, or -1 with errno. */
static int tryParent(const struct control *c, const struct netAddress *address, uint16_t port,
		     uint64_t deadline)
{
	int fd = socketConnect(address, port, within(CONNECT_SECONDS, deadline));

	if (fd < 0)
		return -1;
	if (!authConnect(fd, c->ranks[0].secret, (uint32_t)c->rank,
			 within(GREETING_SECONDS, deadline)))
		return fd;
	int reason = errno;
	close(fd);
	errno = reason;
	return -1;
}

/* Does this host have the address too? Container bridges have one address on every host. */
static int isOwnAddress(const struct control *c, const struct netAddress *address)
{
	const struct identity *me = &c->ranks[c->rank];

	for (unsigned i = 0; i < me->addresses; i++)
		if (!memcmp(&me->address[i], address, sizeof(*address)))
			return 1;
	return 0;
}

/*
 * One pass over the parent's addresses. Addresses that this host has too come last: they lead to
 * the parent only when one network is split into several hosts (GIN_HOSTID). -1 with the last
 * errno.
 */
static int tryAddresses(const struct control *c, const struct identity *parent, uint64_t deadline)
{
	unsigned n =
		parent->addresses < IDENTITY_ADDRESSES ? parent->addresses : IDENTITY_ADDRESSES;
	int fd = -1;

	errno = EADDRNOTAVAIL;
	if (identitySameHost(parent, &c->ranks[c->rank]))
		fd = tryParent(c, &loopback, parent->port, deadline);
	for (int own = 0; own < 2; own++)
		for (unsigned i = 0; fd < 0 && i < n; i++)
			if (isOwnAddress(c, &parent->address[i]) == own)
				fd = tryParent(c, &parent->address[i], parent->port, deadline);
	return fd;
}

/* After a timeout the parent may only be late: try again. A refusal is final. */
static ginResult_t connectParent(struct control *c, uint64_t deadline)
{
	const struct identity *parent = &c->ranks[controlParent(c->rank)];
	int fd;

	controlReleaseSpare(c);
	do
		fd = tryAddresses(c, parent, deadline);
	while (fd < 0 && errno == ETIMEDOUT && clockNow() < deadline);
	if (fd < 0)
		return fail(ginErrorBootstrap,
			    "no connection to rank %d (host %s, port %u, %u addresses): %m; is the "
			    "network between the hosts open, or should GIN_SOCKET_IFNAME name one?",
			    controlParent(c->rank), parent->host, parent->port, parent->addresses);
	addLink(c, fd, controlParent(c->rank));
	return ginSuccess;
}

static int isMissingChild(const struct control *c, uint32_t rank)
{
	if (rank == 0 || rank >= (uint32_t)c->nRanks || controlParent((int)rank) != c->rank)
		return 0;
	for (int i = controlFirstChild(c); i < c->links; i++)
		if (c->link[i].rank == (int)rank)
			return 0;
	return 1;
}

/* Closes a connection that does not know the secret or is not from a missing child. */
static void acceptOne(struct control *c, int fd, uint64_t deadline)
{
	char from[64];
	uint32_t rank;

	if (!authAccept(fd, c->ranks[0].secret, &rank, within(HANDSHAKE_SECONDS, deadline)) &&
	    isMissingChild(c, rank)) {
		addLink(c, fd, (int)rank);
		return;
	}
	socketPeer(fd, from, sizeof(from));
	logWrite(logWarn, "control plane: refused %s, which is not of this communicator", from);
	close(fd);
}

static int firstMissingChild(const struct control *c)
{
	uint32_t rank = (uint32_t)c->rank * CONTROL_CHILDREN + 1;

	while (!isMissingChild(c, rank))
		rank++;
	return (int)rank;
}

static ginResult_t acceptChildren(struct control *c, int children, uint64_t deadline)
{
	uint64_t warn = clockNow() + 10 * SECOND;

	while (c->links - controlFirstChild(c) < children) {
		uint64_t until = deadline < warn ? deadline : warn;
		if (c->spares == children - (c->links - controlFirstChild(c)))
			controlReleaseSpare(c);
		int fd = socketAccept(c->listener, until);
		if (fd >= 0) {
			acceptOne(c, fd, deadline);
			continue;
		}
		if (errno == ECONNABORTED || errno == EINTR || errno == EAGAIN || errno == EPROTO)
			continue; /* the connection ended before it was accepted */
		if (errno != ETIMEDOUT)
			return failErrno("cannot accept a connection");
		int rank = firstMissingChild(c);
		if (until == deadline)
			return fail(ginErrorTimeout, "rank %d (host %s) has not connected", rank,
				    c->ranks[rank].host);
		logWrite(logWarn, "waiting for rank %d (host %s) to connect", rank,
			 c->ranks[rank].host);
		warn = deadline;
	}
	return ginSuccess;
}

ginResult_t controlConnect(struct control *c, uint64_t deadline)
{
	ginResult_t result = ginSuccess;

	c->subtree = subtreeSize(c->rank, c->nRanks);
	if (c->rank)
		result = connectParent(c, deadline);
	if (result == ginSuccess)
		result = acceptChildren(c, controlLinksOf(c->rank, c->nRanks) - (c->rank != 0),
					deadline);
	return result;
}
