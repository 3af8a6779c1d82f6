/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * large.cc - a put of more than 4 GiB, to an offset beyond 4 GiB: by blocks, and by a copy engine
 */
#include "harness.h"

static const size_t GIB4 = static_cast<size_t>(4) << 30;
static const size_t BYTES = GIB4 + 77, SHIFT = GIB4 + 5;

/* A different value for every 8-byte word, and for each rank. */
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

/* One thread puts everything by a copy engine. */
struct PutByEngine {
	ginDevComm dc;
	ginWindow_t target, source;
	uint64_t *result;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		int right = static_cast<int>((dc.rank + 1) % dc.nRanks);
		ginOptions options;
		options.copyBy = ginCopyEngine;
		ginResult_t mine = gin.put(right, target, SHIFT, source, 3, BYTES, GinSignalInc{0},
					   GinNone{}, GinThread{}, options);
		*result = mine == ginSuccess ? gin.waitSignal(0, 1) : mine;
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

static void putAll(Rank &r, Buffer &target, Buffer &source, bool byEngine)
{
	const uint32_t grid = r.device < 0 ? 2 : 64, block = r.device < 0 ? 2 : 512;
	Results results(r, grid * block), one(r, 1);
	Device device(r, 1, 1);

	if (byEngine && !device.dc.engineBytes)
		return;
	launch(r, grid, block,
	       Fill{source.ptr, target.ptr, static_cast<uint64_t>(r.rank), source.bytes / 8 + 0,
		    target.bytes / 8});
	meet(r);
	if (byEngine)
		launch(r, 1, 1, PutByEngine{device.dc, target.window, source.window, one.words});
	else
		launch(r, grid, block,
		       PutLarge{device.dc, target.window, source.window, results.words});
	EXPECT(byEngine ? one.all(ginSuccess) : results.all(ginSuccess));
	uint64_t left = static_cast<uint64_t>((r.rank + r.nRanks - 1) % r.nRanks);
	launch(r, grid, block,
	       CountWrong{reinterpret_cast<unsigned char *>(target.ptr), left, target.bytes,
			  results.words});
	EXPECT(results.all(0));
	meet(r);
}

static int run(const ginConfig_t *given)
{
	ginConfig_t config = GIN_CONFIG_INIT;
	Rank r;
	if (given)
		config = *given;
	config.copyEngines = 1;
	rankOpen(r, &config);
	{
		Buffer source(r, BYTES + 11), target(r, SHIFT + BYTES + 38);
		putAll(r, target, source, false);
		putAll(r, target, source, true);
	}
	rankClose(r);
	return 0;
}

int main(int argc, char **argv)
{
	shareGpu();
	return ranksMain(argc, argv, run);
}
