/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proxy_ring.cc - many descriptors of many threads through one ring; every byte is checked
 *
 *	DESCRIPTORS=n	how many each rank posts; GRID, BLOCK: by how many threads; QUEUE_DEPTH (16)
 *	MEMORY=host	windows in host memory, where CPUs copy; on a GPU copy engines do
 *	SEED=n		with GIN_PROXY_THREADS=0: when this program calls ginCommProgress()
 *
 * Every pair of ranks has the proxy route. With GIN_PROXY_THREADS=0 the ring is emptied at random
 * times, and not at all while calls have to time out.
 */
#include "proxy_places.h"

#include <atomic>
#include <random>
#include <thread>

/* Empties the rings at random times, as long as it lives; does nothing if the proxy has threads. */
class Progress
{
public:
	explicit Progress(Rank &r) : comm(r.comm), random(seed(r)), stop(false)
	{
		if (isCallerDriven())
			thread = std::thread([this] { run(); });
	}

	~Progress()
	{
		stop = true;
		if (thread.joinable())
			thread.join();
	}

	Progress(const Progress &) = delete;
	Progress &operator=(const Progress &) = delete;

private:
	ginComm_t comm;
	std::mt19937_64 random;
	std::atomic<bool> stop;
	std::thread thread;

	static uint64_t seed(const Rank &r)
	{
		return numberOr("SEED", 1) * 1000 + static_cast<uint64_t>(r.rank);
	}

	void run()
	{
		while (!stop) {
			uint64_t turns = random() % 8;
			for (uint64_t i = 0; i < turns; i++)
				CHECK(ginCommProgress(comm, nullptr));
			if (random() % 4 == 0)
				usleep(static_cast<useconds_t>(random() % 300));
			else
				sched_yield();
		}
	}
};

/* A device communicator whose context has the smallest ring, or one of QUEUE_DEPTH descriptors. */
static ginDevComm openRing(Rank &r, uint32_t depth, uint32_t contexts = 1)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginDevComm dc;
	want.contexts = contexts;
	want.signals = 1;
	want.timeout = 100000000000ull;
	want.queueDepth = static_cast<uint32_t>(numberOr("QUEUE_DEPTH", depth));
	CHECK(ginDevCommCreate(r.comm, &want, &dc));
	EXPECT(dc.queues != nullptr);
	return dc;
}

static void settleRing(Rank &r, const ginDevComm &dc)
{
	Results result(r, 1);
	launch(r, 1, 1, Settle{dc, result.words});
	EXPECT(result.all(ginSuccess));
}

static void expectSums(Rank &r, const ginDevComm &dc, ginWindow_t words, uint64_t places,
		       uint64_t rounds)
{
	Results values(r, 4);
	uint64_t each = places / WAYS;
	uint64_t atomics = each * byAtomic + WAYS * (each * (each - 1) / 2);

	launch(r, 1, 1, ReadSums{dc, words, values.words});
	EXPECT(values.words[0] == ginSuccess);
	EXPECT(values.words[1] == rounds * 2 * each);
	EXPECT(values.words[2] == rounds * 4 * each);
	EXPECT(values.words[3] == rounds * atomics);
}

static void fillSource(Rank &r, Buffer &source)
{
	std::vector<unsigned char> bytes(source.bytes);
	for (uint64_t p = 0; p < source.bytes / PLACE; p++) {
		Place place = placeOf(static_cast<uint32_t>(r.rank), 0, p);
		memcpy(&bytes[p * PLACE], place.byte, PLACE);
	}
	source.write(bytes);
}

