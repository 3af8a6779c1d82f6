/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * selftest_report.c - the tree of the self-test; text: a matrix for few ranks, otherwise a summary
 */
#include "gin_info.h"
#include "selftest.h"

#include <stdlib.h>
#include <string.h>

enum { MATRIX_RANKS = 8, FAULTS_SHOWN = 20, REASONS = 16 };

/* A row of JSON, and a row of the text. */
static void addRow(FILE *t, const struct selftestReport *report, const struct selftestCell *row,
		   int from, int isLatency, int isShown)
{
	nodeStart(t, nodeLiteral, "", "");
	for (int to = 0; to < report->nRanks; to++) {
		double value = (isLatency ? row[to].latencyNs : row[to].mbPerS) / 1e3;
		fputs(to ? ", " : "[", t);
		fprintf(t, row[to].state == selftestGood ? "%.3f" : "null", value);
	}
	fputc(']', t);
	nodeEnd(t);
	if (!isShown)
		return;
	nodeStart(t, nodeRaw, "", "");
	fprintf(t, "    from%6d", from);
	for (int to = 0; to < report->nRanks; to++) {
		double value = (isLatency ? row[to].latencyNs : row[to].mbPerS) / 1e3;
		if (row[to].state == selftestGood)
			fprintf(t, " %8.*f", value < 10 ? 2 : 1, value);
		else
			fprintf(t, " %8s", row[to].state == selftestNoRoute ? "-" : "BROKEN");
	}
	fputc('\n', t);
	nodeEnd(t);
}

static void addMatrix(FILE *t, const struct selftestReport *report,
		      const struct selftestResult *result, const char *title, const char *key,
		      int isLatency)
{
	int isShown = report->nRanks <= MATRIX_RANKS && result->count.good;

	nodeStart(t, nodeRaw, "", "");
	for (int to = -1; isShown && to < report->nRanks; to++)
		if (to < 0)
			fprintf(t, "    %-10s", title);
		else
			fprintf(t, " %5s%3d", "to", to);
	fputs(isShown ? "\n" : "", t);
	nodeEnd(t);
	bracket(t, nodeArray, key);
	for (int from = 0; from < report->nRanks; from++)
		addRow(t, report, &result->cells[from * report->nRanks], from, isLatency, isShown);
	bracket(t, nodeArrayEnd, "");
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

/* A row of the summary. */
static void addClass(const struct selftestReport *report, const struct selftestResult *result,
		     enum pairClass class, uint32_t *latency, uint32_t *bandwidth, FILE *t)
{
	char words[96];
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
	addLine(t, "pairs", "%s", className[class]);
	addLine(t, "answer", "%ld of %ld", n, all);
	addLine(t, "us: least / median / most", "%s",
		n ? spread(latency, n, words, sizeof(words)) : "-");
	addLine(t, "GB/s: least / median / most", "%s",
		n ? spread(bandwidth, n, words, sizeof(words)) : "-");
}

static void addSummary(FILE *t, const struct selftestReport *report,
		       const struct selftestResult *result)
{
	uint32_t *latency = malloc((size_t)result->pairs * sizeof(*latency));
	uint32_t *bandwidth = malloc((size_t)result->pairs * sizeof(*bandwidth));

	bracket(t, nodeTable, "");
	for (int class = 0; latency && bandwidth && class < PAIR_CLASSES; class ++)
		addClass(report, result, (enum pairClass) class, latency, bandwidth, t);
	bracket(t, nodeTableEnd, "");
	free(latency);
	free(bandwidth);
}

/* Pairs that do not answer. The text has FAULTS_SHOWN, and none without a route. */
static void addFaults(FILE *t, const struct selftestReport *report,
		      const struct selftestResult *result)
{
	long shown = 0;

	bracket(t, nodeArray, "faults");
	for (long i = 0; result->cells && i < result->pairs; i++) {
		const struct selftestCell *cell = &result->cells[i];
		long from = i / report->nRanks, to = i % report->nRanks;
		if (cell->state == selftestGood)
			continue;
		bracket(t, nodeObject, "");
		addNumber(t, "from", 1, (uint64_t)from);
		addNumber(t, "to", 1, (uint64_t)to);
		addString(t, "", "state", selftestState(cell->state));
		addString(t, "", "backend", cell->backend);
		addString(t, "", "why", cell->why);
		addOptional(t, "", "fault", cell->fault);
		bracket(t, nodeObjectEnd, "");
		if (cell->state != selftestNoRoute && shown++ < FAULTS_SHOWN)
			addLine(t, cell->state == selftestBroken ? "BROKEN" : "not tested",
				"rank %ld to rank %ld, route %s (%.*s): %s", from, to,
				cell->backend, (int)strcspn(cell->why, ";"), cell->why,
				cell->fault);
	}
	bracket(t, nodeArrayEnd, "");
	if (shown > FAULTS_SHOWN)
		addLine(t, " ", "and %ld more pairs", shown - FAULTS_SHOWN);
}

/* Each reason for pairs without a route, with the number of pairs and the first of them. */
static void addNoRoutes(FILE *t, const struct selftestResult *result, int nRanks)
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
	for (at = 0; at < n; at++)
		addLine(t, "no route", "%ld pairs, rank %ld to rank %ld first: %s", count[at],
			first[at] / nRanks, first[at] % nRanks, reason[at]->why);
}

