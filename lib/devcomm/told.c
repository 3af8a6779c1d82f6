/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * told.c - which calls of kernels wait, and the warning about those that wait long
 *
 * The host asks by a bit of the abort line, which waiting threads read every few microseconds; each
 * writes what it waits for into a record in host memory (ginWaitTell). Kernels pay nothing while
 * the host does not ask, and no call of the host waits for the GPU. A thread that answers too late,
 * or finds no free record, answers the next question.
 */
#include <stdio.h>
#include <string.h>

#include "devcomm.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/param.h"

/* How long the line asks. A GPU answers at once, host threads when the scheduler lets them run. */
#define ASK_NS (SECOND / 4)

#define WARNINGS 4 /* at most, of a tick */

struct warnings {
	char text[WARNINGS][SENTENCE_BYTES];
	int count;
};

static uint64_t warnAfter(void)
{
	return paramNumber(paramWaitWarn) * SECOND;
}

/* A trace says what waited shortly before its end, if a process dies. */
static uint64_t askEvery(void)
{
	if (*paramText(paramTrace))
		return SECOND;
	return warnAfter() / 2 > ASK_NS ? warnAfter() / 2 : ASK_NS;
}

/* At least so long: the times of ginPoll are in units of 2^30 ns, rounded down, modulo 2^16. */
static uint64_t waitedFor(const struct ginWaitRecord *r)
{
	uint64_t units = ((r->now >> 30) - (r->times >> 16)) & 0xffff;

	return units ? (units - 1) << 30 : 0;
}

static int isSameWait(const struct ginWaitRecord *a, const struct ginWaitRecord *b)
{
	return a->call == b->call && a->context == b->context && a->id == b->id &&
	       a->peer == b->peer && a->expected == b->expected && a->from == b->from;
}

/* The entry of the wait, or the one that was told longest ago. */
static struct toldWait *findTold(struct devComm *dc, const struct ginWaitRecord *r)
{
	struct toldWait *oldest = dc->waits;

	for (int i = 0; i < (int)GIN_WAITS; i++) {
		struct toldWait *w = &dc->waits[i];
		if (isSameWait(&w->record, r))
			return w;
		if (w->told < oldest->told)
			oldest = w;
	}
	return oldest;
}

/*
 * An entry of another wait, or of one that began after the warning: a wait with the numbers of an
 * earlier one, for example of the last iteration. Kernels answer after dc->asked.
 */
static int isNew(const struct devComm *dc, const struct toldWait *w, const struct ginWaitRecord *r)
{
	return !isSameWait(&w->record, r) ||
	       (w->warned && w->warned + waitedFor(r) + 2 * SECOND < dc->asked);
}

static void noteTold(struct devComm *dc, const struct ginWaitRecord *r, uint64_t now)
{
	struct toldWait *w = findTold(dc, r);

	if (isNew(dc, w, r))
		w->warned = 0;
	w->record = *r;
	w->waited = waitedFor(r);
	w->told = now;
}

#define RECORD_WORDS (sizeof(struct ginWaitRecord) / sizeof(uint64_t))

/* Relaxed: a kernel that was suspended may still write for an earlier question. */
static void clearRecords(const struct devComm *dc)
{
	uint64_t *word = (uint64_t *)(void *)dc->lines->waits;

	for (size_t i = 0; i < GIN_WAITS * RECORD_WORDS; i++)
		__atomic_store_n(&word[i], 0, __ATOMIC_RELAXED);
}

/* E, acquire end: pairs with ginWaitPublish of the device. */
static int readRecord(const struct devComm *dc, size_t i, struct ginWaitRecord *out)
{
	const struct ginWaitRecord *r = &dc->lines->waits[i];
	const uint64_t *from = (const uint64_t *)(const void *)r;
	uint64_t word[RECORD_WORDS];

	if (__atomic_load_n(&r->question, __ATOMIC_ACQUIRE) != (0x80u | dc->question))
		return 0;
	for (size_t w = 0; w < RECORD_WORDS; w++)
		word[w] = __atomic_load_n(&from[w], __ATOMIC_RELAXED);
	memcpy(out, word, sizeof(*out));
	return 1;
}

