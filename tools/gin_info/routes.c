/* SPDX-License-Identifier: BSD-3-Clause */
/* routes.c - gathers the routes between all pairs of ranks, and describes sets of pairs */
#include "gin_info.h"

#include <stdlib.h>
#include <string.h>

/* Index of the reason in report->reasons; adds a new reason. -1: no memory, or too many. */
static int intern(struct report *report, const struct routeReason *reason)
{
	for (int i = 0; i < report->reasonCount; i++)
		if (!strcmp(report->reasons[i].backend, reason->backend) &&
		    !strcmp(report->reasons[i].why, reason->why))
			return i;
	if (report->reasonCount > UINT16_MAX)
		return -1;
	struct routeReason *more =
		realloc(report->reasons, ((size_t)report->reasonCount + 1) * sizeof(*more));
	if (!more)
		return -1;
	report->reasons = more;
	more[report->reasonCount] = *reason;
	return report->reasonCount++;
}

/* Keeps the reasons of all ranks' routes to rank `to`. */
static ginResult_t keepColumn(struct report *report, int to, const struct routeReason *column)
{
	for (int from = 0; from < report->n; from++) {
		int index = intern(report, &column[from]);
		if (index < 0)
			return ginErrorSystem;
		report->reasons[index].pairs++;
		if (report->matrix)
			*routeAt(report, from, to) = (uint16_t)index;
	}
	return ginSuccess;
}

/* One allgather for each target rank: the reason of every rank's route to it. */
ginResult_t routesGather(ginComm_t comm, struct report *report)
{
	ginCommInfo_t info = GIN_COMM_INFO_INIT;
	ginResult_t result = ginCommQuery(comm, &info);
	size_t n = (size_t)info.nRanks;
	struct routeReason *column = result == ginSuccess ? malloc(n * sizeof(*column)) : NULL;

	report->n = info.nRanks;
	report->hosts = info.hosts;
	if (!column || (info.rank == 0 && !(report->matrix = calloc(n * n, sizeof(uint16_t)))))
		result = ginErrorSystem;
	for (int to = 0; result == ginSuccess && to < report->n; to++) {
		ginPeerInfo_t peer = GIN_PEER_INFO_INIT;
		struct routeReason mine = {0};
		result = ginCommQueryPeer(comm, to, &peer);
		memcpy(mine.backend, peer.backend, sizeof(mine.backend));
		memcpy(mine.why, peer.why, sizeof(mine.why));
		if (result == ginSuccess)
			result = ginCommAllgather(comm, &mine, column, sizeof(mine));
		if (result == ginSuccess)
			result = keepColumn(report, to, column);
	}
	free(column);
	return result;
}

long pairsOf(const struct report *report, const char *backend)
{
	long pairs = 0;

	for (int i = 0; i < report->reasonCount; i++)
		if (!strcmp(report->reasons[i].backend, backend))
			pairs += report->reasons[i].pairs;
	return pairs;
}

/*
 * A random-looking number for each rank. A set of ranks is represented by the sum of its members'
 * numbers: equal sums mean equal sets, up to collisions of 64-bit hashes.
 */
static uint64_t memberNumber(int rank)
{
	uint64_t x = ((uint64_t)rank + 1) * 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* The peers to which one rank's route has a given reason. */
struct reasonRow {
	uint64_t others; /* sum of memberNumber() of the peers other than the rank itself */
	int count;	 /* number of these peers that are not printed yet: all, or 0 */
	int itself;	 /* its route to itself has the reason */
};

/* Sets of pairs that have a reason. */
struct pairSets {
	const struct report *report;
	int reason;
	struct reasonRow *rows;
	uint8_t *in; /* [n]: members of the set at hand */
	FILE *out;
	int count; /* of sets, of which the first SETS_MOST are printed */
};

enum { SETS_MOST = 12 };

static void fillRows(struct pairSets *sets)
{
	int n = sets->report->n;

	for (int from = 0; from < n; from++)
		for (int to = 0; to < n; to++) {
			struct reasonRow *row = &sets->rows[from];
			if (*routeAt(sets->report, from, to) != sets->reason)
				continue;
			row->itself |= from == to;
			row->others += from == to ? 0 : memberNumber(to);
			row->count += from != to;
		}
}

static void printPairs(struct pairSets *sets, const char *words, const char *to)
{
	char ranks[120];

	if (sets->count < SETS_MOST)
		fprintf(sets->out, "%s%s%s%s", sets->count ? "; " : "", words,
			listText("rank", sets->in, sets->report->n, ranks, sizeof(ranks)), to);
	sets->count++;
}

/* Finds the ranks whose set of peers, with or without the rank itself, is that of rank r. */
static int findEqual(const struct pairSets *sets, int r, int withItself)
{
	const struct reasonRow *rows = sets->rows;
	uint64_t set = rows[r].others + (withItself ? memberNumber(r) : 0);
	int members = 0;

	for (int other = 0; other < sets->report->n; other++) {
		uint64_t its = rows[other].others + (withItself ? memberNumber(other) : 0);
		members += sets->in[other] = rows[other].count && its == set;
	}
	return members;
}

/*
 * Prints the set of rank r: ranks that each have the reason for exactly all other ranks of the set
 * (among), or for an equal set of peers.
 */
static void printSet(struct pairSets *sets, int r, int isAmong)
{
	char to[128] = " to ";

	if (!sets->rows[r].count)
		return;
	for (int peer = 0; peer < sets->report->n; peer++)
		sets->in[peer] = peer != r && *routeAt(sets->report, r, peer) == sets->reason;
	listText("rank", sets->in, sets->report->n, to + 4, sizeof(to) - 4);
	if (findEqual(sets, r, isAmong) != sets->rows[r].count + 1 && isAmong)
		return;
	printPairs(sets, isAmong ? "among " : "", isAmong ? "" : to);
	for (int member = 0; member < sets->report->n; member++)
		if (sets->in[member])
			sets->rows[member].count = 0;
}

static void printItself(struct pairSets *sets)
{
	int any = 0;

	for (int r = 0; r < sets->report->n; r++)
		any += sets->in[r] = sets->rows[r].itself != 0;
	if (any)
		printPairs(sets, "", any == 1 ? " to itself" : " to themselves");
}

void pairsText(const struct report *report, int reason, FILE *out)
{
	struct pairSets sets = {report,
				reason,
				calloc((size_t)report->n, sizeof(*sets.rows)),
				malloc((size_t)report->n),
				out,
				0};

	if (sets.rows && sets.in) {
		fillRows(&sets);
		for (int r = 0; r < report->n; r++)
			printSet(&sets, r, 1);
		for (int r = 0; r < report->n; r++)
			printSet(&sets, r, 0);
		printItself(&sets);
	}
	if (sets.count > SETS_MOST)
		fprintf(out, "; and %d more", sets.count - SETS_MOST);
	free(sets.rows);
	free(sets.in);
}
