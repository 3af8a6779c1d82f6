/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gdaki.cc - the gdaki route under load: every call, by threads that share a context in each way
 *
 *	ROUNDS=n  of all threads together (10000: the NIC's 16 bits go round)
 *
 * Every rank writes to its right neighbour and checks the results: it reads back, counts and adds.
 * A round is 7.5 WQEBBs of 64 bytes; each rank prints how many it has posted, and in how many
 * seconds. A call that hangs ends after TIMEOUT_S, and with it the test: a call that takes longer
 * is slow.
 */
#include "suite.h"

#include <time.h>

enum { TIMEOUT_S = 40 };
enum { TARGET = 0, SOURCE = 96, BACK = 160, SWAPPED = 256, NARROW = 264, STRETCH = 272 };

struct Value {
	uint64_t word[4];
};

struct Load {
	ginDevComm dc;
	ginWindow_t window;
	char *memory; /* the window's, here */
	ginSharing sharing;
	uint32_t rounds;
	uint64_t *wrong;

	GIN_FN uint32_t self() const { return ginBlockIndex() * ginBlockSize() + ginThreadIndex(); }

	GIN_FN size_t at(uint32_t what) const
	{
		return sizeof(uint64_t) * 2 + self() * static_cast<size_t>(STRETCH) + what;
	}

	GIN_FN uint64_t *words(uint32_t what) const
	{
		return reinterpret_cast<uint64_t *>(memory + at(what));
	}

	/* The source may be reused, and read bytes are there: each way to wait for that. */
	GIN_FN ginResult_t done(const Gin &gin, uint32_t round) const
	{
		ginResult_t counted = ginSuccess;
		if (round % 3 == 0)
			counted = gin.waitCounter(self(), round + 1);
		ginResult_t result =
			round % 2 ? gin.flush() : gin.wait(gin.flushAsync(rightOf(dc)));
		return counted == ginSuccess ? result : counted;
	}

	/* Of a word that only this thread changes. */
	GIN_FN uint64_t atomics(const Gin &gin, uint32_t round) const
	{
		const uint64_t step = 0x100000001;
		uint64_t was = 0, wrong = 0;
		uint32_t narrow = 0;
		int right = rightOf(dc);
		wrong += gin.atomicSwap(right, window, at(SWAPPED), (round + 1) * step, &was) !=
			 ginSuccess;
		wrong += was != round * step;
		wrong += gin.atomicCompareSwap(right, window, at(NARROW), round, round + 1,
					       &narrow) != ginSuccess;
		wrong += narrow != round;
		wrong += gin.atomicFetchAdd(right, window, 0, uint64_t{1}) != ginSuccess;
		wrong += gin.atomicFetchAdd(right, window, 8, uint64_t{1}, &was) != ginSuccess;
		return wrong + (was < round);
	}

	GIN_FN uint64_t round(const Gin &gin, uint32_t round) const
	{
		int right = rightOf(dc);
		uint64_t wrong = 0;
		ginOptions options;
		Value value;
		options.aggregate = round % 4 == 1;
		for (uint32_t i = 0; i < 8; i++)
			words(SOURCE)[i] = pattern(self(), round, i) * 0x0101010101010101ull;
		for (uint32_t i = 0; i < 4; i++)
			value.word[i] = round * 1000003ull + self() * 4 + i;
		wrong += gin.put(right, window, at(TARGET), window, at(SOURCE), 64,
				 GinSignalInc{self()}, GinCounterInc{self()}, GinThread{},
				 options) != ginSuccess;
		wrong += gin.putValue(right, window, at(TARGET) + 64, value) != ginSuccess;
		wrong += gin.get(right, window, at(TARGET), window, at(BACK), 96) != ginSuccess;
		if (round % 4 == 3)
			wrong += atomics(gin, round / 4);
		wrong += done(gin, round) != ginSuccess;
		for (uint32_t i = 0; i < 8; i++)
			wrong += words(SOURCE)[i] != words(BACK)[i];
		for (uint32_t i = 0; i < 4; i++)
			wrong += value.word[i] != words(BACK)[8 + i];
		return wrong;
	}

	GIN_FN void operator()() const
	{
		Gin gin(dc, dc.contexts - 1, sharing);
		uint64_t n = 0;
		for (uint32_t i = 0; i < rounds && !n; i++)
			n += round(gin, i);
		n += gin.waitSignal(self(), rounds) != ginSuccess;
		n += gin.readCounter(self()) != rounds;
		wrong[self()] = n;
	}
};

/* WQEBBs that were posted to the right. */
struct Posted {
	ginDevComm dc;
	uint64_t *wqebbs;

	GIN_FN void operator()() const
	{
		*wqebbs = ginLocalLoad(&ginGdakiQueue(dc, dc.contexts - 1, rightOf(dc))->reserved);
	}
};

/* With a counter for each thread. */
struct Counting {
	Rank &rank;
	ginDevComm dc;

	Counting(Rank &r, uint32_t threads) : rank(r)
	{
		ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
		want.contexts = 2;
		want.signals = want.counters = threads;
		want.timeout = TIMEOUT_S * 1000000000ull;
		want.queueDepth = queueDepth();
		CHECK(ginDevCommCreate(r.comm, &want, &dc));
	}

	~Counting() { CHECK(ginDevCommDestroy(rank.comm, &dc)); }

	Counting(const Counting &) = delete;
	Counting &operator=(const Counting &) = delete;
};

static uint32_t roundsOfAll()
{
	return static_cast<uint32_t>(numberOr("ROUNDS", 10500));
}

/* Posts by context, and by rank: `least` or more, and no kernel posts. */
static void expectStats(Rank &r, const ginDevComm &dc, uint64_t least)
{
	uint64_t posted = 0, completed = 0;

	for (uint32_t c = 0; c < dc.contexts; c++) {
		ginStats_t s = GIN_STATS_INIT;
		CHECK(ginCommGetStats(r.comm, &dc, c, &s));
		EXPECT(s.counted == GIN_COUNTED_POSTS);
		posted += s.posted;
		completed += s.completed;
	}
	EXPECT(posted >= least);
	for (int peer = 0; peer < r.nRanks; peer++) {
		ginPeerStats_t s = GIN_PEER_STATS_INIT;
		CHECK(ginCommGetPeerStats(r.comm, &dc, peer, &s));
		EXPECT(s.route == ginRouteGdaki && s.counted == GIN_COUNTED_POSTS);
		EXPECT(!s.failed && !s.putBytes);
		posted -= s.posted;
		completed -= s.completed;
	}
	EXPECT(!posted && !completed);
}

static void load(Rank &r, ginSharing sharing, uint32_t grid, uint32_t block)
{
	const uint32_t threads = grid * block, rounds = roundsOfAll() / threads;
	Buffer words(r, 16 + threads * STRETCH, wordsAllocator(r));
	Counting device(r, threads);
	Results wrong(r, threads), wqebbs(r, 1);
	ginErrorRecord_t record;

	words.write(std::vector<unsigned char>(words.bytes));
	meet(r);
	uint64_t start = nowNs();
	launch(r, grid, block,
	       Load{device.dc, words.window, words.ptr, sharing, rounds, wrong.words});
	uint64_t took = nowNs() - start;
	launch(r, 1, 1, Posted{device.dc, wqebbs.words});
	printf("rank %d: %u rounds, %llu WQEBBs, %.2f s\n", r.rank, rounds * threads,
	       static_cast<unsigned long long>(wqebbs.words[0]), static_cast<double>(took) / 1e9);
	fflush(stdout);
	CHECK(ginDevCommGetError(r.comm, &device.dc, &record)); /* the last error, in words */
	EXPECT(wrong.all(0));
	expectStats(r, device.dc, wqebbs.words[0]);
	if (rounds * threads > 9900) /* 16 bits have gone round */
		EXPECT(wqebbs.words[0] > 70000);
	meet(r);
	std::vector<unsigned char> seen = words.read();
	uint64_t sums[2];
	memcpy(sums, seen.data(), sizeof(sums));
	EXPECT(sums[0] == rounds / 4 * static_cast<uint64_t>(threads) && sums[1] == sums[0]);
	meet(r);
}

static void sharedByAll(Rank &r)
{
	load(r, ginSharingGpu, 2, 3);
}

static void sharedByBlock(Rank &r)
{
	load(r, ginSharingCta, 1, 4);
}

static void alone(Rank &r)
{
	load(r, ginSharingThread, 1, 1);
}

/*
 * A key that the peer does not know: the put does not count, and the queue is lost for all threads.
 * Queues of other contexts work until the monitor has notified the device communicator.
 */
struct Refused {
	ginDevComm dc;
	ginWindow_t window;
	uint64_t *result;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		int right = rightOf(dc);
		result[0] = gin.put(right, window, 0, window, 64, 8, GinNone{}, GinCounterInc{0});
		result[1] = gin.flush();
		result[2] = gin.put(right, window, 0, window, 64, 8);
		result[3] = gin.signal(right, GinSignalInc{0});
		result[4] = gin.waitCounter(0, 1);
		result[5] = gin.readCounter(0);
		result[6] = Gin(dc, 1).signal(right, GinSignalInc{0});
	}
};

