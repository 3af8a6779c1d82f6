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
	"       gin_info --attach PID [--prometheus]\n"
	"       gin_info --plan --ranks N [--contexts C] [--json]\n"
	"\n"
	"Reports what libgin finds: versions, launcher, host, GPUs, NICs, backends, the route\n"
	"between each pair of ranks, and environment variables. For each part that cannot be\n"
	"used, the report gives the reason and what to change.\n"
	"\n"
	"  --env      report environment variables only\n"
	"  --attach   print what a running process, and the ranks on this host with which it\n"
	"             communicates, wait for; --prometheus: the numbers alone, as metrics\n"
	"  --json     print one JSON document\n"
	"  --plan     print what each rank of N takes on each route: queue pairs, memory, bytes "
	"sent;\n"
	"             also by --depth, --signals, --counters and --barriers\n"
	"  --selftest put and signal between all pairs of ranks on each route: which pairs answer, "
	"how\n"
	"             fast, and why others do not\n"
	"  -h, --help print this text\n"
	"  --version  print the versions of gin_info and libgin\n";

static struct {
	int json, env, plan, selftest;
	int planned; /* an option for --plan */
} options;

static int printVersion(void)
{
	char tool[32], library[32];
	int version = 0;

	if (ginGetVersion(&version) != ginSuccess)
		return 1;
	printf("gin_info %s, libgin %s\n", versionText(GIN_VERSION, tool),
	       versionText(version, library));
	return 0;
}

static int checkOptions(void)
{
	if (options.planned && !options.plan)
		fprintf(stderr, "gin_info: --ranks, --contexts and the like need --plan\n%s",
			usage);
	else if (options.plan + options.env + options.selftest > 1)
		fprintf(stderr, "gin_info: --plan, --env and --selftest exclude each other\n%s",
			usage);
	else
		return -1;
	return 2;
}

/* Sets an option without a value. Returns 0 if there is no such option. */
static int readFlag(const char *argument)
{
	static const struct {
		const char *name;
		int *value;
	} flags[] = {{"--json", &options.json},
		     {"--env", &options.env},
		     {"--plan", &options.plan},
		     {"--selftest", &options.selftest}};

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (!strcmp(argument, flags[i].name))
			return *flags[i].value = 1;
	return 0;
}

/* --attach PID, or --attach PID --prometheus */
static int isAttach(int argc, char **argv)
{
	return (argc == 3 || (argc == 4 && !strcmp(argv[3], "--prometheus"))) && atoi(argv[2]) > 0;
}

/* Returns the exit status, or -1 to go on. */
static int readOptions(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (readFlag(argv[i]))
			continue;
		if (!strcmp(argv[i], "--version"))
			return printVersion();
		if (!strcmp(argv[i], "--attach") && isAttach(argc, argv))
			return attachPrint(atoi(argv[2]), argc == 4);
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			return fputs(usage, stdout) < 0;
		int taken = planOption(argv[i], argv[i + 1]);
		if (taken < 0)
			return 2;
		if (!taken) {
			fprintf(stderr, "gin_info: unknown option %s\n%s", argv[i], usage);
			return 2;
		}
		options.planned = 1;
		i++;
	}
	return checkOptions();
}

/* Keeps the sentence of the last error. Returns 1. */
static int keepError(char sentence[512])
{
	snprintf(sentence, 512, "%s", *ginGetLastError() ? ginGetLastError() : "no memory");
	return 1;
}

/*
 * Without a communicator, rank 0 prints its facts and its error, which mostly is the error of all
 * ranks. The other ranks wait before they exit: launchers end the whole job when a rank fails, and
 * rank 0 needs time to print.
 */
static void reportFailure(struct tree *mine, const char *error)
{
	struct report report = {.error = error};

	if (launchedRank() > 0)
		sleep(2);
	else if (treesAlone(mine, &report) == ginSuccess)
		reportPrint(&report, options.env, options.json);
	reportFree(&report);
}

/* Reports about the ranks of the communicator; NULL: there is none, because of the error. */
static int reportAll(ginComm_t comm, struct tree *mine, char error[512])
{
	struct report report = {0};
	int rank = -1, failed = !comm;

	if (comm && routesGather(comm, &report) != ginSuccess)
		failed = keepError(error);
	factsOfComm(mine->out, failed ? NULL : comm, &report);
	if (!failed && treesGather(comm, mine, &report) != ginSuccess)
		failed = keepError(error);
	if (failed)
		reportFailure(mine, error);
	else if (ginCommRank(comm, &rank) == ginSuccess && rank == 0)
		reportPrint(&report, options.env, options.json);
	reportFree(&report);
	return failed;
}

int main(int argc, char **argv)
{
	ginComm_t comm = NULL;
	struct tree mine;
	char error[512];

	if (argc == 2 && !strcmp(argv[1], SELFTEST_CHILD))
		return selftestChild();
	int status = readOptions(argc, argv);
	if (status >= 0)
		return status;
	if (options.plan)
		return printPlan(options.json);
	/* A broken pair is to be reported. The first question to libgin reads the environment. */
	if (options.selftest)
		unsetenv("GIN_SELFTEST");
	treeOpen(&mine);
	factsOfMachine(mine.out);
	if (ginCommInit(NULL, &comm) != ginSuccess)
		keepError(error);
	if (comm && options.selftest)
		status = selftestAll(comm, options.json);
	else
		status = reportAll(comm, &mine, error);
	treeFree(&mine);
	return status | (comm && ginCommDestroy(comm) != ginSuccess);
}
