/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control_many.c [RANKS [LATE]] - bootstrap and control plane of a communicator of 16,384 ranks, on
 * one machine
 *
 * Each process has many ranks. A rank has the thread of its control plane and no other: one thread
 * of the process begins a collective for all its ranks, then ends it for all. The ranks meet at the
 * root of a unique id, connect, agree, gather, and exchange 8 bytes between all pairs. The last
 * rank is LATE seconds late at the root and in the tree: meanwhile the connections of the others
 * are silent.
 */
#include "bootstrap/meeting.h"
#include "expect.h"
#include "lib/base/clock.h"
#include "lib/control/internal.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum {
	RANKS = 16384,
	RANKS_OF_PROCESS = 1024,
	DOORS = 16,
	MINUTES = 10,
	FILES_OF_PROCESS =
		8 * RANKS_OF_PROCESS, /* at most; the root's process: one for each rank */
	OTHER_FILES = 256
};

/* Shared state of the processes. */
struct shared {
	pthread_barrier_t barrier;
	uint64_t began;
	struct identity ranks[];
};

static struct shared *shared;
static struct rootContact contact;
static int nRanks, processes, process;
static unsigned late;

/* Rank process + i * processes. */
static struct control *controls;
static int mine;
static atomic_int ends; /* this process has ended its last step: others may end */

static int rankOf(int i)
{
	return process + i * processes;
}

static void failed(void *arg, int rank, ginResult_t result)
{
	(void)arg;
	if (atomic_load(&ends))
		return;
	expectThat(0, __FILE__, __LINE__, "rank %d failed: %s: %s", rank, ginGetErrorString(result),
		   ginGetLastError());
}

/* All processes have ended a step. */
static void step(const char *name)
{
	struct rusage usage;

	pthread_barrier_wait(&shared->barrier);
	getrusage(RUSAGE_SELF, &usage);
	if (!process)
		printf("%-10s %6.1f s; the process of rank 0 has used %ld MiB at most\n", name,
		       (double)(clockNow() - shared->began) / SECOND, usage.ru_maxrss / 1024);
	fflush(stdout);
	pthread_barrier_wait(&shared->barrier);
	shared->began = clockNow();
}

static void prepare(void)
{
	controls = calloc((size_t)mine, sizeof(*controls));
	EXPECT(controls != NULL);
	for (int i = 0; i < mine; i++) {
		struct identity *me = &shared->ranks[rankOf(i)];
		EXPECT_SUCCESS(identityMake(me));
		me->local = 1;
		EXPECT_SUCCESS(controlPrepare(&controls[i], rankOf(i), nRanks, me));
	}
}

static void comesLate(int rank)
{
	if (rank == nRanks - 1)
		sleep(late);
}

/* Sends the rank's request to the root. Returns the connection. */
static int ask(int rank)
{
	const struct netAddress loopback = {.family = AF_INET, .bytes = {127, 0, 0, 1}};
	uint64_t end = clockNow() + MINUTES * 60 * SECOND;
	struct rootRequest request = {.rank = (uint32_t)rank,
				      .nRanks = (uint32_t)nRanks,
				      .parent = (uint32_t)controlParent(rank),
				      .entry = {.magic = IDENTITY_MAGIC}};

	comesLate(rank);
	int fd = socketConnect(&loopback, contact.port, end);
	EXPECT(fd >= 0);
	memcpy(request.entry.data, &shared->ranks[rank], sizeof(shared->ranks[rank]));
	EXPECT(!authConnect(fd, contact.key, (uint32_t)rank, end));
	EXPECT(!socketSend(fd, &request, sizeof(request), end));
	return fd;
}

static void takeReply(int rank, int fd)
{
	const struct identity *root = shared->ranks, *parent = root + controlParent(rank);
	struct rootReply reply;

	EXPECT(!socketReceive(fd, &reply, sizeof(reply), clockNow() + MINUTES * 60 * SECOND));
	expectThat(!reply.why[0], __FILE__, __LINE__, "rank %d: %s", rank, reply.why);
	EXPECT(!memcmp(reply.root.data, root, sizeof(*root)));
	EXPECT(!memcmp(reply.parent.data, parent, sizeof(*parent)));
	meetingEnd(fd, 1);
}

static void meet(void)
{
	int *fds = calloc((size_t)mine, sizeof(*fds));

	for (int i = 0; i < mine; i++)
		fds[i] = ask(rankOf(i));
	for (int i = 0; i < mine; i++)
		takeReply(rankOf(i), fds[i]);
	free(fds);
}

static void *open(void *at)
{
	comesLate(((struct control *)at)->rank);
	EXPECT_SUCCESS(controlOpen(at, shared->ranks, shared->ranks[0].nonce, failed, at));
	return NULL;
}

static int isInner(int rank)
{
	return controlLinksOf(rank, nRanks) > 1 || !rank;
}

/* Every DOORS-th rank without children, one after the other. */
static void *openLeaves(void *at)
{
	for (int i = *(int *)at; i < mine; i += DOORS)
		if (!isInner(rankOf(i)))
			open(&controls[i]);
	return NULL;
}

/* A rank with children waits for them: each has a thread meanwhile. */
static void openAll(void)
{
	pthread_t *inner = calloc((size_t)mine, sizeof(*inner)), doors[DOORS];
	int first[DOORS];

	for (int i = 0; i < mine; i++)
		if (isInner(rankOf(i)))
			EXPECT(!pthread_create(&inner[i], NULL, open, &controls[i]));
	for (int d = 0; d < DOORS; d++) {
		first[d] = d;
		EXPECT(!pthread_create(&doors[d], NULL, openLeaves, &first[d]));
	}
	for (int d = 0; d < DOORS; d++)
		pthread_join(doors[d], NULL);
	for (int i = 0; i < mine; i++)
		if (isInner(rankOf(i)))
			pthread_join(inner[i], NULL);
	free(inner);
}