/*
 * The rank that a barrier of all ranks waits for, by the number of its word (barrier.cuh); -1: the
 * team is another one.
 */
static int barrierPeer(const struct ginComm *comm, const struct ginWaitRecord *r)
{
	unsigned n = (unsigned)comm->nRanks, number = r->peer;

	if (r->context != n || number >= n)
		return -1;
	if (comm->domainSize == comm->nRanks) /* flat, or of more ranks, and then not known */
		return n <= GIN_BARRIER_ROUNDS ? (int)number : -1;
	return (int)(((unsigned)comm->rank + n - (1u << (number & 31)) % n) % n);
}

/* The only rank that the wait depends on, or -1. A kernel has written the record. */
static int waitsForRank(const struct ginComm *comm, const struct ginWaitRecord *r)
{
	int rank = r->call == ginCallBarrier ? barrierPeer(comm, r) : (int)r->peer;

	if (rank < 0 && (r->from & 0xfffff) == 1) /* as ginFromUnpack() */
		rank = r->from >> 20 & 0xfffff;
	return rank < comm->nRanks ? rank : -1;
}

static void readRecords(ginComm_t comm, struct devComm *dc, uint64_t now)
{
	struct ginWaitRecord record;

	for (size_t i = 0; i < GIN_WAITS; i++) {
		if (!readRecord(dc, i, &record))
			continue;
		noteTold(dc, &record, now);
		traceWaiting(comm, dc, &record, waitedFor(&record), waitsForRank(comm, &record));
	}
}

/* Ends the question that is open, or opens one. */
static void askOrRead(ginComm_t comm, struct devComm *dc, uint64_t now)
{
	if (!dc->asks && (dc->isWanted ||
			  ((warnAfter() || dc->trace.pinned) && now - dc->asked >= askEvery()))) {
		clearRecords(dc);
		stalledLook(comm, dc, now);
		devCommNextQuestion(dc, 0);
		dc->asks = 1;
		dc->isWanted = 0;
		dc->asked = now;
		devCommWriteLine(comm, dc);
	} else if (dc->asks && now - dc->asked >= ASK_NS) {
		readRecords(comm, dc, now);
		dc->asks = 0;
		dc->answered = dc->asked;
		devCommWriteLine(comm, dc);
	}
}

static const char *stateOf(const struct ginComm *comm, const struct devComm *dc, int rank)
{
	int lost = comm->lost[rank] | dc->lost[rank];

	return lost & lostDead ? "has failed" : lost ? "is masked" : "lives";
}

/* The ranks for which it waits, and whether they live. The caller holds comm->lock. */
static void formatRanks(const struct ginComm *comm, const struct devComm *dc,
			const struct ginWaitRecord *r, char *out, size_t bytes)
{
	int rank = waitsForRank(comm, r);
	const char *state = "lives";

	if (rank >= 0) {
		snprintf(out, bytes, "rank %d (host %s), for which it waits, %s", rank,
			 comm->ranks[rank].host, stateOf(comm, dc, rank));
		return;
	}
	for (rank = 0; rank < comm->nRanks; rank++) {
		state = stateOf(comm, dc, rank);
		if (strcmp(state, "lives"))
			break;
	}
	if (rank < comm->nRanks)
		snprintf(out, bytes, "rank %d (host %s) %s", rank, comm->ranks[rank].host, state);
	else
		snprintf(out, bytes, "all ranks live");
}

/* The object of the wait, as in the sentence of an error record. */
static void formatWhat(const struct ginWaitRecord *r, char *out, size_t bytes)
{
	const ginErrorRecord_t wait = {
		.call = r->call, .id = r->id, .expected = r->expected, .seen = r->seen};

	if (r->call == ginCallBarrier)
		snprintf(out, bytes, ", barrier %u of %u ranks, saw %llu", r->id, r->context,
			 (unsigned long long)r->seen);
	else
		devCommFormatWait(&wait, out, bytes);
}

