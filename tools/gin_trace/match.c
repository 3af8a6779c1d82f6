/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * match.c - which signal, or call of libgin-ep, has ended a wait, and which rank was the last to
 * arrive at a barrier
 *
 * A signal is a number to which senders add. The sums of what they have added, in the order of
 * their calls, show which of them has brought it to the value for which a wait has waited.
 */
#include "gin_trace.h"

#include <stdlib.h>

enum kind { isReset, isSignal, isWait, isArrival };

/* A use of a signal or of a barrier. Uses of one object in one epoch have equal keys. */
struct use {
	uint64_t key[4];
	int64_t time;
	enum kind kind;
	int event;
	uint64_t sum; /* of a signal: with this one, all that were added since the last reset */
};

struct uses {
	struct use *of;
	int count;
};

static int addUse(struct uses *u, const struct trace *t, int event, enum kind kind, int target)
{
	const struct event *e = &t->events[event];
	const struct source *s = &t->sources[e->source];
	int at = e->flags & GIN_TRACE_AT, barrier = e->call == ginCallBarrier;
	int ep = traceIsEp(e->call), from = kind == isWait ? e->peer : (int)s->rank;
	struct use *more = traceGrow(u->of, u->count, sizeof(*more));

	if (!more)
		return -1;
	u->of = more;
	more[u->count++] =
		(struct use){.key = {s->communicator, (uint64_t)s->devComm << 32 | (uint32_t)target,
				     barrier ? (uint64_t)1 << 63 | e->value
				     : ep ? (uint64_t)3 << 62 | (uint64_t)e->call << 48 | e->value
					  : (uint64_t)(at ? ~0u >> 1 : e->context) << 32 | e->id,
				     barrier ? e->where ^ (uint64_t)e->id << 44
				     : ep    ? (uint64_t)from
				     : at    ? e->where
					     : 0},
			     .time = kind == isWait ? e->end : e->begin,
			     .kind = kind,
			     .event = event};
	return 0;
}

static int addUses(struct uses *u, const struct trace *t, int event)
{
	const struct event *e = &t->events[event];
	int own = (int)t->sources[e->source].rank, failed = 0;

	if (e->call == ginCallBarrier) {
		if (e->flags & GIN_TRACE_ARRIVES)
			failed |= addUse(u, t, event, isArrival, 0);
		if (e->flags & GIN_TRACE_AWAITS && e->result == ginSuccess)
			failed |= addUse(u, t, event, isWait, 0);
	} else if (traceIsEp(e->call)) {
		if (e->flags & GIN_TRACE_ARRIVES)
			failed = addUse(u, t, event, isSignal, e->peer);
		else if (traceWaits(e) && e->result == ginSuccess)
			failed = addUse(u, t, event, isWait, own);
	} else if (e->call == ginCallResetSignal) {
		failed = addUse(u, t, event, isReset, own);
	} else if (e->call == ginCallWaitSignal && e->result == ginSuccess) {
		failed = addUse(u, t, event, isWait, own);
	} else if (e->flags & GIN_TRACE_RAISES && e->call != GIN_TRACE_WAITING) {
		failed = addUse(u, t, event, isSignal, e->peer);
	}
	return failed;
}

static int compareKeys(const struct use *a, const struct use *b)
{
	for (int i = 0; i < 4; i++)
		if (a->key[i] != b->key[i])
			return a->key[i] < b->key[i] ? -1 : 1;
	return 0;
}

static int byKeyAndTime(const void *a, const void *b)
{
	const struct use *one = a, *other = b;
	int order = compareKeys(one, other);

	if (order)
		return order;
	if (one->time != other->time)
		return one->time < other->time ? -1 : 1;
	return one->event - other->event;
}

/* Did one rank alone raise the signal? Then its order is known without a clock. */
static int hasOneWriter(const struct trace *t, const struct use *of, int count)
{
	int writer = -1;

	for (int i = 0; i < count; i++) {
		int source = t->events[of[i].event].source;
		if (of[i].kind == isReset ||
		    (of[i].kind == isSignal && writer >= 0 && writer != source))
			return 0;
		if (of[i].kind == isSignal)
			writer = source;
	}
	return 1;
}

