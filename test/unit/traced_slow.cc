// SPDX-License-Identifier: BSD-3-Clause
// traced_slow [MILLISECONDS] - rank 1 is late in a ring of signals, then all ranks wait in a ring
//
// For test/tools/gin_trace, which finds both in the trace. MILLISECONDS: until the last waits end.
#define GIN_TRACE
#include "../../examples/launch.h"

enum { ROUNDS = 3 };

struct Slow {
	ginDevComm dc;
	uint64_t late, patience; // nanoseconds
	ginResult_t *result;

	GIN_FN void operator()() const
	{
		const Gin gin(dc, 0);
		const uint32_t right = (dc.rank + 1) % dc.nRanks;
		ginOptions options = ginTimeout(patience);
		ginResult_t status = ginSuccess;

		options.from = {right, 1, 1};
		for (uint64_t round = 1; round <= ROUNDS && status == ginSuccess; round++) {
			const uint64_t begin = ginNow();
			while (dc.rank == 1 && ginNow() - begin < late)
				ginYield();
			status = gin.signal(static_cast<int>(right), GinSignalInc{0});
			if (status == ginSuccess)
				status = gin.waitSignal(0, round);
		}
		if (status == ginSuccess)
			status = GinBarrier(dc, ginTeamWorld(dc), 0).sync();
		*result = status == ginSuccess ? gin.waitSignal(1, 1, {}, options) : status;
	}
};

int main(int argc, char **argv)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	const uint64_t milliseconds = argc > 1 ? strtoull(argv[1], nullptr, 10) : 100;
	ginDevComm dc;
	Rank r = rankOpen();
	ginResult_t *result = resultWord<ginResult_t>(r);

	want.signals = 2;
	CHECK(ginDevCommCreate(r.comm, &want, &dc));
	launch(r, 1, 1, Slow{dc, 400000000, milliseconds * 1000000, result});
	check(*result == ginErrorTimeout, ginGetErrorString(*result));
	CHECK(ginCommAllgather(r.comm, nullptr, nullptr, 0));
	CHECK(ginDevCommDestroy(r.comm, &dc));
	rankClose(r);
	return 0;
}
