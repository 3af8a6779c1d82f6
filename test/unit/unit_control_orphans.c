/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_control_orphans.c - ranks die one after another and together, rank 0 and inner ranks among
 * them: all that live hear of each death once, and of no other
 *
 *	SEED=N		the order of deaths
 *
 * A rank that dies is a thread that ends its connections and closes its listener.
 */
#include "control_team.h"

#include <netinet/in.h>
#include <sys/syscall.h>
#include <time.h>

enum { MOST = TEAM_MOST };

static unsigned seed;
static int order[MOST]; /* the ranks in the order of their deaths */
static int dieAt[MOST]; /* the step in which a rank dies */
static int steps;

static int drawn(int below)
{
	return (int)((unsigned)rand_r(&seed) >> 8) % below;
}

static void shuffle(int nRanks)
{
	for (int i = 0; i < nRanks; i++) {
		int j = drawn(i + 1);
		order[i] = order[j];
		order[j] = i;
	}
}

/* Up to four die in a step, two ranks stay. With isTopFirst rank 0 and inner ranks die first. */
static void makePlan(int nRanks, int isTopFirst)
{
	int dead = 0;

	shuffle(nRanks);
	for (int i = 0; i < nRanks && isTopFirst; i++)
		order[i] = i;
	for (int r = 0; r < nRanks; r++)
		dieAt[r] = MOST;
	for (steps = 0; dead < nRanks - 2; steps++)
		for (int n = 1 + drawn(4); n > 0 && dead < nRanks - 2; n--)
			dieAt[order[dead++]] = steps;
}

static void die(struct control *c)
{
	pthread_mutex_lock(&c->lock);
	c->closing = 1; /* its thread serves nobody */
	for (int i = 0; i < c->links; i++)
		shutdown(c->link[i].fd, SHUT_RDWR);
	pthread_mutex_unlock(&c->lock);
	controlClose(c); /* no farewell gets out */
}

static int failuresOf(struct member *m)
{
	pthread_mutex_lock(&m->lock);
	int failures = m->failures;
	pthread_mutex_unlock(&m->lock);
	return failures;
}

static void dieInSteps(struct member *m)
{
	int dead = 0;

	EXPECT_SUCCESS(m->opened);
	controlRanksKnown(&m->control);
	teamExpectWell(m);
	for (int step = 0; step < steps; step++) {
		if (dieAt[m->rank] == step)
			die(&m->control);
		for (int r = 0; r < m->nRanks; r++) {
			dead += dieAt[r] == step;
			if (dieAt[r] == step && dieAt[m->rank] > step)
				teamExpectFailure(m, r, ginErrorPeer);
		}
		EXPECT(dieAt[m->rank] <= step || failuresOf(m) == dead);
		teamMeet(m);
	}
}

/* The news of a rank that aborts goes the same ways. */
static void abortsAfterDeaths(struct member *m)
{
	EXPECT_SUCCESS(m->opened);
	controlRanksKnown(&m->control);
	teamExpectWell(m);
	if (m->rank <= 1)
		die(&m->control);
	for (int r = 0; r < 2 && m->rank > 1; r++)
		teamExpectFailure(m, r, ginErrorPeer);
	teamMeet(m);
	if (m->rank == m->nRanks - 1)
		controlAbort(&m->control);
	if (m->rank > 1)
		teamExpectFailure(m, m->nRanks - 1,
				  m->rank == m->nRanks - 1 ? ginErrorAborted : ginErrorPeer);
	teamMeet(m);
	EXPECT(m->rank <= 1 || failuresOf(m) == 3);
}

/* A rank that is lost takes others for dead, as one without a network: nobody believes it. */
static void accusesInVain(struct member *m)
{
	int lost = m->nRanks - 1;

	EXPECT_SUCCESS(m->opened);
	controlRanksKnown(&m->control);
	teamExpectWell(m);
	if (m->rank == 0)
		controlReport(&m->control, lost, "the queue to it is in error");
	teamExpectFailure(m, lost, ginErrorPeer);
	teamMeet(m);
	if (m->rank == lost)
		controlReport(&m->control, 1, "it does not answer");
	teamMeet(m);
	if (m->rank == 2)
		die(&m->control);
	else
		teamExpectFailure(m, 2, ginErrorPeer);
	teamMeet(m);
	EXPECT(m->rank == 2 || failuresOf(m) == 2 + (m->rank == lost));
}

