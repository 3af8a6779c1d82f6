/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp.c - bootstrap by GIN_ROOT=host:port; a launcher's variables give the rank */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/net/identity.h"
#include "lib/base/interrupt.h"
#include "lib/base/log.h"
#include "meeting.h"

#define WARN_SECONDS 1	/* for another job's root, to take a sentence */
#define REACH_SECONDS 5 /* for an address that leads to this host by a gateway */
#define NAME_SECONDS 5	/* until the first line about a name that is not known */
#define NAME_MS 200	/* between two questions for a name */

/* The job of this process; rank 0 runs the root. The lock guards all fields. */
static struct {
	pthread_mutex_t lock;
	pid_t joined; /* this process; 0 before */
	int rank, nRanks;
	struct rootContact contact;
	struct root *root; /* of rank 0, while some communicator needs it */
} job = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const struct netAddress loopback = {.family = AF_INET, .bytes = {127, 0, 0, 1}};

static int isPort(const char *text)
{
	size_t digits = strspn(text, "0123456789");

	return digits && digits <= 5 && !text[digits] && atoi(text) > 0 && atoi(text) <= UINT16_MAX;
}

int tcpSplit(const char *text, char *host, size_t bytes, char **port)
{
	if (snprintf(host, bytes, "%s", text) >= (int)bytes)
		return -1;
	*port = strrchr(host, ':');
	if (!*port || *port == host || !isPort(*port + 1))
		return -1;
	*(*port)++ = '\0';
	size_t length = strlen(host);
	if (host[0] == '[' && host[length - 1] == ']') {
		memmove(host, host + 1, length - 2);
		host[length - 2] = '\0';
	}
	return 0;
}

/* Derives the key from GIN_SECRET, a text of any length. */
static void makeKey(const char *secret, uint8_t key[AUTH_KEY_BYTES])
{
	static const uint8_t halves[2][AUTH_KEY_BYTES] = {"libgin secret 1", "libgin secret 2"};

	for (int i = 0; i < 2; i++) {
		uint64_t half = siphash(halves[i], secret, strlen(secret));
		memcpy(key + 8 * i, &half, sizeof(half));
	}
}

/* A text that is no name, "tcp://host" or an address with a wrong number, never becomes one. */
static int isName(const char *host)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

	return strpbrk(host, letters) && !strpbrk(host, ":/[]%@ ");
}

static int mayCome(const char *host, int error)
{
	return (error == EAI_AGAIN || error == EAI_NONAME) && isName(host);
}

/*
 * The names of a job's hosts may come into the name service after its processes have started: as a
 * port that is closed, a name that is not known is waited for.
 */
static int lookUp(const char *host, const char *port, const struct bootstrapWanted *wanted,
		  struct addrinfo **list)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
	uint64_t warn = clockNow() + NAME_SECONDS * SECOND;
	int error = getaddrinfo(host, port, &hints, list);

	while (mayCome(host, error) && clockNow() < wanted->deadline && !interruptedHere()) {
		if (clockNow() > warn) {
			logWrite(logWarn, "bootstrap: waiting for the name in GIN_ROOT=%s: %s",
				 wanted->root, gai_strerror(error));
			warn = wanted->deadline;
		}
		usleep(NAME_MS * 1000);
		error = getaddrinfo(host, port, &hints, list);
	}
	return error;
}