static void everyByte(Rank &r)
{
	uint64_t all = numberOr("DESCRIPTORS", 200000), places = r.device < 0 ? 4096 : 1 << 20;
	uint32_t grid = static_cast<uint32_t>(numberOr("GRID", r.device < 0 ? 3 : 132));
	uint32_t block = static_cast<uint32_t>(numberOr("BLOCK", r.device < 0 ? 4 : 128));
	Allocator *memory = getenv("MEMORY") ? ginMemAllocHost : ginMemAlloc;
	Buffer target(r, places * PLACE, memory), source(r, places * PLACE, memory);
	Buffer got(r, places * PLACE, memory), words(r, 8, wordsAllocator(r));
	Windows at = {target.window, source.window, got.window, words.window,
		      target.ptr,    source.ptr,    got.ptr};
	Results results(r, grid * block);
	uint32_t rounds = static_cast<uint32_t>((all + places - 1) / places);

	fillSource(r, source);
	words.write(std::vector<unsigned char>(8, 0));
	ginDevComm dc = openRing(r, 16);
	{
		Progress progress(r);
		for (uint32_t round = 1; round <= rounds; round++) {
			target.poison();
			got.poison();
			meet(r);
			launch(r, grid, block, PostRound{dc, at, places, round, results.words});
			EXPECT(results.all(ginSuccess));
			settleRing(r, dc);
			launch(r, grid, block, CountWrong{dc, at, places, round, results.words});
			EXPECT(results.all(0));
			expectSums(r, dc, at.words, places, round);
			meet(r);
		}
	}
	if (r.rank == 0)
		printf("%llu descriptors of each rank, by %u threads\n",
		       static_cast<unsigned long long>(rounds * places), grid * block);
	CHECK(ginDevCommDestroy(r.comm, &dc));
}

/* No thread empties the ring: calls that find room post, the others time out and have no effect. */
struct PostUntilFull {
	ginDevComm dc;
	uint32_t tries;
	uint64_t *results; /* by thread: posts, sum of values, other errors */

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		uint64_t thread = ginBlockIndex() * ginBlockSize() + ginThreadIndex();
		uint64_t *mine = results + thread * 3;
		mine[0] = mine[1] = mine[2] = 0;
		for (uint32_t i = 0; i < tries; i++) {
			uint64_t value = thread * 1000 + i + 1;
			ginResult_t result =
				gin.signal(static_cast<int>(dc.rank), GinSignalAdd{0, value},
					   GinThread{}, ginTimeout(1000000));
			mine[0] += result == ginSuccess;
			mine[1] += result == ginSuccess ? value : 0;
			mine[2] += result != ginSuccess && result != ginErrorTimeout;
		}
	}
};

/* Flushes and waits for the posts: with a timeout, or until they are done. */
struct FlushAndWait {
	ginDevComm dc;
	uint64_t timeout;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		ginOptions options = ginTimeout(timeout);
		ginRequest request = gin.flushAsync(static_cast<int>(dc.rank));
		results[0] = gin.wait(request, GinThread{}, options);
		results[1] = gin.flush(GinThread{}, options);
		results[2] = GinBarrier(dc, {1, 0, 1}, 0).arrive(GinThread{}, options);
	}
};

struct ReadOne {
	ginDevComm dc;
	uint64_t *value;

	GIN_FN void operator()() const { *value = Gin(dc, 0).readSignal(0); }
};

static uint64_t sumOf(const Results &results, size_t first, size_t step)
{
	uint64_t sum = 0;
	for (size_t i = first; i < results.count; i += step)
		sum += results.words[i];
	return sum;
}

static void timeoutsReserveNothing(Rank &r)
{
	uint32_t grid = 2, block = r.device < 0 ? 6 : 96;
	ginDevComm dc = openRing(r, 16);
	Results posts(r, grid * block * 3), last(r, 3), ends(r, 3), value(r, 1);
	uint64_t sum = 0;

	for (int round = 0; round < 5; round++) {
		launch(r, grid, block, PostUntilFull{dc, 3, posts.words});
		/*
		 * One thread looks for room for all, and may be descheduled: then others time out
		 * although there is room, which a thread alone takes.
		 */
		launch(r, 1, 1, PostUntilFull{dc, 40, last.words});
		EXPECT(sumOf(posts, 2, 3) + last.words[2] == 0);
		EXPECT(sumOf(posts, 0, 3) + last.words[0] == numberOr("QUEUE_DEPTH", 16));
		launch(r, 1, 1, FlushAndWait{dc, 1000000, ends.words});
		EXPECT(ends.all(ginErrorTimeout));
		launch(r, 1, 1, ReadOne{dc, value.words});
		EXPECT(value.all(sum));
		sum += sumOf(posts, 1, 3) + last.words[1];
		Progress progress(r);
		launch(r, 1, 1, FlushAndWait{dc, 0, ends.words});
		EXPECT(ends.all(ginSuccess));
		launch(r, 1, 1, ReadOne{dc, value.words});
		EXPECT(value.all(sum));
	}
	CHECK(ginDevCommDestroy(r.comm, &dc));
}

