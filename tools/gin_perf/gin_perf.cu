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
	return runSession(job, arguments->all, arguments->options, "gin_perf");
}

int main(int argc, char **argv)
{
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