static int resolve(const struct bootstrapWanted *wanted, struct rootContact *contact, char *why)
{
	struct addrinfo *list = NULL;
	char host[256], *port;

	if (tcpSplit(wanted->root, host, sizeof(host), &port)) {
		snprintf(why, BOOTSTRAP_WHY,
			 "GIN_ROOT=%.100s: must be host:port or [address]:port, with a port from 1 "
			 "to 65535",
			 wanted->root);
		return -1;
	}
	int error = lookUp(host, port, wanted, &list);
	if (error) {
		snprintf(why, BOOTSTRAP_WHY, "GIN_ROOT=%.100s: %s", wanted->root,
			 error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error));
		return mayCome(host, error) ? BOOTSTRAP_LATE : -1;
	}
	for (struct addrinfo *i = list; i && contact->addresses < ROOT_ADDRESSES; i = i->ai_next) {
		socketAddress(i->ai_addr, &contact->address[contact->addresses]);
		contact->addresses += !socketIsLinkLocal(&contact->address[contact->addresses]);
	}
	freeaddrinfo(list);
	if (!contact->addresses) {
		snprintf(why, BOOTSTRAP_WHY,
			 "GIN_ROOT=%.100s: a link-local address of IPv6, which has no meaning on "
			 "another host: give the interfaces addresses such as fd00::1/64, or use "
			 "IPv4",
			 wanted->root);
		return -1;
	}
	contact->port = (uint16_t)atoi(port);
	return 0;
}

static int onlyLoopback(const struct rootContact *contact)
{
	for (unsigned i = 0; i < contact->addresses; i++)
		if (!socketIsLoopback(&contact->address[i]))
			return 0;
	return 1;
}

/*
 * The name contains torchrun's restart count: ranks of an earlier start may still run, and must not
 * meet ranks of this start.
 */
static void nameOf(const struct bootstrapWanted *wanted, char name[BOOTSTRAP_NAME])
{
	const char *restarts = getenv("TORCHELASTIC_RESTART_COUNT");

	snprintf(name, BOOTSTRAP_NAME, "%.12s/%.50s", restarts ? restarts : "", wanted->name);
}

/*
 * Another job has the port. If its secret is equal, ranks of both jobs could meet: its root fails
 * the communicator, for the ranks of both jobs, with the sentence of this rank 0.
 */
static void warnRoot(const struct rootContact *contact, const struct bootstrapWanted *wanted)
{
	struct rootRequest request = {.nRanks = (uint32_t)job.nRanks, .pid = (uint32_t)getpid()};
	struct bootstrapEntry *entry = &request.entry;
	struct rootReply reply;
	char why[BOOTSTRAP_WHY];

	nameOf(wanted, request.name);
	launcherJob(request.job);
	entry->magic = IDENTITY_MAGIC;
	entry->refused = ginErrorBootstrap;
	gethostname(entry->host, sizeof(entry->host) - 1);
	snprintf(entry->refusal, sizeof(entry->refusal),
		 "ginCommInit: rank 0: two processes say that they are rank 0, and use the port of "
		 "GIN_ROOT: the later one is on host %.63s, pid %u; each job needs a port of its "
		 "own",
		 entry->host, request.pid);
	meetingAsk(contact, &request, 0, clockNow() + WARN_SECONDS * SECOND, &reply, NULL, why);
}

/* Is it an address of this host, or of every host as 0.0.0.0? */
static int isOwn(const struct netAddress *address)
{
	uint16_t port;
	int fd = socketListen(address, &port);

	if (fd >= 0)
		close(fd);
	return fd >= 0 || errno != EADDRNOTAVAIL;
}

/*
 * Rank 0 alone can find out at once that GIN_ROOT names another host than its own: the other ranks
 * find a closed port, as they do while rank 0 has not started. An address may belong to a gateway
 * that forwards the port.
 */
static int checkPlace(const struct rootContact *contact, const struct bootstrapWanted *wanted,
		      char *why)
{
	uint64_t end = clockNow() + REACH_SECONDS * SECOND;
	char host[64] = "";

	for (unsigned i = 0; i < contact->addresses; i++)
		if (isOwn(&contact->address[i]))
			return 0;
	if (!meetingReach(contact, end < wanted->deadline ? end : wanted->deadline))
		return 0;
	int reason = errno;
	gethostname(host, sizeof(host) - 1);
	snprintf(why, BOOTSTRAP_WHY,
		 "GIN_ROOT=%.100s: no address of it is of host %s, where rank 0 runs, or leads "
		 "there (%s): GIN_ROOT must name the host of rank 0",
		 wanted->root, host, strerror(reason));
	return -1;
}

