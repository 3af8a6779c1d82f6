/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * many_ranks.cc - barriers of as many ranks as a flat barrier has words, or of one more: --threads
 * 32 or 33
 */
#include "suite.h"

/*
 * Epochs of barrier 0, then one of barrier 1, to which rank 0 comes late: no rank passes it before.
 * A rank that wrote beyond the words of barrier 0 would have written rank 0's word of barrier 1.
 * And a signal of every rank to every rank: ginDevComm has addresses of the first 16 only.
 */
struct LateForBarrier {
	ginDevComm dc;
	ginWindow_t window;
	uint64_t *in;
	uint64_t *wrong;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		GinBarrier first(dc, ginTeamWorld(dc), 0), second(dc, ginTeamWorld(dc), 1);
		uint64_t n = 0;
		for (int i = 0; i < 5; i++)
			n += first.sync() != ginSuccess;
		if (dc.rank == 0) {
			for (uint64_t start = ginNow(); ginNow() - start < 50000000;)
				ginYield();
			for (uint32_t peer = 0; peer < dc.nRanks; peer++)
				gin.putValue(static_cast<int>(peer), window, 0, uint64_t{1});
		}
		n += second.sync() != ginSuccess;
		for (uint32_t peer = 0; peer < dc.nRanks; peer++)
			n += gin.signal(static_cast<int>(peer), GinSignalInc{0}) != ginSuccess;
		n += gin.waitSignal(0, dc.nRanks) != ginSuccess;
		*wrong = n + (ginDataLoad<uint64_t>(reinterpret_cast<const char *>(in)) != 1);
	}
};

static void rule10_barriersOfManyRanks(Rank &r)
{
	Buffer word(r, 8);
	Results wrong(r, 1);
	Device device(r, 1, 1);

	word.write(std::vector<unsigned char>(8, 0));
	meet(r);
	launch(r, 1, 1,
	       LateForBarrier{device.dc, word.window, reinterpret_cast<uint64_t *>(word.ptr),
			      wrong.words});
	EXPECT(wrong.all(0));
	meet(r);
}

static const Test tests[] = {
	{"rule 10: barriers of many ranks", rule10_barriersOfManyRanks},
};

int main(int argc, char **argv)
{
	return suiteMain(argc, argv, "many_ranks", tests);
}
