/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * large.cc - a put of more than 4 GiB, to an offset beyond 4 GiB
 */
#include "harness.h"

static const size_t GIB4 = static_cast<size_t>(4) << 30;
static const size_t BYTES = GIB4 + 77, SHIFT = GIB4 + 5;

/* A different value for every 8-byte word, and for the same word of another rank. */
GIN_FN uint64_t wordOf(uint64_t rank, uint64_t i)
{
	return (i + 1) * 0x9e3779b97f4a7c15ull ^ rank << 56;
}

/* The source is written, and the target poisoned, by all threads of the launch. */
struct Fill {
	char *source, *target;
	uint64_t rank;
	size_t sourceWords, targetWords;

	GIN_FN void operator()() const
	{
		size_t i = ginBlockIndex() * ginBlockSize() + ginThreadIndex();
		size_t step = ginGridSize() * ginBlockSize();
		for (; i < targetWords; i += step) {
			if (i < sourceWords)
				reinterpret_cast<uint64_t *>(source)[i] = wordOf(rank, i);
			reinterpret_cast<uint64_t *>(target)[i] = 0x5a5a5a5a5a5a5a5aull;
		}
	}
};

/* Each block puts its share; the last to arrive signals for all. */
struct PutLarge {
	ginDevComm dc;
	ginWindow_t target, source;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		int right = static_cast<int>((dc.rank + 1) % dc.nRanks);
		size_t share = BYTES / ginGridSize(), at = share * ginBlockIndex();
		size_t bytes = ginBlockIndex() + 1 == ginGridSize() ? BYTES - at : share;
		ginResult_t result = gin.put(right, target, SHIFT + at, source, 3 + at, bytes,
					     GinSignalInc{0}, GinNone{}, GinCta{});
		if (result == ginSuccess)
			result = gin.waitSignal(0, ginGridSize(), GinCta{});
		results[ginBlockIndex() * ginBlockSize() + ginThreadIndex()] = result;
	}
};

struct CountWrong {
	const unsigned char *target;
	uint64_t sender;
	size_t total;
	uint64_t *wrong;

	GIN_FN unsigned char expected(size_t i) const
	{
		if (i < SHIFT || i >= SHIFT + BYTES)
			return 0x5a;
		size_t from = i - SHIFT + 3;
		return static_cast<unsigned char>(wordOf(sender, from / 8) >> (from % 8 * 8));
	}

	GIN_FN void operator()() const
	{
		size_t first = ginBlockIndex() * ginBlockSize() + ginThreadIndex();
		uint64_t n = 0;
		for (size_t i = first; i < total; i += ginGridSize() * ginBlockSize())
			n += target[i] != expected(i);
		wrong[first] = n;
	}
};

static int run(const ginConfig_t *config)
{
	Rank r;
	rankOpen(r, config);
	uint32_t grid = r.device < 0 ? 2 : 64, block = r.device < 0 ? 2 : 512;
	{
		size_t total = SHIFT + BYTES + 38;
		Buffer source(r, BYTES + 11), target(r, total);
		Results results(r, grid * block);
		launch(r, grid, block,
		       Fill{source.ptr, target.ptr, static_cast<uint64_t>(r.rank),
			    source.bytes / 8 + 0, total / 8});
		Device device(r, 1, 1);
		launch(r, grid, block,
		       PutLarge{device.dc, target.window, source.window, results.words});
		EXPECT(results.all(ginSuccess));
		uint64_t left = static_cast<uint64_t>((r.rank + r.nRanks - 1) % r.nRanks);
		launch(r, grid, block,
		       CountWrong{reinterpret_cast<unsigned char *>(target.ptr), left, total,
				  results.words});
		EXPECT(results.all(0));
		meet(r);
	}
	rankClose(r);
	return 0;
}

int main(int argc, char **argv)
{
	shareGpu();
	return ranksMain(argc, argv, run);
}
