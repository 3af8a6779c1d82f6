/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gin_info.c - what libgin finds on this machine and between these ranks, and why
 *
 * Alone it reports on this process; under a launcher the ranks bring their facts together and rank
 * 0 prints one report. Without a communicator it prints what it can see all the same.
 */
#include "gin_info.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
	"usage: gin_info [--env] [--json]\n"
	"       mpirun -n 4 gin_info\n"
	"\n"
	"Says what libgin finds: versions, host, GPUs, NICs, launcher, backends, the route "
	"between\n"
	"each pair of ranks, environment variables; what cannot be used, why not, what to change.\n"
	"\n"
	"  --env      environment variables only\n"
	"  --json     one JSON document\n"
	"  --help     this text\n"
	"  --version  gin_info's and libgin's version\n";

struct options {
	int json, env;
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

/* -1: go on; else the exit status. */
static int readOptions(int argc, char **argv, struct options *options)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--json")) {
			options->json = 1;
		} else if (!strcmp(argv[i], "--env")) {
			options->env = 1;
		} else if (!strcmp(argv[i], "--help")) {
			fputs(usage, stdout);
			return 0;
		} else if (!strcmp(argv[i], "--version")) {
			return printVersion();
		} else {
			fprintf(stderr, "gin_info: %s is no option\n%s", argv[i], usage);
			return 2;
		}
	}
	return -1;
}

static void print(const struct report *report, const struct options *options)
{
	(options->json ? printJson : printText)(report, options->env);
	fflush(stdout);
}

/*
 * Each rank is on its own now: the first prints for all, as they mostly fail of the same. Launchers
 * end the whole job when a rank fails, so that the others give the first one time to print.
 */
static int reportFailure(struct facts *mine, const struct options *options)
{
	char sentence[512];
	struct report report = {.error = sentence, .n = 1, .hosts = 1, .facts = mine};

	snprintf(sentence, sizeof(sentence), "%s",
		 *ginGetLastError() ? ginGetLastError() : "no memory");
	mine->self.leader = 0;
	if (launcherRank() > 0)
		sleep(2);
	else
		print(&report, options);
	return 1;
}

static int reportAll(ginComm_t comm, struct facts *mine, const struct options *options)
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

int main(int argc, char **argv)
{
	struct options options = {0};
	ginComm_t comm;
	int status = readOptions(argc, argv, &options);

	if (status >= 0)
		return status;
	struct facts *mine = calloc(1, sizeof(*mine));
	if (!mine) {
		fprintf(stderr, "gin_info: no memory\n");
		return 1;
	}
	factsLocal(mine);
	factsTopology(mine);
	if (ginCommInit(NULL, &comm) != ginSuccess) {
		status = reportFailure(mine, &options);
	} else {
		status = reportAll(comm, mine, &options);
		status |= ginCommDestroy(comm) != ginSuccess;
	}
	free(mine);
	return status;
}
