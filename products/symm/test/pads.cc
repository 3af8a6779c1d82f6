/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pads.cc - blocks, groups and calls, on ranks that are host threads
 *
 *	pads --threads N	SEED gives the random drops
 */
#include "rig.h"

#include <random>

/* Data of a neighbour, by barriers and by signals; the words that calls raise and take. */
static void data(const Rank &r)
{
	Block b(r, 4096);
	EXPECT(b.info.isDirect && b.info.bytes == 4096 && b.info.padBytes == PAD_BYTES);
	for (uint64_t round = 1; round <= 50; round++) {
		b.buffer(r.right())[r.rank] = 100 * round + static_cast<uint64_t>(r.rank);
		SYMM_CHECK(ginSymmBarrier(b.peers, 3, 0, nullptr));
		EXPECT_EQUAL(b.buffer(r.rank)[r.left()],
			     100 * round + static_cast<uint64_t>(r.left()));
		SYMM_CHECK(ginSymmBarrier(b.peers, 3, 10000, nullptr));
	}
	b.buffer(r.right())[9] = static_cast<uint64_t>(r.rank);
	SYMM_CHECK(ginSymmPutSignal(b.peers, r.right(), 7, 0, nullptr));
	r.meet();
	EXPECT_EQUAL(__atomic_load_n(b.word(r.rank, 7, r.left()), __ATOMIC_RELAXED), 1);
	EXPECT_EQUAL(b.raised(), 1);
	SYMM_FAILS(ginSymmPutSignal(b.peers, r.right(), 7, 20, nullptr), ginErrorTimeout,
		   "put_signal on channel 7: an earlier signal was not taken by rank ");
	r.meet();
	SYMM_CHECK(ginSymmWaitSignal(b.peers, r.left(), 7, 0, nullptr));
	EXPECT_EQUAL(b.buffer(r.rank)[9], static_cast<uint64_t>(r.left()));
	for (int i = 0; i < 70; i++) /* more failures than calls may wait at a time */
		SYMM_FAILS(ginSymmWaitSignal(b.peers, r.left(), 6, 1, nullptr), ginErrorTimeout,
			   "no signal of rank ");
	EXPECT_EQUAL(b.raised(), 0);
	ginSymmRelease(b.peers);
	SYMM_CHECK(ginSymmFree(b.base));
}

