/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * json.c - the trace for Perfetto and chrome://tracing
 *
 * A rank of a communicator is a process, a context of a device communicator a thread. Calls of a
 * context that overlap, by other threads of the kernel, get further rows. An arrow leads from a
 * signal, a call of libgin-ep, or the last arrival at a barrier, to the end of the wait.
 */
#include "gin_trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct trace *sorted; /* for byRow() */

/* By row, then by time; a call that began first contains others. */
static int byRow(const void *a, const void *b)
{
	const struct event *x = &sorted->events[*(const int *)a];
	const struct event *y = &sorted->events[*(const int *)b];

	if (x->source != y->source)
		return x->source - y->source;
	if (x->context != y->context)
		return x->context < y->context ? -1 : 1;
	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return *(const int *)a - *(const int *)b;
}

enum { LANES = 256 }; /* rows of a context: more calls at a time share the last one */

/* Gives calls that overlap rows of their own. Returns the calls by row. */
static int *makeLanes(struct trace *t)
{
	int *order = malloc(((size_t)t->nEvents + 1) * sizeof(*order));
	int64_t busy[LANES] = {0};
	int lanes = 0;

	for (int i = 0; order && i < t->nEvents; i++)
		order[i] = i;
	sorted = t;
	if (order)
		qsort(order, (size_t)t->nEvents, sizeof(*order), byRow);
	for (int i = 0; order && i < t->nEvents; i++) {
		struct event *e = &t->events[order[i]];
		const struct event *before = i ? &t->events[order[i - 1]] : NULL;
		if (!before || before->source != e->source || before->context != e->context)
			lanes = 0;
		for (e->lane = 0; e->lane < lanes && busy[e->lane] > e->begin; e->lane++)
			;
		if (e->lane == lanes && lanes < LANES)
			lanes++;
		e->lane = e->lane < LANES ? e->lane : LANES - 1;
		busy[e->lane] = e->end;
	}
	return order;
}

static int64_t startOf(const struct trace *t)
{
	int64_t start = t->nEvents ? t->events[0].begin : 0;

	for (int i = 0; i < t->nEvents; i++)
		if (t->events[i].begin < start)
			start = t->events[i].begin;
	return start;
}

static void printTime(FILE *out, const char *key, int64_t ns)
{
	fprintf(out, ",\"%s\":%" PRId64 ".%03d", key, ns / 1000, (int)(ns % 1000));
}

/* Device communicators and their contexts follow each other in the list of rows. */
static void printRow(FILE *out, const struct trace *t, const struct event *e)
{
	const struct source *s = &t->sources[e->source];
	uint64_t row = ((uint64_t)s->devComm * GIN_MAX_CONTEXTS + e->context) * LANES;

	fprintf(out, "\"pid\":%d,\"tid\":%" PRIu64, e->source, row + (unsigned)e->lane);
}

static int isFirstOfRow(const struct trace *t, const int *order, int i)
{
	const struct event *e = &t->events[order[i]], *before;

	/* Rows of a context begin in the order of their numbers. */
	for (int k = i - 1; k >= 0; k--) {
		before = &t->events[order[k]];
		if (before->source != e->source || before->context != e->context)
			return 1;
		if (before->lane >= e->lane)
			return 0;
	}
	return 1;
}

static void printName(FILE *out, const char *what, const char *name)
{
	fprintf(out, ",\"ph\":\"M\",\"name\":\"%s\",\"args\":{\"name\":\"", what);
	for (; *name; name++)
		if (*name >= ' ' && *name != '"' && *name != '\\')
			fputc(*name, out);
	fprintf(out, "\"}}");
}

static void printRowName(FILE *out, const struct trace *t, const struct event *e)
{
	const struct source *s = &t->sources[e->source];
	char name[128];

	snprintf(name, sizeof(name), "context %u of device communicator %u", e->context,
		 s->devComm);
	fprintf(out, ",\n{");
	printRow(out, t, e);
	printName(out, "thread_name", name);
}