/* The call and its object, the ranks for which it waits, and whether they live. */
static void formatTold(const struct ginComm *comm, const struct devComm *dc,
		       const struct ginWaitRecord *r, char *out, size_t bytes)
{
	char what[128], ranks[128], where[32] = "";

	formatWhat(r, what, sizeof(what));
	formatRanks(comm, dc, r, ranks, sizeof(ranks));
	if (r->call != ginCallBarrier && r->call < ginCallPacketsSend)
		snprintf(where, sizeof(where), " in context %u", r->context);
	snprintf(out, bytes, "%s%s of device communicator %llu%s; %s", devCommCallName(r->call),
		 where, (unsigned long long)dc->device.id, what, ranks);
}

/* Once for each wait. Waits for which there is no room are warned of at the next tick. */
static void warnOf(const struct ginComm *comm, struct devComm *dc, uint64_t now,
		   struct warnings *out)
{
	char text[SENTENCE_BYTES - 64];

	for (int i = 0; i < (int)GIN_WAITS && out->count < WARNINGS; i++) {
		struct toldWait *w = &dc->waits[i];
		if (!w->record.call || w->warned || !warnAfter() || w->waited < warnAfter() ||
		    now - w->told > 2 * ASK_NS)
			continue;
		w->warned = now;
		formatTold(comm, dc, &w->record, text, sizeof(text));
		snprintf(out->text[out->count++], SENTENCE_BYTES,
			 "a kernel has waited for %u s: %s", (unsigned)(w->waited / SECOND), text);
	}
}

/* Once, until a post completes. */
static void warnOfStalled(const struct ginComm *comm, struct devComm *dc, struct warnings *out)
{
	char text[SENTENCE_BYTES - 64];

	for (int r = 0; r < comm->nRanks && out->count < WARNINGS; r++) {
		uint64_t time = stalledFor(dc, r);
		if (!warnAfter() || time < warnAfter() || dc->stalled[r].isWarned)
			continue;
		dc->stalled[r].isWarned = 1;
		stalledFormat(comm, dc, r, stateOf(comm, dc, r), text, sizeof(text));
		snprintf(out->text[out->count++], SENTENCE_BYTES, "for %u s %s",
			 (unsigned)(time / SECOND), text);
	}
}

/* "wait", rank or -1, seconds, sentence. tools/gin_info/attach.c reads it. */
void devCommWriteWaits(ginComm_t comm, const struct devComm *dc, FILE *out)
{
	char text[SENTENCE_BYTES];

	for (int i = 0; i < (int)GIN_WAITS; i++) {
		const struct toldWait *w = &dc->waits[i];
		if (!w->record.call || w->told < dc->answered)
			continue;
		formatTold(comm, dc, &w->record, text, sizeof(text));
		fprintf(out, "wait %d %u %s\n", waitsForRank(comm, &w->record),
			(unsigned)(w->waited / SECOND), text);
	}
	for (int r = 0; r < comm->nRanks; r++) {
		if (stalledFor(dc, r) < SECOND)
			continue;
		stalledFormat(comm, dc, r, stateOf(comm, dc, r), text, sizeof(text));
		fprintf(out, "wait %d %u %s\n", r, (unsigned)(stalledFor(dc, r) / SECOND), text);
	}
}

/* Never waits: it is the thread that notices failures. */
void devCommsTick(ginComm_t comm)
{
	struct warnings warnings = {.count = 0};
	uint64_t now = clockNow();

	if (pthread_mutex_trylock(&comm->lock))
		return;
	for (struct devComm *dc = comm->devComms; dc; dc = dc->next) {
		traceDrain(comm, dc);
		askOrRead(comm, dc, now);
		warnOf(comm, dc, now, &warnings);
		warnOfStalled(comm, dc, &warnings);
	}
	pthread_mutex_unlock(&comm->lock);
	for (int i = 0; i < warnings.count; i++)
		logWrite(logWarn, "%s", warnings.text[i]);
}
