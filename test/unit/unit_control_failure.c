/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_control_failure.c - ranks that stay away, give up, die or send malformed messages
 *
 * On every other rank: the collective ends with the result and a sentence that names the rank, and
 * onFailure is called once. In a tree of 40 ranks, ranks 1 and 2 are inner nodes, 17 to 39 their
 * children.
 */
#include "control_team.h"

#include "lib/base/deadline.h"

/* The ranks that fail; set before the ranks start. */
static int victims[TEAM_MOST], nVictims;

static int isVictim(const struct member *m)
{
	for (int i = 0; i < nVictims; i++)
		if (victims[i] == m->rank)
			return 1;
	return 0;
}

/* "rank 5 (host vm), rank 20 (host vm) and 3 more", as rank 0 lists missing ranks. */
static void listVictims(const struct member *m, char *out, size_t bytes)
{
	size_t used = 0;

	for (int i = 0; i < nVictims && i < 4; i++)
		used += (size_t)snprintf(out + used, bytes - used, "%srank %d (host %s)",
					 i ? ", " : "", victims[i],
					 m->team->ranks[victims[i]].host);
	if (nVictims > 4)
		snprintf(out + used, bytes - used, " and %d more", nVictims - 4);
}

/*
 * GIN_TIMEOUT of the tests of missing ranks, in seconds, within which the ranks that come must
 * connect: ten times as long as forty ranks have taken on this machine, 3 to 10.
 */
static char patience[8];

static void allCome(struct member *m)
{
	EXPECT_SUCCESS(m->opened);
	teamExpectWell(m);
}

static void measure(void)
{
	uint64_t begin = clockNow();

	teamChild("all ranks come", 40, "60", allCome);
	uint64_t seconds = (clockNow() - begin) * 10 / SECOND;
	seconds = seconds < 3 ? 3 : seconds < TEAM_SECONDS / 2 ? seconds : TEAM_SECONDS / 2;
	snprintf(patience, sizeof(patience), "%u", (unsigned)seconds);
}

/* The missing ranks do not call. All ranks fail with one sentence, the missing ones as well. */
static void missing(struct member *m)
{
	char names[360], words[512];

	EXPECT_SUCCESS(m->opened);
	teamMeet(m);
	listVictims(m, names, sizeof(names));
	snprintf(words, sizeof(words), "roll call: no call from %s within %s s (GIN_TIMEOUT)",
		 names, patience);
	if (!isVictim(m)) {
		EXPECT_RESULT(controlAgree(&m->control, "roll call", ginSuccess), ginErrorTimeout);
		EXPECT_TEXT(ginGetLastError(), words);
	}
	teamExpectFailure(m, -1, ginErrorTimeout);
	teamExpectFailed(m, ginErrorTimeout, words);
	teamMeet(m);
	EXPECT_EQUAL(m->failures, 1);
}

/* A rank gives up while the others wait for it. */
static void aborts(struct member *m)
{
	char words[128];
	int victim = victims[0];

	EXPECT_SUCCESS(m->opened);
	teamExpectWell(m);
	snprintf(words, sizeof(words), "rank %d (host %s) called ginCommAbort", victim,
		 m->team->ranks[victim].host);
	if (m->rank == victim) {
		controlAbort(&m->control);
		controlAbort(&m->control); /* a second time is no news */
	} else {
		EXPECT_FAILS(controlAgree(&m->control, "wait", ginSuccess), ginErrorPeer, words);
	}
	ginResult_t result = m->rank == victim ? ginErrorAborted : ginErrorPeer;
	teamExpectFailure(m, victim, result);
	teamExpectFailed(m, result, words);
	teamMeet(m);
	EXPECT_EQUAL(m->failures, 1);
}

static void *abortFromElsewhere(void *arg)
{
	controlAbort(&((struct member *)arg)->control);
	return NULL;
}

/* A rank gives up on another thread while it is itself in a collective; rank 0 does not come. */
static void abortsWhileCalling(struct member *m)
{
	pthread_t thread;
	ginResult_t result = m->rank == victims[0] ? ginErrorAborted : ginErrorPeer;

	EXPECT_SUCCESS(m->opened);
	if (m->rank == victims[0])
		EXPECT(!pthread_create(&thread, NULL, abortFromElsewhere, m));
	if (m->rank)
		EXPECT_FAILS(controlAgree(&m->control, "wait", ginSuccess), result, "ginCommAbort");
	teamExpectFailure(m, victims[0], result);
	teamExpectFailed(m, result, "ginCommAbort");
	if (m->rank == victims[0])
		pthread_join(thread, NULL);
}

/* A rank's connections end without a farewell, as when its process is killed. */
static void cutLinks(struct member *m)
{
	pthread_mutex_lock(&m->control.lock);
	for (int i = 0; i < m->control.links; i++)
		shutdown(m->control.link[i].fd, SHUT_RDWR);
	pthread_mutex_unlock(&m->control.lock);
}

