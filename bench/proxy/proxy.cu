// SPDX-License-Identifier: BSD-3-Clause
// proxy - what the proxy route costs, compared with machine limits and other proxies' posts
//
//   GIN_PROXY_THREADS=0 proxy post
//   mpirun --bind-to none -n 2 proxy [taken] [drain] [trip] [large]
//
// All pairs of ranks use the proxy route; a single rank uses it to itself. Rank 0 measures posts,
// and how fast descriptors are consumed (drain). Both ranks measure trips and large puts. `taken`:
// posts while a proxy thread consumes the descriptors.
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

static Rank open()
{
	setenv("GIN_ROUTE", "network", 1);
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	Rank r = rankOpen();
	if (r.device < 0 || r.nRanks > 2) {
		fprintf(stderr, "proxy needs one or two ranks, each with a GPU\n");
		exit(77);
	}
	return r;
}

int main(int argc, char **argv)
{
	Rank r = open();

	// Posts go to the rank itself. The other rank takes part because windows are collective.
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
	rankClose(r);
	return 0;
}
