/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * far.cc - groups in which some ranks have no direct route to each other
 *
 *	far --forks N		HOSTS=2 divides the ranks among two hosts
 *	far --threads N		with GIN_ROUTE=network
 */
#include "rig.h"

/* Ranks of one host, and this rank itself, have addresses; the others have none. */
static void addresses(const Rank &r, const Block &b)
{
	bool isDirect = true;

	for (int peer = 0; peer < r.nRanks; peer++) {
		const bool near = peer == r.rank || isNear(r.rank, peer, r.nRanks);
		isDirect = isDirect && near;
		EXPECT_EQUAL(b.info.buffers[peer] != nullptr, near);
		EXPECT_EQUAL(b.info.pads[peer] != nullptr, near);
	}
	EXPECT(b.buffer(r.rank) == b.base);
	/* Counts and addresses lie after the words of the pad. */
	EXPECT_EQUAL(reinterpret_cast<uintptr_t>(b.info.buffersDev) % 8, 0);
	EXPECT_EQUAL(b.info.isDirect, isDirect);
	if (isDirect)
		return;
	SYMM_FAILS(ginSymmNeedDirect(b.peers, "kernel x"), ginErrorUnsupported, "kernel x: rank ");
	EXPECT_HAS(ginSymmGetLastError(), "has no direct route to this rank");
	EXPECT_HAS(ginSymmGetLastError(), "make a group of the ranks with direct routes");
}

/* By the address where there is one. */
static void give(const Block &to, int peer, size_t word, const uint64_t *source, size_t words)
{
	if (to.info.buffers[peer])
		memcpy(to.buffer(peer) + word, source, words * sizeof(*source));
	else
		SYMM_CHECK(ginSymmPut(to.peers, peer, word * 8, source, words * 8, 10000, nullptr));
}

enum { WORDS = 1000 };

static uint64_t tag(uint64_t round, int from, int to)
{
	return round * 10000 + static_cast<uint64_t>(from * 100 + to);
}

/* All to all; the source changes right after its put. */
static void rounds(const Rank &r, const Block &to, const Block &from)
{
	for (uint64_t round = 1; round <= 20; round++) {
		for (int peer = 0; peer < r.nRanks; peer++) {
			for (size_t i = 0; i < WORDS; i++)
				from.buffer(r.rank)[i] = tag(round, r.rank, peer) + i;
			give(to, peer, static_cast<size_t>(r.rank) * WORDS, from.buffer(r.rank),
			     WORDS);
		}
		SYMM_CHECK(ginSymmBarrier(to.peers, 3, round % 2 * 10000, nullptr));
		for (int peer = 0; peer < r.nRanks; peer++)
			for (size_t i = 0; i < WORDS; i++)
				EXPECT_EQUAL(
					to.buffer(r.rank)[static_cast<size_t>(peer) * WORDS + i],
					tag(round, peer, r.rank) + i);
		SYMM_CHECK(ginSymmBarrier(to.peers, 3, 10000, nullptr));
	}
}

/* A signal says that the put before it is there; the next one waits until it has been taken. */
static void signals(const Rank &r, const Block &to, const Block &from)
{
	uint64_t *own = from.buffer(r.rank);

	for (uint64_t round = 1; round <= 100; round++) {
		for (size_t i = 0; i < WORDS; i++)
			own[i] = tag(round, r.rank, 7);
		give(to, r.right(), round % 2 * WORDS, own, WORDS);
		SYMM_CHECK(ginSymmPutSignal(to.peers, r.right(), 7, 10000, nullptr));
		SYMM_CHECK(ginSymmWaitSignal(to.peers, r.left(), 7, 10000, nullptr));
		for (size_t i = 0; i < WORDS; i++)
			EXPECT_EQUAL(to.buffer(r.rank)[round % 2 * WORDS + i],
				     tag(round, r.left(), 7));
		SYMM_CHECK(ginSymmBarrier(to.peers, 8, 10000, nullptr));
	}
	r.meet();
	SYMM_FAILS(ginSymmWaitSignal(to.peers, r.left(), 7, 30, nullptr), ginErrorTimeout,
		   "wait_signal on channel 7: no signal of rank ");
	r.meet();
	SYMM_CHECK(ginSymmPutSignal(to.peers, r.right(), 7, 0, nullptr));
	SYMM_FAILS(ginSymmPutSignal(to.peers, r.right(), 7, 30, nullptr), ginErrorTimeout,
		   "put_signal on channel 7: an earlier signal was not taken by rank ");
	r.meet();
	SYMM_CHECK(ginSymmWaitSignal(to.peers, r.left(), 7, 10000, nullptr));
	SYMM_FAILS(ginSymmWaitSignal(to.peers, r.left(), 7, 30, nullptr), ginErrorTimeout, "");
}

