/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * life.cc - one rank of a job with a fault; test/faults/run starts it and strikes
 *
 *	life PAGE [LAPS]	the rank is in RANK, the number of ranks in WORLD_SIZE
 *
 * A whole life: communicator, memory, windows, device communicator, laps of kernels that put to the
 * right neighbour and compare what comes from the left one, a split, and the end. PAGE is a file
 * that all ranks and the driver map: what the rank does, and how it ended.
 *
 * With FAULTS_FILES set it counts its descriptors at the end. Exit status: life.h.
 */
#include "life.h"

#define WORDS 517

static uint64_t wordOf(int rank, uint64_t lap, size_t i)
{
	return (lap * 64 + static_cast<uint64_t>(rank)) * 0x9e3779b97f4a7c15u + i;
}

struct LapKernel {
	ginDevComm dc;
	ginWindow_t inbox, outbox;
	uint64_t lap;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		int right = static_cast<int>((dc.rank + 1) % dc.nRanks);
		ginResult_t result = gin.put(right, inbox, 0, outbox, 0, WORDS * sizeof(uint64_t),
					     GinSignalInc{0});
		if (result == ginSuccess)
			result = gin.waitSignal(0, lap);
		results[0] = result;
	}
};

struct Laps : Life {
	uint64_t lap = 0;

	/* Without copies by the device: there is no GPU. */
	void fill()
	{
		uint64_t *out = static_cast<uint64_t *>(memory[1]);

		for (size_t i = 0; i < WORDS; i++)
			out[i] = wordOf(r.rank, lap, i);
	}

	void compare()
	{
		const uint64_t *in = static_cast<const uint64_t *>(memory[0]);
		int left = (r.rank + r.nRanks - 1) % r.nRanks;

		for (size_t i = 0; i < WORDS; i++)
			line->wrong += in[i] != wordOf(left, lap, i);
	}

	bool meet(Results &results)
	{
		return run(1, BarrierKernel{dc, results.words}) && kernelOk(results.words[0]);
	}

	bool turn()
	{
		uint64_t begun = nowNs();
		Results results(r, 1);

		lap++;
		fill();
		if (!run(1, LapKernel{dc, window[0], window[1], lap, results.words}) ||
		    !kernelOk(results.words[0]))
			return false;
		compare();
		line->laps = lap;
		if (!meet(results))
			return false;
		countAfter(begun);
		return true;
	}

	bool split()
	{
		enter(SPLIT);
		return ok(ginCommSplit(r.comm, r.rank % 2, 0, &half)) &&
		       ok(ginCommAllgather(half, nullptr, nullptr, 0));
	}

	void live(uint64_t laps)
	{
		ginConfig_t config = GIN_CONFIG_INIT;
		Size size = {WORDS * sizeof(uint64_t), ginMemAlloc};

		if (!open(&config) || !makeObjects({size, size}, GIN_DEV_COMM_REQUIREMENTS_INIT))
			return;
		enter(KERNELS);
		for (uint64_t i = 0; i < laps; i++)
			if (!turn())
				return;
		split();
	}
};

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "life PAGE [LAPS]: see life.cc\n");
		return 2;
	}
	loadDriver();
	int files = countOwnFiles();
	lifeMap(argv[1]);
	lifeBegin(rankOfEnvironment());
	Laps life;
	life.live(argc > 2 ? strtoull(argv[2], nullptr, 10) : 20);
	life.end();
	return lifeOver(files);
}
