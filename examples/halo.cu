// SPDX-License-Identifier: BSD-3-Clause
// halo - heat spreads along a closed rod: get, barrier and atomics
//
// Each rank owns a piece of the rod. In each step, a rank gets the edge cells of its neighbours. A
// barrier separates the steps, so no rank gets a cell before its owner has written it, and no rank
// overwrites a cell that a neighbour still gets. In the end each rank adds its heat to a total at
// rank 0 by an atomic. The total must be equal to the heat at the start.
//   mpirun -n 4 ./halo
#include "launch.h"

enum { CELLS = 512, STEPS = 20 };

// The kernel, run by one block. A rank owns cells 1 to CELLS. Cells 0 and CELLS + 1 are copies of
// its neighbours' edge cells.
struct Heat {
	ginDevComm dc;
	ginWindow_t window; // uint64_t cells[2][CELLS + 2]: a step reads one, and writes the other
	ginWindow_t sum;    // uint64_t: the total, used at rank 0
	uint64_t *cells;
	ginResult_t *result;

	GIN_FN size_t offset(uint32_t which, uint32_t cell) const
	{
		return (which * (CELLS + 2) + cell) * sizeof(uint64_t);
	}

	// Thread 0 gets from the left neighbour, thread 1 from the right one.
	GIN_FN ginResult_t fetchEdges(const Gin &gin, uint32_t which) const
	{
		int n = static_cast<int>(dc.nRanks), rank = static_cast<int>(dc.rank);
		ginResult_t status = ginSuccess;
		if (ginThreadIndex() == 0)
			status = gin.get((rank + n - 1) % n, window, offset(which, CELLS), window,
					 offset(which, 0), sizeof(uint64_t));
		if (ginThreadIndex() == 1)
			status = gin.get((rank + 1) % n, window, offset(which, 1), window,
					 offset(which, CELLS + 1), sizeof(uint64_t));
		status = ginAgree(GinCta{}, status);
		return status == ginSuccess ? gin.flush(GinCta{}) : status;
	}

	// A quarter of each cell moves to each side. The remainder of the division stays in the
	// cell.
	GIN_FN void step(uint32_t which) const
	{
		const uint64_t *old = cells + which * (CELLS + 2);
		uint64_t *now = cells + (1 - which) * (CELLS + 2);
		for (uint32_t c = 1 + ginThreadIndex(); c <= CELLS; c += ginBlockSize())
			now[c] = old[c] - old[c] / 4 * 2 + old[c - 1] / 4 + old[c + 1] / 4;
	}

	GIN_FN ginResult_t addUp(const Gin &gin, uint32_t which) const
	{
		uint64_t heat = 0;
		for (uint32_t c = 1 + ginThreadIndex(); c <= CELLS; c += ginBlockSize())
			heat += cells[which * (CELLS + 2) + c];
		// Each thread adds its part: without a coop, a call is made by one thread.
		return gin.atomicFetchAdd(0, sum, 0, heat);
	}

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		GinBarrier barrier(dc, ginTeamWorld(dc), 0);
		GinCta block;
		ginResult_t status = barrier.sync(block);
		for (uint32_t s = 0; s < STEPS && status == ginSuccess; s++) {
			status = fetchEdges(gin, s % 2);
			if (status == ginSuccess) {
				step(s % 2);
				status = barrier.sync(block);
			}
		}
		if (status == ginSuccess)
			status = ginAgree(block, addUp(gin, STEPS % 2));
		if (status == ginSuccess)
			status = barrier.sync(block);
		if (ginThreadIndex() == 0)
			*result = status;
	}
};

int main()
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginDevComm dc;
	Rank r = rankOpen();
	std::vector<uint64_t> cells(2 * (CELLS + 2), 0), total(1, 0);
	const uint64_t hot = 1000000000;

	if (r.rank == 0)
		cells[1] = hot; // next to the last rank: the rod is closed
	Window rod = registerCopy(r, cells), sum = registerCopy(r, total);
	ginResult_t *result = resultWord<ginResult_t>(r);
	CHECK(ginDevCommCreate(r.comm, &want, &dc));
	launch(r, 1, r.device < 0 ? GIN_HOST_WARP : 128,
	       Heat{dc, rod.window, sum.window, static_cast<uint64_t *>(rod.ptr), result});
	checkKernel(r, dc, *result);

	copyBytes(r, total.data(), sum.ptr, sizeof(uint64_t));
	if (r.rank == 0)
		printf("total heat: %llu at the end, %llu at the start\n",
		       static_cast<unsigned long long>(total[0]),
		       static_cast<unsigned long long>(hot));
	int status = report(r, r.rank == 0 && total[0] != hot);
	CHECK(ginDevCommDestroy(r.comm, &dc));
	freeWindow(r, rod);
	freeWindow(r, sum);
	rankClose(r);
	return status;
}
