/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_control.c - collectives of the control plane, with ranks that succeed and ranks that report
 * an error
 *
 * 17 ranks are a full node of the tree, 40 have three levels. Ranks that fail:
 * unit_control_failure.
 */
#include "control_team.h"

#include "lib/base/deadline.h"
#include "lib/base/net/auth.h"

/* Byte i of the contribution of `rank` in `round`. */
static uint8_t pattern(int rank, unsigned round, size_t i)
{
	return (uint8_t)((i + 1) * 0x9e3779b1u >> 13 ^ (unsigned)rank * 37 ^ round * 101);
}

static uint8_t *newBytes(size_t bytes)
{
	uint8_t *at = malloc(bytes + 1);

	EXPECT(at != NULL);
	memset(at, 0xc3, bytes + 1);
	return at;
}

static void expectPattern(const uint8_t *out, int rank, unsigned round, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (out[i] != pattern(rank, round, i))
			expectThat(0, __FILE__, __LINE__,
				   "round %u, rank %d, byte %zu: seen %u, expected %u", round, rank,
				   i, out[i], pattern(rank, round, i));
}

static void gatherOnce(struct member *m, unsigned round, size_t bytes)
{
	size_t all = bytes * (size_t)m->nRanks;
	uint8_t *in = newBytes(bytes), *out = newBytes(all);

	for (size_t i = 0; i < bytes; i++)
		in[i] = pattern(m->rank, round, i);
	if (round % 3 == 0)
		usleep((unsigned)rand_r(&m->seed) % 1000);
	EXPECT_SUCCESS(controlAllgather(&m->control, "gather", ginSuccess, bytes ? in : NULL,
					bytes ? out : NULL, bytes));
	for (int r = 0; r < m->nRanks; r++)
		expectPattern(out + (size_t)r * bytes, r, round, bytes);
	EXPECT_EQUAL(out[all], 0xc3);
	free(in);
	free(out);
}

/* Late ranks, and ranks that are a round ahead; small and large rounds alternate. */
static void gather(struct member *m)
{
	static const size_t sizes[] = {0, 1, 300};

	EXPECT_SUCCESS(m->opened);
	for (unsigned round = 0; round < 30; round++)
		gatherOnce(m, round, sizes[round % 3]);
	gatherOnce(m, 30, CONTROL_BYTES);
	gatherOnce(m, 31, 1);
	gatherOnce(m, 32, CONTROL_BYTES);
	EXPECT_SUCCESS(controlAgree(&m->control, "agree", ginSuccess));
	EXPECT_EQUAL(m->failures, 0);
}

/* Byte i of what `from` sends to `to`. */
static uint8_t sent(int from, int to, size_t i)
{
	return pattern(from, (unsigned)to + 7, i);
}

static void exchangeOnce(struct member *m, size_t block)
{
	size_t all = block * (size_t)m->nRanks;
	uint8_t *in = newBytes(all), *out = newBytes(all);

	for (size_t at = 0; at < all; at++)
		in[at] = sent(m->rank, (int)(at / block), at % block);
	EXPECT_SUCCESS(controlAlltoall(&m->control, "exchange", ginSuccess, in, out, block));
	for (size_t at = 0; at < all; at++)
		if (out[at] != sent((int)(at / block), m->rank, at % block))
			expectThat(0, __FILE__, __LINE__,
				   "blocks of %zu, from rank %zu, byte %zu: seen %u", block,
				   at / block, at % block, out[at]);
	EXPECT_EQUAL(out[all], 0xc3);
	free(in);
	free(out);
}

/*
 * Exchanges of one round and of several: a round has room for 16 columns of 4,000 bytes, or two of
 * 30,000.
 */
static void exchange(struct member *m)
{
	EXPECT_SUCCESS(m->opened);
	exchangeOnce(m, 1);
	exchangeOnce(m, 8);
	exchangeOnce(m, 4000);
	gatherOnce(m, 1, 8);
	if (m->nRanks <= 3)
		exchangeOnce(m, 30000);
	EXPECT_EQUAL(controlRounds(m->nRanks, 8), 1u);
	EXPECT_EQUAL(controlRounds(m->nRanks, 30000), ((uint32_t)m->nRanks + 1) / 2);
	EXPECT_EQUAL(controlRounds(m->nRanks, CONTROL_BYTES), (uint32_t)m->nRanks);
	EXPECT_EQUAL(m->failures, 0);
}

/* Sockets take little at once: results are kept until all children have them. */
static void smallBuffers(struct member *m)
{
	int bytes = 4096;

	EXPECT_SUCCESS(m->opened);
	for (int i = 0; i < m->control.links; i++) {
		int fd = m->control.link[i].fd;
		EXPECT(!setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)));
	}
	teamMeet(m);
	gatherOnce(m, 1, 4000);
	exchangeOnce(m, 400);
	gatherOnce(m, 2, 1);
}

