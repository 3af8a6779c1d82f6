/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * semantics_crowd.cc - many threads wait for one word, and a coop agrees on one result
 *
 * Of the threads that wait for a word in host memory, one at a time loads it and writes a mirror
 * for the others.
 */
#include "suite.h"

/*
 * Many threads wait for one signal, and each finds the word that it announces. Block 0 sends and
 * collects: in each round all blocks of a rank have seen the left neighbour's word before that
 * neighbour goes on.
 */
struct Crowd {
	ginDevComm dc;
	ginWindow_t target, source;
	char *in, *out;
	uint32_t rounds;
	uint64_t *wrong; /* [block] */

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		uint64_t bad = 0;

		for (uint64_t round = 1; round <= rounds; round++) {
			if (ginBlockIndex() == 0)
				bad += send(gin, round);
			bad += gin.waitSignal(0, round) != ginSuccess;
			for (size_t at = 0; at < BYTES; at += 8)
				bad += ginDataLoad<uint64_t>(in + at) != round;
			bad += gin.signal(static_cast<int>(dc.rank), GinSignalInc{1}) != ginSuccess;
			if (ginBlockIndex() == 0)
				bad += collect(gin, round);
		}
		wrong[ginBlockIndex()] = bad;
	}

	GIN_FN int send(const Gin &gin, uint64_t round) const
	{
		for (size_t at = 0; at < BYTES; at += 8)
			ginDataStore(out + at, round);
		return gin.put(rightOf(dc), target, 0, source, 0, BYTES, GinSignalInc{0}) !=
		       ginSuccess;
	}

	GIN_FN int collect(const Gin &gin, uint64_t round) const
	{
		int n = static_cast<int>(dc.nRanks), left = (static_cast<int>(dc.rank) + n - 1) % n;
		int bad = gin.waitSignal(1, round * ginGridSize()) != ginSuccess;
		bad += gin.signal(left, GinSignalInc{2}) != ginSuccess;
		return bad + (gin.waitSignal(2, round) != ginSuccess);
	}

	enum { BYTES = 128 };
};

/* After a reset no thread finds the old value. */
struct CrowdInVain {
	ginDevComm dc;
	bool counter, resets;
	uint64_t *wrong;

	GIN_FN void reset(const Gin &gin) const
	{
		if (counter)
			gin.resetCounter(0);
		else
			gin.resetSignal(0);
	}

	GIN_FN ginResult_t wait(const Gin &gin) const
	{
		const ginOptions soon = ginTimeout(3000000);
		return counter ? gin.waitCounter(0, 1, GinThread{}, soon)
			       : gin.waitSignal(0, 1, GinThread{}, soon);
	}

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		if (resets)
			reset(gin);
		else
			wrong[ginBlockIndex()] = wait(gin) != ginErrorTimeout;
	}
};

static void crowdInVain(Rank &r, const Device &device, uint32_t blocks, bool counter)
{
	Results late(r, blocks);

	launch(r, 1, 1, CrowdInVain{device.dc, counter, true, late.words});
	launch(r, blocks, 1, CrowdInVain{device.dc, counter, false, late.words});
	EXPECT(late.all(0));
}

static void rule5_manyWaitForOne(Rank &r)
{
	const uint32_t blocks = r.device < 0 ? 9 : 264;
	Buffer target(r, Crowd::BYTES), source(r, Crowd::BYTES);
	Results wrong(r, blocks);
	Device device(r, 1, 3);

	launch(r, blocks, 1,
	       Crowd{device.dc, target.window, source.window, target.ptr, source.ptr,
		     roundsFor(r, 50, 300), wrong.words});
	EXPECT(wrong.all(0));
	meet(r);
	crowdInVain(r, device, blocks, false);
	meet(r);
}

/* A put whose counter many threads wait for. */
struct CrowdCounts {
	ginDevComm dc;
	ginWindow_t target, source;
	uint64_t *wrong;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		uint64_t bad = 0;
		if (ginBlockIndex() == 0)
			bad = gin.put(rightOf(dc), target, 0, source, 0, 8, GinNone{},
				      GinCounterInc{0}) != ginSuccess;
		wrong[ginBlockIndex()] = bad + (gin.waitCounter(0, 1) != ginSuccess);
	}
};

static void rule3_manyWaitForOneCounter(Rank &r)
{
	const uint32_t blocks = r.device < 0 ? 9 : 264;
	Buffer target(r, 8), source(r, 8);
	Results wrong(r, blocks);
	Device device(r, 1, 1);

	for (int round = 0; round < 5; round++) {
		launch(r, blocks, 1,
		       CrowdCounts{device.dc, target.window, source.window, wrong.words});
		EXPECT(wrong.all(0));
		crowdInVain(r, device, blocks, true);
	}
	meet(r);
}

/* A coop of the user: a block, whose any() is a vote and no sync(). */
struct VotingBlock {
	uint32_t *syncs; /* of this thread */

	GIN_FN uint32_t thread_rank() const { return ginThreadIndex(); }
	GIN_FN uint32_t size() const { return ginBlockSize(); }
	GIN_FN bool any(bool mine) const { return GinCta{}.any(mine); }

	GIN_FN void sync() const
	{
		++*syncs;
		GinCta{}.sync();
	}
};

/* Threads 0 and 1 have different errors, no bits of which make the other. */
struct Agree {
	uint64_t *results;

	GIN_FN void operator()() const
	{
		const ginResult_t errors[2] = {static_cast<ginResult_t>(9),
					       static_cast<ginResult_t>(6)};
		uint32_t syncs = 0, thread = ginThreadIndex();
		ginResult_t mine = thread < 2 ? errors[thread] : ginSuccess;
		results[3 * thread] = ginAgree(GinCta{}, mine);
		results[3 * thread + 1] = ginAgree(VotingBlock{&syncs}, ginSuccess);
		results[3 * thread + 2] = syncs;
	}
};

/* All threads get the largest result; a vote alone is no sync, so that the call adds one. */
static void rule6_coopsAgree(Rank &r)
{
	const uint32_t block = blockFor<GinCta>(r);
	Results results(r, 3 * block);

	launch(r, 1, block, Agree{results.words});
	for (uint32_t thread = 0; thread < block; thread++) {
		EXPECT(results.words[3 * thread] == 9);
		EXPECT(results.words[3 * thread + 1] == ginSuccess);
		EXPECT(results.words[3 * thread + 2] == 1);
	}
}

static const Test tests[] = {
	{"rule 6: a coop agrees on the largest result", rule6_coopsAgree},
	{"rule 5: many wait for one signal", rule5_manyWaitForOne},
	{"rule 3: many wait for one counter", rule3_manyWaitForOneCounter},
};

int main(int argc, char **argv)
{
	return suiteMain(argc, argv, "semantics_crowd", tests);
}
