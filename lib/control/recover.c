/* SPDX-License-Identifier: BSD-3-Clause */
/* recover.c - the calls by which the ranks of a communicator agree which of them go on */
#include "recover.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/base/clock.h"
#include "lib/base/deadline.h"
#include "lib/base/log.h"
#include "lib/base/param.h"
#include "recover_internal.h"

#define ASK_LEAST_MS 2 /* between two questions; doubles up to the most */
#define ASK_MOST_MS 100
#define WARN_SECONDS 10

ginResult_t recoverBegin(struct control *c, const int *exclude, int excludes)
{
	pthread_mutex_lock(&c->lock);
	struct recovery *v = c->recovery;
	ginResult_t result = recoverTables(c);
	if (result == ginSuccess) {
		v->attempt = v->newest > v->attempt ? v->newest : v->attempt + 1;
		if (v->attempt == v->finished)
			v->attempt++;
		v->phase = recoverGather;
		v->by = v->outBy;
		v->ahead = -1;
		v->grew = 0;
		v->began = clockNow();
		memset(v->out, 0, recoverSetBytes(c));
		for (int r = 0; r < c->nRanks; r++)
			v->peer[r].agrees = 0;
		for (int i = 0; i < excludes; i++)
			recoverTakeOut(v, c, exclude[i]);
	}
	pthread_mutex_unlock(&c->lock);
	return result;
}

/* The wait of a call for other ranks. */
struct recoverWait {
	uint64_t warn, end;
	unsigned askMs;
	int aborted; /* this rank had aborted before */
};

static struct recoverWait startWait(const struct control *c)
{
	uint64_t now = clockNow();

	return (struct recoverWait){.warn = now + WARN_SECONDS * SECOND,
				    .end = deadlineHere(),
				    .askMs = ASK_LEAST_MS,
				    .aborted = c->aborted};
}

/* Does this rank wait for `rank`? The leader waits for all, the others for the leader. */
static int waitsFor(const struct control *c, int rank)
{
	const struct recovery *v = c->recovery;
	int leader = recoverLeader(c);

	return rank != c->rank && !recoverIsOut(v->out, rank) &&
	       (leader == c->rank || rank == leader);
}

/* Asking the leader is enough: if a lower rank dies, it was the leader. */
static void askAll(struct control *c)
{
	for (int r = 0; r < c->nRanks; r++)
		if (waitsFor(c, r))
			recoverAsk(c, r);
}

/* Takes out ranks that have died. Returns 1 if there are any. */
static int takeOutGone(struct control *c)
{
	int some = 0;

	for (int r = 0; r < c->nRanks; r++)
		if (waitsFor(c, r) && recoverIsGone(c, r))
			some |= recoverTakeOut(c->recovery, c, r);
	return some;
}

static int hasAgreed(const struct control *c, int rank)
{
	const struct recoverPeer *p = &c->recovery->peer[rank];

	return p->agrees && p->attempt == c->recovery->attempt && p->phase != recoverIdle;
}

/* The leader fixes the set when all ranks have it; the others fix it after the leader. */
static int isFixed(const struct control *c)
{
	int leader = recoverLeader(c);

	if (leader != c->rank)
		return hasAgreed(c, leader) && c->recovery->peer[leader].phase == recoverFixed;
	for (int r = 0; r < c->nRanks; r++)
		if (waitsFor(c, r) && !hasAgreed(c, r))
			return 0;
	return 1;
}

/*
 * The first rank that this rank waits for, and that has not arrived; -1: the leader waits for
 * another rank.
 */
static int firstMissing(const struct control *c)
{
	for (int r = 0; r < c->nRanks; r++)
		if (waitsFor(c, r) && !hasAgreed(c, r))
			return r;
	return -1;
}

static ginResult_t timedOut(const struct control *c, int missing)
{
	const struct recovery *v = c->recovery;
	const unsigned seconds = paramNumber(paramTimeout);
	int leader = recoverLeader(c);

	if (v->ahead >= 0)
		return fail(ginErrorTimeout,
			    "rank %d (host %s) has a new communicator, which this rank failed to "
			    "join, and has not called ginCommShrink() again within %u s "
			    "(GIN_TIMEOUT): let it abort the new communicator and call again",
			    v->ahead, c->ranks[v->ahead].host, seconds);
	if (missing < 0)
		return fail(ginErrorTimeout,
			    "rank %d (host %s), which leads the call, waits for a rank that does "
			    "not make it: see the message of rank %d",
			    leader, c->ranks[leader].host, leader);
	return fail(ginErrorTimeout,
		    "no call from rank %d (host %s) within %u s (GIN_TIMEOUT), and the rank is "
		    "alive: let it make the call, or exclude it on a rank",
		    missing, c->ranks[missing].host, seconds);
}

