/* SPDX-License-Identifier: BSD-3-Clause */
/* merge.c - the facts of all ranks: brought together, grouped, and put in few words */
#include "gin_info.h"

#include <stdlib.h>
#include <string.h>

/* Facts are larger than what one allgather takes. */
static ginResult_t gatherFacts(ginComm_t comm, const struct facts *mine, struct report *report)
{
	size_t n = (size_t)report->n, part = GIN_ALLGATHER_BYTES / 4;
	char *all = malloc(n * part);
	ginResult_t result = all ? ginSuccess : ginErrorSystem;

	for (size_t at = 0; result == ginSuccess && at < sizeof(*mine); at += part) {
		size_t bytes = sizeof(*mine) - at < part ? sizeof(*mine) - at : part;
		result = ginCommAllgather(comm, (const char *)mine + at, all, bytes);
		for (size_t r = 0; result == ginSuccess && r < n; r++)
			memcpy((char *)&report->facts[r] + at, all + r * bytes, bytes);
	}
	free(all);
	return result;
}

/* Its place among the reasons; it is added when it is new. -1: no memory. */
static int intern(struct report *report, const struct reason *reason)
{
	for (int i = 0; i < report->reasonCount; i++)
		if (!memcmp(&report->reasons[i], reason, sizeof(*reason)))
			return i;
	if (report->reasonCount > UINT16_MAX)
		return -1;
	struct reason *more =
		realloc(report->reasons, ((size_t)report->reasonCount + 1) * sizeof(*reason));
	if (!more)
		return -1;
	report->reasons = more;
	more[report->reasonCount] = *reason;
	return report->reasonCount++;
}

/* One round per rank: what all have to say of the way to it. */
static ginResult_t gatherRoutes(ginComm_t comm, struct report *report)
{
	struct reason *column = malloc((size_t)report->n * sizeof(*column));
	ginResult_t result = column ? ginSuccess : ginErrorSystem;

	for (int to = 0; result == ginSuccess && to < report->n; to++) {
		ginPeerInfo_t info = GIN_PEER_INFO_INIT;
		struct reason mine = {0};
		result = ginCommQueryPeer(comm, to, &info);
		snprintf(mine.backend, sizeof(mine.backend), "%s", info.backend);
		snprintf(mine.why, sizeof(mine.why), "%s", info.why);
		if (result == ginSuccess)
			result = ginCommAllgather(comm, &mine, column, sizeof(mine));
		for (int from = 0; result == ginSuccess && from < report->n; from++) {
			int index = intern(report, &column[from]);
			report->matrix[from * report->n + to] = (uint16_t)index;
			result = index < 0 ? ginErrorSystem : ginSuccess;
		}
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
	report->facts = malloc(n * sizeof(*report->facts));
	report->matrix = calloc(n * n, sizeof(*report->matrix));
	if (!report->facts || !report->matrix)
		return 1;
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

/* Appends the names of hosts that ranks of the group run on, as far as there is room. */
static void hostsText(const struct report *report, const int *of, int first, char *out,
		      size_t bytes)
{
	size_t used = 0;
	int named = 0;

	for (int r = 0; r < report->n; r++) {
		const char *host = report->facts[r].self.host;
		int known = of[r] != first;
		for (int other = 0; other < r && !known; other++)
			known = of[other] == first && !strcmp(report->facts[other].self.host, host);
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

/* A set of ranks is the sum of its members' numbers here: equal sums are equal sets. */
static uint64_t memberNumber(int rank)
{
	uint64_t x = ((uint64_t)rank + 1) * 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* Whom a rank reaches for one reason, itself left out. */
struct row {
	uint64_t others;
	int count;
	int itself;
	int said;
};

static struct row *rowsOf(const struct report *report, int reason)
{
	struct row *rows = calloc((size_t)report->n, sizeof(*rows));

	for (int from = 0; rows && from < report->n; from++)
		for (int to = 0; to < report->n; to++) {
			if (report->matrix[from * report->n + to] != reason)
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

/* Sets of pairs, in words: the first of them, and how many more there are. */
struct sets {
	FILE *out;
	int said;
};

enum { SETS_MOST = 12 };

static void sayPairs(const struct report *report, const char *words, const uint8_t *from,
		     const char *to, struct sets *sets)
{
	char ranks[120];

	if (sets->said < SETS_MOST)
		fprintf(sets->out, "%s%s%s%s", sets->said ? "; " : "", words,
			listText("rank", from, report->n, ranks, sizeof(ranks)), to);
	sets->said++;
}

/* Ranks of which each reaches all others of them, and nobody else. */
static void sayAmong(const struct report *report, struct row *rows, uint8_t *in, struct sets *sets)
{
	for (int r = 0; r < report->n; r++) {
		uint64_t set = rows[r].others + memberNumber(r);
		int members = 0;
		for (int other = 0; other < report->n; other++) {
			in[other] = rows[other].count > 0 && !rows[other].said &&
				    rows[other].others + memberNumber(other) == set;
			members += in[other];
		}
		if (!in[r] || members != rows[r].count + 1)
			continue;
		sayPairs(report, "among ", in, "", sets);
		for (int other = 0; other < report->n; other++)
			rows[other].said |= in[other];
	}
}

/* Ranks that reach the same others. */
static void sayOneWay(const struct report *report, int reason, struct row *rows, uint8_t *in,
		      struct sets *sets)
{
	char to[128] = " to ";

	for (int r = 0; r < report->n; r++) {
		if (!rows[r].count || rows[r].said)
			continue;
		for (int other = 0; other < report->n; other++)
			in[other] = other != r && report->matrix[r * report->n + other] == reason;
		listText("rank", in, report->n, to + 4, sizeof(to) - 4);
		for (int other = 0; other < report->n; other++) {
			in[other] = !rows[other].said && rows[other].count &&
				    rows[other].others == rows[r].others;
			rows[other].said |= in[other];
		}
		sayPairs(report, "", in, to, sets);
	}
}

static void sayItself(const struct report *report, const struct row *rows, uint8_t *in,
		      struct sets *sets)
{
	int any = 0;

	for (int r = 0; r < report->n; r++)
		any += in[r] = rows[r].itself != 0;
	if (any)
		sayPairs(report, "", in, any == 1 ? " to itself" : " to themselves", sets);
}

void pairsText(const struct report *report, int reason, FILE *out)
{
	struct row *rows = rowsOf(report, reason);
	uint8_t *in = malloc((size_t)report->n);
	struct sets sets = {.out = out};

	if (rows && in) {
		sayAmong(report, rows, in, &sets);
		sayOneWay(report, reason, rows, in, &sets);
		sayItself(report, rows, in, &sets);
	}
	if (sets.said > SETS_MOST)
		fprintf(out, "; and %d more", sets.said - SETS_MOST);
	free(rows);
	free(in);
}
