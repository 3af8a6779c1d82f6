// SPDX-License-Identifier: BSD-3-Clause
// gin_perf - measures libgin's device calls between ranks, and compares every byte
//
// One source, kernels and host functions, see gin_perf(1):
//   mpirun -n 2 gin_perf -o put_lat,put_bw
//   gin_perf --threads 2 --host -o barrier
#include "gin_job.cuh"
#include "ranks.h"
#include "session.cuh"

struct Start {
	Options options;
	std::vector<Options> all;
};

static int runRank(const ginConfig_t &config, void *arg)
{
	const Start *start = static_cast<const Start *>(arg);
	GinJob job(config, start->options.host);
	return runSession(job, start->all, start->options, "gin_perf");
}

int main(int argc, char **argv)
{
	Start start;
	parseOptions(start.options, argc, argv);
	start.all = allOptions(start.options);
	if (start.options.ranks) // no kernel has to be loaded while another waits
		setenv("CUDA_MODULE_LOADING", "EAGER", 0);
	if (!start.options.route.empty())
		setenv("GIN_ROUTE", start.options.route.c_str(), 1);
	return runRanks(start.options.ranks, runRank, &start);
}
