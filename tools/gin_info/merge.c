/* SPDX-License-Identifier: BSD-3-Clause */
/* merge.c - gathers the facts of all ranks, groups ranks, and describes groups in few words */
#include "gin_info.h"

#include <stdlib.h>
#include <string.h>

/* In parts: all ranks hold a part of all ranks. */
#define PART_BYTES 2048

static ginResult_t gatherFacts(ginComm_t comm, const struct facts *mine, struct report *report)
{
	size_t n = (size_t)report->n;
	char *all = malloc(n * PART_BYTES);
	ginResult_t result = all ? ginSuccess : ginErrorSystem;

	for (size_t at = 0; result == ginSuccess && at < sizeof(*mine); at += PART_BYTES) {
		size_t left = sizeof(*mine) - at, bytes = left < PART_BYTES ? left : PART_BYTES;
		result = ginCommAllgather(comm, (const char *)mine + at, all, bytes);
		for (size_t r = 0; result == ginSuccess && report->facts && r < n; r++)
			memcpy((char *)&report->facts[r] + at, all + r * bytes, bytes);
	}
	free(all);
	return result;
}

/* Index of the reason in report->reasons; adds a new reason. -1: no memory, or too many. */
static int intern(struct report *report, const struct routeReason *reason)
{
	for (int i = 0; i < report->reasonCount; i++)
		if (!memcmp(&report->reasons[i], reason, sizeof(*reason)))
			return i;
	if (report->reasonCount > UINT16_MAX)
		return -1;
	struct routeReason *more =
		realloc(report->reasons, ((size_t)report->reasonCount + 1) * sizeof(*reason));
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
		*routeAt(report, from, to) = (uint16_t)index;
	}
	return ginSuccess;
}

/* One allgather for each target rank: the reason of every rank's route to it. */
static ginResult_t gatherRoutes(ginComm_t comm, struct report *report)
{
	struct routeReason *column = malloc((size_t)report->n * sizeof(*column));
	ginResult_t result = column ? ginSuccess : ginErrorSystem;

	for (int to = 0; result == ginSuccess && to < report->n; to++) {
		ginPeerInfo_t info = GIN_PEER_INFO_INIT;
		struct routeReason mine = {0};
		result = ginCommQueryPeer(comm, to, &info);
		snprintf(mine.backend, sizeof(mine.backend), "%s", info.backend);
		snprintf(mine.why, sizeof(mine.why), "%s", info.why);
		if (result == ginSuccess)
			result = ginCommAllgather(comm, &mine, column, sizeof(mine));
		if (result == ginSuccess && report->matrix)
			result = keepColumn(report, to, column);
	}
	free(column);
	return result;
}

int reportGather(ginComm_t comm, const struct facts *mine, struct report *report)
{
	ginCommInfo_t info = GIN_COMM_INFO_INIT;

	if (ginCommQuery(comm, &info) != ginSuccess)
		return 1;
	size_t n = (size_t)info.nRanks;
	report->n = info.nRanks;
	report->hosts = info.hosts;
	if (info.rank == 0) {
		report->facts = malloc(n * sizeof(*report->facts));
		report->matrix = calloc(n * n, sizeof(*report->matrix));
		if (!report->facts || !report->matrix)
			return 1;
	}
	return gatherFacts(comm, mine, report) != ginSuccess ||
	       gatherRoutes(comm, report) != ginSuccess;
}

void reportFree(struct report *report)
{
	free(report->facts);
	free(report->matrix);
	free(report->reasons);
}

int *reportGroups(const struct report *report, size_t offset, size_t bytes)
{
	int *of = malloc((size_t)report->n * sizeof(*of));

	for (int r = 0; of && r < report->n; r++) {
		int other = 0;
		while (other < r && (of[other] != other ||
				     memcmp((const char *)&report->facts[other] + offset,
					    (const char *)&report->facts[r] + offset, bytes)))
			other++;
		of[r] = other;
	}
	return of;
}

const char *listText(const char *noun, const uint8_t *in, int n, char *out, size_t bytes)
{
	int count = 0, named = 0;

	for (int i = 0; i < n; i++)
		count += in[i] != 0;
	size_t used = (size_t)snprintf(out, bytes, "%s%s", noun, count == 1 ? "" : "s");
	for (int i = 0, end; i < n; i = end + 1) {
		for (end = i; in[i] && end + 1 < n && in[end + 1];)
			end++;
		if (!in[i])
			continue;
		if (used + 40 > bytes) {
			snprintf(out + used, bytes - used, ",... (%d)", count);
			break;
		}
		used += (size_t)snprintf(out + used, bytes - used, "%s%d", named++ ? "," : " ", i);
		if (end > i)
			used += (size_t)snprintf(out + used, bytes - used, "-%d", end);
	}
	return out;
}

const char *groupRanks(const struct report *report, const int *of, int first, char *out,
		       size_t bytes)
{
	uint8_t *in = calloc((size_t)report->n, 1);

	out[0] = '\0';
	for (int r = 0; in && r < report->n; r++)
		in[r] = of[r] == first;
	if (in)
		listText("rank", in, report->n, out, bytes);
	free(in);
	return out;
}