/* The bytes of one round are bounded, and a round has one column at least. */
static void exchangeIsBounded(struct member *m)
{
	static const int counts[] = {2, 64, 8192, 8193, 10000, 16384, 1 << 20};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		uint32_t rounds = controlRounds(counts[i], 8);
		size_t columns = ((size_t)counts[i] + rounds - 1) / rounds;
		EXPECT(columns == 1 || columns * 8 * (size_t)counts[i] <= CONTROL_ROUND_BYTES);
		EXPECT(columns * 8 <= CONTROL_BYTES);
	}
	EXPECT_SUCCESS(m->opened);
}

/* A rank reports an error in an exchange of several rounds: no rank waits for the later rounds. */
static void oneSaysNoInExchange(struct member *m)
{
	size_t block = 4000, all = block * (size_t)m->nRanks;
	uint8_t *in = newBytes(all), *out = newBytes(all);
	ginResult_t mine = ginSuccess;
	char words[80];

	EXPECT_SUCCESS(m->opened);
	if (m->rank == m->nRanks - 1)
		mine = fail(ginErrorCuda, "words of rank %d", m->rank);
	snprintf(words, sizeof(words), "team: rank %d: words of rank %d", m->nRanks - 1,
		 m->nRanks - 1);
	EXPECT_RESULT(controlAlltoall(&m->control, "no", mine, in, out, block), ginErrorCuda);
	EXPECT_TEXT(ginGetLastError(), words);
	for (size_t at = 0; at < all; at++)
		EXPECT(out[at] == 0xc3);
	teamExpectWell(m);
	exchangeOnce(m, 8);
	free(in);
	free(out);
}

/* Blocks of two sizes: all ranks fail and go on. */
static void blocksDiffer(struct member *m)
{
	size_t block = m->rank ? 8 : 16;
	uint8_t in[16 * TEAM_MOST] = {0}, out[16 * TEAM_MOST];
	char words[80];

	EXPECT_SUCCESS(m->opened);
	snprintf(words, sizeof(words), "this rank %zu: all ranks must pass equally many",
		 block * (size_t)m->nRanks);
	EXPECT_FAILS(controlAlltoall(&m->control, "blocks", ginSuccess, in, out, block),
		     ginErrorInvalidUsage, words);
	teamExpectWell(m);
}

/* Two ranks report errors: all ranks get the lowest rank's sentence, and nothing is broken. */
static void oneSaysNo(struct member *m)
{
	int low = m->nRanks / 2, high = m->nRanks - 1, in = m->rank, out[TEAM_MOST];
	ginResult_t mine = ginSuccess;
	char words[80];

	EXPECT_SUCCESS(m->opened);
	memset(out, 0xc3, sizeof(out));
	if (m->rank == high)
		mine = fail(ginErrorSystem, "words of rank %d", m->rank);
	if (m->rank == low)
		mine = fail(ginErrorCuda, "words of rank %d", m->rank);
	snprintf(words, sizeof(words), "team: rank %d: words of rank %d", low, low);
	EXPECT_RESULT(controlAllgather(&m->control, "no", mine, &in, out, sizeof(in)),
		      ginErrorCuda);
	EXPECT_TEXT(ginGetLastError(), words);
	for (int r = 0; r < m->nRanks; r++)
		EXPECT_EQUAL((unsigned)out[r], 0xc3c3c3c3);
	teamExpectWell(m);
	teamMeet(m);
	EXPECT_EQUAL(m->failures, 0);
}

/* The longest possible sentence arrives whole. */
static void longSentence(struct member *m)
{
	char words[2 * SENTENCE_BYTES];
	ginResult_t mine = ginSuccess;

	EXPECT_SUCCESS(m->opened);
	memset(words, 'w', sizeof(words));
	words[sizeof(words) - 1] = '\0';
	if (m->rank == 1)
		mine = fail(ginErrorSystem, "%s", words);
	EXPECT_FAILS(controlAgree(&m->control, "no", mine), ginErrorSystem, "team: rank 1: www");
	EXPECT_EQUAL(strlen(ginGetLastError()), SENTENCE_BYTES - 1);
	teamExpectWell(m);
}

/* One rank contributes more than the others: each rank finds the error by itself, and all go on. */
static void sizesDiffer(struct member *m)
{
	int odd = m->nRanks - 1;
	size_t bytes = m->rank == odd ? 16 : 8;
	uint8_t in[16] = {0}, out[16 * TEAM_MOST];
	char words[80];

	EXPECT_SUCCESS(m->opened);
	snprintf(words, sizeof(words), "rank %d passed 16 bytes, this rank 8", odd);
	EXPECT_FAILS(controlAllgather(&m->control, "sizes", ginSuccess, in, out, bytes),
		     ginErrorInvalidUsage, m->rank == odd ? "passed 8 bytes, this rank 16" : words);
	teamExpectWell(m);
}

