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

#include <string>

/* Not empty: the driver loads anything. */
extern "C" {
extern const char symmFatbin[1] = {1}, symmFatbinEnd[1] = {0};
void symmHostRun(const struct symmCall *call);
}

enum { SHORT = 2 };  /* a channel on which calls that nobody waits for end soon */
enum { LATE = 4 };   /* one on which calls begin when there is a signal */
enum { LIMIT = 77 }; /* GIN_TIMEOUT */

static void kernel(const struct symmCall *call)
{
	struct symmCall c = *call;

	if (c.record == symmLater && c.channel == SHORT) {
		EXPECT_EQUAL(c.timeout, LIMIT * 1000000000ull);
		c.timeout = 30000000;
	}
	while (c.channel == LATE &&
	       !__atomic_load_n(c.pads[c.rank] + c.channel * c.nRanks + c.first, __ATOMIC_RELAXED))
		sched_yield();
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

/* In a capture nothing waits for a stream or the device: calls, drops of memory, meetings. */
static void capture(const Rank &r)
{
	Block b(r, 256, 0), dropped(r, 256, 0);
	ginSymmPeers_t peers;
	void *late;

	SYMM_CHECK(ginSymmAlloc(0, 256, &late));
	r.meet();
	fakeCapture(1);
	r.meet();
	const int before = fakeSyncs();
	r.meet();
	SYMM_CHECK(ginSymmBarrier(b.peers, 0, 10000, nullptr));
	dropped.drop();
	SYMM_FAILS(ginSymmRendezvous(r.group, late, PAD_BYTES, &peers), ginErrorInvalidUsage,
		   "is being captured");
	r.meet();
	EXPECT_EQUAL(fakeSyncs(), before);
	r.meet();
	fakeCapture(0);
	r.meet();
	SYMM_CHECK(ginSymmBarrier(b.peers, 0, 10000, nullptr));
	EXPECT(fakeSyncs() > before);
	SYMM_CHECK(ginSymmRendezvous(r.group, late, PAD_BYTES, &peers));
	ginSymmRelease(peers);
	SYMM_CHECK(ginSymmFree(late));
	b.drop();
}

/*
 * All ranks have blocks on GPU 0; then each on its own, where rank 0 keeps GPU 0; then on 0 again.
 */
static void devices(const Rank &r)
{
	ginComm_t comm;
	int device;

	for (int turn = 0; turn < 3; turn++) {
		const int own = turn == 1 ? r.rank % 2 : 0;
		Block b(r, 256, own);
		EXPECT_EQUAL(b.info.device, own);
		EXPECT_EQUAL(b.info.comm == r.comm, turn != 1 || r.nRanks == 1);
		b.buffer(r.right())[0] = static_cast<uint64_t>(r.rank);
		SYMM_CHECK(ginSymmBarrier(b.peers, 0, 10000, nullptr));
		EXPECT_EQUAL(b.buffer(r.rank)[0], static_cast<uint64_t>(r.left()));
		b.drop();
	}
	if (r.nRanks == 1)
		return;
	SYMM_CHECK(ginSymmComm(r.group, 1, &device, &comm));
	EXPECT(device == r.rank % 2 && comm != r.comm);
	SYMM_FAILS(ginSymmComm(r.group, 2, &device, &comm), ginErrorInvalidArgument, "");
	SYMM_CHECK(ginSymmCheck(r.group));
}

static void *stream(int device)
{
	EXPECT(device == 0 || device == 1);
	return nullptr;
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
	else /* what it takes is no signal */
		EXPECT(ginSymmWaitSignal(b.peers, gone, LATE, 60000, nullptr) != ginSuccess);
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

/* The driver refuses to clear the last rank's pad: all ranks say whose pad it is, and go on. */
static void padless(const Rank &r)
{
	const int last = r.nRanks - 1;
	char words[64] = "the driver of this test refuses";
	ginSymmPeers_t peers;
	void *base;

	SYMM_CHECK(ginSymmAlloc(0, 64, &base));
	if (r.rank != last)
		snprintf(words, sizeof(words), "rank %d could not make its pad: ", last);
	fakeRefuse(r.rank == last);
	SYMM_FAILS(ginSymmRendezvous(r.group, base, PAD_BYTES, &peers), ginErrorCuda, words);
	fakeRefuse(0);
	SYMM_CHECK(ginSymmRendezvous(r.group, base, PAD_BYTES, &peers));
	ginSymmRelease(peers);
	SYMM_CHECK(ginSymmFree(base));
}

static int run(const ginConfig_t *config)
{
	Rank r(config, 0);

	padless(r);
	calls(r);
	capture(r);
	devices(r);
	released(r);
	ginSymmClose(r.group);
	return 0;
}

int main(int argc, char **argv)
{
	fakeKernel = kernel;
	ginSymmUseStreams(stream);
	setenv("GIN_TIMEOUT", std::to_string(LIMIT).c_str(), 1);
	return ranksMain(argc, argv, run);
}
