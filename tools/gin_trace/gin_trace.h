/* SPDX-License-Identifier: BSD-3-Clause */
/* gin_trace.h - the records of all files, as one list of calls with one clock */
#ifndef GIN_TRACE_TOOL_H
#define GIN_TRACE_TOOL_H

#include <gin.h>
#include <gin/trace.h>

#include <stddef.h>
#include <stdint.h>

/* A device communicator of a rank. */
struct source {
	uint64_t communicator;
	uint32_t rank, nRanks, devComm;
	int host; /* in trace.hosts */
	/* The first and the last comparison of the clocks, and what the file has of them. */
	struct clockPair {
		int64_t kernel, monotonic, real;
	} first, last;
	int clocks;
	uint64_t every; /* GIN_TRACE_EVERY; 0: as 1 */
	uint64_t lost;	/* records that found no room */
};

struct event {
	int source;
	int64_t begin, end; /* nanoseconds; of all ranks by one clock */
	uint32_t call;	    /* enum ginCall, or GIN_TRACE_WAITING */
	uint32_t result;    /* of GIN_TRACE_WAITING: enum ginCall */
	uint32_t route, flags, context;
	uint32_t id; /* GIN_TRACE_NONE: none */
	int peer;    /* -1: none */
	uint64_t bytes, value, where;
	uint32_t block, thread;
	int cause; /* the event that has ended this wait, or -1 */
	int lane;  /* its row in the picture */
};

struct host {
	char name[32];
	int64_t real;	/* CLOCK_REALTIME minus CLOCK_MONOTONIC */
	int64_t offset; /* is added to CLOCK_MONOTONIC */
	int64_t error;	/* of the offset at most; -1: not known */
};

struct trace {
	struct source *sources;
	int nSources;
	struct event *events;
	int nEvents;
	struct host *hosts;
	int nHosts;
	int isSampled; /* calls are left out: nobody knows what has ended a wait */
};

/* Appends a file. 0, or -1 after a message. */
int traceRead(struct trace *t, const char *path);

/* Sorts by time, finds causes, and brings the times of all hosts to one clock. */
int traceAlign(struct trace *t);

/* Finds the event that has ended each wait. `sure`: only where the clocks do not matter. */
int traceMatch(struct trace *t, int sure);

/* The rank for which a wait has waited; -1: not known. */
int traceAwaited(const struct trace *t, const struct event *e);

/* Is it a call that waits for other ranks? */
int traceWaits(const struct event *e);

/* Is it a call of libgin-ep? */
int traceIsEp(uint32_t call);

const char *traceCall(uint32_t call);
const char *traceRoute(uint32_t route);

int traceJson(struct trace *t, const char *path);
int traceSummary(const struct trace *t);

/* Waits that have not ended, or have failed, and rings of them. */
int traceOpenWaits(const struct trace *t);

/* Grows a list of `size` bytes each by one; 0 after a message. */
void *traceGrow(void *list, int count, size_t size);

#endif
