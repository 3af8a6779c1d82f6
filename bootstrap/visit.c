/* SPDX-License-Identifier: BSD-3-Clause */
/* visit.c - a rank's way to the root */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/auth.h"
#include "lib/base/identity.h"
#include "lib/base/log.h"
#include "root.h"

#define CONNECT_SECONDS 10
#define GREETING_SECONDS 20
#define AGAIN_MS 100 /* between attempts at most: the first follow each other quickly */

static const struct netAddress loopback = {.family = AF_INET, .bytes = {127, 0, 0, 1}};

static uint64_t within(unsigned seconds, uint64_t deadline)
{
	uint64_t end = clockNow() + seconds * SECOND;

	return end < deadline ? end : deadline;
}

/* Connected and authenticated, or -1 with errno. */
static int greet(const struct rootContact *contact, const struct netAddress *address, uint32_t rank,
		 uint64_t deadline)
{
	int fd = socketConnect(address, contact->port, within(CONNECT_SECONDS, deadline));

	if (fd < 0)
		return -1;
	if (!authConnect(fd, contact->key, rank, within(GREETING_SECONDS, deadline)))
		return fd;
	int reason = errno;
	close(fd);
	errno = reason;
	return -1;
}

/* One pass over the addresses; -1 with errno of the last. */
static int tryAddresses(const struct rootContact *contact, uint32_t rank, uint64_t deadline)
{
	int fd = -1;

	errno = EADDRNOTAVAIL;
	if (contact->hostId == identityHostId())
		fd = greet(contact, &loopback, rank, deadline);
	for (unsigned i = 0; fd < 0 && i < contact->addresses && i < ROOT_ADDRESSES; i++)
		fd = greet(contact, &contact->address[i], rank, deadline);
	return fd;
}

/*
 * Who is late may be busy. Somebody else's answer does not get better by waiting; an end of the
 * connection may when the root is still to come.
 */
static int mayComeLater(int reason, int patient)
{
	return reason == ETIMEDOUT ||
	       (patient && (reason == ECONNREFUSED || reason == EHOSTUNREACH ||
			    reason == ENETUNREACH || reason == ECONNRESET));
}

static int reach(const struct rootContact *contact, uint32_t rank, int patient, uint64_t deadline)
{
	uint64_t warn = clockNow() + 10 * SECOND;
	int fd = tryAddresses(contact, rank, deadline), pause = 1;

	while (fd < 0 && mayComeLater(errno, patient) && clockNow() < deadline) {
		if (clockNow() > warn) {
			logWrite(logWarn, "bootstrap: the root does not answer yet (port %u): %m",
				 contact->port);
			warn = deadline;
		}
		usleep((useconds_t)pause * 1000);
		pause = pause * 2 < AGAIN_MS ? pause * 2 : AGAIN_MS;
		fd = tryAddresses(contact, rank, deadline);
	}
	return fd;
}

static int sayNoRoot(const struct rootContact *contact, int patient, char *why)
{
	int late = errno != EACCES && (patient || errno == ETIMEDOUT);

	if (errno == EACCES)
		snprintf(why, BOOTSTRAP_WHY, "who listens at port %u has another secret: %s",
			 contact->port,
			 patient ? "GIN_SECRET must be the same on all ranks, and GIN_ROOT name a "
				   "port of this job alone"
				 : "the id is of another job");
	else
		snprintf(why, BOOTSTRAP_WHY, "no connection to %s (port %u, %u addresses): %m; %s",
			 patient ? "rank 0 at GIN_ROOT" : "the process that made the id",
			 contact->port, contact->addresses,
			 patient ? "is rank 0 started, and the network between the hosts open?"
				 : "it must be there until all ranks have come, and each id serves "
				   "one communicator");
	return late ? BOOTSTRAP_LATE : -1;
}

static int sayNoReply(const struct rootContact *contact, unsigned seconds, char *why)
{
	if (errno == ETIMEDOUT) {
		snprintf(why, BOOTSTRAP_WHY,
			 "the root of the bootstrap (port %u) did not answer within %u s "
			 "(GIN_TIMEOUT): is its process stopped, or its GIN_TIMEOUT longer?",
			 contact->port, seconds);
		return BOOTSTRAP_LATE;
	}
	snprintf(why, BOOTSTRAP_WHY,
		 "the connection to the root of the bootstrap (port %u) ended: %m; see the "
		 "messages of rank 0",
		 contact->port);
	return -1;
}

int rootVisit(const struct rootContact *contact, const struct rootRequest *request, int patient,
	      unsigned seconds, struct rootReply *reply, char *why)
{
	uint64_t now = clockNow(), deadline = now + seconds * SECOND;
	/* The root gives up first, as it can name who is missing. */
	uint64_t late = deadline + seconds * SECOND / 10 + SECOND;
	int result = -1, fd = reach(contact, request->rank, patient, deadline);

	if (fd < 0)
		return sayNoRoot(contact, patient, why);
	if (socketSend(fd, request, sizeof(*request), deadline) ||
	    socketReceive(fd, reply, sizeof(*reply), late)) {
		result = sayNoReply(contact, seconds, why);
		goto out;
	}
	reply->why[sizeof(reply->why) - 1] = '\0';
	if (reply->why[0]) {
		snprintf(why, BOOTSTRAP_WHY, "%s", reply->why);
		result = reply->result ? reply->result : -1;
	} else {
		result = 0;
	}
out:
	shutdown(fd, SHUT_RDWR); /* a child that the program forked meanwhile has it, too */
	close(fd);
	return result;
}
