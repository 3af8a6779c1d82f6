/* SPDX-License-Identifier: BSD-3-Clause */
/* selftest_text.c - prints the self-test: a matrix for few ranks, a summary for many, and each exception */
#include "selftest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

enum { MATRIX_RANKS = 8, FAULTS_SHOWN = 20, REASONS = 16 };

static const struct selftestCell *cellOf(const struct selftestReport *report,
					 const struct selftestResult *result, int from, int to)
{
	return &result->cells[from * report->nRanks + to];
}

static void printCell(const struct selftestCell *cell, double value)
{
	if (cell->state == selftestGood)
		printf(" %8.*f", value < 10 ? 2 : 1, value);
	else
		printf(" %8s", cell->state == selftestNoRoute ? "-" : "BROKEN");
}

static void printMatrix(const struct selftestReport *report, const struct selftestResult *result,
			const char *title, int isLatency)
{
	printf("    %-10s", title);
	for (int to = 0; to < report->nRanks; to++)
		printf(" %5s%3d", "to", to);
	printf("\n");
	for (int from = 0; from < report->nRanks; from++) {
		printf("    from%6d", from);
		for (int to = 0; to < report->nRanks; to++) {
			const struct selftestCell *cell = cellOf(report, result, from, to);
			printCell(cell, (isLatency ? cell->latencyNs : cell->mbPerS) / 1e3);
		}
		printf("\n");
	}
}

/* Classes of pairs, for many ranks. */
enum pairClass { pairSelf, pairHost, pairRail, pairOther, PAIR_CLASSES };

static const char *const className[PAIR_CLASSES] = {"a rank with itself", "within a host",
						    "hosts, same rail", "hosts, other rail"};

/* The number of a rank among the ranks of its host. */
static int localRank(const struct selftestReport *report, int rank)
{
	int before = 0;

	for (int r = 0; r < rank; r++)
		before += report->host[r] == report->host[rank];
	return before;
}

static enum pairClass classOf(const struct selftestReport *report, int from, int to)
{
	if (from == to)
		return pairSelf;
	if (report->host[from] == report->host[to])
		return pairHost;
	return localRank(report, from) == localRank(report, to) ? pairRail : pairOther;
}

static int compareNumbers(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* "1.2 / 3.4 / 9.9": least, median and most. */
static const char *spread(uint32_t *values, long n, char *out, size_t room)
{
	qsort(values, (size_t)n, sizeof(*values), compareNumbers);
	snprintf(out, room, "%.2f / %.2f / %.2f", values[0] / 1e3, values[n / 2] / 1e3,
		 values[n - 1] / 1e3);
	return out;
}

static void addClass(const struct selftestReport *report, const struct selftestResult *result,
		     enum pairClass class, uint32_t *latency, uint32_t *bandwidth,
		     struct textTable *table)
{
	char pairs[48], us[96], gb[96];
	long n = 0, all = 0;

	for (long i = 0; i < result->pairs; i++) {
		const struct selftestCell *cell = &result->cells[i];
		if (classOf(report, (int)(i / report->nRanks), (int)(i % report->nRanks)) != class)
			continue;
		all++;
		if (cell->state != selftestGood)
			continue;
		latency[n] = cell->latencyNs;
		bandwidth[n++] = cell->mbPerS;
	}
	if (!all)
		return;
	snprintf(pairs, sizeof(pairs), "%ld of %ld", n, all);
	tableAdd(table, (const char *[]){className[class], pairs,
					 n ? spread(latency, n, us, sizeof(us)) : "-",
					 n ? spread(bandwidth, n, gb, sizeof(gb)) : "-"});
}

static void printSummary(const struct selftestReport *report, const struct selftestResult *result)
{
	struct textTable table = {.columns = 4};
	uint32_t *latency = malloc((size_t)result->pairs * sizeof(*latency));
	uint32_t *bandwidth = malloc((size_t)result->pairs * sizeof(*bandwidth));

	tableAdd(&table, (const char *[]){"pairs", "answer", "us: least / median / most",
					  "GB/s: least / median / most"});
	for (int class = 0; latency && bandwidth && class < PAIR_CLASSES; class ++)
		addClass(report, result, (enum pairClass) class, latency, bandwidth, &table);
	margin = 4;
	tablePrint(&table);
	free(latency);
	free(bandwidth);
}

/* Each broken pair, up to a limit. */
static void printFaults(const struct selftestReport *report, const struct selftestResult *result)
{
	long shown = 0;

	margin = 4;
	for (long i = 0; i < result->pairs; i++) {
		const struct selftestCell *cell = &result->cells[i];
		if (cell->state != selftestBroken && cell->state != selftestUntested)
			continue;
		if (++shown > FAULTS_SHOWN)
			continue;
		item(cell->state == selftestBroken ? "BROKEN" : "not tested",
		     "rank %ld to rank %ld, route %s (%.*s): %s", i / report->nRanks,
		     i % report->nRanks, cell->backend, (int)strcspn(cell->why, ";"), cell->why,
		     cell->fault);
	}
	if (shown > FAULTS_SHOWN)
		item("", "and %ld more pairs", shown - FAULTS_SHOWN);
}

/* Each reason for pairs without a route, with the number of pairs and the first of them. */
static void printNoRoutes(const struct selftestResult *result, int nRanks)
{
	const struct selftestCell *reason[REASONS];
	long first[REASONS], count[REASONS];
	int n = 0, at;

	for (long i = 0; i < result->pairs; i++) {
		const struct selftestCell *cell = &result->cells[i];
		if (cell->state != selftestNoRoute)
			continue;
		for (at = 0; at < n && strcmp(reason[at]->why, cell->why) != 0;)
			at++;
		if (at == REASONS)
			continue;
		if (at == n) {
			reason[n] = cell;
			first[n] = i;
			count[n++] = 0;
		}
		count[at]++;
	}
	margin = 4;
	for (at = 0; at < n; at++)
		item("no route", "%ld pairs, rank %ld to rank %ld first: %s", count[at],
		     first[at] / nRanks, first[at] % nRanks, reason[at]->why);
}

static void printPass(const struct selftestReport *report, const struct selftestResult *result)
{
	char settings[160];

	printf("\n  %s: ", result->pass->name);
	if (result->cells)
		printf("%ld of %ld pairs answer\n", result->count.good, result->pairs);
	else
		printf("%s\n", result->answer.ended ? "BROKEN" : "not there");
	margin = 4;
	if (*selftestSettings(result->pass, settings, sizeof(settings)))
		item("by", "%s", settings);
	if (!result->cells) {
		item("why", "%s", result->answer.why);
		return;
	}
	if (report->nRanks > MATRIX_RANKS) {
		printSummary(report, result);
	} else if (result->count.good) {
		printMatrix(report, result, "us", 1);
		printMatrix(report, result, "GB/s", 0);
	}
	printFaults(report, result);
	printNoRoutes(result, report->nRanks);
}

void printSelftest(const struct selftestReport *report)
{
	printf("self-test\n");
	margin = 2;
	item("ranks", "%d", report->nRanks);
	item("runs on", "%s", report->device);
	item("us", "a put of 64 bytes with a signal, until the answer by a put with a signal");
	item("GB/s", "four puts of 1 MiB with a signal, until the answer by a signal");
	for (int i = 0; i < report->passes; i++)
		printPass(report, &report->result[i]);
}