/* Ranks that leave after a failure have not died. */
static void leaveAfterDeath(struct member *m)
{
	EXPECT_SUCCESS(m->opened);
	controlRanksKnown(&m->control);
	teamExpectWell(m);
	if (m->rank == 0)
		die(&m->control);
	else
		teamExpectFailure(m, 0, ginErrorPeer);
	if (m->rank)
		usleep(500000); /* all have a parent again */
	teamMeet(m);
	if (m->rank && m->rank < m->nRanks - 2)
		controlClose(&m->control);
	teamMeet(m);
	if (m->rank == m->nRanks - 1)
		controlReport(&m->control, m->rank - 1, "the queue to it is in error");
	if (m->rank >= m->nRanks - 2)
		teamExpectFailure(m, m->nRanks - 2, ginErrorPeer);
	teamMeet(m);
	EXPECT(m->rank < m->nRanks - 2 || failuresOf(m) == 2);
}

static int crowd[200]; /* more than a rank serves at a time */

/* Strangers at the next root: not served before the failure, and not waited for after it. */
static void amongStrangers(struct member *m)
{
	static const struct netAddress v4 = {.family = AF_INET, .bytes = {127, 0, 0, 1}};
	const int strangers = sizeof(crowd) / sizeof(crowd[0]);
	char byte;

	for (int i = 0; i < strangers && m->rank == 1; i++)
		crowd[i] = socketConnect(&v4, m->team->ranks[1].port, clockNow() + 20 * SECOND);
	for (int i = 0; i < strangers && m->rank == 1; i++)
		EXPECT(crowd[i] >= 0 && recv(crowd[i], &byte, 1, MSG_DONTWAIT) < 0);
	dieInSteps(m);
	for (int i = 0; i < strangers && m->rank == 1; i++)
		close(crowd[i]);
}

/* Another program, which has taken the port of rank 1. */
static struct {
	int listener;
	int hangsUp; /* it closes each connection at once; or it says nothing */
	int ends;
} taker;

static void *takePort(void *arg)
{
	int fd[64], fds = 0;

	(void)arg;
	while (!__atomic_load_n(&taker.ends, __ATOMIC_RELAXED)) {
		struct pollfd ready = {.fd = taker.listener, .events = POLLIN};
		if (poll(&ready, 1, 20) != 1)
			continue;
		fd[fds] = accept(taker.listener, NULL, NULL);
		if (taker.hangsUp || fds == 63)
			close(fd[fds]);
		else
			fds++;
	}
	while (fds)
		close(fd[--fds]);
	return NULL;
}

/* Ranks 0 and 1 die, and the others, which lose their parent, find another program at 1's port. */
static void portIsTaken(struct member *m)
{
	static pthread_t thread;

	EXPECT_SUCCESS(m->opened);
	controlRanksKnown(&m->control);
	teamExpectWell(m);
	if (m->rank == 1) {
		pthread_mutex_lock(&m->control.lock);
		m->control.closing = 1; /* its thread serves nobody, and tells nobody */
		pthread_mutex_unlock(&m->control.lock);
		taker.listener = dup(m->control.listener); /* rank 1's end closes the other */
		EXPECT(taker.listener >= 0);
		EXPECT(!pthread_create(&thread, NULL, takePort, NULL));
	}
	for (int r = 0; r < 2; r++) {
		teamMeet(m);
		if (m->rank == r)
			die(&m->control);
	}
	for (int r = 0; r < 2 && m->rank > 1; r++)
		teamExpectFailure(m, r, ginErrorPeer);
	if (m->rank > 1) { /* the limit has ended the wait, not a silence that lasts longer */
		pthread_mutex_lock(&m->control.lock);
		EXPECT(!(m->control.gone[1] & controlSilent));
		pthread_mutex_unlock(&m->control.lock);
	}
	teamMeet(m);
	EXPECT(m->rank <= 1 || failuresOf(m) == 2);
	if (m->rank == 1) {
		__atomic_store_n(&taker.ends, 1, __ATOMIC_RELAXED);
		EXPECT(!pthread_join(thread, NULL) && !close(taker.listener));
	}
}

/*
 * What rank 2's attempts to connect to rank 1 end with: one of its two addresses refuses, the other
 * one says nothing about it, then both are silent for a moment.
 */
static const int silence[] = {ECONNREFUSED, EADDRNOTAVAIL, ENETUNREACH, ENETUNREACH, 0};
static const int *endings = silence; /* up to a 0 */
static unsigned attempts;
static uint16_t portOf1;

