/* SPDX-License-Identifier: BSD-3-Clause */
/* read.c - reads the files: include/gin/trace.h describes them */
#include "gin_trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *traceGrow(void *list, int count, size_t size)
{
	void *more = list;

	if (!(count & (count - 1))) /* room for 1, 2, 4, 8, ... */
		more = realloc(list, (count ? 2 * (size_t)count : 1) * size);
	if (!more)
		fprintf(stderr, "gin_trace: no memory\n");
	return more;
}

static int findHost(struct trace *t, const char name[32])
{
	for (int h = 0; h < t->nHosts; h++)
		if (!strncmp(t->hosts[h].name, name, sizeof(t->hosts[h].name) - 1))
			return h;
	struct host *more = traceGrow(t->hosts, t->nHosts, sizeof(*more));
	if (!more)
		return -1;
	t->hosts = more;
	more[t->nHosts] = (struct host){.error = -1};
	snprintf(more[t->nHosts].name, sizeof(more->name), "%.31s", name);
	return t->nHosts++;
}

static int findSource(struct trace *t, const struct ginTraceHead *head)
{
	for (int s = t->nSources - 1; s >= 0; s--) {
		const struct source *one = &t->sources[s];
		if (one->communicator == head->communicator && one->rank == head->rank &&
		    one->devComm == head->devComm)
			return s;
	}
	int host = findHost(t, head->host);
	struct source *more = traceGrow(t->sources, t->nSources, sizeof(*more));
	if (!more || host < 0)
		return -1;
	t->sources = more;
	more[t->nSources] = (struct source){.communicator = head->communicator,
					    .rank = head->rank,
					    .nRanks = head->nRanks,
					    .devComm = head->devComm,
					    .host = host};
	return t->nSources++;
}

/* Also of a damaged file: differences do not overflow. */
static int64_t timeOf(uint64_t word)
{
	return (int64_t)(word & ((1ull << 61) - 1));
}

static struct event eventOf(int source, const uint64_t w[GIN_TRACE_WORDS])
{
	uint32_t peer = w[GIN_TRACE_WHOM] & GIN_TRACE_NONE;

	return (struct event){
		.source = source,
		.begin = timeOf(w[GIN_TRACE_BEGIN]),
		.end = timeOf(w[GIN_TRACE_END]),
		.call = w[GIN_TRACE_WHAT] & 0xff,
		.result = w[GIN_TRACE_WHAT] >> 8 & 0xff,
		.route = w[GIN_TRACE_WHAT] >> 16 & 0xff,
		.flags = w[GIN_TRACE_WHAT] >> 24 & 0xff,
		.context = (uint32_t)(w[GIN_TRACE_WHAT] >> 32),
		.peer = peer == GIN_TRACE_NONE ? -1 : (int)peer,
		.id = w[GIN_TRACE_WHOM] >> 31 & GIN_TRACE_NONE,
		.bytes = w[GIN_TRACE_BYTES],
		.value = w[GIN_TRACE_VALUE],
		.where = w[GIN_TRACE_WHERE],
		.thread = w[GIN_TRACE_THREAD] & 0x7fffffff,
		.block = (uint32_t)(w[GIN_TRACE_THREAD] >> 31),
		.cause = -1,
	};
}

/* Of GIN_TRACE_EVERY. */
static void addSampling(struct trace *t, struct source *s, uint64_t every)
{
	s->every = every;
	t->isSampled |= every > 1;
}

static void addClock(struct trace *t, struct source *s, const uint64_t w[GIN_TRACE_WORDS])
{
	const struct clockPair pair = {timeOf(w[GIN_TRACE_BEGIN]), timeOf(w[GIN_TRACE_END]),
				       timeOf(w[GIN_TRACE_VALUE])};

	if (!s->clocks++)
		s->first = pair;
	s->last = pair;
	addSampling(t, s, w[GIN_TRACE_BYTES]);
	t->hosts[s->host].real = pair.real - pair.monotonic;
}

static int addRecord(struct trace *t, int source, const struct ginTraceRecord *r)
{
	struct event e = eventOf(source, r->word);

	if (e.call == GIN_TRACE_CLOCK)
		addClock(t, &t->sources[source], r->word);
	else if (e.call == GIN_TRACE_LOST)
		t->sources[source].lost = e.bytes;
	else if (e.call <= ginCallShadow || traceIsEp(e.call) || e.call == GIN_TRACE_WAITING) {
		struct event *more = traceGrow(t->events, t->nEvents, sizeof(*more));
		if (!more)
			return -1;
		t->events = more;
		more[t->nEvents++] = e;
	}
	return 0;
}

static int isHead(const struct ginTraceHead *head)
{
	return !memcmp(head->magic, GIN_TRACE_MAGIC, sizeof(head->magic)) &&
	       head->rank < head->nRanks && head->nRanks < 1u << 20;
}

/* 1: the end; -1: an error, after a message. A part that a process has not finished is left out. */
static int readPart(struct trace *t, FILE *in, const char *path)
{
	struct ginTraceHead head;
	struct ginTraceRecord record;

	if (fread(&head, sizeof(head), 1, in) != 1)
		return 1;
	if (!isHead(&head)) {
		fprintf(stderr,
			"gin_trace: %s is no file of GIN_TRACE, or is damaged at byte %ld\n", path,
			ftell(in) - (long)sizeof(head));
		return -1;
	}
	int source = findSource(t, &head);
	for (uint32_t i = 0; source >= 0 && i < head.count; i++) {
		if (fread(&record, sizeof(record), 1, in) != 1)
			return 1;
		if (addRecord(t, source, &record))
			return -1;
	}
	return source < 0 ? -1 : 0;
}

int traceRead(struct trace *t, const char *path)
{
	FILE *in = fopen(path, "r");
	int result = 0;

	if (!in) {
		fprintf(stderr, "gin_trace: %s: %s\n", path, strerror(errno));
		return -1;
	}
	while (!result)
		result = readPart(t, in, path);
	fclose(in);
	return result < 0 ? -1 : 0;
}
