/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * align.c - one clock for all ranks
 *
 * The kernel's clock becomes CLOCK_MONOTONIC of its host by the comparisons in the file. Between
 * hosts, CLOCK_REALTIME gives the offset, unless there are waits in both directions: a wait ends
 * after its signal begins, so that the shortest times there and back bound the offset from both
 * sides. It is the middle of the two.
 */
#include "gin_trace.h"

#include <limits.h>
#include <stdlib.h>

static int64_t scaled(int64_t x, int64_t from, int64_t to)
{
	return (int64_t)((long double)x * (long double)to / (long double)from);
}

/* Of a kernel, by the line through both comparisons. */
static int64_t monotonicOf(const struct source *s, int64_t kernel)
{
	int64_t ran = s->last.kernel - s->first.kernel;
	int64_t passed = s->last.monotonic - s->first.monotonic, wrong = ran - passed;

	/* Comparisons within a millisecond, or of a clock that was set, give no rate. */
	if (ran < 1000000 || passed < 1000000 || wrong > passed / 64 || wrong < -passed / 64)
		return kernel - s->first.kernel + s->first.monotonic;
	return s->first.monotonic + scaled(kernel - s->first.kernel, ran, passed);
}

static void moveAll(struct trace *t)
{
	for (int i = 0; i < t->nEvents; i++) {
		struct event *e = &t->events[i];
		const struct source *s = &t->sources[e->source];
		e->begin = monotonicOf(s, e->begin);
		e->end = monotonicOf(s, e->end);
	}
}

static void addOffsets(struct trace *t)
{
	for (int i = 0; i < t->nEvents; i++) {
		struct event *e = &t->events[i];
		int64_t offset = t->hosts[t->sources[e->source].host].offset;
		e->begin += offset;
		e->end += offset;
	}
}

#define NEVER (INT64_MAX / 4)

/* bound[a * n + b]: the least time from a signal of host a to the end of its wait on host b. */
static int64_t *boundsOf(const struct trace *t)
{
	size_t n = (size_t)t->nHosts;
	int64_t *bound = malloc(n * n * sizeof(*bound));

	for (size_t i = 0; bound && i < n * n; i++)
		bound[i] = NEVER;
	for (int i = 0; bound && i < t->nEvents; i++) {
		const struct event *e = &t->events[i];
		if (e->cause < 0)
			continue;
		const struct event *from = &t->events[e->cause];
		size_t at = (size_t)t->sources[from->source].host * n +
			    (size_t)t->sources[e->source].host;
		if (e->end - from->begin < bound[at])
			bound[at] = e->end - from->begin;
	}
	return bound;
}

/* Places the host that is bound most tightly to one that is placed; 0: no more are bound. */
static int placeNext(struct trace *t, const int64_t *bound, char *placed)
{
	int64_t least = NEVER;
	int n = t->nHosts, host = -1, to = -1;

	for (int h = 0; h < n; h++)
		for (int g = 0; g < n; g++) {
			int64_t there = bound[h * n + g], back = bound[g * n + h];
			if (placed[h] || !placed[g] || there == NEVER || back == NEVER ||
			    there + back >= least)
				continue;
			least = there + back;
			host = h;
			to = g;
		}
	if (host < 0)
		return 0;
	t->hosts[host].offset =
		t->hosts[to].offset + (bound[host * n + to] - bound[to * n + host]) / 2;
	t->hosts[host].error = t->hosts[to].error < 0 ? -1 : t->hosts[to].error + least / 2;
	placed[host] = 1;
	return 1;
}

static int placeHosts(struct trace *t)
{
	int64_t *bound = boundsOf(t);
	char *placed = calloc((size_t)t->nHosts + 1, 1);
	int result = bound && placed ? 0 : -1;

	for (int first = 0; !result && first < t->nHosts; first++) {
		if (placed[first])
			continue;
		placed[first] = 1;
		t->hosts[first].offset = t->hosts[first].real - t->hosts[0].real;
		t->hosts[first].error = first ? -1 : 0;
		while (placeNext(t, bound, placed))
			;
	}
	free(placed);
	free(bound);
	return result;
}

int traceAlign(struct trace *t)
{
	moveAll(t);
	int result = t->nHosts > 1 ? traceMatch(t, 1) : 0;
	if (!result && t->nHosts > 1)
		result = placeHosts(t);
	else if (t->nHosts == 1)
		t->hosts->error = 0;
	if (!result) {
		addOffsets(t);
		result = traceMatch(t, 0);
	}
	return result;
}