/* Of this program instead of the C library's. */
int connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
	uint16_t port = __atomic_load_n(&portOf1, __ATOMIC_RELAXED);

	if (port && ((const struct sockaddr_in *)(const void *)address)->sin_port == htons(port)) {
		unsigned i = __atomic_fetch_add(&attempts, 1, __ATOMIC_RELAXED);
		if (i < 4 && endings[i]) {
			errno = endings[i];
			return -1;
		}
	}
	return (int)syscall(SYS_connect, fd, address, bytes);
}

static void haveTwoAddresses(struct member *m)
{
	struct identity *own = &m->team->ranks[m->rank];

	own->loopback = 0;
	own->addresses = 2;
	for (int i = 0; i < 2; i++)
		own->address[i] = (struct netAddress){.family = AF_INET, .bytes = {127, 0, 0, 1}};
	teamMeet(m);
}

/* Rank 0 dies. A refusal is forgotten when another address says nothing about the rank. */
static void forgetsRefusal(struct member *m)
{
	EXPECT_SUCCESS(m->opened);
	controlRanksKnown(&m->control);
	teamExpectWell(m);
	if (m->rank == 1)
		__atomic_store_n(&portOf1, m->team->ranks[1].port, __ATOMIC_RELAXED);
	teamMeet(m);
	if (m->rank == 0)
		die(&m->control);
	else
		teamExpectFailure(m, 0, ginErrorPeer);
	while (m->rank == 2 && __atomic_load_n(&attempts, __ATOMIC_RELAXED) < 5 &&
	       failuresOf(m) == 1)
		usleep(1000);
	EXPECT(!m->rank || failuresOf(m) == 1);
	teamMeet(m);
}

static void refusalIsForgotten(void)
{
	static struct team team = {.beforeOpen = haveTwoAddresses, .body = forgetsRefusal};

	setenv("GIN_TIMEOUT", "60", 1);
	teamStart(&team, 3);
	teamJoin(&team);
}

static void hasTwoChildren(struct member *m)
{
	if (!m->rank)
		__atomic_store_n(&portOf1, m->team->ranks[0].port, __ATOMIC_RELAXED);
	haveTwoAddresses(m);
}

static void comesAgain(struct member *m)
{
	EXPECT_SUCCESS(m->opened);
	teamExpectWell(m);
	EXPECT(__atomic_load_n(&attempts, __ATOMIC_RELAXED) > 2);
}

/* Rank 0 has had too many connections, and another address refuses: its child tries again. */
static void resetAndRefusal(void)
{
	static struct team team = {.beforeOpen = hasTwoChildren, .body = comesAgain};
	static const int both[] = {ECONNRESET, ECONNREFUSED, 0};

	endings = both;
	setenv("GIN_TIMEOUT", "60", 1);
	teamStart(&team, 2);
	teamJoin(&team);
}

typedef void (*body_t)(struct member *);

static void run(const char *name, int nRanks, int isTopFirst, body_t body)
{
	char text[128];

	snprintf(text, sizeof(text), "%s, seed %u", name, seed);
	makePlan(nRanks, isTopFirst);
	teamChild(text, nRanks, "60", body);
}

int main(void)
{
	const char *given = getenv("SEED");

	setenv("GIN_LOG", "none", 0);
	seed = given ? (unsigned)atoi(given) : (unsigned)time(NULL);
	run("in any order", 4, 0, dieInSteps);
	run("in any order", 17, 0, dieInSteps);
	run("in any order", 40, 0, dieInSteps);
	run("from rank 0 on", 5, 1, dieInSteps);
	run("from rank 0 on", 40, 1, dieInSteps);
	run("among strangers", 17, 1, amongStrangers);
	teamChild("a rank aborts after deaths", 40, "60", abortsAfterDeaths);
	teamChild("a rank that is lost accuses another", 20, "60", accusesInVain);
	teamChild("ranks leave after a death", 20, "60", leaveAfterDeath);
	expectChild("a refusal, and an attempt that says nothing", refusalIsForgotten);
	expectChild("a reset, and a refusal by another address", resetAndRefusal);
	teamChild("another program takes the port of a dead rank", 4, "3", portIsTaken);
	taker.hangsUp = 1;
	teamChild("it hangs up", 4, "3", portIsTaken);
	return expectFailures != 0;
}