/* A kernel that is not ours makes its own barrier with the words, and pairs with one of ours. */
static void foreign(const Rank &r)
{
	Block b(r, 64);
	for (int i = 0; i < 20; i++) {
		if (r.rank) {
			SYMM_CHECK(ginSymmBarrier(b.peers, 5, 10000, nullptr));
			continue;
		}
		for (int peer = 1; peer < r.nRanks; peer++)
			for (uint32_t free = 0;
			     !__atomic_compare_exchange_n(b.word(peer, 5, 0), &free, 1, false,
							  __ATOMIC_RELEASE, __ATOMIC_RELAXED);
			     free = 0)
				sched_yield();
		for (int peer = 1; peer < r.nRanks; peer++)
			for (uint32_t full = 1;
			     !__atomic_compare_exchange_n(b.word(0, 5, peer), &full, 0, false,
							  __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
			     full = 1)
				sched_yield();
	}
	r.meet();
	EXPECT_EQUAL(b.raised(), 0);
	ginSymmRelease(b.peers);
	SYMM_CHECK(ginSymmFree(b.base));
}

/* Rank 0 is late: the barriers of other ranks fail; called again, they end that round. */
static void late(const Rank &r)
{
	Block b(r, 64);
	if (r.rank) {
		SYMM_FAILS(ginSymmBarrier(b.peers, 2, 50, nullptr), ginErrorTimeout,
			   "barrier on channel 2: no signal of rank 0");
		SYMM_FAILS(ginSymmBarrier(b.peers, 3, 50, nullptr), ginErrorTimeout,
			   "barrier on channel 3: no signal of rank 0");
		SYMM_FAILS(ginSymmWaitSignal(b.peers, 0, 4, 20, nullptr), ginErrorTimeout,
			   "wait_signal on channel 4: no signal of rank 0 within 20 ms");
	}
	r.meet();
	SYMM_CHECK(ginSymmBarrier(b.peers, 2, 10000, nullptr)); /* that round */
	SYMM_CHECK(ginSymmBarrier(b.peers, 3, 10000, nullptr));
	for (uint64_t round = 1; round <= 3; round++) {
		b.buffer(r.right())[0] = round;
		SYMM_CHECK(ginSymmBarrier(b.peers, 2, 10000, nullptr));
		EXPECT_EQUAL(b.buffer(r.rank)[0], round);
		SYMM_CHECK(ginSymmBarrier(b.peers, 2, 10000, nullptr));
	}
	r.meet();
	EXPECT_EQUAL(b.raised(), 0);
	ginSymmRelease(b.peers);
	SYMM_CHECK(ginSymmFree(b.base));
}

/* One block in two groups: each has pads of its own, and ends by itself. */
static void twoGroups(const Rank &r, const ginConfig_t *config)
{
	Block b(r, 64);
	{
		Rank second(config);
		Block c(second, b);
		EXPECT(c.peers != b.peers && c.info.pads[r.rank] != b.info.pads[r.rank]);
		EXPECT(c.info.buffers[r.rank] == b.base);
		SYMM_CHECK(ginSymmPutSignal(b.peers, r.right(), 0, 0, nullptr));
		SYMM_CHECK(ginSymmBarrier(c.peers, 0, 10000, nullptr));
		SYMM_CHECK(ginSymmWaitSignal(b.peers, r.left(), 0, 10000, nullptr));
		SYMM_CHECK(ginSymmClose(second.group));
		SYMM_FAILS(ginSymmBarrier(c.peers, 0, 1, nullptr), ginErrorInvalidUsage,
			   "the group is closed");
		ginSymmRelease(c.peers);
	}
	SYMM_CHECK(ginSymmBarrier(b.peers, 0, 10000, nullptr));
	SYMM_CHECK(ginSymmFree(b.base));
	SYMM_CHECK(ginSymmBarrier(b.peers, 0, 10000, nullptr)); /* the handle keeps the memory */
	ginSymmRelease(b.peers);
}

/* Rank 0 comes with other sizes than the others. A rank names itself and the first that differs. */
static void differ(const Rank &r, size_t bytes, size_t padBytes)
{
	const size_t mine[2] = {r.rank ? 64 : bytes, r.rank ? size_t{PAD_BYTES} : padBytes};
	ginSymmPeers_t peers;
	char words[160];
	void *base;

	SYMM_CHECK(ginSymmAlloc(GIN_DEVICE_NONE, mine[0], &base));
	snprintf(words, sizeof(words),
		 "rank %d has a tensor of %zu bytes and a pad of %zu, rank %d of %zu and %zu:",
		 r.rank, mine[0], mine[1], !r.rank, bytes + 64 - mine[0],
		 padBytes + PAD_BYTES - mine[1]);
	if (r.nRanks > 1)
		SYMM_FAILS(ginSymmRendezvous(r.group, base, mine[1], &peers), ginErrorInvalidUsage,
			   words);
	SYMM_CHECK(ginSymmFree(base));
}

static void arguments(const Rank &r)
{
	void *base, *found;
	size_t bytes;
	int device, local = 0;

	differ(r, 96, PAD_BYTES);
	differ(r, 64, 2 * PAD_BYTES);
	SYMM_CHECK(ginSymmAlloc(GIN_DEVICE_NONE, 0, &base));
	SYMM_CHECK(ginSymmFind(base, &found, &bytes, &device));
	EXPECT(found == base && !bytes && device == GIN_DEVICE_NONE);
	SYMM_CHECK(ginSymmFree(base));
	Block b(r, 640);
	SYMM_CHECK(ginSymmFind(static_cast<char *>(b.base) + 639, &found, &bytes, &device));
	EXPECT(found == b.base && bytes == 640);
	for (const void *other : {static_cast<void *>(&local),
				  static_cast<void *>(static_cast<char *>(b.base) + 640)}) {
		SYMM_CHECK(ginSymmFind(other, &found, &bytes, &device));
		EXPECT(!found);
	}
	SYMM_FAILS(ginSymmBarrier(b.peers, CHANNELS_OF / r.nRanks, 0, nullptr),
		   ginErrorInvalidArgument, "the maximum supported channel is ");
	SYMM_FAILS(ginSymmPutSignal(b.peers, r.nRanks, 0, 0, nullptr), ginErrorInvalidArgument,
		   "rank must be in [0, ");
	/* Rank 0 alone: a rank of this process could get the freed address between two calls. */
	SYMM_CHECK(ginSymmBarrier(b.peers, 0, 10000, nullptr));
	if (!r.rank) {
		SYMM_CHECK(ginSymmAlloc(GIN_DEVICE_NONE, 64, &base));
		SYMM_CHECK(ginSymmFree(base));
		SYMM_FAILS(ginSymmFree(base), ginErrorInvalidArgument,
			   "is not from ginSymmAlloc()");
	}
	SYMM_CHECK(ginSymmBarrier(b.peers, 0, 10000, nullptr));
	SYMM_FAILS(ginSymmAlloc(0, 64, &base), ginErrorUnsupported, "");
	SYMM_CHECK(ginSymmCheck(r.group));
	ginSymmRelease(b.peers);
	SYMM_CHECK(ginSymmFree(b.base));
}

static int mappings()
{
	FILE *maps = fopen("/proc/self/maps", "r");
	int lines = 0;

	EXPECT(maps);
	for (int c; (c = fgetc(maps)) != EOF;)
		lines += c == '\n';
	fclose(maps);
	return lines;
}

/* Ranks drop blocks and handles in orders of their own; what they keep stays right. */
static void drops(const Rank &r, unsigned seed)
{
	std::mt19937 own(seed * 64 + static_cast<unsigned>(r.rank));
	std::vector<Block> kept;
	std::vector<uint64_t> tags;
	const int before = mappings();

	for (uint64_t i = 0; i < 300; i++) {
		Block b(r, 256);
		b.buffer(r.rank)[0] = 0;
		SYMM_CHECK(ginSymmBarrier(b.peers, 0, 10000, nullptr));
		b.buffer(r.right())[0] = i;
		SYMM_CHECK(ginSymmBarrier(b.peers, 0, 10000, nullptr));
		kept.push_back(b);
		tags.push_back(i);
		while (kept.size() > 8 || (!kept.empty() && own() % 3 == 0)) {
			size_t at = own() % kept.size();
			EXPECT_EQUAL(kept[at].buffer(r.rank)[0], tags[at]);
			const bool handleFirst = own() % 2;
			if (handleFirst)
				ginSymmRelease(kept[at].peers);
			SYMM_CHECK(ginSymmFree(kept[at].base));
			if (!handleFirst)
				ginSymmRelease(kept[at].peers);
			kept.erase(kept.begin() + static_cast<long>(at));
			tags.erase(tags.begin() + static_cast<long>(at));
		}
	}
	EXPECT(mappings() - before < 300 * r.nRanks); /* of 600 for each rank */
}

static int run(const ginConfig_t *config)
{
	const char *text = getenv("SEED");
	const unsigned seed =
		text ? static_cast<unsigned>(atoi(text)) : static_cast<unsigned>(getpid());
	Rank r(config);

	data(r);
	foreign(r);
	late(r);
	twoGroups(r, config);
	arguments(r);
	if (!r.rank)
		printf("SEED=%u\n", seed);
	drops(r, seed);
	SYMM_CHECK(ginSymmClose(r.group));
	return 0;
}

int main(int argc, char **argv)
{
	return ranksMain(argc, argv, run);
}