static void expectDead(struct member *m, int victim)
{
	char words[128];

	snprintf(words, sizeof(words), "rank %d (host %s) has died or lost its network", victim,
		 m->team->ranks[victim].host);
	EXPECT_FAILS(controlAgree(&m->control, "wait", ginSuccess), ginErrorPeer, words);
	teamExpectFailure(m, victim, ginErrorPeer);
	teamExpectFailed(m, ginErrorPeer, words);
}

static void dies(struct member *m)
{
	EXPECT_SUCCESS(m->opened);
	teamExpectWell(m);
	if (isVictim(m))
		cutLinks(m);
	else
		expectDead(m, victims[0]);
	teamMeet(m);
	EXPECT(isVictim(m) || m->failures == 1);
}

/* A rank dies after the first of many rounds of an exchange. */
static void diesInExchange(struct member *m)
{
	struct controlRound of = {.call = "exchange", .block = CONTROL_BYTES};
	uint8_t *in = calloc((size_t)m->nRanks, of.block),
		*out = calloc((size_t)m->nRanks, of.block);

	EXPECT(in && out);
	EXPECT_SUCCESS(m->opened);
	EXPECT(controlRounds(m->nRanks, of.block) == (uint32_t)m->nRanks);
	pthread_mutex_lock(&m->control.lock);
	for (; isVictim(m) && of.round < 2; of.round++) {
		EXPECT_SUCCESS(controlBeginRound(&m->control, &of, ginSuccess, in));
		EXPECT_SUCCESS(controlEnd(&m->control, &of, out, of.block));
	}
	pthread_mutex_unlock(&m->control.lock);
	if (isVictim(m))
		cutLinks(m);
	else
		EXPECT_FAILS(controlAlltoall(&m->control, of.call, ginSuccess, in, out, of.block),
			     ginErrorPeer, " has died or lost its network");
	if (!isVictim(m))
		expectDead(m, victims[0]);
	teamMeet(m);
	EXPECT(isVictim(m) || m->failures == 1);
	free(in);
	free(out);
}

/* Leaves die together: all ranks fail with the first death, and onFailure reports every death. */
static void severalDie(struct member *m)
{
	EXPECT_SUCCESS(m->opened);
	teamExpectWell(m);
	if (isVictim(m))
		cutLinks(m);
	else
		EXPECT_FAILS(controlAgree(&m->control, "wait", ginSuccess), ginErrorPeer,
			     " has died or lost its network");
	for (int i = 0; i < nVictims && !isVictim(m); i++)
		teamExpectFailure(m, victims[i], ginErrorPeer);
	teamMeet(m);
	EXPECT(isVictim(m) || m->failures == nVictims);
}

/* Other code than the control plane, a NIC's queue say, has found a rank lost. */
static void isReported(struct member *m)
{
	EXPECT_SUCCESS(m->opened);
	teamExpectWell(m);
	if (m->rank == m->nRanks - 1)
		controlReport(&m->control, victims[0], "the queue to rank 1 is in error");
	if (m->rank != m->nRanks - 1)
		EXPECT_FAILS(controlAgree(&m->control, "wait", ginSuccess), ginErrorPeer,
			     "the queue to rank 1 is in error");
	teamExpectFailure(m, victims[0], ginErrorPeer);
	teamExpectFailed(m, ginErrorPeer, "the queue to rank 1 is in error");
	teamMeet(m);
	EXPECT_EQUAL(m->failures, 1);
}

/*
 * A call of several collectives, to each of which rank 1 comes late by half the limit. GIN_TIMEOUT
 * is 2, the limit of all of them together.
 */
static void stepsTakeTooLong(struct member *m)
{
	ginResult_t result = ginSuccess;

	EXPECT_SUCCESS(m->opened);
	teamExpectWell(m);
	uint64_t before = deadlineBegin();
	for (int step = 0; step < 6 && result == ginSuccess; step++) {
		if (m->rank)
			usleep(1000000);
		result = controlAgree(&m->control, "step", ginSuccess);
	}
	deadlineEnd(before);
	EXPECT_EQUAL(result, ginErrorTimeout);
	EXPECT_HAS(ginGetLastError(), "no call from rank 1");
}

/* A rank never opens its control plane; GIN_TIMEOUT is 1. */
static void neverComes(struct member *m)
{
	if (isVictim(m))
		return;
	if (m->rank == 0) {
		EXPECT_EQUAL(m->opened, ginErrorTimeout);
		EXPECT_HAS(ginGetLastError(), "rank 2 (host ");
		EXPECT_HAS(ginGetLastError(), "has not connected");
	} else if (m->opened == ginSuccess) {
		EXPECT(controlAgree(&m->control, "wait", ginSuccess) != ginSuccess);
	}
}

