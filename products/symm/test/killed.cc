/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * killed.cc - rank 1 ends without a word: every call of the others ends, and names it
 *
 *	killed --forks N [COUNT]	COUNT deaths at random times, by SEED
 *
 * With HOSTS and GIN_ROUTE as far.cc.
 */
#include "rig.h"

#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <random>
#include <thread>

using Clock = std::chrono::steady_clock;

enum { LIMIT_MS = 60000 }; /* of a call; longer than a case */

static unsigned seed;

static void dieAsRankOne(const Rank &r)
{
	if (r.rank == 1)
		raise(SIGKILL);
}

/* What every call of a group says after the death; and memory may be freed in any order. */
static void over(const Rank &r, const Block &b, bool closesFirst)
{
	ginSymmPeers_t peers;

	SYMM_FAILS(ginSymmBarrier(b.peers, 9, LIMIT_MS, nullptr), ginErrorPeer, "rank 1");
	SYMM_FAILS(ginSymmCheck(r.group), ginErrorPeer, "rank 1");
	SYMM_FAILS(ginSymmRendezvous(r.group, b.base, PAD_BYTES, &peers), ginErrorPeer, "rank 1");
	if (closesFirst)
		ginSymmClose(r.group);
	b.buffer(r.rank)[0] = 5;
	EXPECT_EQUAL(b.buffer(r.rank)[0], 5);
	b.drop();
	if (!closesFirst)
		ginSymmClose(r.group);
}