static ginResult_t late(const struct control *c, struct recoverWait *w)
{
	uint64_t now = clockNow();
	int missing = now < w->warn ? -1 : firstMissing(c);

	if (now >= w->end)
		return timedOut(c, firstMissing(c));
	if (missing >= 0) {
		logWrite(logWarn, "ginCommShrink: waiting for rank %d (host %s)", missing,
			 c->ranks[missing].host);
		w->warn = w->end;
	}
	return ginSuccess;
}

/*
 * Has the caller ended the call, by config.poll or by ginCommAbort() on another thread? The news
 * that another rank takes this rank for lost does not end it: this rank answers, and is in.
 */
static ginResult_t lookForEnd(struct control *c, const struct recoverWait *w)
{
	pthread_mutex_unlock(&c->lock);
	int ended = c->interrupt.poll && interruptEnded(&c->interrupt);
	pthread_mutex_lock(&c->lock);
	if (ended)
		return fail(ginErrorAborted, "config.poll has ended the call");
	if (c->aborted && !w->aborted)
		return fail(ginErrorAborted, "ginCommAbort() was called meanwhile");
	return ginSuccess;
}

/* One step of a wait: asks, and waits for news. */
static ginResult_t turn(struct control *c, struct recoverWait *w)
{
	uint64_t end = clockNow() + w->askMs * (SECOND / 1000);
	const struct timespec until = {(time_t)(end / SECOND), (long)(end % SECOND)};

	askAll(c);
	pthread_cond_timedwait(&c->changed, &c->lock, &until);
	if (clockNow() >= end)
		w->askMs = 2 * w->askMs < ASK_MOST_MS ? 2 * w->askMs : ASK_MOST_MS;
	ginResult_t result = lookForEnd(c, w);
	return result == ginSuccess ? late(c, w) : result;
}

static ginResult_t leftOut(const struct control *c)
{
	const struct recovery *v = c->recovery;

	return fail(ginErrorPeer,
		    "rank %d (host %s) has left this rank out: destroy the communicator", v->by,
		    c->ranks[v->by].host);
}

static ginResult_t gather(struct control *c)
{
	struct recovery *v = c->recovery;
	struct recoverWait w = startWait(c);
	ginResult_t result = ginSuccess;

	while (result == ginSuccess && v->by < 0) {
		takeOutGone(c);
		if (isFixed(c)) {
			v->phase = recoverFixed;
			return ginSuccess;
		}
		result = turn(c, &w);
	}
	return result == ginSuccess ? leftOut(c) : result;
}

static ginResult_t fillTeam(const struct control *c, struct recoverTeam *team)
{
	*team = (struct recoverTeam){.members = calloc((size_t)c->nRanks, sizeof(int))};
	if (!team->members)
		return fail(ginErrorSystem, "no memory");
	for (int r = 0; r < c->nRanks; r++) {
		if (recoverIsOut(c->recovery->out, r))
			continue;
		if (r == c->rank)
			team->rank = team->nRanks;
		team->members[team->nRanks++] = r;
	}
	return ginSuccess;
}

static void dropEntries(struct recovery *v)
{
	free(v->members);
	free(v->entries);
	free(v->arrived);
	v->members = NULL;
	v->entries = v->arrived = NULL;
	v->nMembers = v->missing = 0;
	v->refusal = -1;
	v->refused = 0;
}

/* Starts a new attempt after an attempt whose set was fixed. */
static void beginAgain(struct recovery *v)
{
	v->attempt = v->newest > v->attempt ? v->newest : v->attempt + 1;
	v->phase = recoverGather;
	v->grew = 0;
	dropEntries(v);
}

ginResult_t recoverAgree(struct control *c, struct recoverTeam *team)
{
	pthread_mutex_lock(&c->lock);
	if (c->recovery->phase == recoverFixed)
		beginAgain(c->recovery);
	ginResult_t result = gather(c);
	if (result == ginSuccess)
		result = fillTeam(c, team);
	pthread_mutex_unlock(&c->lock);
	return result;
}

/*
 * Is an attempt with a fixed set over? The leader begins a new attempt if the set has grown. The
 * others wait for the leader's new attempt, unless the leader is out.
 */
static int isOver(const struct control *c)
{
	const struct recovery *v = c->recovery;

	if (v->newest > v->attempt || v->by >= 0 || !v->members)
		return 1;
	return v->grew && (v->members[0] == c->rank || recoverIsOut(v->out, v->members[0]));
}

