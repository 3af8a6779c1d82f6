/* SPDX-License-Identifier: BSD-3-Clause */
/* meeting.c - client side of an exchange through a root */
#include "meeting.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/net/auth.h"
#include "lib/base/net/identity.h"
#include "lib/base/interrupt.h"
#include "lib/base/log.h"

#define CONNECT_SECONDS 10
#define AUTH_SECONDS 20
#define REFUSAL_SECONDS 10
#define AFTER_SECONDS 2 /* after the deadline the root may still say which ranks are missing */
#define UNREACHABLE_SECONDS 30 /* a network may come up later than the rank */
#define RETRY_MS_MOST 100      /* the pause between attempts doubles from 1 ms up to this */

static const struct netAddress loopback = {.family = AF_INET, .bytes = {127, 0, 0, 1}};

/* The number of uses of each name in this process. */
struct meetingName {
	char name[BOOTSTRAP_NAME];
	uint32_t next; /* generation of the next communicator of this name */
	struct meetingName *others;
};

static struct meetingName *names;
static pthread_mutex_t namesLock = PTHREAD_MUTEX_INITIALIZER;

static struct meetingName *findName(const char *text)
{
	struct meetingName *name = names;

	while (name && strcmp(name->name, text))
		name = name->others;
	if (name)
		return name;
	name = calloc(1, sizeof(*name));
	if (!name)
		return NULL;
	snprintf(name->name, sizeof(name->name), "%s", text);
	name->others = names;
	names = name;
	return name;
}

/* Returns 0, or -1 without memory. */
static int nameMeeting(struct meeting *meeting, const char *name)
{
	snprintf(meeting->name, sizeof(meeting->name), "%s", name);
	pthread_mutex_lock(&namesLock);
	struct meetingName *used = findName(name);
	if (used)
		meeting->generation = used->next++;
	pthread_mutex_unlock(&namesLock);
	return used ? 0 : -1;
}

struct meeting *meetingMake(const struct rootContact *contact, const char *name,
			    const struct bootstrapWanted *wanted, char *why)
{
	struct meeting *meeting = calloc(1, sizeof(*meeting));

	if (meeting) {
		*meeting = (struct meeting){
			.contact = *contact, .deadline = wanted->deadline, .watch = -1};
		if (!name || !nameMeeting(meeting, name))
			return meeting;
	}
	free(meeting);
	snprintf(why, BOOTSTRAP_WHY, "no memory");
	return NULL;
}

static uint64_t within(unsigned seconds, uint64_t deadline)
{
	uint64_t end = clockNow() + seconds * SECOND;

	return end < deadline ? end : deadline;
}

