/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * open.c - waits that have not ended when the trace ends, or that have failed
 *
 * libgin asks kernels every second what they wait for: the answers are in the file. A wait that
 * waited then, or has failed, is open unless a later call of that kind has succeeded.
 */
#include "gin_trace.h"

#include <stdio.h>
#include <stdlib.h>

struct openWait {
	const struct event *event;
	uint32_t call;
	int rank, peer;
	uint64_t communicator;
};

struct openWaits {
	struct openWait *of;
	int count;
};

static uint32_t calledBy(const struct event *e)
{
	return e->call == GIN_TRACE_WAITING ? e->result : e->call;
}

/*
 * Have both calls one object? The context of a barrier that waits is the size of its team. A wait
 * of libgin-ep leaves one record; in progress it may be told as a wait for a signal or value.
 */
static int isLike(const struct event *a, const struct event *b)
{
	if (traceIsEp(a->call) && traceWaits(a))
		return a->source == b->source && a->peer == b->peer;
	return a->source == b->source && calledBy(a) == calledBy(b) && a->id == b->id &&
	       (a->context == b->context || calledBy(a) == ginCallBarrier);
}

static int isOpen(const struct trace *t, const struct event *e)
{
	if (e->call != GIN_TRACE_WAITING && (!traceWaits(e) || !e->result))
		return 0;
	/* Kernels have ended when their device communicator is destroyed. */
	if (e->call == GIN_TRACE_WAITING && t->sources[e->source].clocks > 1)
		return 0;
	/* The calls of a thread follow each other: a later one is near. */
	for (int i = 1, at = (int)(e - t->events); i < t->nEvents; i++) {
		const struct event *later = &t->events[(at + i) % t->nEvents];
		if (isLike(later, e) &&
		    (later->end > e->end || (later->end == e->end && later > e)))
			return 0; /* it has ended, or says more */
	}
	return 1;
}

/* The only rank that has raised the signal before, or -1. */
static int onlyWriter(const struct trace *t, const struct event *e)
{
	const struct source *s = &t->sources[e->source];
	int writer = -1;

	for (int i = 0; i < t->nEvents; i++) {
		const struct event *by = &t->events[i];
		const struct source *from = &t->sources[by->source];
		if (!(by->flags & GIN_TRACE_RAISES) || by->peer != (int)s->rank ||
		    by->id != e->id || by->context != e->context ||
		    from->communicator != s->communicator || from->devComm != s->devComm)
			continue;
		if (writer >= 0 && writer != (int)from->rank)
			return -1;
		writer = (int)from->rank;
	}
	return writer;
}

static int addOpen(const struct trace *t, struct openWaits *open, const struct event *e)
{
	const struct source *s = &t->sources[e->source];
	struct openWait *more = traceGrow(open->of, open->count, sizeof(*more));
	int peer = e->peer;

	if (!more)
		return -1;
	if (peer < 0 && calledBy(e) == ginCallWaitSignal)
		peer = onlyWriter(t, e);
	open->of = more;
	more[open->count++] = (struct openWait){.event = e,
						.call = calledBy(e),
						.rank = (int)s->rank,
						.peer = peer,
						.communicator = s->communicator};
	return 0;
}

static void printOpen(const struct openWait *w)
{
	const struct event *e = w->event;

	printf("\nrank %d: %s", w->rank, traceCall(w->call));
	if (w->call != ginCallBarrier && !traceIsEp(w->call))
		printf(" in context %u", e->context);
	if (e->id != GIN_TRACE_NONE && !traceIsEp(w->call))
		printf(", %s %u", w->call == ginCallBarrier ? "barrier" : "id", e->id);
	if (w->peer >= 0)
		printf(", for rank %d", w->peer);
	if (e->call == GIN_TRACE_WAITING)
		printf(": still waits, for %.0f s", (double)(e->end - e->begin) / 1e9);
	else
		printf(": %s after %.3f s", ginGetErrorString((ginResult_t)e->result),
		       (double)(e->end - e->begin) / 1e9);
}

/* The rank for which `rank` waits, or -1. */
static int nextOf(const struct openWaits *open, uint64_t communicator, int rank)
{
	for (int i = 0; i < open->count; i++)
		if (open->of[i].communicator == communicator && open->of[i].rank == rank &&
		    open->of[i].peer >= 0)
			return open->of[i].peer;
	return -1;
}

static void printRing(const struct openWaits *open, const struct openWait *first)
{
	int rank = first->rank;

	printf("\na ring of waits: ");
	do {
		printf("rank %d waits for ", rank);
		rank = nextOf(open, first->communicator, rank);
	} while (rank != first->rank);
	printf("rank %d", rank);
}

/* Follows the waits from this one: a ring is named at its lowest rank, otherwise the end. */
static void printEnd(const struct openWaits *open, const struct openWait *first)
{
	int rank = first->rank, last = rank, lowest = rank;

	for (int steps = 0; rank >= 0 && steps <= open->count; steps++) {
		last = rank;
		rank = nextOf(open, first->communicator, rank);
		if (rank >= 0 && rank < lowest)
			lowest = rank;
		if (rank == first->rank)
			break;
	}
	if (rank == first->rank && rank == lowest && nextOf(open, first->communicator, rank) >= 0)
		printRing(open, first);
	else if (rank < 0 && last != first->rank)
		printf("\nrank %d waits, at last, for rank %d, which waits for no rank that is "
		       "known",
		       first->rank, last);
}

int traceOpenWaits(const struct trace *t)
{
	struct openWaits open = {0};
	int failed = 0;

	for (int i = 0; i < t->nEvents && !failed; i++)
		if (isOpen(t, &t->events[i]))
			failed = addOpen(t, &open, &t->events[i]);
	for (int i = 0; i < open.count; i++)
		printOpen(&open.of[i]);
	for (int i = 0; i < open.count; i++)
		printEnd(&open, &open.of[i]);
	if (open.count)
		printf("\n");
	free(open.of);
	return failed ? -1 : 0;
}