/* The caller holds the lock. Sends no question. */
static int isLost(struct control *c, char *why)
{
	takeOutGone(c);
	if (!isOver(c))
		return 0;
	snprintf(why, SENTENCE_BYTES, "a rank died while the ranks that go on connected");
	return ginErrorPeer;
}

static ginResult_t allocEntries(struct control *c, const struct recoverTeam *team,
				const struct recoverEntries *e)
{
	struct recovery *v = c->recovery;
	size_t n = (size_t)team->nRanks;

	dropEntries(v);
	v->entryBytes = e->bytes;
	v->refused = e->refused;
	v->members = calloc(n, sizeof(int));
	v->entries = calloc(n > 3 ? n : 3, e->bytes);
	v->arrived = calloc(n, 1);
	if (!v->members || !v->entries || !v->arrived)
		return fail(ginErrorSystem, "no memory");
	memcpy(v->members, team->members, n * sizeof(int));
	v->nMembers = team->nRanks;
	memcpy(v->entries, e->mine, e->bytes);
	if (!team->rank) {
		v->arrived[0] = 1;
		v->missing = team->nRanks - 1;
		v->refusal = e->refused ? 0 : -1;
	}
	return ginSuccess;
}

static void takeOwn(const struct recovery *v, int leads, const struct recoverEntries *e)
{
	const uint8_t *root = v->entries + (leads ? 0 : v->entryBytes);
	const uint8_t *parent = leads ? root : root + v->entryBytes;

	if (leads && v->refusal > 0)
		root = parent = v->entries + (size_t)v->refusal * v->entryBytes;
	memcpy(e->root, root, e->bytes);
	memcpy(e->parents, parent, e->bytes);
}

/*
 * Must this rank wait for a rank that has not received its entries, and has not left the attempt?
 */
static int awaitsEntries(const struct control *c, int rank)
{
	const struct recoverPeer *p = &c->recovery->peer[rank];

	return waitsFor(c, rank) && !p->hasEntries && p->phase == recoverFixed &&
	       p->attempt == c->recovery->attempt;
}

/*
 * The leader, when a rank refuses: no connection will inform the others, so the leader answers
 * until all know.
 */
static ginResult_t passRefusal(struct control *c, struct recoverWait *w)
{
	ginResult_t result = ginSuccess;

	for (int r = 0; r < c->nRanks && result == ginSuccess;)
		if (!awaitsEntries(c, r) || recoverIsGone(c, r))
			r++;
		else
			result = turn(c, w);
	return result;
}

static ginResult_t exchange(struct control *c, int leads, const struct recoverEntries *e)
{
	struct recovery *v = c->recovery;
	struct recoverWait w = startWait(c);
	char why[SENTENCE_BYTES];
	ginResult_t result = ginSuccess;

	while (result == ginSuccess && (leads ? v->missing != 0 : !v->arrived[0])) {
		if (isLost(c, why))
			return fail(ginErrorPeer, "%s", why);
		result = turn(c, &w);
	}
	if (result == ginSuccess && leads && v->refusal >= 0)
		result = passRefusal(c, &w);
	if (result == ginSuccess)
		takeOwn(v, leads, e);
	return result;
}

ginResult_t recoverExchange(struct control *c, const struct recoverTeam *team,
			    const struct recoverEntries *e)
{
	pthread_mutex_lock(&c->lock);
	ginResult_t result = allocEntries(c, team, e);
	if (result == ginSuccess)
		result = exchange(c, !team->rank, e);
	pthread_mutex_unlock(&c->lock);
	return result;
}

int recoverLost(struct control *c, char *why)
{
	pthread_mutex_lock(&c->lock);
	askAll(c);
	int lost = isLost(c, why);
	pthread_mutex_unlock(&c->lock);
	return lost;
}

/*
 * Informs ranks that are out but alive: this rank may close the communicator before they make the
 * call.
 */
static void tellOut(struct control *c)
{
	struct recovery *v = c->recovery;

	v->finished = v->attempt;
	for (int r = 0; r < c->nRanks; r++)
		if (recoverIsOut(v->out, r) && !v->peer[r].gone)
			recoverAsk(c, r);
}

void recoverEnd(struct control *c, int succeeded)
{
	pthread_mutex_lock(&c->lock);
	struct recovery *v = c->recovery;
	v->phase = recoverIdle;
	dropEntries(v);
	if (succeeded)
		tellOut(c);
	else if (v->out)
		memset(v->out, 0, recoverSetBytes(c));
	pthread_mutex_unlock(&c->lock);
}

int recoverFinished(struct control *c)
{
	pthread_mutex_lock(&c->lock);
	int finished = c->recovery->finished != 0;
	pthread_mutex_unlock(&c->lock);
	return finished;
}