/* The root must not take a connection that is given up for the death of this rank. */
static void leave(int fd)
{
	send(fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	close(fd);
}

/* Returns a connection that both ends have authenticated, or -1 with errno. */
static int tryAddress(const struct rootContact *contact, const struct netAddress *address,
		      uint32_t rank, uint64_t deadline)
{
	int fd = socketConnect(address, contact->port, within(CONNECT_SECONDS, deadline));

	if (fd < 0)
		return -1;
	if (!authConnect(fd, contact->key, rank, within(AUTH_SECONDS, deadline)))
		return fd;
	int reason = errno;
	leave(fd);
	errno = reason;
	return -1;
}

static int isUnreachable(int reason)
{
	return reason == EHOSTUNREACH || reason == ENETUNREACH;
}

/* Tries each address once; -1 with the errno of the last address that this host reaches. */
static int tryAddresses(const struct rootContact *contact, uint32_t rank, uint64_t deadline)
{
	int fd = -1, reason = EADDRNOTAVAIL;

	if (contact->hostId == identityHostId()) {
		fd = tryAddress(contact, &loopback, rank, deadline);
		reason = errno;
	}
	for (unsigned i = 0; fd < 0 && i < contact->addresses && i < ROOT_ADDRESSES; i++) {
		fd = tryAddress(contact, &contact->address[i], rank, deadline);
		if (fd < 0 && (!isUnreachable(errno) || reason == EADDRNOTAVAIL))
			reason = errno;
	}
	errno = reason;
	return fd;
}

/* How long a rank tries again. */
struct patience {
	uint64_t busy;	      /* after a timeout, or a reset by a root with too many connections */
	uint64_t unreachable; /* without a way to the root's host */
	uint64_t refused;     /* while nobody listens */
};

static struct patience patienceFor(int patient, int isHere, uint64_t deadline)
{
	uint64_t later = isHere ? 0 : within(UNREACHABLE_SECONDS, deadline);

	if (patient && !isHere)
		return (struct patience){deadline, deadline, deadline};
	return (struct patience){deadline, later, 0};
}

/* A wrong secret (EACCES) is final. */
static int mayRetry(int reason, const struct patience *until)
{
	uint64_t now = clockNow();

	if (reason == ETIMEDOUT || reason == ECONNRESET || reason == EPIPE)
		return now < until->busy;
	if (isUnreachable(reason))
		return now < until->unreachable;
	return reason == ECONNREFUSED && now < until->refused;
}

static int connectRoot(const struct rootContact *contact, uint32_t rank, struct patience until,
		       uint64_t deadline)
{
	uint64_t warn = clockNow() + 10 * SECOND;
	int fd = tryAddresses(contact, rank, deadline), pause = 1;

	while (fd < 0 && mayRetry(errno, &until)) {
		if (clockNow() > warn) {
			logWrite(logWarn, "bootstrap: the root does not answer yet (port %u): %m",
				 contact->port);
			warn = deadline;
		}
		usleep((useconds_t)pause * 1000);
		if (interruptedHere()) {
			errno = ECANCELED;
			break;
		}
		pause = pause * 2 < RETRY_MS_MOST ? pause * 2 : RETRY_MS_MOST;
		fd = tryAddresses(contact, rank, deadline);
	}
	return fd;
}

int meetingReach(const struct rootContact *contact, uint64_t deadline)
{
	int fd = tryAddresses(contact, 0, deadline);

	if (fd < 0)
		return -1;
	leave(fd);
	return 0;
}

/*
 * The exchange's result, and the sentence, when the process of the root could not connect to it:
 * errno. The other ranks may reach the root, and get the sentence.
 */
static int noConnectionHere(const struct rootContact *contact, char *why)
{
	int reason = errno;
	char host[64] = "";

	gethostname(host, sizeof(host) - 1);
	snprintf(why, BOOTSTRAP_WHY,
		 "the process of the root (host %s, pid %d) does not reach the root itself (port "
		 "%u): %s%s",
		 host, (int)getpid(), contact->port, strerror(reason),
		 isUnreachable(reason) ? ": is the loopback interface of the host down?" : "");
	rootGiveUp(contact, why);
	return -1;
}

/* The exchange's result, and the sentence, when this rank could not connect: errno. */
static int noConnection(const struct rootContact *contact, int patient, char *why)
{
	int late = errno != EACCES && (patient || errno == ETIMEDOUT);

	if (errno == EACCES)
		snprintf(why, BOOTSTRAP_WHY,
			 "the process that listens at port %u has another secret: %s",
			 contact->port,
			 patient ? "GIN_SECRET must be the same on all ranks, and no other job may "
				   "use the port of GIN_ROOT"
				 : "the id belongs to another job, or was used before: "
				   "each id serves one communicator");
	else
		snprintf(why, BOOTSTRAP_WHY, "no connection to %s (port %u, %u addresses): %m; %s",
			 patient ? "rank 0 at GIN_ROOT" : "the process that made the id",
			 contact->port, contact->addresses,
			 patient ? "is rank 0 started, on the host of GIN_ROOT, and is the network "
				   "between the hosts open?"
				 : "it must run until all ranks have connected, and each id serves "
				   "one communicator");
	return late ? BOOTSTRAP_LATE : -1;
}

/* The exchange's result, and the sentence, when the connection failed: errno. */
static int noReply(const struct rootContact *contact, char *why)
{
	if (errno == ETIMEDOUT) {
		snprintf(why, BOOTSTRAP_WHY,
			 "the root of the bootstrap (port %u) did not answer within GIN_TIMEOUT: "
			 "is its process stopped?",
			 contact->port);
		return BOOTSTRAP_LATE;
	}
	snprintf(why, BOOTSTRAP_WHY,
		 "the connection to the root of the bootstrap (port %u) ended: %m; see the "
		 "messages of rank 0",
		 contact->port);
	return -1;
}

/* At the deadline this rank gives up, and so ends the wait of the others: the root answers. */
static int receiveReply(int fd, struct rootReply *reply, uint64_t deadline)
{
	int failed = socketReceive(fd, reply, sizeof(*reply), deadline);

	if (!failed || errno != ETIMEDOUT)
		return failed;
	send(fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	shutdown(fd, SHUT_WR);
	return socketReceive(fd, reply, sizeof(*reply), clockNow() + AFTER_SECONDS * SECOND);
}

/* A forked child process may hold fd: close() alone would not disconnect. */
void meetingEnd(int fd, int joined)
{
	if (joined)
		send(fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	shutdown(fd, SHUT_RDWR);
	close(fd);
}

int meetingRead(struct rootReply *reply, char *why)
{
	reply->why[sizeof(reply->why) - 1] = '\0';
	if (!reply->why[0])
		return 0;
	snprintf(why, BOOTSTRAP_WHY, "%s", reply->why);
	return reply->result ? reply->result : -1;
}

int meetingAsk(const struct rootContact *contact, const struct rootRequest *request, int patient,
	       uint64_t deadline, struct rootReply *reply, int *watch, char *why)
{
	int isHere = rootIsHere(contact), result = -1;
	int fd = connectRoot(contact, request->rank, patienceFor(patient, isHere, deadline),
			     deadline);

	if (fd < 0)
		return isHere && errno != EACCES && rootIsHere(contact) /* still */
			       ? noConnectionHere(contact, why)
			       : noConnection(contact, patient, why);
	if (socketSend(fd, request, sizeof(*request), deadline) ||
	    receiveReply(fd, reply, deadline)) {
		result = noReply(contact, why);
		goto out;
	}
	result = meetingRead(reply, why);
out:
	if (!result && watch)
		*watch = fd;
	else
		meetingEnd(fd, !result);
	return result;
}

/*
 * A rank that cannot take part informs the others if possible, but does not wait for a late root.
 */
static uint64_t deadlineOf(const struct meeting *meeting, const struct bootstrapEntry *mine)
{
	return mine->refused ? within(REFUSAL_SECONDS, meeting->deadline) : meeting->deadline;
}

int meetingExchange(void *state, const struct bootstrapEntry *mine, int parent,
		    struct bootstrapEntry *root, struct bootstrapEntry *parents, char *why)
{
	struct meeting *meeting = state;
	struct rootRequest request = {.generation = meeting->generation,
				      .rank = (uint32_t)meeting->rank,
				      .nRanks = (uint32_t)meeting->nRanks,
				      .parent = (uint32_t)parent,
				      .pid = (uint32_t)getpid(),
				      .entry = *mine};
	struct rootReply reply;

	memcpy(request.name, meeting->name, sizeof(request.name));
	memcpy(request.job, meeting->job, sizeof(request.job));
	int result = meetingAsk(&meeting->contact, &request, meeting->patient,
				deadlineOf(meeting, mine), &reply, &meeting->watch, why);
	if (result)
		return result;
	*root = reply.root;
	*parents = reply.parent;
	return 0;
}

int meetingWatch(void *state)
{
	return ((struct meeting *)state)->watch;
}

/* When the root's process has ended, there will be no news. */
int meetingLost(void *state, char *why)
{
	struct meeting *meeting = state;
	struct rootReply news;
	int failed = socketReceive(meeting->watch, &news, sizeof(news), clockNow() + SECOND);

	meetingEnd(meeting->watch, 0);
	meeting->watch = -1;
	if (failed)
		return 0;
	news.why[sizeof(news.why) - 1] = '\0';
	snprintf(why, BOOTSTRAP_WHY, "%s", news.why);
	return ginErrorBootstrap;
}

int meetingJoined(void *state)
{
	struct meeting *meeting = state;

	if (meeting->watch >= 0 && meeting->stays) {
		send(meeting->watch, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		return meeting->watch;
	}
	if (meeting->watch >= 0)
		meetingEnd(meeting->watch, 1);
	meeting->watch = -1;
	return -1;
}

void meetingClose(void *state)
{
	struct meeting *meeting = state;

	if (meeting->watch >= 0)
		meetingEnd(meeting->watch, 0);
	free(meeting);
}

/* Names or generations of communicators differ, and so do their keys, whatever the nonce is. */
void meetingDerive(const void *state, const void *nonce, size_t bytes, uint8_t key[BOOTSTRAP_KEY])
{
	const struct meeting *meeting = state;
	uint8_t text[BOOTSTRAP_NAME + sizeof(meeting->generation) + 64] = {0};
	size_t used = sizeof(meeting->name);

	memcpy(text, meeting->name, used);
	memcpy(text + used, &meeting->generation, sizeof(meeting->generation));
	used += sizeof(meeting->generation);
	if (bytes > sizeof(text) - used)
		bytes = sizeof(text) - used;
	memcpy(text + used, nonce, bytes);
	authDerive(meeting->contact.key, text, used + bytes, key);
}
