/* SPDX-License-Identifier: BSD-3-Clause */
/* tree.c - connects the ranks in a tree */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "internal.h"
#include "lib/base/net/auth.h"

/* An address may lead to no host or to a stranger: the next address is then tried. */
#define CONNECT_SECONDS 10
#define GREETING_SECONDS 60 /* the parent accepts after it has reached its own parent */
#define RETRY_US 10000
#define NEWS_US 10000
#define NEWS_TRIES 100

int controlParent(int rank)
{
	return rank ? (rank - 1) / CONTROL_CHILDREN : 0;
}

int controlLinksOf(int rank, int nRanks)
{
	int64_t first = (int64_t)rank * CONTROL_CHILDREN + 1, left = nRanks - first;
	int children = left < 0 ? 0 : left < CONTROL_CHILDREN ? (int)left : CONTROL_CHILDREN;

	return children + (rank != 0);
}

/* Rank 0 has no parent; rank 1 has as many children, unless there are few ranks. */
int controlLinksMost(int nRanks)
{
	int first = controlLinksOf(0, nRanks), second = nRanks > 1 ? controlLinksOf(1, nRanks) : 0;

	return first > second ? first : second;
}

static int subtreeSize(int rank, int nRanks)
{
	int size = 1;
	int64_t first = (int64_t)rank * CONTROL_CHILDREN + 1;

	for (int64_t child = first; child < first + CONTROL_CHILDREN && child < nRanks; child++)
		size += subtreeSize((int)child, nRanks);
	return size;
}

static const struct netAddress loopback = {.family = AF_INET, .bytes = {127, 0, 0, 1}};

static uint64_t within(unsigned seconds, uint64_t deadline)
{
	uint64_t end = clockNow() + seconds * SECOND;

	return end < deadline ? end : deadline;
}

/* An address that does not answer leaves time for the addresses after it. */
static uint64_t shareOf(uint64_t deadline, unsigned addresses)
{
	uint64_t now = clockNow();

	return within(CONNECT_SECONDS,
		      deadline > now ? now + (deadline - now) / addresses : deadline);
}

/*
 * One attempt at one address: an authenticated connection, or -1 with errno. `addresses`: the
 * number of addresses that are not tried yet, this one included.
 */
static int tryParent(const struct control *c, const struct netAddress *address, unsigned addresses,
		     uint64_t deadline)
{
	uint16_t port = c->ranks[controlParent(c->rank)].port;
	int fd = socketConnect(address, port, shareOf(deadline, addresses));

	if (fd < 0)
		return -1;
	if (!authConnect(fd, c->key, (uint32_t)c->rank, within(GREETING_SECONDS, deadline)))
		return fd;
	int reason = errno;
	close(fd);
	errno = reason;
	return -1;
}

static int hasAddress(const struct identity *of, const struct netAddress *address)
{
	for (unsigned i = 0; i < of->addresses; i++)
		if (!memcmp(&of->address[i], address, sizeof(*address)))
			return 1;
	return 0;
}

/* Container bridges have one address on every host: here the address refuses the rank's port. */
static int isBridge(const struct control *c, const struct identity *to, unsigned i)
{
	const struct identity *me = &c->ranks[c->rank];
	unsigned others = 0;

	for (unsigned j = 0; j < to->addresses; j++)
		others += !hasAddress(me, &to->address[j]);
	return others && hasAddress(me, &to->address[i]);
}

/*
 * An address that this host has too is used only if this host has all addresses: if GIN_HOSTID
 * divides a host.
 */
int controlAddress(const struct control *c, int rank, unsigned i, struct netAddress *out)
{
	const struct identity *to = &c->ranks[rank];

	if (to->loopback && identitySameHost(to, &c->ranks[c->rank])) {
		*out = loopback;
		return !i;
	}
	for (unsigned j = 0; j < to->addresses; j++)
		if (!isBridge(c, to, j) && !i--) {
			*out = to->address[j];
			return 1;
		}
	return 0;
}

/* Errors of a connection that the parent has closed to make room for newer ones, or has lost. */
static int isReset(int reason)
{
	return reason == ECONNRESET || reason == EPIPE;
}

/*
 * One pass over the parent's addresses. Addresses that this host has too come last: they lead to
 * the parent only when one network is split into several hosts (GIN_HOSTID). -1 with the last
 * errno; ECONNRESET when one of the connections was reset.
 */
static int tryAddresses(const struct control *c, const struct identity *parent, uint64_t deadline)
{
	unsigned n =
		parent->addresses < IDENTITY_ADDRESSES ? parent->addresses : IDENTITY_ADDRESSES;
	unsigned left = n;
	int fd = -1, reset = 0;

	errno = EADDRNOTAVAIL;
	if (parent->loopback && identitySameHost(parent, &c->ranks[c->rank]))
		fd = tryParent(c, &loopback, n + 1, deadline);
	for (int own = 0; own < 2; own++)
		for (unsigned i = 0; fd < 0 && i < n; i++) {
			reset |= isReset(errno);
			if (hasAddress(&c->ranks[c->rank], &parent->address[i]) == own)
				fd = tryParent(c, &parent->address[i], left--, deadline);
		}
	if (fd < 0 && reset)
		errno = ECONNRESET;
	return fd;
}

/*
 * After a timeout the parent may only be late; after a reset it may have had too many connections:
 * try again. A refusal is final, and so a parent that has died ends the loop.
 */
static ginResult_t connectParent(struct control *c, uint64_t deadline)
{
	const struct identity *parent = &c->ranks[controlParent(c->rank)];
	int fd;

	controlReleaseSpare(c);
	while ((fd = tryAddresses(c, parent, deadline)) < 0 && clockNow() < deadline) {
		if (isReset(errno))
			usleep(RETRY_US);
		else if (errno != ETIMEDOUT)
			break;
	}
	if (fd < 0)
		return fail(ginErrorBootstrap,
			    "no connection to rank %d (host %s, port %u, %u addresses): %m; is the "
			    "network between the hosts open, or should GIN_SOCKET_IFNAME name one?",
			    controlParent(c->rank), parent->host, parent->port, parent->addresses);
	controlAddLink(c, fd, controlParent(c->rank));
	return ginSuccess;
}

/*
 * A parent that gives up, because another rank has died, refuses connections. The bootstrap knows
 * the reason, but its news may arrive a little later.
 */
static ginResult_t findReason(struct control *c, ginResult_t result)
{
	for (int i = 0; i < NEWS_TRIES; i++) {
		ginResult_t reason = controlReadNews(c);
		if (reason != ginSuccess)
			return reason;
		usleep(NEWS_US);
	}
	return result;
}

ginResult_t controlConnect(struct control *c, uint64_t deadline)
{
	ginResult_t result = ginSuccess;

	c->subtree = subtreeSize(c->rank, c->nRanks);
	if (c->rank)
		result = connectParent(c, deadline);
	if (result != ginSuccess && c->news.isAsked)
		result = findReason(c, result);
	if (result == ginSuccess)
		result = controlAcceptChildren(
			c, controlLinksOf(c->rank, c->nRanks) - (c->rank != 0), deadline);
	return result;
}