/*
 * Without a secret the root listens on the loopback interface only. With a secret it listens on all
 * interfaces: on rank 0's own host, the name in GIN_ROOT may resolve to a loopback address.
 */
static int startRoot(struct rootContact *contact, const struct bootstrapWanted *wanted, char *why)
{
	const struct netAddress *at = *wanted->secret ? NULL : &contact->address[0];
	int listener = socketListenAt(at, contact->port);
	char name[BOOTSTRAP_JOB];

	launcherJob(name);
	if (listener < 0 ||
	    rootStartUsed(listener, contact->key, name, wanted->seconds, &job.root)) {
		int isTaken = errno == EADDRINUSE;
		snprintf(why, BOOTSTRAP_WHY, "GIN_ROOT=%.100s: rank 0 cannot listen there: %m%s",
			 wanted->root,
			 isTaken ? ": another job or program has the port; choose another port"
				 : "");
		if (isTaken)
			warnRoot(contact, wanted);
		return -1;
	}
	if (!at && checkPlace(contact, wanted, why)) {
		rootRelease(&job.root);
		return -1;
	}
	if (!at) { /* rank 0 reaches its own root by loopback, whatever its name resolves to */
		contact->address[0] = loopback;
		contact->addresses = 1;
	}
	return 0;
}

static int joinLocked(const struct bootstrapWanted *wanted, char *why)
{
	struct rootContact contact = {.magic = ROOT_MAGIC};

	if (!*wanted->root) {
		snprintf(why, BOOTSTRAP_WHY, "GIN_BOOTSTRAP=tcp needs GIN_ROOT=host:port");
		return -1;
	}
	int failed = launcherRank(wanted->forced, &job.rank, &job.nRanks, why);
	if (!failed)
		failed = resolve(wanted, &contact, why);
	if (failed)
		return failed;
	if (!*wanted->secret && !onlyLoopback(&contact)) {
		snprintf(why, BOOTSTRAP_WHY,
			 "GIN_ROOT=%.100s is open to other hosts: set GIN_SECRET, on all ranks, to "
			 "one long random text",
			 wanted->root);
		return -1;
	}
	makeKey(wanted->secret, contact.key);
	if (!job.rank && startRoot(&contact, wanted, why))
		return -1;
	job.contact = contact;
	__atomic_store_n(&job.joined, getpid(), __ATOMIC_RELAXED);
	return 0;
}

/* Rank 0 listens again when its root has ended. */
static int useRoot(const struct bootstrapWanted *wanted, char *why)
{
	return job.rank || rootUse(&job.root) ? 0 : startRoot(&job.contact, wanted, why);
}

static int tcpOpen(const struct bootstrapWanted *wanted, void **state, int *rank, int *nRanks,
		   char *why)
{
	char name[BOOTSTRAP_NAME];

	if (bootstrapCheckFork(&job.joined, why))
		return -1;
	pthread_mutex_lock(&job.lock);
	int result = job.joined ? useRoot(wanted, why) : joinLocked(wanted, why);
	pthread_mutex_unlock(&job.lock);
	if (result)
		return result;
	nameOf(wanted, name);
	struct meeting *meeting = meetingMake(&job.contact, name, wanted, why);
	if (!meeting) {
		rootRelease(&job.root);
		return -1;
	}
	meeting->patient = 1;
	meeting->stays = !job.rank;
	launcherJob(meeting->job);
	meeting->local = !*wanted->secret;
	*rank = meeting->rank = job.rank;
	*nRanks = meeting->nRanks = job.nRanks;
	*state = meeting;
	return 0;
}

static int tcpIsLocal(const void *state)
{
	return ((const struct meeting *)state)->local;
}

static void tcpClose(void *state)
{
	meetingClose(state);
	rootRelease(&job.root);
}

const struct bootstrapOps bootstrapTcpOps = {
	.name = "tcp",
	.open = tcpOpen,
	.exchange = meetingExchange,
	.isLocal = tcpIsLocal,
	.watch = meetingWatch,
	.lost = meetingLost,
	.joined = meetingJoined,
	.derive = meetingDerive,
	.close = tcpClose,
};