/* Atomics whose callers wait for the old value, or give up and leave its result slot. */
struct FetchOrLeave {
	ginDevComm dc;
	ginWindow_t words;
	uint64_t *olds; /* the count of each old value */
	uint32_t times;
	uint64_t timeout, patience; /* of alternating calls, ns; 0: no limit */
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		uint64_t thread = ginBlockIndex() * ginBlockSize() + ginThreadIndex();
		uint64_t *mine = results + thread * 2, old = 0;
		mine[0] = mine[1] = 0;
		for (uint32_t i = 0; i < times; i++) {
			uint64_t most = (thread + i) % 2 ? timeout : patience;
			ginResult_t result = gin.atomicFetchAdd(static_cast<int>(dc.rank), words, 0,
								static_cast<uint64_t>(1), &old,
								ginTimeout(most));
			if (result == ginSuccess)
				ginLocalAdd(olds + old, 1);
			mine[0] += result == ginSuccess;
			mine[1] += result != ginSuccess && result != ginErrorTimeout;
		}
	}
};

static void placesOfResults(Rank &r)
{
	uint32_t grid = 2, block = r.device < 0 ? 24 : 64, times = 40;
	size_t calls = static_cast<size_t>(grid) * block * times * 2;
	Buffer words(r, 8, wordsAllocator(r)), olds(r, calls * 8);
	Results results(r, grid * block * 2);
	uint64_t sum = 0, seen = 0;

	words.write(std::vector<unsigned char>(8, 0));
	olds.write(std::vector<unsigned char>(olds.bytes, 0));
	ginDevComm dc = openRing(r, 64);
	FetchOrLeave body = {dc, words.window, reinterpret_cast<uint64_t *>(olds.ptr), times, 30000,
			     0,	 results.words};
	{
		Progress progress(r);
		launch(r, grid, block, body);
		EXPECT(sumOf(results, 1, 2) == 0);
		seen = sumOf(results, 0, 2);
		EXPECT(seen >= calls / 4);
		body.timeout = 0; /* every slot is free again: otherwise these would not end */
		launch(r, grid, block, body);
		EXPECT(sumOf(results, 1, 2) == 0 && sumOf(results, 0, 2) == calls / 2);
		seen += calls / 2;
		settleRing(r, dc);
		meet(r); /* others wait for later signals of this rank */
	}
	copyBytes(r, &sum, words.ptr, 8);
	EXPECT(sum >= seen && sum <= calls);
	std::vector<unsigned char> counts = olds.read();
	uint64_t once = 0;
	for (size_t i = 0; i < calls; i++) {
		uint64_t count;
		memcpy(&count, &counts[i * 8], 8);
		EXPECT(count <= (i < sum ? 1u : 0u));
		once += count;
	}
	EXPECT(once == seen);
	CHECK(ginDevCommDestroy(r.comm, &dc));
}

