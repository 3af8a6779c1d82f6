/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_shrink.c - ginCommShrink() among threads, some of which leave at random times: the others
 * agree, and inherit their common windows. A rank that fails to join waits for the others. A rank
 * that another rank takes for lost goes on. A stranger sends datagrams to all ranks meanwhile.
 *
 *	ROUNDS=N SEED=N		the number of communicators, and the seed
 */
/* LINK: -Wl,--wrap=recoverBegin */
#include "ranks.h"
#include "expect.h"
#include "recover_datagram.h"

#include <netinet/in.h>
#include <time.h>

#include "lib/comm.h"

enum { RANKS = 4 };

static struct {
	unsigned seed;
	int leaves[RANKS];     /* before the call of the others, or meanwhile */
	unsigned delay[RANKS]; /* of each rank, in microseconds */
	int excludes;	       /* the lowest rank that goes on excludes rank `excluded` */
	int excluded;	       /* -1: nobody */
	int calls;	       /* the excluded rank calls too */
	int refuses;	       /* the rank that first passes a wrong argument; -1: none */
} plan;

static unsigned nextOf(unsigned *seed)
{
	return (unsigned)rand_r(seed) >> 8;
}

static unsigned next(void)
{
	return nextOf(&plan.seed);
}

static int goesOn(int rank)
{
	return !plan.leaves[rank] && rank != plan.excluded;
}

static void makePlan(void)
{
	int least = -1;

	plan.excluded = next() % 3 ? -1 : (int)(next() % RANKS);
	for (int r = 0; r < RANKS; r++) {
		plan.leaves[r] = next() % 3 == 0 && r != plan.excluded;
		plan.delay[r] = next() % 4 ? 0 : next() % 4000;
		if (goesOn(r))
			least = least < 0 ? r : least;
	}
	if (least < 0) {
		plan.excluded = -1;
		memset(plan.leaves, 0, sizeof(plan.leaves));
		least = 0;
	}
	plan.excludes = least;
	plan.calls = (int)(next() % 2);
	if (plan.excluded >= 0 &&
	    next() % 4 == 0) /* the others have finished, and left if they may */
		plan.delay[plan.excluded] = 15000;
	plan.refuses = plan.excluded >= 0 || next() % 3 ? -1 : least;
}

static int survivors(int below)
{
	int count = 0;

	for (int r = 0; r < below; r++)
		count += goesOn(r);
	return count;
}

static void expectTeam(ginComm_t comm, int old)
{
	int rank, nRanks, all[RANKS];

	EXPECT(ginCommRank(comm, &rank) == ginSuccess);
	EXPECT(ginCommSize(comm, &nRanks) == ginSuccess);
	EXPECT(nRanks == survivors(RANKS));
	EXPECT(rank == survivors(old));
	EXPECT(ginCommAllgather(comm, &old, all, sizeof(old)) == ginSuccess);
	for (int i = 0; i < nRanks; i++)
		EXPECT(goesOn(all[i]) && survivors(all[i]) == i);
}

static void expectWindow(ginComm_t comm, ginWindow_t old, const void *ptr, int isLocal)
{
	ginWindow_t window;
	void *at, *peers;
	int nRanks;

	EXPECT(ginWindowInherited(comm, old, &window) == ginSuccess);
	EXPECT(window.table != old.table);
	EXPECT(ginWindowPointer(comm, window, &at) == ginSuccess && at == ptr);
	EXPECT(ginCommSize(comm, &nRanks) == ginSuccess);
	for (int r = 0; r < nRanks && !isLocal; r++)
		EXPECT(ginPeerPointer(comm, window, r, &peers) == ginSuccess && peers);
	EXPECT(ginWindowInherited(comm, (ginWindow_t){NULL}, &window) == ginErrorInvalidArgument);
	EXPECT(ginWindowInherited(comm, window, &window) == ginErrorInvalidArgument);
}

static void shrink(ginComm_t comm, int rank, ginWindow_t shared, ginWindow_t local,
		   ginWindow_t retired, void *ptr)
{
	ginComm_t made = NULL;

	int excludes = plan.excluded >= 0 && rank == plan.excludes;
	if (plan.refuses >= 0) {
		EXPECT_FAILS(ginCommShrink(comm, &rank, plan.refuses == rank, &made),
			     ginErrorInvalidArgument, "exclude[0] is this rank");
		EXPECT(!recoverFinished(&comm->control));
	}
	EXPECT(ginCommShrink(comm, &plan.excluded, excludes, &made) == ginSuccess);
	expectTeam(made, rank);
	expectWindow(made, shared, ptr, 0);
	expectWindow(made, local, ptr, 1);
	EXPECT_FAILS(ginWindowInherited(made, retired, &retired), ginErrorInvalidArgument,
		     "has inherited no window");
	EXPECT(ginCommDestroy(made) == ginSuccess);
}