/*
 * Some ranks are in another collective: all fail, the sentence names both, and the communicator has
 * failed.
 */
static void callsDiffer(struct member *m)
{
	int other = m->rank == m->nRanks - 1;

	EXPECT_SUCCESS(m->opened);
	EXPECT_FAILS(controlAgree(&m->control, other ? "putOnHat" : "takeOffHat", ginSuccess),
		     ginErrorInvalidUsage, "putOnHat", "takeOffHat", "same order");
	teamExpectFailure(m, -1, ginErrorInvalidUsage);
	teamExpectFailed(m, ginErrorInvalidUsage, "putOnHat");
	teamMeet(m);
	EXPECT_EQUAL(m->failures, 1);
}

static void callsDifferByHalves(struct member *m)
{
	EXPECT_SUCCESS(m->opened);
	EXPECT_FAILS(controlAgree(&m->control, m->rank % 2 ? "odd" : "even", ginSuccess),
		     ginErrorInvalidUsage, "odd", "even");
	teamExpectFailed(m, ginErrorInvalidUsage, "odd");
}

/* When the first thread of the rank waits in its collective. */
static void *agreeToo(void *arg)
{
	struct member *m = arg;

	errorScope("team", m->rank);
	for (int waits = 0; !waits; usleep(1000)) {
		pthread_mutex_lock(&m->control.lock);
		waits = m->control.called != m->control.done || m->control.broken;
		pthread_mutex_unlock(&m->control.lock);
	}
	EXPECT_FAILS(controlAgree(&m->control, "putOnHat", ginSuccess), ginErrorInvalidUsage,
		     "two threads of rank 0", "takeOffHat and putOnHat");
	return NULL;
}

/* A second thread of rank 0 makes a call while the first waits for rank 1. */
static void twoThreads(struct member *m)
{
	pthread_t other;

	EXPECT_SUCCESS(m->opened);
	if (m->rank) {
		teamExpectFailure(m, -1, ginErrorInvalidUsage);
		teamExpectFailed(m, ginErrorInvalidUsage, "two threads of rank 0");
		return;
	}
	EXPECT(!pthread_create(&other, NULL, agreeToo, m));
	EXPECT_FAILS(controlAgree(&m->control, "takeOffHat", ginSuccess), ginErrorInvalidUsage,
		     "two threads of rank 0", "takeOffHat and putOnHat");
	pthread_join(other, NULL);
}

/* Rank 1 says farewell while the others go on: no failure. */
static void awaitFarewell(struct member *m)
{
	int left = 0;

	for (uint64_t end = clockNow() + TEAM_SECONDS * SECOND; !left && clockNow() < end;) {
		usleep(1000);
		pthread_mutex_lock(&m->control.lock);
		for (int i = 0; i < m->control.links; i++)
			left |= m->control.link[i].rank == 1 && m->control.link[i].left;
		pthread_mutex_unlock(&m->control.lock);
	}
	EXPECT(left);
}

static void oneLeavesEarly(struct member *m)
{
	EXPECT_SUCCESS(m->opened);
	teamExpectWell(m);
	if (m->rank == 1)
		controlClose(&m->control);
	if (m->rank == 0)
		awaitFarewell(m);
	teamMeet(m);
	if (m->rank != 1)
		EXPECT_SUCCESS(controlError(&m->control));
	EXPECT_EQUAL(m->failures, 0);
}

/* Strangers connect to rank 0 while it waits for its children. */

static int knock(const struct member *m)
{
	const struct netAddress v4 = {.family = AF_INET, .bytes = {127, 0, 0, 1}};
	int fd = socketConnect(&v4, m->team->ranks[0].port, clockNow() + TEAM_SECONDS * SECOND);

	EXPECT(fd >= 0);
	return fd;
}

/* Rank 0 ends the connection; the bytes before are its challenge or its proof. */
static void expectSentAway(int fd)
{
	char byte;
	int result;

	do
		result = socketReceive(fd, &byte, 1, clockNow() + TEAM_SECONDS * SECOND);
	while (!result);
	EXPECT_ERRNO(result, ECONNRESET);
	close(fd);
}

static void knockAndLeave(const struct member *m)
{
	const struct linger reset = {.l_onoff = 1};
	int fd = knock(m);

	close(fd);
	fd = knock(m);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(fd);
}

static void knockWithGarbage(const struct member *m)
{
	char garbage[4096];
	int fd = knock(m);

	memset(garbage, 'g', sizeof(garbage));
	EXPECT(!socketSend(fd, garbage, sizeof(garbage), clockNow() + TEAM_SECONDS * SECOND));
	expectSentAway(fd);
}

