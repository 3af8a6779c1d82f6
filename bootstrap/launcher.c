/* SPDX-License-Identifier: BSD-3-Clause */
/* launcher.c - what launchers say in variables: torchrun, mpirun, srun, PMI */
#include <stdlib.h>

#include "bootstrap.h"

static const struct {
	const char *rank, *nRanks;
} variables[] = {
	{"RANK", "WORLD_SIZE"},
	{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
	{"PMI_RANK", "PMI_SIZE"},
	{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
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

/* 0 when `text` is a whole number from 0 to 2^30. */
static int number(const char *text, int *out)
{
	char *end;
	long value = text ? strtol(text, &end, 10) : -1;

	if (!text || end == text || *end || value < 0 || value > 1 << 30)
		return -1;
	*out = (int)value;
	return 0;
}

int launcherRank(int *rank, int *nRanks)
{
	for (size_t i = 0; i < VARIABLES; i++) {
		int r, n;
		if (!number(getenv(variables[i].rank), &r) &&
		    !number(getenv(variables[i].nRanks), &n) && r < n) {
			*rank = r;
			*nRanks = n;
			return 0;
		}
	}
	return -1;
}