/* Waits until the word is `from`, and changes it to 1 - from. */
static void change(uint32_t *word, uint32_t from)
{
	for (uint32_t seen = from; !__atomic_compare_exchange_n(word, &seen, 1 - from, false,
								__ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	     seen = from)
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/*
 * What kernels of PyTorch do without a limit, on channel `channel`: take a signal of rank 1, or
 * raise one at rank 1 that was raised before.
 */
static void spin(const Block &b, int channel, bool takes)
{
	if (b.info.pads[1])
		change(takes ? b.word(b.info.rank, channel, 1) : b.word(1, channel, b.info.rank),
		       takes ? 1 : 0);
}

/* They signal to their own rank, too, as to all others: until its pads are released. */
static void signalSelf(const Block &b, int channel, Clock::time_point end)
{
	while (b.info.pads[1] && Clock::now() < end) {
		change(b.word(b.info.rank, channel, b.info.rank), 0);
		change(b.word(b.info.rank, channel, b.info.rank), 1);
	}
}

static long long since(Clock::time_point began)
{
	return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began).count();
}

static void inBarrier(const Rank &r)
{
	Block b(r, 4096), newer(r, 64); /* the pads of both are released */

	if (r.rank != 1)
		SYMM_CHECK(ginSymmPutSignal(b.peers, 1, 21, 0, nullptr));
	SYMM_CHECK(ginSymmBarrier(b.peers, 0, LIMIT_MS, nullptr));
	r.meet(); /* rank 1 may leave the barrier first: its signals are still under way */
	dieAsRankOne(r);
	const Clock::time_point began = Clock::now();
	std::thread taker(spin, std::cref(b), 20, true), raiser(spin, std::cref(b), 21, false),
		self(signalSelf, std::cref(b), 22, began + std::chrono::milliseconds(600));
	if (r.rank == 0)
		SYMM_FAILS(ginSymmBarrier(b.peers, 0, LIMIT_MS, nullptr), ginErrorPeer,
			   "barrier on channel 0: ");
	else
		SYMM_FAILS(ginSymmWaitSignal(b.peers, 1, 1, LIMIT_MS, nullptr), ginErrorPeer,
			   "wait_signal on channel 1: ");
	EXPECT_HAS(ginSymmGetLastError(), "rank 1");
	const long long own = since(began);
	taker.join();
	self.join();
	raiser.join();
	printf("rank %d: the call ended after %lld ms, other kernels after %lld ms\n", r.rank, own,
	       since(began));
	over(r, b, false);
	newer.drop();
}

static void inRendezvous(const Rank &r)
{
	Block b(r, 4096);
	void *second;

	SYMM_CHECK(ginSymmAlloc(GIN_DEVICE_NONE, 64, &second));
	r.meet();
	dieAsRankOne(r);
	ginSymmPeers_t peers = nullptr;
	SYMM_FAILS(ginSymmRendezvous(r.group, second, PAD_BYTES, &peers), ginErrorPeer, "rank 1");
	EXPECT(!peers);
	SYMM_CHECK(ginSymmFree(second));
	/* The thread that looks at the group sees the death up to 0.1 s later. */
	while (ginSymmCheck(r.group) == ginSuccess)
		sched_yield();
	over(r, b, true);
}

/* A signal that has come is there for its waiter, with its data; the next one never comes. */
static void betweenSignals(const Rank &r)
{
	Block b(r, 4096);
	const int from = 1, to = r.nRanks > 2 ? 2 : 0;
	const bool isNear = b.info.pads[from] != nullptr;

	r.meet();
	if (r.rank == from) {
		if (b.info.buffers[to])
			b.buffer(to)[1] = 77;
		SYMM_CHECK(ginSymmPutSignal(b.peers, to, 3, LIMIT_MS, nullptr));
		raise(SIGKILL);
	}
	while (ginSymmCheck(r.group) == ginSuccess)
		sched_yield();
	if (r.rank == to && isNear) {
		EXPECT_EQUAL(__atomic_load_n(b.word(to, 3, from), __ATOMIC_ACQUIRE), 1);
		EXPECT_EQUAL(b.buffer(to)[1], 77);
	}
	SYMM_FAILS(ginSymmWaitSignal(b.peers, from, 3, LIMIT_MS, nullptr), ginErrorPeer, "rank 1");
	over(r, b, false);
}

/* Without ginSymmClose(): for the others this is a death. */
static void atExit(const Rank &r)
{
	Block b(r, 4096);

	SYMM_CHECK(ginSymmBarrier(b.peers, 0, LIMIT_MS, nullptr));
	r.meet();
	if (r.rank == 1)
		exit(0);
	SYMM_FAILS(ginSymmBarrier(b.peers, 0, LIMIT_MS, nullptr), ginErrorPeer, "rank 1");
	over(r, b, true);
}

/* A child has no symmetric memory: its calls say so, its end is nothing to the ranks. */
static void forked(const Rank &r)
{
	Block b(r, 4096);
	int status = 0;
	void *base;

	const pid_t child = fork();
	if (!child) {
		SYMM_FAILS(ginSymmAlloc(GIN_DEVICE_NONE, 8, &base), ginErrorInvalidUsage,
			   "this process is a fork");
		SYMM_FAILS(ginSymmPutSignal(b.peers, r.right(), 0, LIMIT_MS, nullptr),
			   ginErrorInvalidUsage, "this process is a fork");
		SYMM_FAILS(ginSymmRendezvous(r.group, b.base, PAD_BYTES, &b.peers),
			   ginErrorInvalidUsage, "this process is a fork");
		b.drop();
		SYMM_CHECK(ginSymmClose(r.group));
		exit(0);
	}
	EXPECT(waitpid(child, &status, 0) == child);
	EXPECT_EQUAL(status, 0);
	for (int i = 0; i < 3; i++)
		SYMM_CHECK(ginSymmBarrier(b.peers, 0, LIMIT_MS, nullptr));
	r.meet();
	dieAsRankOne(r);
	SYMM_FAILS(ginSymmBarrier(b.peers, 0, LIMIT_MS, nullptr), ginErrorPeer, "rank 1");
	over(r, b, false);
}

/* One round of everything; the first call that fails is the result. */
static ginResult_t round(const Rank &r, uint64_t number)
{
	ginSymmPeers_t peers;
	ginSymmInfo_t info;
	void *base;

	SYMM_CHECK(ginSymmAlloc(GIN_DEVICE_NONE, 256, &base));
	ginResult_t result = ginSymmRendezvous(r.group, base, PAD_BYTES, &peers);
	if (result) {
		SYMM_CHECK(ginSymmFree(base));
		return result;
	}
	SYMM_CHECK(ginSymmQuery(peers, &info));
	auto *right = static_cast<uint64_t *>(info.buffers[r.right()]);
	if (right)
		*right = number;
	result = ginSymmPutSignal(peers, r.right(), 1, LIMIT_MS, nullptr);
	if (!result)
		result = ginSymmWaitSignal(peers, r.left(), 1, LIMIT_MS, nullptr);
	if (!result && info.buffers[r.left()])
		EXPECT_EQUAL(*static_cast<uint64_t *>(base), number);
	if (!result)
		result = ginSymmBarrier(peers, 2, LIMIT_MS, nullptr);
	ginSymmRelease(peers);
	SYMM_CHECK(ginSymmFree(base));
	return result;
}

static void atRandom(const Rank &r)
{
	ginResult_t result = ginSuccess;

	if (r.rank == 1)
		std::thread([] {
			usleep(std::mt19937(seed)() % 50000);
			kill(getpid(), SIGKILL);
		}).detach();
	for (uint64_t number = 1; !result; number++)
		result = round(r, number);
	EXPECT_EQUAL(result, ginErrorPeer);
	EXPECT_HAS(ginSymmGetLastError(), "rank 1");
	ginSymmClose(r.group);
}

static void (*body)(const Rank &);

static int run(const ginConfig_t *config)
{
	moveToHost(config);
	body(Rank(config));
	return 0;
}

/* False, and a line about it, if a rank did not end as it should. */
static bool passes(int n, const char *name, void (*of)(const Rank &), int rankOne)
{
	body = of;
	const int *result = ranksStart(n, 0, run);
	bool isGood = true;

	for (int rank = 0; rank < n; rank++) {
		if (result[rank] == (rank == 1 ? rankOne : 0))
			continue;
		fprintf(stderr, "%s: rank %d returned %d, SEED=%u\n", name, rank, result[rank],
			seed);
		isGood = false;
	}
	return isGood;
}

int main(int argc, char **argv)
{
	const int n = argc > 2 ? atoi(argv[2]) : 3, count = argc > 3 ? atoi(argv[3]) : 3;
	const char *text = getenv("SEED");
	const int killed = 128 + SIGKILL;
	bool isGood = passes(n, "in barrier", inBarrier, killed);

	isGood &= passes(n, "in rendezvous", inRendezvous, killed);
	isGood &= passes(n, "between signals", betweenSignals, killed);
	isGood &= passes(n, "at exit", atExit, 0);
	isGood &= passes(n, "forked", forked, killed);
	seed = text ? static_cast<unsigned>(atoi(text)) : static_cast<unsigned>(getpid());
	printf("SEED=%u\n", seed);
	for (int i = 0; i < count; i++, seed++)
		isGood &= passes(n, "at random", atRandom, killed);
	return !isGood;
}
