/* SPDX-License-Identifier: BSD-3-Clause */
/* merge.c - gathers the trees of all ranks, groups ranks with equal sections, describes groups */
#include "gin_info.h"

#include <stdlib.h>
#include <string.h>

#define PART_BYTES 2048

void *gatherAll(ginComm_t comm, int n, const void *mine, size_t bytes)
{
	void *all = calloc((size_t)n, bytes);

	if (all && ginCommAllgather(comm, mine, all, bytes) == ginSuccess)
		return all;
	free(all);
	return NULL;
}

ginResult_t gatherRows(ginComm_t comm, int n, const void *mine, char *all, size_t bytes)
{
	char *some = malloc((size_t)n * PART_BYTES);
	ginResult_t result = some ? ginSuccess : ginErrorSystem;

	for (size_t at = 0; result == ginSuccess && at < bytes; at += PART_BYTES) {
		size_t part = bytes - at < PART_BYTES ? bytes - at : PART_BYTES;
		result = ginCommAllgather(comm, (const char *)mine + at, some, part);
		for (size_t r = 0; result == ginSuccess && all && r < (size_t)n; r++)
			memcpy(all + r * bytes + at, some + r * part, part);
	}
	free(some);
	return result;
}

/* Collective: the largest size of a tree, at which all ranks send theirs. 0: failure. */
static size_t commonSize(ginComm_t comm, int n, size_t mine)
{
	size_t most = 0, *all = gatherAll(comm, n, &mine, sizeof(mine));

	for (int r = 0; all && r < n; r++)
		most = all[r] > most ? all[r] : most;
	free(all);
	return most;
}

/* Finds the sections in trees of `bytes` bytes. A rank of another libgin may have fewer. */
static ginResult_t findSections(struct report *report, size_t bytes)
{
	size_t n = (size_t)report->n, sections = sectionParams + (size_t)paramRow(0).count;

	report->sections = (int)sections;
	report->section = calloc(n * sections, sizeof(*report->section));
	if (!report->section)
		return ginErrorSystem;
	for (size_t r = 0; r < n; r++) {
		const char *at = report->trees + r * bytes, *end = at + bytes;
		for (size_t s = 0; s < sections; s++) {
			report->section[r * sections + s] = at < end ? at : "";
			at = at < end ? nodesEnd(at) + 1 : end;
		}
	}
	return ginSuccess;
}

ginResult_t treesGather(ginComm_t comm, struct tree *mine, struct report *report)
{
	fflush(mine->out);
	size_t bytes = commonSize(comm, report->n, mine->size);
	char *padded = bytes ? calloc(bytes, 1) : NULL;
	int rank = -1;
	ginResult_t result = padded ? ginCommRank(comm, &rank) : ginErrorSystem;

	if (rank == 0 && !(report->trees = malloc((size_t)report->n * bytes)))
		result = ginErrorSystem;
	if (result == ginSuccess) {
		memcpy(padded, mine->bytes, mine->size);
		result = gatherRows(comm, report->n, padded, report->trees, bytes);
	}
	free(padded);
	return result == ginSuccess && rank == 0 ? findSections(report, bytes) : result;
}

ginResult_t treesAlone(struct tree *mine, struct report *report)
{
	fflush(mine->out);
	report->n = report->hosts = 1;
	report->trees = malloc(mine->size);
	if (!report->trees)
		return ginErrorSystem;
	memcpy(report->trees, mine->bytes, mine->size);
	return findSections(report, mine->size);
}

void reportFree(struct report *report)
{
	free(report->trees);
	free(report->section);
	free(report->reasons);
	free(report->matrix);
}

int *reportGroups(const struct report *report, int section)
{
	int *of = malloc((size_t)report->n * sizeof(*of));

	for (int r = 0; of && r < report->n; r++) {
		int other = 0;
		while (other < r &&
		       (of[other] != other || !nodesEqual(sectionOf(report, other, section),
							  sectionOf(report, r, section))))
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
		const char *host = nodeFind(sectionOf(report, r, sectionHost), "name");
		int known = of[r] != first;
		for (int other = 0; other < r && !known; other++)
			known = of[other] == first &&
				!strcmp(nodeFind(sectionOf(report, other, sectionHost), "name"),
					host);
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
