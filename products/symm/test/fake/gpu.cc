/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu.cc - the calls of libgin-symm on a GPU: launches, waits, captures, and the copies by which it
 * ends kernels that are not its own
 *
 *	gpu --threads N
 *
 * The GPU is that of driver.c. Ranks are threads.
 */
#include "../rig.h"
#include "driver.h"

/* Not empty: the driver loads anything. */
extern "C" {
extern const char symmFatbin[1] = {1}, symmFatbinEnd[1] = {0};
void symmHostRun(const struct symmCall *call);
}

enum { SHORT = 2 }; /* a channel on which calls that nobody waits for end soon */

static void kernel(const struct symmCall *call)
{
	struct symmCall c = *call;

	if (c.record == symmLater && c.channel == SHORT)
		c.timeout = 30000000;
	symmHostRun(&c);
}

static void calls(const Rank &r)
{
	Block b(r, 256, 0);
	EXPECT(b.info.device == 0 && b.info.isDirect);
	EXPECT(b.info.buffersDev[r.right()] == b.info.buffers[r.right()]);
	EXPECT(b.info.padsDev[r.left()] == b.info.pads[r.left()]);
	for (uint64_t round = 1; round <= 10; round++) {
		b.buffer(r.right())[0] = round;
		SYMM_CHECK(ginSymmBarrier(b.peers, 0, round % 2 * 10000, nullptr));
		EXPECT_EQUAL(b.buffer(r.rank)[0], round);
		SYMM_CHECK(ginSymmBarrier(b.peers, 0, 10000, nullptr));
	}
	SYMM_FAILS(ginSymmWaitSignal(b.peers, r.left(), 1, 20, nullptr), ginErrorTimeout,
		   "wait_signal on channel 1: no signal of rank ");
	/* With 0 the failure is the next call's, once. */
	SYMM_CHECK(ginSymmWaitSignal(b.peers, r.left(), SHORT, 0, nullptr));
	SYMM_FAILS(ginSymmPutSignal(b.peers, r.right(), 3, 0, nullptr), ginErrorTimeout,
		   "wait_signal on channel 2: no signal of rank ");
	SYMM_CHECK(ginSymmPutSignal(b.peers, r.right(), 3, 0, nullptr));
	r.meet();
	EXPECT_EQUAL(b.raised(), 1);
	SYMM_CHECK(ginSymmWaitSignal(b.peers, r.left(), 3, 0, nullptr));
	SYMM_CHECK(ginSymmCheck(r.group));
	ginSymmRelease(b.peers);
	SYMM_CHECK(ginSymmFree(b.base));
}

/* A call in a capture does not wait for its stream. */
static void capture(const Rank &r)
{
	Block b(r, 256, 0);
	r.meet();
	fakeCapture(1);
	r.meet();
	const int before = fakeSyncs();
	r.meet();
	SYMM_CHECK(ginSymmBarrier(b.peers, 0, 10000, nullptr));
	r.meet();
	EXPECT_EQUAL(fakeSyncs(), before);
	r.meet();
	fakeCapture(0);
	r.meet();
	SYMM_CHECK(ginSymmBarrier(b.peers, 0, 10000, nullptr));
	EXPECT(fakeSyncs() > before);
	ginSymmRelease(b.peers);
	SYMM_CHECK(ginSymmFree(b.base));
}

/*
 * The last rank aborts: words of others in this rank's pad are raised, its signals at others are
 * taken, and what it signals to itself stays as it is.
 */
static void released(const Rank &r)
{
	Block b(r, 256, 0);
	const int gone = r.nRanks - 1, last = CHANNELS_OF / r.nRanks - 1;
	if (r.rank != gone)
		SYMM_CHECK(ginSymmPutSignal(b.peers, gone, last, 0, nullptr));
	r.meet();
	if (r.rank == gone)
		EXPECT_SUCCESS(ginCommAbort(r.comm));
	for (int i = 0; i < last * r.nRanks; i++)
		while (i % r.nRanks != r.rank &&
		       !__atomic_load_n(b.word(r.rank, 0, i), __ATOMIC_RELAXED))
			sched_yield();
	for (int i = r.rank; i < CHANNELS_OF; i += r.nRanks)
		EXPECT_EQUAL(__atomic_load_n(b.word(r.rank, 0, i), __ATOMIC_RELAXED), 0u);
	while (r.rank != gone && __atomic_load_n(b.word(gone, last, r.rank), __ATOMIC_RELAXED))
		sched_yield();
	while (ginSymmCheck(r.group) == ginSuccess)
		sched_yield();
	EXPECT(ginSymmBarrier(b.peers, 0, 10000, nullptr) != ginSuccess);
	ginSymmRelease(b.peers);
	SYMM_CHECK(ginSymmFree(b.base));
}

static int run(const ginConfig_t *config)
{
	Rank r(config, 0);

	calls(r);
	capture(r);
	released(r);
	ginSymmClose(r.group);
	return 0;
}

int main(int argc, char **argv)
{
	fakeKernel = kernel;
	return ranksMain(argc, argv, run);
}