/* A thread waits for each result slot and gives up; every slot becomes free again. */
static void allPlacesAreLeft(Rank &r)
{
	uint32_t grid = 1, block = r.device < 0 ? 40 : 64;
	Buffer words(r, 8, wordsAllocator(r)), olds(r, 4096);
	Results results(r, grid * block * 2);
	FetchOrLeave body = {
		openRing(r, 64), words.window, reinterpret_cast<uint64_t *>(olds.ptr), 1, 2000000,
		2000000,	 results.words};

	words.write(std::vector<unsigned char>(8, 0));
	for (int round = 0; round < 2; round++) { /* the second finds no slot, and posts nothing */
		launch(r, grid, block, body);
		EXPECT(results.all(0)); /* no call got its value, and no other error occurred */
	}
	body.timeout = body.patience = 100000000000ull;
	{
		Progress progress(r);
		launch(r, grid, block, body);
		settleRing(r, body.dc);
		meet(r);
	}
	EXPECT(sumOf(results, 0, 2) == grid * block && sumOf(results, 1, 2) == 0);
	uint64_t sum = 0;
	copyBytes(r, &sum, words.ptr, 8);
	EXPECT(sum >= grid * block && sum <= grid * block + GIN_QUEUE_RESULTS);
	CHECK(ginDevCommDestroy(r.comm, &body.dc));
}

struct Wrong {
	size_t to, from, bytes;
	uint32_t counter;
};

/*
 * Context 0 puts outside of windows, or to a counter that does not exist; context 1 puts correctly.
 */
struct PutWrong {
	ginDevComm dc;
	ginWindow_t target, source, words;
	Wrong wrong;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin bad(dc, 0), good(dc, 1);
		int to = rightOf(dc);
		results[0] = bad.put(to, target, wrong.to, source, wrong.from, wrong.bytes,
				     GinSignalInc{0}, GinCounterInc{wrong.counter});
		results[1] = bad.flush();
		results[2] = bad.wait(bad.flushAsync(to));
		results[3] = bad.waitCounter(0, 1);
		results[4] =
			bad.atomicFetchAdd(to, words, 0, static_cast<uint64_t>(1), results + 9);
		results[5] =
			good.put(to, target, 8, source, 8, 8, GinSignalInc{0}, GinCounterInc{0});
		results[6] = good.waitCounter(0, 1);
		results[7] = good.waitSignal(0, 1);
		results[8] = bad.readSignal(0) + bad.readCounter(0);
		results[10] = GinBarrier(dc, ginTeamWorld(dc), 0, 1).arrive();
	}
};

/*
 * Arguments in no window, or too large for their field of a descriptor: cut to the field, they
 * would be right.
 */
static const Wrong wrongs[] = {
	{57, 0, 8, 0},
	{uint64_t{1} << 40, 0, 8, 0},
	{uint64_t{1} << 47, 0, 8, 0},
	{0, uint64_t{1} << 47, 8, 0},
	{0, 0, uint64_t{1} << 63 | 8, 0},
	{0, 0, 8, 1u << 24},
	{0, 0, 8, 1u << 30},
	{0, 0, 8, 1u << 31},
	{0, 0, 8, UINT32_MAX - 1},
};

static void wrongOnesFailTheirContextAlone(Rank &r)
{
	Buffer target(r, 64), source(r, 64), words(r, 8, wordsAllocator(r));
	std::vector<unsigned char> bytes(64), expected(64, 0x5a);
	Results results(r, 11);
	ginErrorRecord_t record;

	for (size_t i = 0; i < bytes.size(); i++)
		bytes[i] = pattern(static_cast<uint32_t>(r.rank), 0, i);
	for (size_t i = 8; i < 16; i++)
		expected[i] = pattern(static_cast<uint32_t>(r.rank + r.nRanks - 1) %
					      static_cast<uint32_t>(r.nRanks),
				      0, i);
	source.write(bytes);
	words.write(std::vector<unsigned char>(8, 0));
	for (const Wrong &wrong : wrongs) {
		target.poison();
		ginDevComm dc = openRing(r, 16, 2);
		{
			Progress progress(r);
			launch(r, 1, 1,
			       PutWrong{dc, target.window, source.window, words.window, wrong,
					results.words});
			meet(r);
		}
		for (int i : {1, 2, 3, 4, 10}) /* a barrier waits for the posts of all contexts */
			EXPECT(results.words[i] == ginErrorInvalidArgument);
		CHECK(ginDevCommGetError(r.comm, &dc, &record));
		EXPECT(record.call == ginCallFlush && record.peer == -1);
		for (int i : {0, 5, 6, 7})
			EXPECT(results.words[i] == ginSuccess);
		EXPECT(results.words[8] == 0);
		EXPECT(target.read() == expected);
		CHECK(ginDevCommDestroy(r.comm, &dc));
	}
}

