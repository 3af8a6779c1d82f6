/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control_team.h - threads as ranks that have only a control plane
 *
 * Each test runs in a process of its own: GIN_TIMEOUT is read once.
 */
#ifndef GIN_TEST_CONTROL_TEAM_H
#define GIN_TEST_CONTROL_TEAM_H

#include "lib/base/clock.h"
#include "lib/control/internal.h"
#include "lib/base/error.h"

#include "expect.h"

#include <pthread.h>
#include <sys/socket.h>

#define TEAM_MOST 40
#define TEAM_FAILURES (TEAM_MOST + 1)
#define TEAM_SECONDS 20 /* limit for an event that is due at once */

struct team;

/* The arguments of onFailure. */
struct teamFailure {
	int rank;
	ginResult_t result;
};

struct member {
	struct team *team;
	int rank, nRanks;
	unsigned seed;
	ginResult_t opened;
	struct control control;
	pthread_t thread;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct teamFailure failure[TEAM_FAILURES];
	int failures;
};

struct team {
	int nRanks;
	struct identity ranks[TEAM_MOST];
	struct member member[TEAM_MOST];
	pthread_barrier_t barrier; /* of all members */
	void (*beforeOpen)(struct member *m);
	void (*body)(struct member *m);
};

static inline void teamNote(void *arg, int rank, ginResult_t result)
{
	struct member *m = arg;

	pthread_mutex_lock(&m->lock);
	EXPECT(m->failures < TEAM_FAILURES);
	m->failure[m->failures++] = (struct teamFailure){rank, result};
	pthread_cond_broadcast(&m->changed);
	pthread_mutex_unlock(&m->lock);
}

/* How often onFailure was called for `rank`; the lock is held. */
static inline int teamCount(const struct member *m, int rank, ginResult_t *result)
{
	int count = 0;

	for (int i = 0; i < m->failures; i++)
		if (m->failure[i].rank == rank) {
			*result = m->failure[i].result;
			count++;
		}
	return count;
}

/* onFailure is called for `rank` (-1: the communicator), once. */
static inline void teamExpectFailure(struct member *m, int rank, ginResult_t expected)
{
	ginResult_t seen = ginSuccess;
	struct timespec until;
	int late = 0, count = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += TEAM_SECONDS;
	pthread_mutex_lock(&m->lock);
	while (!(count = teamCount(m, rank, &seen)) && !late)
		late = pthread_cond_timedwait(&m->changed, &m->lock, &until);
	pthread_mutex_unlock(&m->lock);
	expectThat(count == 1, __FILE__, __LINE__,
		   "rank %d: onFailure was called %d times for rank %d", m->rank, count, rank);
	EXPECT_EQUAL(seen, expected);
}

static inline void teamMeet(struct member *m)
{
	pthread_barrier_wait(&m->team->barrier);
}

static inline void *teamThread(void *arg)
{
	struct member *m = arg;

	errorScope("team", m->rank);
	if (m->team->beforeOpen)
		m->team->beforeOpen(m);
	m->opened = controlOpen(&m->control, m->team->ranks, m->team->ranks[0].nonce, teamNote, m);
	m->team->body(m);
	controlClose(&m->control);
	return NULL;
}

/* The name of all hosts, if a test sets it; else that of rank r is "r". */
static const char *teamHost;

static inline void teamPrepare(struct team *team, struct member *m, int rank)
{
	*m = (struct member){
		.team = team, .rank = rank, .nRanks = team->nRanks, .seed = (unsigned)rank};
	pthread_mutex_init(&m->lock, NULL);
	pthread_cond_init(&m->changed, NULL);
	EXPECT_SUCCESS(identityMake(&team->ranks[rank]));
	snprintf(team->ranks[rank].host, sizeof(team->ranks[rank].host), "%d", rank);
	if (teamHost)
		snprintf(team->ranks[rank].host, sizeof(team->ranks[rank].host), "%s", teamHost);
	EXPECT_SUCCESS(controlPrepare(&m->control, rank, team->nRanks, &team->ranks[rank]));
}

static inline void teamStart(struct team *team, int nRanks)
{
	team->nRanks = nRanks;
	pthread_barrier_init(&team->barrier, NULL, (unsigned)nRanks);
	for (int r = 0; r < nRanks; r++)
		teamPrepare(team, &team->member[r], r);
	for (int r = 0; r < nRanks; r++)
		EXPECT(!pthread_create(&team->member[r].thread, NULL, teamThread,
				       &team->member[r]));
}

static inline void teamJoin(struct team *team)
{
	for (int r = 0; r < team->nRanks; r++) {
		pthread_join(team->member[r].thread, NULL);
		pthread_mutex_destroy(&team->member[r].lock);
		pthread_cond_destroy(&team->member[r].changed);
	}
	pthread_barrier_destroy(&team->barrier);
}

/* The test that a child process runs. */
static struct {
	int nRanks;
	const char *timeout;
	void (*body)(struct member *m);
} teamTest;

static inline void teamRun(void)
{
	static struct team team;

	setenv("GIN_TIMEOUT", teamTest.timeout, 1);
	team.body = teamTest.body;
	teamStart(&team, teamTest.nRanks);
	teamJoin(&team);
}

/* `timeout` is GIN_TIMEOUT. */
static inline void teamChild(const char *name, int nRanks, const char *timeout,
			     void (*body)(struct member *m))
{
	char text[128];

	teamTest.nRanks = nRanks;
	teamTest.timeout = timeout;
	teamTest.body = body;
	snprintf(text, sizeof(text), "%s, %d ranks", name, nRanks);
	expectChild(text, teamRun);
}

/*
 * The communicator is well: a collective ends with everybody's data. All ranks check before any
 * goes on.
 */
static inline void teamExpectWell(struct member *m)
{
	int in = m->rank * 3 + 1, out[TEAM_MOST] = {0};

	EXPECT_SUCCESS(controlAllgather(&m->control, "well", ginSuccess, &in, out, sizeof(in)));
	for (int r = 0; r < m->nRanks; r++)
		EXPECT_EQUAL(out[r], r * 3 + 1);
	EXPECT_SUCCESS(controlError(&m->control));
	teamMeet(m);
}

/* Every later collective has the first failure's result and sentence, at once. */
static inline void teamExpectFailed(struct member *m, ginResult_t result, const char *words)
{
	char sentence[SENTENCE_BYTES];

	EXPECT_FAILS(controlError(&m->control), result, words);
	snprintf(sentence, sizeof(sentence), "%s", ginGetLastError());
	EXPECT_FAILS(controlAgree(&m->control, "later", ginSuccess), result, words);
	EXPECT_TEXT(ginGetLastError(), sentence);
}

#endif