static void endOne(struct control *c, const struct controlRound *of, void *out, size_t bytes)
{
	pthread_mutex_lock(&c->lock);
	EXPECT_SUCCESS(controlEnd(c, of, out, bytes));
	pthread_mutex_unlock(&c->lock);
}

static int valueOf(int rank)
{
	return rank * 3 + 1;
}

static void gatherAll(const char *call, size_t bytes)
{
	const struct controlRound of = {.call = call};
	int *out = calloc((size_t)nRanks, sizeof(*out));

	for (int i = 0; i < mine; i++) {
		int in = valueOf(rankOf(i));
		pthread_mutex_lock(&controls[i].lock);
		EXPECT_SUCCESS(controlBegin(&controls[i], &of, ginSuccess, &in, bytes));
		pthread_mutex_unlock(&controls[i].lock);
	}
	for (int i = 0; i < mine; i++) {
		endOne(&controls[i], &of, out, bytes);
		for (int r = 0; bytes && r < nRanks; r++)
			EXPECT_EQUAL(out[r], valueOf(r));
		memset(out, 0, (size_t)nRanks * sizeof(*out));
	}
	free(out);
}

static uint64_t sent(int from, int to)
{
	return (uint64_t)from << 32 | (uint32_t)to;
}

static void beginRound(struct control *c, const struct controlRound *of, uint64_t *row)
{
	uint32_t rounds = controlRounds(nRanks, of->block);

	for (uint32_t to = of->round; to < (uint32_t)nRanks; to += rounds)
		row[to] = sent(c->rank, (int)to);
	pthread_mutex_lock(&c->lock);
	EXPECT_SUCCESS(controlBeginRound(c, of, ginSuccess, row));
	pthread_mutex_unlock(&c->lock);
}

static void endRound(struct control *c, const struct controlRound *of, uint64_t *column)
{
	column[0] = ~UINT64_C(0);
	endOne(c, of, column, controlRowBytes(nRanks, of->block, of->round));
	if ((uint32_t)c->rank % controlRounds(nRanks, of->block) != of->round) {
		EXPECT(column[0] == ~UINT64_C(0));
		return;
	}
	for (int from = 0; from < nRanks; from++)
		expectThat(column[from] == sent(from, c->rank), __FILE__, __LINE__,
			   "rank %d: %llx from rank %d", c->rank, (unsigned long long)column[from],
			   from);
}

static void exchangeAll(void)
{
	struct controlRound of = {.call = "exchange", .block = sizeof(uint64_t)};
	uint64_t *row = calloc((size_t)nRanks, sizeof(*row));
	uint64_t *column = calloc((size_t)nRanks, sizeof(*column));

	for (; of.round < controlRounds(nRanks, of.block); of.round++) {
		for (int i = 0; i < mine; i++)
			beginRound(&controls[i], &of, row);
		for (int i = 0; i < mine; i++)
			endRound(&controls[i], &of, column);
	}
	free(row);
	free(column);
}

/* Ends without farewells, which the ranks of other processes would wait for. */
static void runProcess(void)
{
	mine = (nRanks - process + processes - 1) / processes;
	prepare();
	step("prepare");
	meet();
	step("meet");
	openAll();
	step("connect");
	gatherAll("agree", 0);
	step("agree");
	gatherAll("gather", sizeof(int));
	step("gather");
	exchangeAll();
	atomic_store(&ends, 1);
	step("exchange");
	_exit(0);
}

static void share(void)
{
	size_t bytes = sizeof(*shared) + (size_t)nRanks * sizeof(shared->ranks[0]);
	pthread_barrierattr_t attributes;

	shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	EXPECT(shared != MAP_FAILED);
	pthread_barrierattr_init(&attributes);
	pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&shared->barrier, &attributes, (unsigned)processes);
	shared->began = clockNow();
}

static void enoughFiles(void)
{
	struct rlimit files;

	EXPECT(!getrlimit(RLIMIT_NOFILE, &files));
	rlim_t least =
		(rlim_t)(nRanks > FILES_OF_PROCESS ? nRanks : FILES_OF_PROCESS) + OTHER_FILES;
	files.rlim_cur = files.rlim_max;
	EXPECT(!setrlimit(RLIMIT_NOFILE, &files));
	if (files.rlim_cur >= least)
		return;
	printf("%llu open files are too few: %llu\n", (unsigned long long)files.rlim_cur,
	       (unsigned long long)least);
	exit(77);
}

/* A process that fails ends the others, which would wait for it. */
int main(int argc, char **argv)
{
	pid_t child[RANKS / RANKS_OF_PROCESS + 1];
	char why[BOOTSTRAP_WHY];
	int status;

	nRanks = argc > 1 ? atoi(argv[1]) : RANKS;
	late = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
	EXPECT(nRanks >= 1 && nRanks <= RANKS);
	processes = (nRanks + RANKS_OF_PROCESS - 1) / RANKS_OF_PROCESS;
	setenv("GIN_LOG", "none", 0);
	enoughFiles();
	share();
	EXPECT(!rootMakeId(&contact, "", MINUTES * 60, why));
	for (process = 0; process < processes; process++) {
		child[process] = fork();
		EXPECT(child[process] >= 0);
		if (!child[process])
			runProcess();
	}
	for (int i = 0, bad = 0; i < processes; i++) {
		EXPECT(wait(&status) > 0);
		for (int p = 0; status && !bad && p < processes; p++)
			kill(child[p], SIGKILL);
		bad |= status;
		if (i + 1 == processes && bad)
			return 1;
	}
	printf("ok: %d ranks, %d processes\n", nRanks, processes);
	return 0;
}
