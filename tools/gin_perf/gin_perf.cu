// SPDX-License-Identifier: BSD-3-Clause
// gin_perf - measures libgin's device calls between ranks, and compares every byte received
//
// The source compiles to kernels with nvcc, and to host functions in any case. See gin_perf(1):
//   mpirun -n 2 gin_perf -o put_lat,put_bw
//   gin_perf --threads 2 --host -o barrier
#include "coops.cuh"
#include "ranks.h"
#include "session.cuh"

struct RankArguments {
	Options options;
	std::vector<Options> all;
};

static int runRank(const ginConfig_t &config, void *arg)
{
	const RankArguments *arguments = static_cast<const RankArguments *>(arg);
	GinJob job(config, arguments->options.host);
	if (job.nRanks == 1)
		fprintf(stderr,
			"gin_perf: one rank, which sends to itself: mpirun -n 2 gin_perf or "
			"gin_perf --threads 2 has a pair of ranks\n");
	return runSession(job, arguments->all, arguments->options, "gin_perf");
}

static int printVersion()
{
	int version = 0;
	if (ginGetVersion(&version) != ginSuccess)
		return 1;
	printf("gin_perf %d.%d.%d, libgin %d.%d.%d\n", GIN_VERSION_MAJOR, GIN_VERSION_MINOR,
	       GIN_VERSION_PATCH, version / 10000, version / 100 % 100, version % 100);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--version"))
		return printVersion();
	RankArguments arguments;
	parseOptions(arguments.options, argc, argv);
	arguments.all = allOptions(arguments.options);
	// Loading a kernel would block while a kernel of another rank waits.
	if (arguments.options.ranks)
		setenv("CUDA_MODULE_LOADING", "EAGER", 0);
	if (!arguments.options.route.empty())
		setenv("GIN_ROUTE", arguments.options.route.c_str(), 1);
	return runRanks(arguments.options.ranks, runRank, &arguments);
}
