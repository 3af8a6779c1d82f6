// SPDX-License-Identifier: BSD-3-Clause
// proxy - what the proxy route costs, beside the limits of the machine and other proxies' shapes
//
//   GIN_PROXY_THREADS=0 proxy post
//   mpirun --bind-to none -n 2 proxy [taken] [drain] [trip] [large]
//
// All pairs of ranks go through the proxy, and with one rank its pair with itself. Rank 0 measures
// posts and the drain rate, two ranks trips and large puts. `taken` is posts that a CPU takes meanwhile.
#include "drain.cuh"
#include "large.cuh"
#include "post.cuh"
#include "steps.cuh"
#include "trip.cuh"

static bool wanted(int argc, char **argv, const char *what)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], what))
			return true;
	return argc == 1;
}

static void open(Rank &r)
{
	setenv("GIN_ROUTE", "network", 1);
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	CHECK(ginCommInit(nullptr, &r.comm));
	CHECK(ginCommRank(r.comm, &r.rank));
	CHECK(ginCommSize(r.comm, &r.nRanks));
	CHECK(ginCommDevice(r.comm, &r.device));
	if (r.device < 0 || r.nRanks > 2) {
		fprintf(stderr, "one rank or two, each on a GPU\n");
		exit(77);
	}
	CUDA(cudaSetDevice(r.device));
	CUDA(cudaStreamCreateWithFlags(&r.stream, cudaStreamNonBlocking));
}

int main(int argc, char **argv)
{
	Rank r;

	open(r);
	// Posts go to the rank itself; the other one looks on, as windows are made together.
	if (!strcmp(argc > 1 ? argv[1] : "", "post")) {
		measurePosts(r);
		measurePostSteps(r);
	}
	if (wanted(argc, argv, "taken"))
		measureTaken(r);
	if (wanted(argc, argv, "drain"))
		measureDrain(r);
	if (wanted(argc, argv, "trip"))
		measureTrips(r);
	if (wanted(argc, argv, "large"))
		measureLargePuts(r);
	CUDA(cudaStreamDestroy(r.stream));
	CHECK(ginCommDestroy(r.comm));
	return 0;
}
