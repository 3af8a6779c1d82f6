/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * metrics.c - gin_info --attach PID --prometheus: the numbers of the answers
 *
 * In the text format of Prometheus all lines of a metric follow each other, so each metric goes
 * through the answers once. lib/attach.c and lib/devcomm/told.c write the lines that are read here.
 */
#include "attach.h"

#include <stdio.h>
#include <string.h>

enum { POST_METRICS = 5 };

static const struct {
	const char *name, *help;
} postMetrics[POST_METRICS] = {
	{"gin_posted_total", "Operations that kernels have posted."},
	{"gin_completed_total", "Operations that have completed."},
	{"gin_failed_total", "Operations that have failed."},
	{"gin_put_bytes_total", "Bytes of puts that have completed, where the route counts them."},
	{"gin_get_bytes_total", "Bytes of gets that have completed, where the route counts them."},
};

/* The posts to a rank, by the device communicator of the last line that names one. */
struct posts {
	unsigned long long devComm, value[POST_METRICS];
	int peer;
	char route[16];
};

/* Returns how many values the line has. */
static int readPosts(const char *line, struct posts *p)
{
	if (sscanf(line, "device communicator %llu:", &p->devComm) == 1)
		return 0;
	int seen = sscanf(line,
			  "to rank %d by %15[a-z]: %llu posted, %llu completed, %llu failed, %llu "
			  "bytes put, %llu got",
			  &p->peer, p->route, &p->value[0], &p->value[1], &p->value[2],
			  &p->value[3], &p->value[4]);
	return seen < 5 ? 0 : seen - 2;
}

static const char *nextLine(const char *line)
{
	line = strchr(line, '\n');
	return line && line[1] ? line + 1 : NULL;
}

static void printPosts(const struct attached *a, int metric)
{
	struct posts p = {0};

	for (const char *line = nextLine(a->text); line; line = nextLine(line))
		if (readPosts(line, &p) > metric)
			printf("%s{comm=\"%016llx\",rank=\"%d\",devcomm=\"%llu\",peer=\"%d\","
			       "route=\"%s\"} %llu\n",
			       postMetrics[metric].name, a->name, a->rank, p.devComm, p.peer,
			       p.route, p.value[metric]);
}

/* One value for each rank. */
typedef unsigned (*rankMetric)(const struct attached *a);

static unsigned countWaits(const struct attached *a)
{
	unsigned count = 0;

	for (const char *line = nextLine(a->text); line; line = nextLine(line))
		count += !strncmp(line, "wait ", 5);
	return count;
}

static unsigned longestWait(const struct attached *a)
{
	unsigned longest = 0, seconds;

	for (const char *line = nextLine(a->text); line; line = nextLine(line))
		if (sscanf(line, "wait %*d %u", &seconds) == 1 && seconds > longest)
			longest = seconds;
	return longest;
}

static unsigned countLost(const struct attached *a)
{
	unsigned count = 0;

	for (const char *line = nextLine(a->text); line; line = nextLine(line))
		count += !strncmp(line, "rank ", 5);
	return count;
}

static void printHead(const char *name, const char *help, const char *type)
{
	printf("# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void printRanks(const struct attachedAll *all, const char *name, const char *help,
		       rankMetric value)
{
	printHead(name, help, "gauge");
	for (unsigned i = 0; i < all->count; i++)
		printf("%s{comm=\"%016llx\",rank=\"%d\"} %u\n", name, all->of[i].name,
		       all->of[i].rank, value(&all->of[i]));
}

void metricsPrint(const struct attachedAll *all)
{
	for (int m = 0; m < POST_METRICS; m++) {
		printHead(postMetrics[m].name, postMetrics[m].help, "counter");
		for (unsigned i = 0; i < all->count; i++)
			printPosts(&all->of[i], m);
	}
	printRanks(all, "gin_waits", "Calls of kernels that wait now.", countWaits);
	printRanks(all, "gin_wait_seconds", "How long the longest of them has waited.",
		   longestWait);
	printRanks(all, "gin_lost_ranks", "Ranks that have failed or are masked.", countLost);
}