/* Others have excluded this rank: it learns that before, during or after their call. */
static void expectOut(ginComm_t comm)
{
	ginComm_t none = NULL;

	EXPECT_FAILS(ginCommShrink(comm, NULL, 0, &none), ginErrorPeer, "has left this rank out");
	EXPECT(!none);
}

static int run(const ginConfig_t *config)
{
	ginWindow_t shared, local, retired;
	int rank = config->rank;
	ginComm_t comm;
	void *ptr;

	EXPECT(ginCommInit(config, &comm) == ginSuccess);
	EXPECT(ginMemAlloc(comm, 64, &ptr) == ginSuccess);
	EXPECT(ginWindowRegister(comm, ptr, 64, 0, &shared) == ginSuccess);
	EXPECT(ginWindowRegister(comm, ptr, 64, GIN_WINDOW_LOCAL, &local) == ginSuccess);
	EXPECT(ginWindowRegister(comm, ptr, 64, 0, &retired) == ginSuccess);
	EXPECT(ginWindowRetire(comm, retired, NULL, NULL) == ginSuccess);
	usleep(plan.delay[rank]);
	if (plan.leaves[rank])
		EXPECT(ginCommAbort(comm) == ginSuccess);
	else if (rank == plan.excluded && plan.calls && plan.refuses < 0)
		expectOut(comm);
	else if (goesOn(rank))
		shrink(comm, rank, shared, local, retired, ptr);
	else if (survivors(RANKS) < RANKS - 1) /* otherwise the communicator is healthy */
		EXPECT(ginCommAbort(comm) == ginSuccess);
	EXPECT(ginCommDestroy(comm) == ginSuccess ||
	       survivors(RANKS) < RANKS - 1); /* others may leave first */
	EXPECT(ginMemFree(NULL, ptr) == ginSuccess);
	return 0;
}

/* Returns when all ranks have agreed. */
static void agree(ginComm_t comm)
{
	struct recoverTeam team;

	EXPECT(recoverAgree(&comm->control, &team) == ginSuccess);
	EXPECT(team.nRanks == RANKS);
	free(team.members);
	EXPECT(ginCommAllgather(comm, NULL, NULL, 0) == ginSuccess);
}

/*
 * The last rank fails to join a communicator that the others have made, as if a connection had
 * broken. It waits for the others, until they call again.
 */
static int failToJoin(const ginConfig_t *config)
{
	ginComm_t comm;

	EXPECT(ginCommInit(config, &comm) == ginSuccess);
	struct control *control = &comm->control;
	EXPECT(recoverBegin(control, NULL, 0) == ginSuccess);
	agree(comm);
	if (config->rank < RANKS - 1) {
		recoverEnd(control, 1);
		usleep(50000);
		EXPECT(recoverBegin(control, NULL, 0) == ginSuccess);
	}
	agree(comm);
	recoverEnd(control, 1);
	EXPECT(ginCommDestroy(comm) == ginSuccess);
	return 0;
}

static ginComm_t comms[RANKS];

static int isIn(struct control *control)
{
	pthread_mutex_lock(&control->lock);
	int in = control->recovery->phase == recoverGather;
	pthread_mutex_unlock(&control->lock);
	return in;
}

static int isLost(struct control *control, int rank)
{
	pthread_mutex_lock(&control->lock);
	int lost = control->failed[rank];
	pthread_mutex_unlock(&control->lock);
	return lost;
}

static void awaitError(ginComm_t comm)
{
	ginResult_t error = ginSuccess;

	while (error == ginSuccess) {
		usleep(1000);
		EXPECT(ginCommGetAsyncError(comm, &error) == ginSuccess);
	}
}

/*
 * The communicator has failed. Then rank 0's network loses rank 1, which is in the call already: no
 * other rank hears of that. Then rank 0 reports it nevertheless: rank 1 stays in the call, and goes
 * on.
 */