static void absent(void)
{
	static struct team team = {.body = neverComes};

	setenv("GIN_TIMEOUT", "1", 1);
	team.nRanks = 3;
	pthread_barrier_init(&team.barrier, NULL, 3);
	for (int r = 0; r < 3; r++)
		teamPrepare(&team, &team.member[r], r);
	for (int r = 0; r < 2; r++)
		EXPECT(!pthread_create(&team.member[r].thread, NULL, teamThread, &team.member[r]));
	for (int r = 0; r < 2; r++)
		pthread_join(team.member[r].thread, NULL);
	controlClose(&team.member[2].control);
}

static int newsOf2(void *arg, char *why)
{
	snprintf(why, SENTENCE_BYTES, "%s", (const char *)arg);
	return ginErrorBootstrap;
}

/* Rank 2 dies before it connects: the bootstrap knows, and rank 0 does not wait for GIN_TIMEOUT. */
static void lostInBootstrap(struct member *m)
{
	if (m->rank == 0)
		EXPECT_EQUAL(m->opened, ginErrorBootstrap);
	if (m->rank == 0)
		EXPECT_HAS(ginGetLastError(), "rank 2 has ended");
	if (m->rank == 1 && m->opened == ginSuccess)
		EXPECT_FAILS(controlAgree(&m->control, "wait", ginSuccess), ginErrorBootstrap,
			     "rank 2 has ended");
}

/* A descriptor announces the death, or rank 0 asks for it. */
static void newsOfBootstrap(int isAsked)
{
	static struct team team = {.body = lostInBootstrap};
	static char words[] = "rank 2 has ended";
	int channel[2];

	setenv("GIN_TIMEOUT", "60", 1);
	EXPECT(!pipe(channel));
	team.nRanks = 3;
	pthread_barrier_init(&team.barrier, NULL, 3);
	for (int r = 0; r < 3; r++)
		teamPrepare(&team, &team.member[r], r);
	team.member[0].control.news = (struct controlNews){
		.fd = isAsked ? -1 : channel[0], .isAsked = isAsked, .lost = newsOf2, .arg = words};
	for (int r = 0; r < 2; r++)
		EXPECT(!pthread_create(&team.member[r].thread, NULL, teamThread, &team.member[r]));
	EXPECT(write(channel[1], "", 1) == 1);
	uint64_t before = clockNow();
	for (int r = 0; r < 2; r++)
		pthread_join(team.member[r].thread, NULL);
	EXPECT(clockNow() - before < TEAM_SECONDS * SECOND);
	controlClose(&team.member[2].control);
}

static void newsFromBootstrap(void)
{
	newsOfBootstrap(0);
}

static void newsAskedFor(void)
{
	newsOfBootstrap(1);
}

/* Malformed messages from a rank that knows the secret. */
static struct {
	int speaker; /* rank 1 sends to its parent, rank 0 to rank 1 */
	struct controlHeader header;
	struct controlEntry entry[2]; /* equal */
	ginResult_t result;
	const char *words;
} nonsense;

static void talksNonsense(struct member *m)
{
	const struct controlHeader *header = &nonsense.header;
	size_t most = sizeof(nonsense.entry), bytes = header->bytes < most ? header->bytes : most;

	EXPECT_SUCCESS(m->opened);
	teamExpectWell(m);
	if (m->rank == nonsense.speaker) {
		int fd = m->control.link[0].fd;
		uint64_t deadline = clockNow() + TEAM_SECONDS * SECOND;
		pthread_mutex_lock(&m->control.lock);
		EXPECT(!socketSend(fd, header, sizeof(*header), deadline));
		EXPECT(!socketSend(fd, nonsense.entry, bytes, deadline));
		pthread_mutex_unlock(&m->control.lock);
	} else {
		EXPECT_FAILS(controlAgree(&m->control, "wait", ginSuccess), nonsense.result,
			     nonsense.words);
	}
	teamMeet(m);
}

static void sayHeader(const char *name, struct controlHeader header)
{
	nonsense.header = header;
	snprintf(nonsense.header.call, sizeof(nonsense.header.call), "wait");
	teamChild(name, 3, "60", talksNonsense);
}

static void sayNonsense(const char *name, uint32_t type, uint32_t seq, uint64_t bytes,
			uint32_t entryRank, uint32_t entryBytes)
{
	for (int i = 0; i < 2; i++)
		nonsense.entry[i] = (struct controlEntry){entryRank, ginSuccess, entryBytes, 0};
	sayHeader(name, (struct controlHeader){.type = type, .seq = seq, .bytes = bytes});
}