/* Uses between two resets: the first signal whose sum is enough has ended a wait. */
static void matchSignals(struct trace *t, struct use *of, int count, struct use **signals)
{
	int found = 0;
	uint64_t sum = 0;

	for (int i = 0; i < count; i++) {
		if (of[i].kind != isSignal)
			continue;
		of[i].sum = sum += t->events[of[i].event].value;
		signals[found++] = &of[i];
	}
	for (int i = 0; i < count; i++) {
		int low = 0, high = found;
		uint64_t least = t->events[of[i].event].value;
		while (of[i].kind == isWait && low < high) {
			int middle = (low + high) / 2;
			if (signals[middle]->sum < least)
				low = middle + 1;
			else
				high = middle;
		}
		if (of[i].kind == isWait && least && low < found)
			t->events[of[i].event].cause = signals[low]->event;
	}
}

/* The last arrival has ended all waits, except its own. */
static void matchBarrier(struct trace *t, const struct use *of, int count)
{
	int last = -1;

	for (int i = 0; i < count; i++)
		if (of[i].kind == isArrival &&
		    (last < 0 || t->events[of[i].event].begin > t->events[last].begin))
			last = of[i].event;
	for (int i = 0; last >= 0 && i < count; i++)
		if (of[i].kind == isWait && t->events[of[i].event].source != t->events[last].source)
			t->events[of[i].event].cause = last;
}

/*
 * What a rank has sent in a call of libgin-ep has ended the waits for it. Calls after a reset count
 * anew: the last one before the end of the wait counts. `sure`: as for traceMatch().
 */
static void matchEp(struct trace *t, const struct use *of, int count, int sure)
{
	int calls = 0, cause = -1;

	for (int i = count - 1; i >= 0; i--)
		if (of[i].kind == isSignal) {
			cause = of[i].event;
			calls++;
		}
	for (int i = 0; i < count && !(sure && calls > 1); i++) {
		if (of[i].kind == isSignal)
			cause = of[i].event;
		else
			t->events[of[i].event].cause = cause;
	}
}

static void matchGroup(struct trace *t, struct use *of, int count, int sure, struct use **signals)
{
	int isBarrier = t->events[of->event].call == ginCallBarrier;

	if (traceIsEp(t->events[of->event].call)) {
		matchEp(t, of, count, sure);
		return;
	}
	if (isBarrier && !sure)
		matchBarrier(t, of, count);
	if (isBarrier || (sure && !hasOneWriter(t, of, count)))
		return;
	for (int i = 0, end; i < count; i = end) {
		for (end = i + 1; end < count && of[end].kind != isReset; end++)
			;
		matchSignals(t, of + i, end - i, signals);
	}
}

int traceMatch(struct trace *t, int sure)
{
	struct uses u = {0};
	int result = 0;

	for (int i = 0; i < t->nEvents && !result; i++) {
		t->events[i].cause = -1;
		result = t->isSampled ? 0 : addUses(&u, t, i);
	}
	struct use **signals = calloc((size_t)u.count + 1, sizeof(*signals));
	if (u.count)
		qsort(u.of, (size_t)u.count, sizeof(*u.of), byKeyAndTime);
	for (int i = 0, end; signals && i < u.count; i = end) {
		for (end = i + 1; end < u.count && !compareKeys(&u.of[i], &u.of[end]); end++)
			;
		matchGroup(t, u.of + i, end - i, sure, signals);
	}
	result = signals ? result : -1;
	free(signals);
	free(u.of);
	return result;
}

int traceWaits(const struct event *e)
{
	return e->call == ginCallWaitSignal || e->call == ginCallWaitValue ||
	       e->call == ginCallPacketsReceive ||
	       ((e->call == ginCallBarrier || traceIsEp(e->call)) && e->flags & GIN_TRACE_AWAITS);
}

int traceAwaited(const struct trace *t, const struct event *e)
{
	return e->cause >= 0 ? (int)t->sources[t->events[e->cause].source].rank : e->peer;
}