/* Lists the hosts of the group's ranks, each once; cuts a long list. */
static void hostsText(const struct report *report, const int *of, int first, char *out,
		      size_t bytes)
{
	size_t used = 0;
	int named = 0;

	for (int r = 0; r < report->n; r++) {
		const char *host = report->facts[r].host.name;
		int known = of[r] != first;
		for (int other = 0; other < r && !known; other++)
			known = of[other] == first && !strcmp(report->facts[other].host.name, host);
		if (known)
			continue;
		if (used + strlen(host) + 16 > bytes) {
			snprintf(out + used, bytes - used, ", ...");
			return;
		}
		used += (size_t)snprintf(out + used, bytes - used, "%s%s", named++ ? ", " : "",
					 host);
	}
}

const char *groupText(const struct report *report, const int *of, int first, char *out,
		      size_t bytes)
{
	char ranks[120] = "", hosts[160] = "";

	groupRanks(report, of, first, ranks, sizeof(ranks));
	hostsText(report, of, first, hosts, sizeof(hosts));
	snprintf(out, bytes, "%s on host%s %s", ranks, strchr(hosts, ',') ? "s" : "", hosts);
	return out;
}

long pairsOf(const struct report *report, const char *backend)
{
	long pairs = 0;

	for (long i = 0; i < (long)report->n * report->n; i++)
		pairs += !strcmp(report->reasons[report->matrix[i]].backend, backend);
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
	int count;	 /* number of peers other than the rank itself */
	int itself;	 /* its route to itself has the reason */
	int printed;
};

static struct reasonRow *rowsOf(const struct report *report, int reason)
{
	struct reasonRow *rows = calloc((size_t)report->n, sizeof(*rows));

	for (int from = 0; rows && from < report->n; from++)
		for (int to = 0; to < report->n; to++) {
			if (*routeAt(report, from, to) != reason)
				continue;
			if (from == to) {
				rows[from].itself = 1;
				continue;
			}
			rows[from].others += memberNumber(to);
			rows[from].count++;
		}
	return rows;
}

/* Counts the sets of pairs, of which the first SETS_MOST are printed. */
struct pairSets {
	FILE *out;
	int count;
};

enum { SETS_MOST = 12 };

static void printPairs(const struct report *report, const char *words, const uint8_t *from,
		       const char *to, struct pairSets *sets)
{
	char ranks[120];

	if (sets->count < SETS_MOST)
		fprintf(sets->out, "%s%s%s%s", sets->count ? "; " : "", words,
			listText("rank", from, report->n, ranks, sizeof(ranks)), to);
	sets->count++;
}

/* Prints sets of ranks in which each rank has the reason for exactly all other ranks of the set. */
static void printAmong(const struct report *report, struct reasonRow *rows, uint8_t *in,
		       struct pairSets *sets)
{
	for (int r = 0; r < report->n; r++) {
		uint64_t set = rows[r].others + memberNumber(r);
		int members = 0;
		for (int other = 0; other < report->n; other++) {
			in[other] = rows[other].count > 0 && !rows[other].printed &&
				    rows[other].others + memberNumber(other) == set;
			members += in[other];
		}
		if (!in[r] || members != rows[r].count + 1)
			continue;
		printPairs(report, "among ", in, "", sets);
		for (int other = 0; other < report->n; other++)
			rows[other].printed |= in[other];
	}
}

/* Prints sets of ranks that have the reason for an equal set of peers. */
static void printOneWay(const struct report *report, int reason, struct reasonRow *rows,
			uint8_t *in, struct pairSets *sets)
{
	char to[128] = " to ";

	for (int r = 0; r < report->n; r++) {
		if (!rows[r].count || rows[r].printed)
			continue;
		for (int other = 0; other < report->n; other++)
			in[other] = other != r && *routeAt(report, r, other) == reason;
		listText("rank", in, report->n, to + 4, sizeof(to) - 4);
		for (int other = 0; other < report->n; other++) {
			in[other] = !rows[other].printed && rows[other].count &&
				    rows[other].others == rows[r].others;
			rows[other].printed |= in[other];
		}
		printPairs(report, "", in, to, sets);
	}
}

static void printItself(const struct report *report, const struct reasonRow *rows, uint8_t *in,
			struct pairSets *sets)
{
	int any = 0;

	for (int r = 0; r < report->n; r++)
		any += in[r] = rows[r].itself != 0;
	if (any)
		printPairs(report, "", in, any == 1 ? " to itself" : " to themselves", sets);
}

void pairsText(const struct report *report, int reason, FILE *out)
{
	struct reasonRow *rows = rowsOf(report, reason);
	uint8_t *in = malloc((size_t)report->n);
	struct pairSets sets = {.out = out};

	if (rows && in) {
		printAmong(report, rows, in, &sets);
		printOneWay(report, reason, rows, in, &sets);
		printItself(report, rows, in, &sets);
	}
	if (sets.count > SETS_MOST)
		fprintf(out, "; and %d more", sets.count - SETS_MOST);
	free(rows);
	free(in);
}