/* Results that rank 1 did not wait for. The second collective is number 2. */
static void nonsenseFromParent(void)
{
	const struct controlHeader all = {.type = controlAll, .seq = 2, .block = 4};
	struct controlHeader wrong = all;

	nonsense.speaker = 0;
	nonsense.result = ginErrorSystem;
	nonsense.words = "broken message";
	wrong.bytes = 11;
	sayHeader("less than all data", wrong);
	wrong.block = CONTROL_BYTES + 1;
	sayHeader("a block longer than any", wrong);
	wrong = (struct controlHeader){.type = controlColumns, .seq = 2};
	sayHeader("columns of no bytes", wrong);
	wrong.block = 8;
	sayHeader("no column", wrong);
	wrong.round = 1;
	sayHeader("columns of no round", wrong);
	wrong = (struct controlHeader){.type = 99, .seq = 2, .block = 8};
	sayHeader("no result", wrong);
}

/* The second collective is number 2; a whole entry has 12 bytes. */
static void allNonsense(void)
{
	const uint64_t entry = sizeof(struct controlEntry);

	nonsense.speaker = 1;
	nonsense.result = ginErrorPeer;
	nonsense.words = "rank 1 (host ";
	sayNonsense("a length without end", controlUp, 2, UINT64_MAX, 1, 0);
	sayNonsense("more than all ranks can have", controlUp, 2, 3 * (entry + CONTROL_BYTES) + 1,
		    1, 0);
	sayNonsense("a farewell with data", controlBye, 0, 1, 1, 0);
	sayNonsense("a sentence without end", controlFail, 0, SENTENCE_BYTES, 1, 0);
	sayNonsense("no message", 99, 0, 1, 1, 0);
	nonsense.result = ginErrorSystem;
	nonsense.words = "broken message";
	sayNonsense("an entry of no rank", controlUp, 2, entry, 3, 0);
	sayNonsense("an entry longer than the message", controlUp, 2, entry, 1, 1);
	sayNonsense("an entry longer than any", controlUp, 2, entry, 1, CONTROL_BYTES + 1);
	sayNonsense("half an entry", controlUp, 2, entry - 1, 1, 0);
	sayNonsense("two entries of one rank", controlUp, 2, 2 * entry, 1, 0);
	nonsense.words = "collective 7 arrived while in 2";
	sayNonsense("another collective", controlUp, 7, entry, 1, 0);
}

#define WITH(...)                                                                                  \
	(memcpy(victims, (const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__})),          \
	 nVictims = (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int)))

static void stayAway(void)
{
	WITH(0);
	teamChild("rank 0 is missing", 2, patience, missing);
	WITH(2);
	teamChild("a rank is missing", 3, patience, missing);
	WITH(39);
	teamChild("a rank of the third level is missing", 40, patience, missing);
	WITH(1, 5, 20);
	teamChild("an inner rank and one of its own are missing", 40, patience, missing);
	WITH(0, 2, 3, 8, 13, 15, 16);
	teamChild("many are missing", 17, patience, missing);
	teamHost = "a-host-whose-name-is-as-long-as-the-name-of-a-host-ever-can-be0";
	teamChild("many with long names are missing", 17, patience, missing);
	teamHost = NULL;
	WITH(2);
	expectChild("a rank never comes", absent);
	expectChild("a rank is lost in the bootstrap", newsFromBootstrap);
	expectChild("a rank is lost, and the bootstrap is asked", newsAskedFor);
}

static void giveUp(void)
{
	WITH(0);
	teamChild("several steps take too long", 2, "2", stepsTakeTooLong);
	teamChild("the only rank aborts", 1, "60", aborts);
	teamChild("rank 0 aborts", 40, "60", aborts);
	WITH(2);
	teamChild("a rank aborts", 17, "60", aborts);
	WITH(30);
	teamChild("a rank of the third level aborts", 40, "60", aborts);
	teamChild("a rank aborts while in a call", 40, "60", abortsWhileCalling);
}

static void die(void)
{
	WITH(1);
	teamChild("a rank dies", 2, "60", dies);
	teamChild("an inner rank dies", 40, "60", dies);
	teamChild("an inner rank dies in an exchange", 40, "60", diesInExchange);
	teamChild("a rank is reported", 40, "60", isReported);
	WITH(0);
	teamChild("rank 0 dies", 17, "60", dies);
	WITH(39);
	teamChild("a rank of the third level dies", 40, "60", dies);
	teamChild("a rank of the third level dies in an exchange", 40, "60", diesInExchange);
	WITH(3, 21, 38);
	teamChild("several die", 40, "60", severalDie);
}

int main(void)
{
	setenv("GIN_LOG", "none", 0);
	measure();
	stayAway();
	giveUp();
	die();
	allNonsense();
	nonsenseFromParent();
	return expectFailures != 0;
}
