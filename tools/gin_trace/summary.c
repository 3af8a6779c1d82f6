/* SPDX-License-Identifier: BSD-3-Clause */
/* summary.c - bytes by pair and route, and which ranks wait for which */
#include "gin_trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Calls of one communicator that are counted together. */
struct row {
	uint64_t communicator;
	int isWait, rank, peer; /* peer -1: not known */
	/* Of a wait: the call; else the route, 256 for gets, and a call of libgin-ep above it. */
	uint32_t what;
	uint64_t calls, bytes;
	int64_t time, longest;
};

struct rows {
	struct row *of;
	int count;
};

static int isData(const struct event *e)
{
	return e->call == ginCallPut || e->call == ginCallPutValue || e->call == ginCallSignal ||
	       e->call == ginCallGet || e->call == ginCallAtomic || e->call == ginCallPacketsSend ||
	       (traceIsEp(e->call) && !traceWaits(e));
}

static uint32_t dataOf(const struct event *e)
{
	int gets = e->call == ginCallGet || (traceIsEp(e->call) && e->flags & GIN_TRACE_GETS);

	return e->route | (uint32_t)gets << 8 | (traceIsEp(e->call) ? e->call << 16 : 0);
}

static int addRow(struct rows *rows, const struct trace *t, const struct event *e)
{
	const struct source *s = &t->sources[e->source];
	int isWait = traceWaits(e);
	struct row *more = traceGrow(rows->of, rows->count, sizeof(*more));

	if (!more)
		return -1;
	rows->of = more;
	more[rows->count++] = (struct row){.communicator = s->communicator,
					   .isWait = isWait,
					   .rank = (int)s->rank,
					   .peer = isWait ? traceAwaited(t, e) : e->peer,
					   .what = isWait ? e->call : dataOf(e),
					   .calls = 1,
					   .bytes = e->result ? 0 : e->bytes,
					   .time = e->end - e->begin,
					   .longest = e->end - e->begin};
	return 0;
}

static int byPair(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->communicator != y->communicator)
		return x->communicator < y->communicator ? -1 : 1;
	if (x->isWait != y->isWait)
		return x->isWait - y->isWait;
	if (x->rank != y->rank)
		return x->rank - y->rank;
	if (x->peer != y->peer)
		return x->peer - y->peer;
	return (x->what > y->what) - (x->what < y->what);
}

/* Sorts, and adds up rows that are equal. */
static void addUp(struct rows *rows)
{
	int kept = 0;

	if (rows->count)
		qsort(rows->of, (size_t)rows->count, sizeof(*rows->of), byPair);
	for (int i = 0; i < rows->count; i++) {
		struct row *into = kept ? &rows->of[kept - 1] : NULL, *row = &rows->of[i];
		if (!into || byPair(into, row)) {
			rows->of[kept++] = *row;
			continue;
		}
		into->calls += row->calls;
		into->bytes += row->bytes;
		into->time += row->time;
		if (row->longest > into->longest)
			into->longest = row->longest;
	}
	rows->count = kept;
}

static int makeRows(const struct trace *t, struct rows *rows)
{
	int failed = 0;

	for (int i = 0; i < t->nEvents && !failed; i++)
		if (isData(&t->events[i]) || traceWaits(&t->events[i]))
			failed = addRow(rows, t, &t->events[i]);
	addUp(rows);
	return failed;
}

static int isOf(const struct row *row, uint64_t communicator, int isWait)
{
	return row->communicator == communicator && row->isWait == isWait;
}

static void printData(const struct rows *rows, uint64_t communicator)
{
	printf("%8s %8s %8s %10s %16s\n", "rank", "peer", "route", "calls", "bytes");
	for (int i = 0; i < rows->count; i++) {
		const struct row *r = &rows->of[i];
		if (isOf(r, communicator, 0))
			printf("%8d %8d %8s %10" PRIu64 " %16" PRIu64 "%s%s%s\n", r->rank, r->peer,
			       traceRoute(r->what & 0xff), r->calls, r->bytes,
			       r->what >> 16 ? "  " : "",
			       r->what >> 16 ? traceCall(r->what >> 16) : "",
			       r->what >> 8 & 1 ? "  got" : "");
	}
}