static void refused(Rank &r)
{
	if (r.device >= 0)
		return; /* the window's table is out of reach */
	Buffer words(r, 128);
	Device device(r, 2, 1);
	Results results(r, 7);
	struct ginWindowPeer *to =
		reinterpret_cast<struct ginWindowPeer *>(words.window.table + 1) +
		rightOf(device.dc);
	uint32_t key = to->nicKey;
	to->nicKey = ginMlx5Key(0xdead);
	if (r.rank ==
	    0) /* one rank: the NIC puts the peer's queue pair into the error state, too */
		launch(r, 1, 1, Refused{device.dc, words.window, results.words});
	to->nicKey = key;
	meet(r);
	if (r.rank != 0)
		return;
	const uint64_t want[] = {ginSuccess,   ginErrorPeer, ginErrorPeer,
				 ginErrorPeer, ginErrorPeer, 0};
	for (int i = 0; i < 6; i++)
		EXPECT(results.words[i] == want[i]);
	EXPECT(results.words[6] == ginSuccess || results.words[6] == ginErrorPeer);
	ginErrorRecord_t record;
	CHECK(ginDevCommGetError(r.comm, &device.dc, &record));
	EXPECT(record.valid && record.result == ginErrorPeer && record.call == ginCallFlush);
}

static int run(const ginConfig_t *config)
{
	const Test tests[] = {{"shared by all", sharedByAll},
			      {"shared by a block", sharedByBlock},
			      {"alone", alone},
			      {"refused", refused}};
	Rank r;
	rankOpen(r, config);
	ginPeerInfo_t info = GIN_PEER_INFO_INIT;
	CHECK(ginCommQueryPeer(r.comm, 0, &info));
	if (info.route != ginRouteGdaki)
		skip("not on that route: GIN_ROUTE=network GIN_BACKEND=gdaki");
	runTests(r, "gdaki", tests);
	rankClose(r);
	return 0;
}

int main(int argc, char **argv)
{
	return suiteMain(argc, argv, run);
}
