/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * launcher.c - rank and number of ranks from a launcher's variables
 *
 * A process may have the variables of several launchers: torchrun that srun has started leaves
 * those of srun in its workers, and a shell may have RANK and WORLD_SIZE of an earlier job. The
 * first pair in the table counts if no other pair contradicts it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "root.h"

/* torchrun, Open MPI, PMI, Slurm. The values of `job` are equal on the ranks of one job. */
static const struct pair {
	const char *rank, *nRanks, *job[2];
} variables[] = {
	{"RANK", "WORLD_SIZE", {"TORCHELASTIC_RUN_ID"}},
	{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", {"PMIX_NAMESPACE"}},
	{"PMI_RANK", "PMI_SIZE", {"PMI_JOBID"}},
	{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
};

#define VARIABLES (sizeof(variables) / sizeof(variables[0]))
#define AGENT (&variables[0])
#define SLURM (&variables[VARIABLES - 1])

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

/* The number of ranks by the pair; 0: it gives none. */
static int sizeOf(const struct pair *pair)
{
	const char *text = getenv(pair->nRanks);
	int size;

	return isSet(text) && !number(text, &size) ? size : 0;
}

/* The first pair whose two variables are set; NULL: there is none. */
static const struct pair *firstSet(void)
{
	for (const struct pair *pair = variables; pair <= SLURM; pair++)
		if (isSet(getenv(pair->rank)) && isSet(getenv(pair->nRanks)))
			return pair;
	return NULL;
}

/* Components of a heterogeneous job of Slurm have different numbers. */
static int hasOneNumber(const struct pair *pair)
{
	return pair != SLURM || !isSet(getenv("SLURM_HET_SIZE"));
}

void launcherJob(char out[BOOTSTRAP_JOB])
{
	const struct pair *pair = firstSet();

	out[0] = '\0';
	if (!pair || !hasOneNumber(pair))
		return;
	const char *job = getenv(pair->job[0]), *step = NULL;
	if (pair->job[1])
		step = getenv(pair->job[1]);
	if (isSet(job))
		snprintf(out, BOOTSTRAP_JOB, "%s%s%.20s", job, step ? "." : "", step ? step : "");
}

/* The launcher that started this process, or its agent: the first but AGENT that gives a number. */
static const struct pair *outer(void)
{
	for (const struct pair *pair = AGENT + 1; pair <= SLURM; pair++)
		if (sizeOf(pair))
			return pair;
	return NULL;
}

/* May this process be a worker of one of `agents` agents, which number their workers together? */
static int isWorker(int agents)
{
	return isSet(getenv("LOCAL_WORLD_SIZE")) && firstSet() == AGENT && agents <= sizeOf(AGENT);
}

int launcherIsNested(void)
{
	int agents = outer() ? sizeOf(outer()) : 1;

	return isWorker(agents) && agents != sizeOf(AGENT);
}

/*
 * The first pair that contradicts `nRanks`, which `pair` gives, or PMIx (NULL); NULL: there is
 * none. Without `isForced`, numbers may differ where an agent numbers its workers, and where mpirun
 * or another launcher has started its daemons by Slurm. In any case it is an error when several
 * ranks would each be a job of one rank by `pair`.
 */
static const struct pair *contradiction(const struct pair *pair, int nRanks, int isForced)
{
	for (const struct pair *other = variables; other <= SLURM; other++) {
		int size = hasOneNumber(other) ? sizeOf(other) : 0;
		int may = isForced || (other == SLURM && outer() != SLURM) ||
			  (pair == AGENT && isWorker(size));
		if (size && size != nRanks && (!may || (pair && nRanks == 1)))
			return other;
	}
	return NULL;
}

int launcherAgrees(const char *forced, int nRanks, char *why)
{
	const struct pair *other = contradiction(NULL, nRanks, !strcmp(forced, "pmix"));

	if (!other)
		return 0;
	snprintf(why, BOOTSTRAP_WHY,
		 "PMIx says that there %s %d rank%s, %s=%.20s: set GIN_BOOTSTRAP=pmix, or unset %s "
		 "and %s, if PMIx is right; set GIN_BOOTSTRAP=tcp and GIN_ROOT=host:port if it is "
		 "not",
		 nRanks == 1 ? "is" : "are", nRanks, nRanks == 1 ? "" : "s", other->nRanks,
		 getenv(other->nRanks), other->rank, other->nRanks);
	return -1;
}

static int readPair(const struct pair *pair, int *rank, int *nRanks, char *why)
{
	const char *first = getenv(pair->rank), *second = getenv(pair->nRanks);

	if (!number(first, rank) && !number(second, nRanks) && *rank < *nRanks)
		return 0;
	snprintf(why, BOOTSTRAP_WHY,
		 "%s=%.40s and %s=%.40s: must be numbers, the rank less than the number of ranks, "
		 "the number of ranks at most %d",
		 pair->rank, first, pair->nRanks, second, ROOT_RANKS);
	return -1;
}

int launcherRank(const char *forced, int *rank, int *nRanks, char *why)
{
	const struct pair *pair = firstSet(), *other;
	int r, n;

	if (!pair) {
		snprintf(why, BOOTSTRAP_WHY,
			 "GIN_ROOT is set, but no variable gives this process's rank: set RANK "
			 "(from 0) and WORLD_SIZE");
		return -1;
	}
	if (readPair(pair, &r, &n, why))
		return -1;
	other = contradiction(pair, n, !strcmp(forced, "tcp"));
	if (other) {
		snprintf(why, BOOTSTRAP_WHY,
			 "%s=%d and %s=%d, but %s=%.20s: unset the variables of the launcher that "
			 "did not start these ranks, or set GIN_BOOTSTRAP=%s if %s",
			 pair->rank, r, pair->nRanks, n, other->nRanks, getenv(other->nRanks),
			 n == 1 ? "self" : "tcp",
			 n == 1 ? "each process is to be a single rank"
				: "the first two are right");
		return -1;
	}
	*rank = r;
	*nRanks = n;
	return 0;
}