static void addPass(FILE *t, const struct selftestReport *report,
		    const struct selftestResult *result)
{
	char settings[160];

	selftestSettings(result->pass, settings, sizeof(settings));
	add(t, nodeRaw, "", "", "\n");
	if (result->cells)
		add(t, nodeGroup, "", "", "%s: %ld of %ld pairs answer", result->pass->name,
		    result->count.good, result->pairs);
	else
		add(t, nodeGroup, "", "", "%s: %s", result->pass->name,
		    result->answer.ended ? "BROKEN" : "not there");
	bracket(t, nodeObject, "");
	addString(t, "", "name", result->pass->name);
	addString(t, *settings ? "by" : "", "settings", settings);
	addOptional(t, result->cells ? "" : "why", "error",
		    result->cells ? "" : result->answer.why);
	addNumber(t, "pairs", 1, (uint64_t)result->pairs);
	addNumber(t, "good", 1, (uint64_t)result->count.good);
	addNumber(t, "broken", 1, (uint64_t)result->count.broken);
	addNumber(t, "noRoute", 1, (uint64_t)result->count.noRoute);
	if (result->cells) {
		addMatrix(t, report, result, "us", "latencyUs", 1);
		addMatrix(t, report, result, "GB/s", "bandwidthGBs", 0);
	}
	if (result->cells && report->nRanks > MATRIX_RANKS)
		addSummary(t, report, result);
	addFaults(t, report, result);
	if (result->cells)
		addNoRoutes(t, result, report->nRanks);
	bracket(t, nodeObjectEnd, "");
}

void selftestPrint(const struct selftestReport *report, int asJson)
{
	struct tree tree;

	treeOpen(&tree);
	bracket(tree.out, nodeObject, "");
	add(tree.out, nodeHeading, "", "", "self-test");
	addLine(tree.out, "ranks", "%d", report->nRanks);
	addNumber(tree.out, "nRanks", 1, (uint64_t)report->nRanks);
	addString(tree.out, "runs on", "runsOn", report->device);
	addLine(tree.out, "us",
		"a put of 64 bytes with a signal, until the answer by a put with a signal");
	addLine(tree.out, "GB/s", "four puts of 1 MiB with a signal, until the answer by a signal");
	bracket(tree.out, nodeArray, "selftest");
	for (int i = 0; i < report->passes; i++) {
		addPass(tree.out, report, &report->result[i]);
		treePrint(&tree, asJson);
	}
	bracket(tree.out, nodeArrayEnd, "");
	bracket(tree.out, nodeObjectEnd, "");
	treePrint(&tree, asJson);
	treeFree(&tree);
}