/* Puts without a flush: the kernel ends while they are in the ring. */
struct PutUntaken {
	ginDevComm dc;
	ginWindow_t target, source;
	uint32_t puts;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		results[0] = ginSuccess;
		for (uint32_t i = 0; i < puts && results[0] == ginSuccess; i++)
			results[0] = gin.put(rightOf(dc), target, i * 8, source, i * 8, 8);
	}
};

/* No thread empties the ring: ginDevCommDestroy() completes posts that are not taken yet. */
static void destructionDoesWhatIsPosted(Rank &r)
{
	const uint32_t puts = 16;
	Buffer target(r, puts * 8), source(r, puts * 8);
	std::vector<unsigned char> expected(puts * 8);
	const uint32_t left =
		static_cast<uint32_t>(r.rank + r.nRanks - 1) % static_cast<uint32_t>(r.nRanks);
	Results result(r, 1);

	fillPattern(r, source);
	target.poison();
	for (size_t i = 0; i < expected.size(); i++)
		expected[i] = pattern(left, 0, i);
	ginDevComm dc = openRing(r, 16);
	meet(r);
	launch(r, 1, 1, PutUntaken{dc, target.window, source.window, puts, result.words});
	EXPECT(result.all(ginSuccess));
	EXPECT(target.read() == std::vector<unsigned char>(target.bytes, 0x5a));
	CHECK(ginDevCommDestroy(r.comm, &dc));
	meet(r);
	EXPECT(target.read() == expected);
}

/* Atomics that find no room in the ring, more of them than there are result slots. */
struct FetchWithoutRoom {
	ginDevComm dc;
	ginWindow_t words;
	uint64_t *results; /* how many succeed with a full ring, and after it */

	GIN_FN uint64_t fetches(uint32_t times, uint64_t timeout) const
	{
		Gin gin(dc, 0);
		uint64_t old = 0, n = 0;
		for (uint32_t i = 0; i < times; i++)
			n += gin.atomicFetchAdd(static_cast<int>(dc.rank), words, 0,
						static_cast<uint64_t>(1), &old,
						ginTimeout(timeout)) == ginSuccess;
		return n;
	}

	GIN_FN void operator()() const { results[0] = fetches(GIN_QUEUE_RESULTS + 1, 100000); }
};

struct FetchWithRoom {
	FetchWithoutRoom fetch;

	GIN_FN void operator()() const { fetch.results[0] = fetch.fetches(3, 10000000000); }
};

/* A call that finds no room gives its result slot back. */
static void callsWithoutRoomKeepNoSlot(Rank &r)
{
	Buffer words(r, 8, wordsAllocator(r));
	Results posts(r, 3), result(r, 1);

	words.write(std::vector<unsigned char>(8, 0));
	ginDevComm dc = openRing(r, 16);
	FetchWithoutRoom body = {dc, words.window, result.words};
	launch(r, 1, 1,
	       PostUntilFull{dc, static_cast<uint32_t>(numberOr("QUEUE_DEPTH", 16)), posts.words});
	EXPECT(posts.words[0] == numberOr("QUEUE_DEPTH", 16));
	launch(r, 1, 1, body);
	EXPECT(result.all(0));
	{
		Progress progress(r);
		launch(r, 1, 1, FetchWithRoom{body});
		settleRing(r, dc);
		meet(r);
	}
	EXPECT(result.all(3));
	CHECK(ginDevCommDestroy(r.comm, &dc));
}

/*
 * Puts from memory without a window argument, for which the proxy searches all windows, until the
 * host says that the others are gone.
 */
