/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gin_info.c - reports what libgin finds on this machine and between these ranks
 *
 * Under a launcher, rank 0 gathers the facts of all ranks and prints one report. Without a
 * communicator, one rank prints its own facts.
 */
#include "gin_info.h"
#include "selftest.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
	"usage: gin_info [--env] [--json]\n"
	"       mpirun -n 4 gin_info\n"
	"       mpirun -n 4 gin_info --selftest [--json]\n"
	"       gin_info --plan --ranks N [--contexts C] [--json]\n"
	"\n"
	"Reports what libgin finds: versions, launcher, host, GPUs, NICs, backends, the route\n"
	"between each pair of ranks, and environment variables. For each part that cannot be\n"
	"used, the report gives the reason and what to change.\n"
	"\n"
	"  --env      report environment variables only\n"
	"  --json     print one JSON document\n"
	"  --plan     print what each rank of N takes on each route: queue pairs, memory, bytes "
	"sent;\n"
	"             also by --depth, --signals, --counters and --barriers\n"
	"  --selftest put and signal between all pairs of ranks on each route: which pairs answer, "
	"how\n"
	"             fast, and why others do not\n"
	"  --help     print this text\n"
	"  --version  print the versions of gin_info and libgin\n";

struct infoOptions {
	int json, env;
	int selftest;
	int plan, planned; /* --plan, and an option for it */
};

static int printVersion(void)
{
	int version = 0;

	if (ginGetVersion(&version) != ginSuccess)
		return 1;
	printf("gin_info %d.%d.%d, libgin %d.%d.%d\n", GIN_VERSION_MAJOR, GIN_VERSION_MINOR,
	       GIN_VERSION_PATCH, version / 10000, version / 100 % 100, version % 100);
	return 0;
}

/* An option with a number, for --plan. Returns 1, 0 if there is no such option, or -1. */
static int readPlanOption(char **at, struct infoOptions *options)
{
	int taken = planOption(at[0], at[1]);

	options->planned |= taken;
	return taken;
}

static int checkOptions(const struct infoOptions *options)
{
	if (options->planned && !options->plan)
		fprintf(stderr, "gin_info: --ranks, --contexts and the like need --plan\n%s",
			usage);
	else if (options->plan + options->env + options->selftest > 1)
		fprintf(stderr, "gin_info: --plan, --env and --selftest exclude each other\n%s",
			usage);
	else
		return -1;
	return 2;
}

/* Returns the exit status, or -1 to go on. */
static int readOptions(int argc, char **argv, struct infoOptions *options)
{
	int taken;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--json")) {
			options->json = 1;
		} else if (!strcmp(argv[i], "--env")) {
			options->env = 1;
		} else if (!strcmp(argv[i], "--plan")) {
			options->plan = 1;
		} else if (!strcmp(argv[i], "--selftest")) {
			options->selftest = 1;
		} else if (!strcmp(argv[i], "--help")) {
			fputs(usage, stdout);
			return 0;
		} else if (!strcmp(argv[i], "--version")) {
			return printVersion();
		} else if ((taken = readPlanOption(&argv[i], options)) > 0) {
			i++;
		} else if (taken < 0) {
			return 2;
		} else {
			fprintf(stderr, "gin_info: unknown option %s\n%s", argv[i], usage);
			return 2;
		}
	}
	return checkOptions(options);
}

static void print(const struct report *report, const struct infoOptions *options)
{
	(options->json ? printJson : printText)(report, options->env);
	fflush(stdout);
}

/*
 * Without a communicator, rank 0 prints its facts and its error, which mostly is the error of all
 * ranks. The other ranks wait before they exit: launchers end the whole job when a rank fails, and
 * rank 0 needs time to print.
 */
static int reportFailure(struct facts *mine, const struct infoOptions *options)
{
	char sentence[512];
	struct report report = {.error = sentence, .n = 1, .hosts = 1, .facts = mine};

	snprintf(sentence, sizeof(sentence), "%s",
		 *ginGetLastError() ? ginGetLastError() : "no memory");
	mine->host.leader = 0;
	if (launchedRank() > 0)
		sleep(2);
	else
		print(&report, options);
	return 1;
}

static int reportAll(ginComm_t comm, struct facts *mine, const struct infoOptions *options)
{
	struct report report = {0};
	int rank = -1;

	factsOfComm(comm, mine);
	ginCommRank(comm, &rank);
	int failed = reportGather(comm, mine, &report);
	if (failed)
		reportFailure(mine, options);
	else if (rank == 0)
		print(&report, options);
	reportFree(&report);
	return failed;
}

/* Makes a communicator and reports about it. */
static int reportRanks(struct facts *mine, const struct infoOptions *options)
{
	ginComm_t comm;

	if (ginCommInit(NULL, &comm) != ginSuccess)
		return reportFailure(mine, options);
	int status = options->selftest ? selftestAll(comm, options->json)
				       : reportAll(comm, mine, options);
	return status | (ginCommDestroy(comm) != ginSuccess);
}

int main(int argc, char **argv)
{
	struct infoOptions options = {0};

	if (argc == 2 && !strcmp(argv[1], SELFTEST_CHILD))
		return selftestChild();
	int status = readOptions(argc, argv, &options);
	if (status >= 0)
		return status;
	if (options.plan)
		return printPlan(options.json);
	struct facts *mine = calloc(1, sizeof(*mine));
	if (!mine) {
		fprintf(stderr, "gin_info: no memory\n");
		return 1;
	}
	/* A broken pair is to be reported. The first question to libgin reads the environment. */
	if (options.selftest)
		unsetenv("GIN_SELFTEST");
	factsLocal(mine);
	factsTopology(mine);
	status = reportRanks(mine, &options);
	free(mine);
	return status;
}
