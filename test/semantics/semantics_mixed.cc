/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * semantics_mixed.cc - one signal that peers raise concurrently on several routes
 *
 * A communicator has several routes when ranks differ in GIN_ROUTE; the tests hold on any route.
 */
#include "suite.h"

/* Block 0 reads this rank's signal; all threads of the other blocks add to every rank's. */
struct AddAndLook {
	ginDevComm dc;
	ginWindow_t words; /* the value again, at offset 8 */
	uint32_t times;
	uint64_t total; /* the last value of a signal */
	uint64_t *results;

	GIN_FN ginResult_t add(const Gin &gin) const
	{
		ginResult_t result = ginSuccess;
		uint64_t value = dc.rank + 1;
		for (uint32_t i = 0; i < times * dc.nRanks && result == ginSuccess; i++) {
			int peer = static_cast<int>((i + ginThreadIndex()) % dc.nRanks);
			result = gin.signal(peer, GinSignalAdd{1, value});
			if (result == ginSuccess)
				result = gin.signal(peer, GinSignalAddAt{words, 8, value});
		}
		return result;
	}

	/* 0: good, 1: a signal went down, 2: it does not reach its sum. */
	GIN_FN uint64_t look(const Gin &gin) const
	{
		uint64_t last = 0, lastAt = 0, quarter = total / 4;
		for (uint64_t least = quarter; last < total; least += quarter) {
			if (least > total)
				least = total;
			if (gin.waitSignal(1, least) != ginSuccess ||
			    gin.waitSignal(words, 8, least) != ginSuccess)
				return 2;
			uint64_t seen = gin.readSignal(1), seenAt = gin.readSignal(words, 8);
			if (seen < last || seenAt < lastAt || seen < least || seenAt < least)
				return 1;
			last = seen;
			lastAt = seenAt;
		}
		return last == total && gin.waitSignal(words, 8, total) == ginSuccess ? 0 : 2;
	}

	GIN_FN void operator()() const
	{
		Gin gin(dc, dc.contexts - 1);
		uint32_t thread = ginBlockIndex() * ginBlockSize() + ginThreadIndex();
		if (ginBlockIndex())
			results[thread] = add(gin);
		else
			results[thread] = ginThreadIndex() ? 0 : look(gin);
	}
};

struct ReadBoth {
	ginDevComm dc;
	ginWindow_t words;
	uint64_t *values;

	GIN_FN void operator()() const
	{
		Gin gin(dc, dc.contexts - 1);
		values[0] = gin.readSignal(1);
		values[1] = gin.readSignal(words, 8);
	}
};

static void rule4_addersOfAllRoutes(Rank &r)
{
	uint32_t grid = 3, block = r.device < 0 ? 2 : 32, times = roundsFor(r, 150, 500);
	uint64_t n = static_cast<uint64_t>(r.nRanks);
	uint64_t total = n * (n + 1) / 2 * (grid - 1) * block * times;
	Buffer words(r, 16, wordsAllocator(r));
	Results results(r, grid * block), values(r, 2);

	words.write(std::vector<unsigned char>(16, 0));
	Device device(r, 2, 2);
	launch(r, grid, block, AddAndLook{device.dc, words.window, times, total, results.words});
	EXPECT(results.all(0));
	settle(r, device);
	launch(r, 1, 1, ReadBoth{device.dc, words.window, values.words});
	EXPECT(values.all(total));
	meet(r);
}

/* A rank that sees the sum sees the put of every rank that added to it. */
enum Raised { byId, byWeakId, atOffset, RAISES };

struct PutToAll {
	ginDevComm dc;
	ginWindow_t target, source, words;
	char *in, *out;
	size_t bytes; /* from each rank to each */
	uint32_t rounds;
	Raised raised;
	uint64_t *wrong;

	GIN_FN ginResult_t put(const Gin &gin, int peer) const
	{
		size_t at = dc.rank * bytes;
		GinCta all;
		if (raised == byId)
			return gin.put(peer, target, at, source, 0, bytes, GinSignalInc{0},
				       GinNone{}, all);
		if (raised == byWeakId)
			return gin.put(peer, target, at, source, 0, bytes, GinWeakSignalInc{0},
				       GinNone{}, all);
		return gin.put(peer, target, at, source, 0, bytes, GinSignalIncAt{words, 0},
			       GinNone{}, all);
	}

	GIN_FN ginResult_t exchange(const Gin &gin, uint32_t round) const
	{
		ginResult_t result = gin.flush(GinCta{}); /* the source is written again */
		for (size_t i = ginThreadIndex(); i < bytes; i += ginBlockSize())
			out[i] = static_cast<char>(pattern(dc.rank, round, i));
		for (uint32_t p = 0; p < dc.nRanks && result == ginSuccess; p++)
			result = put(gin, static_cast<int>((dc.rank + p) % dc.nRanks));
		if (result != ginSuccess)
			return result;
		if (raised == atOffset)
			return gin.waitSignal(words, 0, round * dc.nRanks, GinCta{});
		return gin.waitSignal(0, round * dc.nRanks, GinCta{});
	}

	/* All ranks have read the puts of this rank. */
	GIN_FN ginResult_t answer(const Gin &gin, uint32_t round) const
	{
		ginResult_t result = ginSuccess;
		for (uint32_t p = 0; p < dc.nRanks && result == ginSuccess; p++)
			result = gin.signal(static_cast<int>(p), GinSignalInc{1}, GinCta{});
		return result == ginSuccess ? gin.waitSignal(1, round * dc.nRanks, GinCta{})
					    : result;
	}

	GIN_FN uint64_t countWrong(uint32_t round) const
	{
		uint64_t n = 0;
		for (size_t i = ginThreadIndex(); i < bytes * dc.nRanks; i += ginBlockSize())
			n += static_cast<unsigned char>(in[i]) !=
			     pattern(static_cast<uint32_t>(i / bytes), round, i % bytes);
		return n;
	}

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		uint64_t n = 0;
		for (uint32_t round = 1; round <= rounds && n == 0; round++) {
			if (exchange(gin, round) != ginSuccess)
				n = UINT64_MAX;
			else
				n = countWrong(round);
			if (answer(gin, round) != ginSuccess)
				n = UINT64_MAX;
		}
		wrong[ginThreadIndex()] = n;
	}
};

static void rules1and4_sumsCoverAllPuts(Rank &r)
{
	uint32_t block = r.device < 0 ? 2 : 96;
	const size_t bytes = 331;
	Buffer target(r, bytes * static_cast<size_t>(r.nRanks)), source(r, bytes);
	Buffer words(r, 8, wordsAllocator(r));

	for (int raised = 0; raised < RAISES; raised++) {
		Results wrong(r, block);
		words.write(std::vector<unsigned char>(8, 0));
		Device device(r, 1, 2);
		launch(r, 1, block,
		       PutToAll{device.dc, target.window, source.window, words.window, target.ptr,
				source.ptr, bytes, roundsFor(r, 30, 1000),
				static_cast<Raised>(raised), wrong.words});
		EXPECT(wrong.all(0));
		meet(r);
	}
}

static const Test tests[] = {
	{"rule 4: adders of all routes", rule4_addersOfAllRoutes},
	{"rules 1, 4: sums cover the puts of all routes", rules1and4_sumsCoverAllPuts},
};

int main(int argc, char **argv)
{
	return suiteMain(argc, argv, "semantics_mixed", tests);
}