static void printWaits(const struct rows *rows, uint64_t communicator)
{
	printf("\n%8s %8s %16s %10s %12s %12s\n", "rank", "for rank", "call", "calls", "ms in all",
	       "longest ms");
	for (int i = 0; i < rows->count; i++) {
		const struct row *r = &rows->of[i];
		char peer[16] = "?";
		if (!isOf(r, communicator, 1))
			continue;
		if (r->peer >= 0)
			snprintf(peer, sizeof(peer), "%d", r->peer);
		printf("%8d %8s %16s %10" PRIu64 " %12.3f %12.3f\n", r->rank, peer,
		       traceCall(r->what), r->calls, (double)r->time / 1e6,
		       (double)r->longest / 1e6);
	}
}

/*
 * The rank for which others have waited longest, less its own waits: a rank that only passes on a
 * delay has waited itself.
 */
static int printSlowest(const struct rows *rows, uint64_t communicator, int nRanks)
{
	int64_t *others = calloc((size_t)nRanks, sizeof(*others));
	int64_t *own = calloc((size_t)nRanks, sizeof(*own));
	int slow = 0;

	for (int i = 0; others && own && i < rows->count; i++) {
		const struct row *r = &rows->of[i];
		if (!isOf(r, communicator, 1) || r->peer < 0 || r->peer == r->rank ||
		    r->peer >= nRanks || r->rank >= nRanks)
			continue;
		others[r->peer] += r->time;
		own[r->rank] += r->time;
	}
	for (int r = 1; others && own && r < nRanks; r++)
		if (others[r] - own[r] > others[slow] - own[slow])
			slow = r;
	if (others && own && others[slow])
		printf("\nslowest: rank %d: others have waited %.3f ms for it, and it has waited "
		       "%.3f ms for others\n",
		       slow, (double)others[slow] / 1e6, (double)own[slow] / 1e6);
	int failed = !others || !own;
	free(others);
	free(own);
	return failed ? -1 : 0;
}

static void printSampled(const struct trace *t, uint64_t communicator)
{
	for (int s = 0; s < t->nSources; s++) {
		const struct source *one = &t->sources[s];
		if (one->communicator == communicator && one->every > 1)
			printf("rank %u, device communicator %u: the trace has 1 of %" PRIu64
			       " calls (GIN_TRACE_EVERY)\n",
			       one->rank, one->devComm, one->every);
	}
}

static void printLost(const struct trace *t, uint64_t communicator)
{
	for (int s = 0; s < t->nSources; s++) {
		const struct source *one = &t->sources[s];
		if (one->communicator == communicator && one->lost)
			printf("\nrank %u, device communicator %u: %" PRIu64
			       " calls are missing, for which there was no room "
			       "(GIN_TRACE_RECORDS)\n",
			       one->rank, one->devComm, one->lost);
	}
}

static int isNew(const struct trace *t, int source)
{
	for (int s = 0; s < source; s++)
		if (t->sources[s].communicator == t->sources[source].communicator)
			return 0;
	return 1;
}

static void printHosts(const struct trace *t)
{
	for (int h = 1; h < t->nHosts; h++) {
		const struct host *host = &t->hosts[h];
		if (host->error < 0)
			printf("clock of host %s: by CLOCK_REALTIME\n", host->name);
		else
			printf("clock of host %s: by signals in both directions, at most %.1f us "
			       "wrong\n",
			       host->name, (double)host->error / 1e3);
	}
}

int traceSummary(const struct trace *t)
{
	struct rows rows = {0};
	int failed = makeRows(t, &rows);

	printHosts(t);
	for (int s = 0; s < t->nSources && !failed; s++) {
		const struct source *one = &t->sources[s];
		if (!isNew(t, s))
			continue;
		printf("communicator %016" PRIx64 ", %u ranks\n", one->communicator, one->nRanks);
		printSampled(t, one->communicator);
		printData(&rows, one->communicator);
		printWaits(&rows, one->communicator);
		failed = printSlowest(&rows, one->communicator, (int)one->nRanks);
		printLost(t, one->communicator);
	}
	free(rows.of);
	return failed ? -1 : traceOpenWaits(t);
}