static void printArguments(FILE *out, const struct event *e)
{
	fprintf(out, ",\"args\":{\"peer\":%d", e->peer);
	if (e->route)
		fprintf(out, ",\"route\":\"%s\",\"bytes\":%" PRIu64, traceRoute(e->route),
			e->bytes);
	if (e->id != GIN_TRACE_NONE)
		fprintf(out, ",\"id\":%u", e->id);
	if (e->value)
		fprintf(out, ",\"value\":%" PRIu64, e->value);
	if (e->result)
		fprintf(out, ",\"error\":\"%s\"", ginGetErrorString((ginResult_t)e->result));
	fprintf(out, ",\"block\":%u,\"thread\":%u}}", e->block, e->thread);
}

static int64_t atLeast(int64_t ns, int64_t least)
{
	return ns < least ? least : ns;
}

static void printCall(FILE *out, const struct trace *t, const struct event *e, int64_t start)
{
	fprintf(out, ",\n{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"%s\",", traceCall(e->call),
		traceWaits(e) ? "wait"
		: e->route    ? "post"
			      : "local");
	printRow(out, t, e);
	printTime(out, "ts", e->begin - start);
	printTime(out, "dur", atLeast(e->end - e->begin, 1));
	printArguments(out, e);
}

/* The arrow ends within the wait: viewers bind it to the call that is there. */
static void printArrow(FILE *out, const struct trace *t, const struct event *e, int64_t start)
{
	const struct event *from = &t->events[e->cause];
	int number = (int)(e - t->events);

	fprintf(out, ",\n{\"ph\":\"s\",\"id\":%d,\"name\":\"wakes\",\"cat\":\"wait\",", number);
	printRow(out, t, from);
	printTime(out, "ts", from->begin - start);
	fprintf(out,
		"},\n{\"ph\":\"f\",\"bp\":\"e\",\"id\":%d,\"name\":\"wakes\",\"cat\":\"wait\",",
		number);
	printRow(out, t, e);
	printTime(out, "ts", atLeast(e->end - 1, e->begin) - start);
	fprintf(out, "}");
}

static void printSource(FILE *out, const struct source *s, int number, const char *host)
{
	char name[160];

	snprintf(name, sizeof(name), "rank %u (%s), communicator %016" PRIx64, s->rank, host,
		 s->communicator);
	fprintf(out, "%s\n{\"pid\":%d", number ? "," : "", number);
	printName(out, "process_name", name);
	fprintf(out,
		",\n{\"pid\":%d,\"ph\":\"M\",\"name\":\"process_sort_index\",\"args\":"
		"{\"sort_index\":%u}}",
		number, s->rank);
}

static void printAll(FILE *out, const struct trace *t, const int *order)
{
	int64_t start = startOf(t);

	fprintf(out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
	for (int s = 0; s < t->nSources; s++)
		printSource(out, &t->sources[s], s, t->hosts[t->sources[s].host].name);
	for (int i = 0; i < t->nEvents; i++) {
		const struct event *e = &t->events[order[i]];
		if (isFirstOfRow(t, order, i))
			printRowName(out, t, e);
		if (e->call == GIN_TRACE_WAITING)
			continue;
		printCall(out, t, e, start);
		if (e->cause >= 0)
			printArrow(out, t, e, start);
	}
	fprintf(out, "\n]}\n");
}

int traceJson(struct trace *t, const char *path)
{
	FILE *out = strcmp(path, "-") ? fopen(path, "w") : stdout;
	int *order = makeLanes(t), failed = !order;

	if (out && order) {
		printAll(out, t, order);
		failed = ferror(out);
	}
	free(order);
	if (!out || (out != stdout ? fclose(out) : fflush(out)) || failed) {
		fprintf(stderr, "gin_trace: %s: %s\n", path, strerror(errno));
		return -1;
	}
	return 0;
}
