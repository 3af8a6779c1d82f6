// SPDX-License-Identifier: BSD-3-Clause
// alltoall - each rank sends a block to every rank: puts with counters, signals, and a flush
//
// The next round overwrites the source as soon as the counter shows that all puts have read it.
// Each sender has its own signal: with one signal for all senders, a sender that is a round ahead
// could hide a sender that is late.
//   mpirun -n 4 ./alltoall
#include "launch.h"

enum { WORDS = 1000, ROUNDS = 5 };

// Word i that rank `from` sends to rank `to` in a round.
GIN_FN uint32_t element(uint32_t from, uint32_t to, uint32_t round, uint32_t i)
{
	return ((from * 64 + to) * 64 + round) * 4096 + i;
}

struct AllToAll {
	ginDevComm dc;
	ginWindow_t target; // uint32_t [round parity][sender][WORDS]
	ginWindow_t source; // uint32_t [receiver][WORDS]
	uint32_t *in, *out;
	uint64_t *wrong;
	ginResult_t *result;

	GIN_FN void fill(uint32_t round) const
	{
		for (uint32_t i = ginThreadIndex(); i < dc.nRanks * WORDS; i += ginBlockSize())
			out[i] = element(dc.rank, i / WORDS, round, i % WORDS);
	}

	GIN_FN ginResult_t send(const Gin &gin, uint32_t round) const
	{
		const size_t bytes = WORDS * sizeof(uint32_t);
		ginResult_t status = ginSuccess;
		// Each rank starts with a different peer, so that no peer gets all blocks at once.
		for (uint32_t i = 0; i < dc.nRanks && status == ginSuccess; i++) {
			uint32_t peer = (dc.rank + i) % dc.nRanks;
			size_t to = (round % 2 * dc.nRanks + dc.rank) * bytes;
			status = gin.put(static_cast<int>(peer), target, to, source, peer * bytes,
					 bytes, GinSignalInc{dc.rank}, GinCounterInc{0}, GinCta{});
		}
		return status;
	}

	GIN_FN uint64_t countWrong(uint32_t round) const
	{
		const uint32_t *got = in + round % 2 * dc.nRanks * WORDS;
		uint64_t n = 0;
		for (uint32_t i = ginThreadIndex(); i < dc.nRanks * WORDS; i += ginBlockSize())
			n += got[i] != element(i / WORDS, dc.rank, round, i % WORDS);
		return n;
	}

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		GinCta block;
		ginResult_t status = ginSuccess;
		uint64_t n = 0;
		for (uint32_t round = 0; round < ROUNDS && status == ginSuccess; round++) {
			uint64_t expected = static_cast<uint64_t>(round + 1) * dc.nRanks;
			fill(round);
			status = send(gin, round);
			if (status == ginSuccess)
				status =
					gin.waitCounter(0, expected, block); // source may be reused
			for (uint32_t peer = 0; peer < dc.nRanks && status == ginSuccess; peer++)
				status =
					gin.waitSignal(peer, round + 1, block); // its block is here
			n += countWrong(round);
		}
		if (status == ginSuccess)
			status = gin.flush(block);
		if (n || status != ginSuccess)
			wrong[0] = 1; // by any thread
		if (ginThreadIndex() == 0)
			*result = status;
	}
};

int main()
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginDevComm dc;
	Rank r = rankOpen();
	want.signals = static_cast<uint32_t>(r.nRanks);
	size_t words = static_cast<size_t>(r.nRanks) * WORDS;
	Window target = registerCopy(r, std::vector<uint32_t>(2 * words, 0));
	Window source = registerCopy(r, std::vector<uint32_t>(words, 0));
	uint64_t *wrong = resultWord<uint64_t>(r);
	ginResult_t *result = resultWord<ginResult_t>(r);

	CHECK(ginDevCommCreate(r.comm, &want, &dc));
	launch(r, 1, r.device < 0 ? GIN_HOST_WARP : 256,
	       AllToAll{dc, target.window, source.window, static_cast<uint32_t *>(target.ptr),
			static_cast<uint32_t *>(source.ptr), wrong, result});
	checkKernel(r, dc, *result);
	int status = report(r, *wrong);
	CHECK(ginDevCommDestroy(r.comm, &dc));
	freeWindow(r, target);
	freeWindow(r, source);
	rankClose(r);
	return status;
}