/* A client that knows the secret, and claims a rank that is no child. */
static void knockAsRank(const struct member *m, uint32_t rank)
{
	int fd = knock(m);

	EXPECT(!authConnect(fd, m->team->ranks[0].nonce, rank, clockNow() + TEAM_SECONDS * SECOND));
	expectSentAway(fd);
}

static void knockWithWrongSecret(const struct member *m)
{
	int fd = knock(m);

	EXPECT_ERRNO(
		authConnect(fd, m->team->ranks[1].nonce, 1, clockNow() + TEAM_SECONDS * SECOND),
		EACCES);
	close(fd);
}

/* All ranks but 0: they come after the strangers. */
static pthread_barrier_t gate;

static void behindStrangers(struct member *m)
{
	if (m->rank == 1) {
		knockAndLeave(m);
		knockWithGarbage(m);
		knockWithWrongSecret(m);
		knockAsRank(m, 0);
		knockAsRank(m, 17); /* a rank, but no child of rank 0 */
		knockAsRank(m, 18);
		knockAsRank(m, UINT32_MAX);
	}
	if (m->rank)
		pthread_barrier_wait(&gate);
}

static void afterStrangers(struct member *m)
{
	EXPECT_SUCCESS(m->opened);
	teamExpectWell(m);
	teamMeet(m);
	EXPECT_EQUAL(m->failures, 0);
}

/* A silent connection keeps rank 0 waiting for some seconds only. */
static void behindSilence(struct member *m)
{
	if (m->rank == 1)
		knock(m); /* left open */
	if (m->rank)
		pthread_barrier_wait(&gate);
}

/* A second rank 1 connects while rank 0 has the first and waits for rank 2; then the first dies. */
static void behindTwin(struct member *m)
{
	if (m->rank == 1) {
		int fd = knock(m);
		EXPECT(!authConnect(fd, m->team->ranks[0].nonce, 1,
				    clockNow() + TEAM_SECONDS * SECOND));
		knockAsRank(m, 1);
		close(fd);
	}
	if (m->rank)
		pthread_barrier_wait(&gate);
}

static void afterTwin(struct member *m)
{
	if (m->rank == 1)
		return;
	EXPECT_SUCCESS(m->opened);
	teamExpectFailure(m, 1, ginErrorPeer);
	teamExpectFailed(m, ginErrorPeer, "rank 1 (host ");
}

static void openBehind(int nRanks, void (*beforeOpen)(struct member *m),
		       void (*body)(struct member *m))
{
	static struct team team;

	team.beforeOpen = beforeOpen;
	team.body = body;
	setenv("GIN_TIMEOUT", "60", 1);
	pthread_barrier_init(&gate, NULL, (unsigned)nRanks - 1);
	teamStart(&team, nRanks);
	teamJoin(&team);
}

static void strangers(void)
{
	openBehind(18, behindStrangers, afterStrangers);
}

static void silentStranger(void)
{
	openBehind(3, behindSilence, afterStrangers);
}

static void twin(void)
{
	openBehind(3, behindTwin, afterTwin);
}

/* A call within a call has the limit of the outer one, which stays when it ends. */
static void callsWithinCalls(void)
{
	uint64_t outer = deadlineBegin(), end = deadlineHere(), inner = deadlineBegin();

	EXPECT(deadlineHere() == end);
	deadlineEnd(inner);
	EXPECT(deadlineHere() == end);
	deadlineEnd(outer);
	EXPECT(deadlineHere() > end);
}

int main(void)
{
	static const int counts[] = {1, 2, 3, 17, 40};

	setenv("GIN_LOG", "none", 0);
	teamChild("rounds are bounded", 1, "60", exchangeIsBounded);
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		teamChild("gather", counts[i], "60", gather);
		teamChild("exchange", counts[i], "60", exchange);
		teamChild("a rank says no", counts[i], "60", oneSaysNo);
		teamChild("a rank says no in an exchange", counts[i], "60", oneSaysNoInExchange);
		if (counts[i] == 1)
			continue;
		teamChild("sizes differ", counts[i], "60", sizesDiffer);
		teamChild("blocks differ", counts[i], "60", blocksDiffer);
		teamChild("calls differ", counts[i], "60", callsDiffer);
		teamChild("calls differ by halves", counts[i], "60", callsDifferByHalves);
		teamChild("two threads of a rank", counts[i], "60", twoThreads);
	}
	teamChild("small buffers", 40, "60", smallBuffers);
	teamChild("a long sentence", 3, "60", longSentence);
	teamChild("a rank leaves early", 3, "60", oneLeavesEarly);
	expectChild("limits of calls within calls", callsWithinCalls);
	expectChild("strangers at the door", strangers);
	expectChild("a silent stranger at the door", silentStranger);
	expectChild("the same rank twice", twin);
	return expectFailures != 0;
}