static void takeForLost(ginComm_t comm)
{
	while (!isIn(&comms[1]->control))
		usleep(1000);
	comm->host.peerFailed(comm, 1, "rank 1 is lost: its queue pair does not answer");
	EXPECT(!isLost(&comm->control, 1));
	controlReport(&comm->control, 1, "rank 1 is lost");
	while (!isLost(&comms[1]->control, 1))
		usleep(1000);
}

static int masked = -1; /* the rank that all other ranks have masked */

ginResult_t __real_recoverBegin(struct control *c, const int *exclude, int excludes);
ginResult_t __wrap_recoverBegin(struct control *c, const int *exclude, int excludes);

/* A rank that is masked is out from the start, dead or alive. */
ginResult_t __wrap_recoverBegin(struct control *c, const int *exclude, int excludes)
{
	EXPECT(masked < 0 || (excludes == 1 && exclude[0] == masked));
	return __real_recoverBegin(c, exclude, excludes);
}

static int reportedLost(const ginConfig_t *config)
{
	ginComm_t comm, made;
	int nRanks;

	EXPECT(ginCommInit(config, &comm) == ginSuccess);
	comms[config->rank] = comm;
	EXPECT(ginCommAllgather(comm, NULL, NULL, 0) == ginSuccess);
	if (config->rank == RANKS - 1) {
		EXPECT(ginCommAbort(comm) == ginSuccess);
		EXPECT(ginCommDestroy(comm) == ginSuccess);
		return 0;
	}
	awaitError(comm);
	EXPECT_SUCCESS(ginCommMask(comm, masked));
	if (!config->rank)
		takeForLost(comm);
	EXPECT(ginCommShrink(comm, NULL, 0, &made) == ginSuccess);
	EXPECT(ginCommSize(made, &nRanks) == ginSuccess);
	EXPECT_EQUAL(nRanks, RANKS - 1);
	EXPECT(ginCommDestroy(made) == ginSuccess);
	EXPECT(ginCommDestroy(comm) == ginSuccess);
	return 0;
}

/* Sends a datagram of a rank that excludes all ranks; the hash is wrong. */
static void forge(int fd)
{
	static unsigned seed = 1;
	struct sockaddr_in6 to;
	socklen_t length = sizeof(to), typeLength = sizeof(int);
	int type = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &typeLength) || type != SOCK_DGRAM ||
	    getsockname(fd, (struct sockaddr *)&to, &length) || to.sin6_family != AF_INET6)
		return;
	to.sin6_addr = in6addr_loopback;
	struct recoverDatagram forged = {.h = {.number = UINT64_MAX,
					       .magic = RECOVER_MAGIC,
					       .to = nextOf(&seed) % RANKS,
					       .rank = nextOf(&seed) % RANKS,
					       .attempt = 1 + nextOf(&seed) % 3,
					       .phase = (uint8_t)(nextOf(&seed) % 3),
					       .asks = 1},
					 .out = {0xf}};
	size_t bytes = nextOf(&seed) % 4 ? RECOVER_BARE : nextOf(&seed) % (RECOVER_BARE + 1);
	int from = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (from < 0)
		return;
	sendto(from, &forged, bytes, MSG_DONTWAIT, (struct sockaddr *)&to, sizeof(to));
	close(from);
}

static int stop;

static void *beStranger(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		for (int fd = 3; fd < 128; fd++)
			forge(fd);
		usleep(200);
	}
	return arg;
}

int main(void)
{
	pthread_t stranger;
	const char *rounds = getenv("ROUNDS"), *seed = getenv("SEED");

	setenv("GIN_LOG", "none", 0);
	setenv("GIN_TIMEOUT", "30", 0);
	plan.seed = seed ? (unsigned)atoi(seed) : (unsigned)time(NULL);
	printf("unit_shrink: SEED=%u\n", plan.seed);
	fflush(stdout);
	EXPECT(!pthread_create(&stranger, NULL, beStranger, NULL));
	const int *joined = ranksStart(RANKS, 1, failToJoin);
	for (int r = 0; r < RANKS; r++)
		EXPECT(joined[r] == 0);
	masked = RANKS - 1;
	const int *reported = ranksStart(RANKS, 1, reportedLost);
	masked = -1;
	for (int r = 0; r < RANKS; r++)
		EXPECT(reported[r] == 0);
	for (int i = rounds ? atoi(rounds) : 60; i > 0; i--) {
		makePlan();
		const int *result = ranksStart(RANKS, 1, run);
		for (int r = 0; r < RANKS; r++)
			EXPECT(result[r] == 0);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(stranger, NULL);
	return 0;
}
