/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * killed.cc - rank 1 is killed: barriers, signals and kernels of others end; every later call fails
 *
 *	killed --forks N
 */
#include "rig.h"

#include <signal.h>

#include <chrono>
#include <thread>

using Clock = std::chrono::steady_clock;

enum { LIMIT_MS = 60000 }; /* of a call; longer than the test */

/*
 * What kernels of PyTorch do without a limit, on channel `channel`: take a signal of rank 1, or
 * raise one at rank 1 that was raised before.
 */
static void spin(const Block &b, int channel, bool takes)
{
	uint32_t *word = takes ? b.word(b.info.rank, channel, 1) : b.word(1, channel, b.info.rank);
	const uint32_t from = takes ? 1 : 0;

	for (uint32_t seen = from; !__atomic_compare_exchange_n(word, &seen, 1 - from, false,
								__ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	     seen = from)
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

static void survive(const Rank &r, const Block &b)
{
	const Clock::time_point began = Clock::now();
	ginSymmPeers_t peers;

	std::thread taker(spin, std::cref(b), 20, true), raiser(spin, std::cref(b), 21, false);
	if (r.rank == 0)
		SYMM_FAILS(ginSymmBarrier(b.peers, 0, LIMIT_MS, nullptr), ginErrorPeer,
			   "barrier on channel 0: ");
	else
		SYMM_FAILS(ginSymmWaitSignal(b.peers, 1, 1, LIMIT_MS, nullptr), ginErrorPeer,
			   "wait_signal on channel 1: ");
	EXPECT_HAS(ginSymmGetLastError(), "rank 1");
	const auto own = Clock::now() - began;
	taker.join();
	raiser.join();
	const auto all = Clock::now() - began;
	using ms = std::chrono::milliseconds;
	printf("rank %d: the call ended after %lld ms, other kernels after %lld ms\n", r.rank,
	       static_cast<long long>(std::chrono::duration_cast<ms>(own).count()),
	       static_cast<long long>(std::chrono::duration_cast<ms>(all).count()));
	SYMM_FAILS(ginSymmBarrier(b.peers, 9, LIMIT_MS, nullptr), ginErrorPeer, "rank 1");
	SYMM_FAILS(ginSymmCheck(r.group), ginErrorPeer, "rank 1");
	SYMM_FAILS(ginSymmRendezvous(r.group, b.base, PAD_BYTES, &peers), ginErrorPeer, "rank 1");
	ginSymmRelease(b.peers);
	SYMM_CHECK(ginSymmFree(b.base));
	ginSymmClose(r.group);
}

static int run(const ginConfig_t *config)
{
	Rank r(config);
	Block b(r, 4096);

	if (r.rank != 1)
		SYMM_CHECK(ginSymmPutSignal(b.peers, 1, 21, 0, nullptr));
	SYMM_CHECK(ginSymmBarrier(b.peers, 0, LIMIT_MS, nullptr));
	if (r.rank == 1)
		raise(SIGKILL);
	survive(r, b);
	return 0;
}

int main(int argc, char **argv)
{
	const int n = argc == 3 ? atoi(argv[2]) : 3;
	const int *result = ranksStart(n, 0, run);
	int failed = 0;

	(void)argv;
	for (int rank = 0; rank < n; rank++) {
		const int expected = rank == 1 ? 128 + SIGKILL : 0;
		if (result[rank] != expected) {
			fprintf(stderr, "rank %d returned %d\n", rank, result[rank]);
			failed = 1;
		}
	}
	return failed;
}