struct PutFromAnywhere {
	ginDevComm dc;
	ginWindow_t target;
	const char *source;
	uint64_t *results; /* result, puts that have been made, "the windows are gone" */

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		ginResult_t result = ginSuccess;
		while (result == ginSuccess && !ginLoad<ginAcquire, ginScopeSystem>(&results[2])) {
			result = gin.putFrom(rightOf(dc), target, 0, source, 8);
			ginStore<ginRelease, ginScopeSystem>(&results[1], results[1] + 1);
		}
		results[0] = result == ginSuccess ? gin.flush() : result;
	}
};

/* The puts are under way before the first window goes. */
static void deregisterDuring(ginComm_t comm, const ginWindow_t *windows, int count, uint64_t *words)
{
	while (__atomic_load_n(&words[1], __ATOMIC_ACQUIRE) < 32)
		sched_yield();
	for (int i = 0; i < count; i++)
		CHECK(ginWindowDeregister(comm, windows[i]));
	__atomic_store_n(&words[2], 1, __ATOMIC_RELEASE);
}

/*
 * The source is in the last registered window. The search also reads the earlier windows, which are
 * deregistered meanwhile.
 */
static void windowsGoDuringSearches(Rank &r)
{
	enum { WINDOWS = 8, ROUNDS = 10 };
	Buffer target(r, 8);
	Results result(r, 3);
	ginWindow_t windows[WINDOWS];
	void *memory, *source;

	CHECK(ginMemAllocHost(r.comm, 64, &memory));
	CHECK(ginMemAllocHost(r.comm, 64, &source));
	ginDevComm dc = openRing(r, 16);
	{
		Progress progress(r);
		for (int round = 0; round < ROUNDS; round++) {
			ginWindow_t last;
			for (ginWindow_t &window : windows)
				CHECK(ginWindowRegister(r.comm, memory, 64, GIN_WINDOW_LOCAL,
							&window));
			CHECK(ginWindowRegister(r.comm, source, 64, GIN_WINDOW_LOCAL, &last));
			result.words[1] = result.words[2] = 0;
			std::thread leaving(deregisterDuring, r.comm, windows, WINDOWS,
					    result.words);
			launch(r, 1, 1,
			       PutFromAnywhere{dc, target.window, static_cast<char *>(source) + 8,
					       result.words});
			leaving.join();
			EXPECT(result.words[0] == ginSuccess);
			CHECK(ginWindowDeregister(r.comm, last));
		}
		meet(r);
	}
	CHECK(ginDevCommDestroy(r.comm, &dc));
	CHECK(ginMemFree(r.comm, memory));
	CHECK(ginMemFree(r.comm, source));
}

static const Test always[] = {
	{"every byte of every descriptor", everyByte},
	{"wrong ones fail their context alone", wrongOnesFailTheirContextAlone},
	{"places of results", placesOfResults},
	{"windows go during searches", windowsGoDuringSearches},
};

static const Test callerDriven[] = {
	{"every byte of every descriptor", everyByte},
	{"wrong ones fail their context alone", wrongOnesFailTheirContextAlone},
	{"places of results", placesOfResults},
	{"timeouts reserve nothing", timeoutsReserveNothing},
	{"all places of results are left", allPlacesAreLeft},
	{"windows go during searches", windowsGoDuringSearches},
	{"a destruction does what is posted", destructionDoesWhatIsPosted},
	{"calls without room keep no result slot", callsWithoutRoomKeepNoSlot},
};

static int run(const ginConfig_t *config)
{
	Rank r;
	rankOpen(r, config);
	if (isCallerDriven())
		runTests(r, "proxy_ring, emptied at random times", callerDriven);
	else
		runTests(r, "proxy_ring", always);
	rankClose(r);
	return 0;
}

int main(int argc, char **argv)
{
	setenv("GIN_ROUTE", "network", 1);
	setenv("GIN_LOG", "none", 0); /* of descriptors that are wrong on purpose */
	return suiteMain(argc, argv, run);
}
