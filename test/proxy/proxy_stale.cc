/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proxy_stale.cc - payloads that go by the proxy as soon as they are written: do fresh bytes
 * arrive?
 *
 *	ROUNDS=n	of each block in a launch (200 on host threads, 1000 on a GPU)
 *	FOR_S=n		launches follow each other for that many seconds (one launch)
 *	GRID=n		blocks, each a channel of its own (3 on host threads, 64 on a GPU)
 *	MEMORY=host	windows in host memory: the source is released to the system, not the GPU
 *
 * In a round all threads of a block write a payload of which every byte depends on sender, block,
 * round and place, put it to the right neighbour, and overwrite it as soon as flush returns. After
 * the signal the neighbour checks every byte: a payload with a byte of another round is stale.
 */
#include "suite.h"

#include <time.h>

enum { SIZES = 5, SLOT = 65544 };

struct Stale {
	ginDevComm dc;
	ginWindow_t target, source;
	char *in, *out; /* of all blocks */
	uint32_t first, rounds;
	uint64_t *stale, *results; /* of each block */

	GIN_FN static uint32_t bytesOf(uint32_t round)
	{
		const uint32_t sizes[SIZES] = {8, 64, 1000, 4096, 65537};
		return sizes[round % SIZES];
	}

	GIN_FN size_t base() const { return static_cast<size_t>(ginBlockIndex()) * SLOT; }

	/* Eight bytes of the payload. */
	GIN_FN uint64_t word(int sender, uint32_t round, uint32_t at) const
	{
		uint64_t x = (static_cast<uint64_t>(round) << 32 | at) +
			     (ginBlockIndex() * 0x10001ull + static_cast<uint32_t>(sender)) *
				     0x9e3779b97f4a7c15ull;
		x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
		x = (x ^ x >> 27) * 0x94d049bb133111ebull;
		return x ^ x >> 31;
	}

	/* Whole words: the end of the last one may not be sent. */
	GIN_FN void write(uint32_t round) const
	{
		char *slot = out + base();
		int self = static_cast<int>(dc.rank);
		for (uint32_t at = ginThreadIndex() * 8; at < bytesOf(round);
		     at += ginBlockSize() * 8)
			*reinterpret_cast<uint64_t *>(slot + at) = word(self, round, at);
	}

	/* A mask of the bytes of a word that are sent; the last word of a payload may be cut. */
	GIN_FN bool differs(const char *seen, uint64_t expected, uint32_t bytes) const
	{
		uint64_t wrong = 0;
		if (bytes >= 8)
			return *reinterpret_cast<const uint64_t *>(seen) != expected;
		for (uint32_t i = 0; i < bytes; i++)
			wrong |= static_cast<unsigned char>(seen[i]) ^ (expected >> (8 * i) & 0xff);
		return wrong != 0;
	}

	/* Gives the value to all threads of the block. */
	GIN_FN bool isStale(uint32_t round) const
	{
		const char *slot = in + base();
		const uint32_t bytes = bytesOf(round);
		bool wrong = false;
		for (uint32_t at = ginThreadIndex() * 8; at < bytes; at += ginBlockSize() * 8)
			wrong |= differs(slot + at, word(leftOf(dc), round, at), bytes - at);
		return GinCta{}.any(wrong);
	}

	GIN_FN ginResult_t send(const Gin &gin, uint32_t round) const
	{
		ginResult_t result = gin.waitSignal(1, round, GinCta{}); /* it was checked */
		if (result == ginSuccess)
			result = gin.put(rightOf(dc), target, base(), source, base(),
					 bytesOf(round), GinSignalInc{0}, GinNone{}, GinCta{});
		if (result == ginSuccess)
			result = gin.flush(GinCta{});
		if (result == ginSuccess)
			write(round + 1);
		return result;
	}

	GIN_FN ginResult_t receive(const Gin &gin, uint32_t round, uint64_t *count) const
	{
		ginResult_t result = gin.waitSignal(0, round + 1, GinCta{});
		if (result != ginSuccess)
			return result;
		*count += isStale(round);
		return gin.signal(leftOf(dc), GinSignalInc{1}, GinCta{});
	}

	GIN_FN void operator()() const
	{
		Gin gin(dc, ginBlockIndex());
		ginResult_t result = ginSuccess;
		uint64_t count = 0;
		if (!first)
			write(0);
		for (uint32_t i = first; i < first + rounds && result == ginSuccess; i++) {
			result = send(gin, i);
			if (result == ginSuccess)
				result = receive(gin, i, &count);
		}
		if (ginThreadIndex() != 0)
			return;
		stale[ginBlockIndex()] = count;
		results[ginBlockIndex()] = result;
	}
};

/* The time of rank 0's clock. */
static bool isOver(Rank &r, time_t start)
{
	unsigned char mine = time(nullptr) - start >= static_cast<time_t>(numberOr("FOR_S", 0));
	unsigned char all[RANKS_MOST];
	EXPECT(r.nRanks <= RANKS_MOST);
	CHECK(ginCommAllgather(r.comm, &mine, all, 1));
	return all[0];
}

/* The rounds of each block. */
static uint32_t stress(Rank &r, uint32_t grid, uint32_t block, uint64_t *count)
{
	Allocator *memory = getenv("MEMORY") ? ginMemAllocHost : ginMemAlloc;
	const uint32_t rounds =
		static_cast<uint32_t>(numberOr("ROUNDS", r.device < 0 ? 200 : 1000));
	Buffer target(r, static_cast<size_t>(grid) * SLOT, memory);
	Buffer source(r, static_cast<size_t>(grid) * SLOT, memory);
	Device device(r, grid, 2);
	Results stale(r, grid), results(r, grid);
	const time_t start = time(nullptr);
	ginErrorRecord_t record;
	uint32_t done = 0;

	meet(r); /* no rank allocates while another rank's kernel waits */
	do {
		launch(r, grid, block,
		       Stale{device.dc, target.window, source.window, target.ptr, source.ptr, done,
			     rounds, stale.words, results.words});
		/* The last error, in words. */
		CHECK(ginDevCommGetError(r.comm, &device.dc, &record));
		EXPECT(results.all(ginSuccess));
		for (uint32_t b = 0; b < grid; b++)
			*count += stale.words[b];
		done += rounds;
	} while (!isOver(r, start));
	return done;
}

static int run(const ginConfig_t *config)
{
	ginPeerInfo_t info = GIN_PEER_INFO_INIT;
	uint64_t stale = 0;
	Rank r;
	rankOpen(r, config);
	CHECK(ginCommQueryPeer(r.comm, (r.rank + 1) % r.nRanks, &info));
	EXPECT(info.route == ginRouteProxy);
	const uint32_t grid = static_cast<uint32_t>(numberOr("GRID", r.device < 0 ? 3 : 64));
	uint32_t rounds = stress(r, grid, r.device < 0 ? 4 : 256, &stale);
	printf("proxy_stale, rank %d: tries %llu, stale %llu, in %u rounds of %u blocks on %s, "
	       "in %s memory\n",
	       r.rank, static_cast<unsigned long long>(rounds) * grid,
	       static_cast<unsigned long long>(stale), rounds, grid,
	       r.device < 0 ? "host threads" : "a GPU",
	       r.device < 0 || getenv("MEMORY") ? "host" : "GPU");
	rankClose(r);
	return stale != 0;
}

int main(int argc, char **argv)
{
	setenv("GIN_ROUTE", "network", 1);
	setenv("GIN_BACKEND", "proxy", 1);
	return suiteMain(argc, argv, run);
}
