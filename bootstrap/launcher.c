/* SPDX-License-Identifier: BSD-3-Clause */
/* launcher.c - rank and number of ranks from a launcher's variables */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "root.h"

/* torchrun, Open MPI, PMI, Slurm. The values of `job` are equal on the ranks of one job. */
static const struct {
	const char *rank, *nRanks, *job[2];
} variables[] = {
	{"RANK", "WORLD_SIZE", {"TORCHELASTIC_RUN_ID"}},
	{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", {"PMIX_NAMESPACE"}},
	{"PMI_RANK", "PMI_SIZE", {"PMI_JOBID"}},
	{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
};

#define VARIABLES (sizeof(variables) / sizeof(variables[0]))

const char *launcherSeveral(void)
{
	for (size_t i = 0; i < VARIABLES; i++) {
		const char *value = getenv(variables[i].nRanks);
		if (value && atoi(value) > 1)
			return variables[i].nRanks;
	}
	return NULL;
}

/* Returns 0 when `text` is a decimal number from 0 to ROOT_RANKS. */
static int number(const char *text, int *out)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (end == text || *end || value < 0 || value > ROOT_RANKS)
		return -1;
	*out = (int)value;
	return 0;
}

static int isSet(const char *value)
{
	return value && *value;
}

/* Components of a heterogeneous job of Slurm have different numbers. */
static int hasOneNumber(size_t i)
{
	return strcmp(variables[i].rank, "SLURM_PROCID") || !isSet(getenv("SLURM_HET_SIZE"));
}

void launcherJob(char out[BOOTSTRAP_JOB])
{
	size_t i = 0;

	out[0] = '\0';
	while (i < VARIABLES &&
	       !(isSet(getenv(variables[i].rank)) && isSet(getenv(variables[i].nRanks))))
		i++;
	if (i == VARIABLES || !hasOneNumber(i))
		return;
	const char *job = getenv(variables[i].job[0]), *step = NULL;
	if (variables[i].job[1])
		step = getenv(variables[i].job[1]);
	if (isSet(job))
		snprintf(out, BOOTSTRAP_JOB, "%s%s%.20s", job, step ? "." : "", step ? step : "");
}

int launcherRank(int *rank, int *nRanks, char *why)
{
	for (size_t i = 0; i < VARIABLES; i++) {
		const char *first = getenv(variables[i].rank);
		const char *second = getenv(variables[i].nRanks);
		int r, n;
		if (!isSet(first) || !isSet(second))
			continue;
		if (number(first, &r) || number(second, &n) || r >= n) {
			snprintf(why, BOOTSTRAP_WHY,
				 "%s=%.40s and %s=%.40s: must be numbers, the rank less than the "
				 "number of ranks, the number of ranks at most %d",
				 variables[i].rank, first, variables[i].nRanks, second, ROOT_RANKS);
			return -1;
		}
		*rank = r;
		*nRanks = n;
		return 0;
	}
	snprintf(
		why, BOOTSTRAP_WHY,
		"GIN_ROOT is set, but no variable gives this process's rank: set RANK (from 0) and "
		"WORLD_SIZE");
	return -1;
}