/* Rank 0 is late: the other ranks' barriers fail, and end that round when called again. */
static void late(const Rank &r, const Block &to, const Block &from)
{
	if (r.rank)
		SYMM_FAILS(ginSymmBarrier(to.peers, 5, 50, nullptr), ginErrorTimeout,
			   "barrier on channel 5: no signal of rank 0");
	r.meet();
	SYMM_CHECK(ginSymmBarrier(to.peers, 5, 10000, nullptr));
	for (uint64_t round = 1; round <= 3; round++) {
		from.buffer(r.rank)[0] = round;
		give(to, r.right(), 0, from.buffer(r.rank), 1);
		SYMM_CHECK(ginSymmBarrier(to.peers, 5, 10000, nullptr));
		EXPECT_EQUAL(to.buffer(r.rank)[0], round);
		SYMM_CHECK(ginSymmBarrier(to.peers, 5, 10000, nullptr));
	}
}

static int farRank(const Rank &r)
{
	for (int peer = 0; peer < r.nRanks; peer++)
		if (peer != r.rank && !isNear(r.rank, peer, r.nRanks))
			return peer;
	return -1;
}

static void refusals(const Rank &r, const Block &to, const Block &from)
{
	const size_t room = to.info.bytes;
	const int peer = farRank(r);
	uint64_t *own = from.buffer(r.rank), local = 0;
	void *stranger;

	SYMM_FAILS(ginSymmPut(to.peers, r.rank, 0, own, 8, 1000, nullptr), ginErrorInvalidUsage,
		   "has a direct route: copy to its address");
	SYMM_FAILS(ginSymmPut(to.peers, r.nRanks, 0, own, 8, 1000, nullptr),
		   ginErrorInvalidArgument, "put: rank must be in [0, ");
	if (peer < 0)
		return;
	SYMM_FAILS(ginSymmPut(to.peers, peer, room - 8, own, 9, 1000, nullptr),
		   ginErrorInvalidArgument, "9 bytes at offset ");
	SYMM_FAILS(ginSymmPut(to.peers, peer, 0, &local, 8, 1000, nullptr), ginErrorInvalidArgument,
		   "the source is to be symmetric memory of the group");
	SYMM_FAILS(ginSymmPut(to.peers, peer, 0, own + WORDS - 1, 16, 1000, nullptr),
		   ginErrorInvalidArgument, "the source is to be symmetric memory");
	SYMM_CHECK(ginSymmAlloc(GIN_DEVICE_NONE, 64, &stranger));
	SYMM_FAILS(ginSymmPut(to.peers, peer, 0, stranger, 8, 1000, nullptr),
		   ginErrorInvalidArgument, "after its rendezvous");
	SYMM_CHECK(ginSymmFree(stranger));
}

static int run(const ginConfig_t *config)
{
	moveToHost(config);
	Rank r(config);

	{
		Block to(r, static_cast<size_t>(r.nRanks) * WORDS * 8), from(r, WORDS * 8);
		addresses(r, to);
		rounds(r, to, from);
		signals(r, to, from);
		late(r, to, from);
		refusals(r, to, from);
		to.drop();
		from.drop();
	}
	SYMM_CHECK(ginSymmClose(r.group));
	return 0;
}

int main(int argc, char **argv)
{
	return ranksMain(argc, argv, run);
}
