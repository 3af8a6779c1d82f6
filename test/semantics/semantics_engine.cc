/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * semantics_engine.cc - puts and gets by a copy engine keep the rules of copies by threads
 *
 * The communicator asks for copy engines. On other routes, and between ranks that share a GPU, the
 * puts use no engine, and the rules hold too. With GIN_PROXY_THREADS=0 the only test is a put whose
 * copy no thread makes.
 */
/* COMPILE: -O1 */
#include "suite.h"

#include <functional>
#include <thread>

enum { LEAST = 4096, MOST = 140000, GUARD = 32, SHIFTS = 3 };

/* How the target learns that the put has arrived; `got`: the target gets the bytes instead. */
enum Notice {
	ownSignal,
	ownWeakSignal,
	laterSignal,
	laterValue,
	counterThenSignal,
	barrier,
	got,
	NOTICES
};

static const char *const noticeNames[NOTICES] = {"its signal",
						 "its weak signal",
						 "a later signal",
						 "a later value with a signal",
						 "a signal after its counter",
						 "a barrier",
						 "its own get"};

/*
 * Around the thresholds of a thread (4 KiB) and of a warp (16 KiB on host threads, 64 KiB on a
 * GPU), and short puts, which go to an engine only if the options say so.
 */
struct Sizes {
	uint32_t size[18];
	uint32_t count;
};

static const Sizes sizes = {{0, 1, 7, 8, 63, 64, 65, 4095, 4096, 4097, 9999, 16383, 16384, 16385,
			     65535, 65536, 65537, MOST},
			    18};

template <class Coop> struct Exchange {
	ginDevComm dc;
	ginWindow_t target, source;
	char *targetAt, *sourceAt; /* this rank's parts */
	Sizes sizes;
	Notice notice;
	ginCopyBy copyBy;
	bool byPointer;
	bool toSelf; /* each rank sends to itself, otherwise to its right neighbour */
	uint64_t *results;

	GIN_FN int right() const { return toSelf ? static_cast<int>(dc.rank) : rightOf(dc); }
	GIN_FN int left() const { return toSelf ? static_cast<int>(dc.rank) : leftOf(dc); }

	GIN_FN static void write(Coop coop, char *to, size_t bytes, uint32_t rank, uint32_t round)
	{
		for (size_t i = coop.thread_rank(); i < bytes; i += coop.size())
			to[i] = static_cast<char>(pattern(rank, round, i));
	}

	/* `remote` and `local`: of the put. */
	template <class Remote, class Local>
	GIN_FN ginResult_t put(const Gin &gin, Coop coop, size_t from, size_t to, size_t bytes,
			       Remote remote, Local local) const
	{
		ginOptions options;
		options.copyBy = copyBy;
		if (byPointer)
			return gin.putFrom(right(), target, to, sourceAt + from, bytes, remote,
					   local, coop, options);
		return gin.put(right(), target, to, source, from, bytes, remote, local, coop,
			       options);
	}

	/* The source is overwritten as soon as the counter allows it. */
	GIN_FN ginResult_t putAndReuse(const Gin &gin, Coop coop, size_t from, size_t to,
				       size_t bytes, uint32_t n) const
	{
		ginResult_t result = put(gin, coop, from, to, bytes, GinNone{}, GinCounterInc{0});
		if (result == ginSuccess)
			result = gin.waitCounter(0, n, coop);
		write(coop, sourceAt + from, bytes, dc.rank, 0xdead);
		return result;
	}

	/* Signal 2: the left neighbour has written its source. */
	GIN_FN ginResult_t get(const Gin &gin, Coop coop, size_t from, size_t to, size_t bytes,
			       uint32_t n) const
	{
		ginOptions options;
		options.copyBy = copyBy;
		ginResult_t result = gin.signal(right(), GinSignalInc{2}, coop);
		if (result == ginSuccess)
			result = gin.waitSignal(2, n, coop);
		if (result == ginSuccess)
			result = gin.get(left(), source, from, target, to, bytes, coop, options);
		return result == ginSuccess ? gin.flush(coop) : result;
	}

	GIN_FN ginResult_t send(const Gin &gin, Coop coop, size_t from, size_t to, size_t bytes,
				uint32_t n) const
	{
		const int peer = right();
		ginResult_t result;
		if (notice == got)
			return get(gin, coop, from, to, bytes, n);
		if (notice == ownSignal)
			return put(gin, coop, from, to, bytes, GinSignalInc{0}, GinNone{});
		if (notice == ownWeakSignal)
			return put(gin, coop, from, to, bytes, GinWeakSignalInc{0}, GinNone{});
		if (notice == counterThenSignal)
			result = putAndReuse(gin, coop, from, to, bytes, n);
		else
			result = put(gin, coop, from, to, bytes, GinNone{}, GinNone{});
		if (result != ginSuccess || notice == barrier)
			return result;
		if (notice == laterValue)
			return gin.putValue(peer, target, MOST + 4 * GUARD, uint64_t{n},
					    GinSignalInc{0}, coop);
		return gin.signal(peer, GinSignalInc{0}, coop);
	}

	GIN_FN ginResult_t arrived(const Gin &gin, Coop coop, uint32_t n) const
	{
		if (notice == barrier)
			return GinBarrier(dc, ginTeamWorld(dc), 0).sync(coop);
		if (notice == got)
			return ginSuccess;
		return gin.waitSignal(0, n, coop);
	}

	/* Counts wrong bytes of the put, and changed bytes around it. */
	GIN_FN uint64_t wrong(Coop coop, size_t to, size_t bytes, uint32_t n) const
	{
		const uint32_t sender = static_cast<uint32_t>(left());
		const char *seen = targetAt + to - GUARD;
		uint64_t count = 0;
		for (size_t i = coop.thread_rank(); i < bytes + 2 * GUARD; i += coop.size())
			count += static_cast<unsigned char>(seen[i]) !=
				 (i >= GUARD && i < GUARD + bytes ? pattern(sender, n, i - GUARD)
								  : 0x5a);
		return count;
	}

	/* Signal 1: the right neighbour has read the bytes. */
	GIN_FN ginResult_t turn(const Gin &gin, Coop coop, uint32_t n, size_t bytes,
				uint64_t *bad) const
	{
		const size_t from = n % SHIFTS * 5, to = GUARD + n / SHIFTS % SHIFTS * 3;
		write(coop, sourceAt + from, bytes, dc.rank, n);
		ginResult_t result = send(gin, coop, from, to, bytes, n);
		if (result == ginSuccess)
			result = arrived(gin, coop, n);
		if (result != ginSuccess)
			return result;
		*bad += wrong(coop, to, bytes, n);
		coop.sync();
		for (size_t i = coop.thread_rank(); i < bytes; i += coop.size())
			targetAt[to + i] = 0x5a;
		result = gin.signal(left(), GinSignalInc{1}, coop);
		return result == ginSuccess ? gin.waitSignal(1, n, coop) : result;
	}

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		Coop coop;
		uint64_t bad = 0;
		ginResult_t result = ginSuccess;
		for (uint32_t n = 1; n <= sizes.count && result == ginSuccess; n++)
			result = turn(gin, coop, n, sizes.size[n - 1], &bad);
		results[ginThreadIndex()] = result == ginSuccess ? bad : 0x8000u + result;
	}
};

template <class Coop> void exchange(Rank &r, Notice notice, ginCopyBy copyBy, bool byPointer,
				    Allocator *from = ginMemAlloc, Allocator *to = ginMemAlloc,
				    bool toSelf = false)
{
	Buffer target(r, MOST + 5 * GUARD, to), source(r, MOST + GUARD, from);
	Results results(r, blockFor<Coop>(r));

	target.poison();
	meet(r);
	Device device(r, 1, 3);
	launch(r, 1, blockFor<Coop>(r),
	       Exchange<Coop>{device.dc, target.window, source.window, target.ptr, source.ptr,
			      sizes, notice, copyBy, byPointer, toSelf, results.words});
	if (!results.all(0))
		fprintf(stderr, "notified by %s, copyBy %d%s\n", noticeNames[notice], copyBy,
			toSelf ? ", to the own rank" : "");
	EXPECT(results.all(0));
	meet(r);
}

static bool onAllRanks(Rank &r, bool mine)
{
	std::vector<int> all(static_cast<size_t>(r.nRanks));
	int one = mine;
	CHECK(ginCommAllgather(r.comm, &one, all.data(), sizeof(one)));
	for (int each : all)
		if (!each)
			return false;
	return true;
}

template <class Coop> void withAllNotices(Rank &r, ginCopyBy copyBy)
{
	for (int notice = 0; notice < NOTICES; notice++)
		exchange<Coop>(r, static_cast<Notice>(notice), copyBy, false);
}

static void rule1_byChoice(Rank &r)
{
	withAllNotices<GinThread>(r, ginCopyEngine);
	withAllNotices<GinWarp>(r, ginCopyEngine);
	withAllNotices<GinCta>(r, ginCopyEngine);
}

static void rule1_byItself(Rank &r)
{
	withAllNotices<GinThread>(r, ginCopyAuto);
	withAllNotices<GinWarp>(r, ginCopyAuto);
}

static void rule1_fromAPointer(Rank &r)
{
	exchange<GinThread>(r, ownSignal, ginCopyEngine, true);
	exchange<GinCta>(r, laterSignal, ginCopyEngine, true);
	exchange<GinThread>(r, ownSignal, ginCopyAuto, true);
}

static void rule1_hostMemory(Rank &r)
{
	exchange<GinThread>(r, ownSignal, ginCopyEngine, false, ginMemAllocHost, ginMemAllocHost);
	exchange<GinThread>(r, laterSignal, ginCopyEngine, false, ginMemAlloc, ginMemAllocHost);
	exchange<GinThread>(r, ownSignal, ginCopyEngine, false, ginMemAllocHost, ginMemAlloc);
}

static void rule9_ownRank(Rank &r)
{
	for (int notice = 0; notice < NOTICES; notice++)
		exchange<GinThread>(r, static_cast<Notice>(notice), ginCopyAuto, false, ginMemAlloc,
				    ginMemAlloc, true);
	exchange<GinCta>(r, laterSignal, ginCopyEngine, false, ginMemAlloc, ginMemAlloc, true);
	exchange<GinThread>(r, ownSignal, ginCopyAuto, false, ginMemAllocHost, ginMemAlloc, true);
}

/* Every thread puts its share by an engine; after a barrier, one thread signals for all. */
struct PutTogether {
	ginDevComm dc;
	ginWindow_t target, source;
	char *targetAt, *sourceAt; /* this rank's parts */
	size_t share;
	uint32_t rounds;
	uint64_t *results;

	GIN_FN ginResult_t round(const Gin &gin, uint32_t n, uint64_t *bad) const
	{
		GinCta block;
		const size_t all = share * block.size(), mine = share * block.thread_rank();
		ginOptions options;
		options.copyBy = ginCopyEngine;
		for (size_t i = 0; i < share; i++)
			sourceAt[mine + i] = static_cast<char>(pattern(dc.rank, n, mine + i));
		ginResult_t result = gin.put(rightOf(dc), target, mine, source, mine, share,
					     GinNone{}, GinNone{}, GinThread{}, options);
		if (result == ginSuccess)
			result = gin.signal(rightOf(dc), GinSignalInc{0}, block);
		if (result == ginSuccess)
			result = gin.waitSignal(0, n, block);
		for (size_t i = block.thread_rank(); i < all; i += block.size())
			*bad += static_cast<unsigned char>(targetAt[i]) !=
				pattern(static_cast<uint32_t>(leftOf(dc)), n, i);
		block.sync();
		if (result == ginSuccess)
			result = gin.signal(leftOf(dc), GinSignalInc{1}, block);
		return result == ginSuccess ? gin.waitSignal(1, n, block) : result;
	}

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		uint64_t bad = 0;
		ginResult_t result = ginSuccess;
		for (uint32_t n = 1; n <= rounds && result == ginSuccess; n++)
			result = round(gin, n, &bad);
		results[ginThreadIndex()] = result == ginSuccess ? bad : 0x8000u + result;
	}
};

static void rule2_putsOfOtherThreads(Rank &r)
{
	const uint32_t block = r.device < 0 ? 5 : 96;
	const size_t share = 5003;
	Buffer target(r, share * block), source(r, share * block);
	Results results(r, block);
	Device device(r, 1, 2);
	launch(r, 1, block,
	       PutTogether{device.dc, target.window, source.window, target.ptr, source.ptr, share,
			   roundsFor(r, 20, 200), results.words});
	EXPECT(results.all(0));
	meet(r);
}

/* One call per launch, so that the host can see how many descriptors it posted. */
struct OneCall {
	ginDevComm dc;
	ginWindow_t target, source;
	int peer;
	size_t bytes;
	ginCopyBy copyBy;
	int kind; /* 0: put by a thread, 1: warp, 2: block, 3: putFrom, 4: atomic, 5: get */
	ginResult_t *result;

	template <class Coop> GIN_FN ginResult_t put(Coop coop) const
	{
		ginOptions options;
		options.copyBy = copyBy;
		return Gin(dc, 0).put(peer, target, 0, source, 0, bytes, GinSignalInc{0},
				      GinCounterInc{0}, coop, options);
	}

	GIN_FN ginResult_t call() const
	{
		ginOptions options;
		options.copyBy = copyBy;
		uint64_t old;
		const char *from = static_cast<const char *>(
			ginPeerPointer(source, 0, static_cast<int>(dc.rank)));
		if (kind == 1)
			return put(GinWarp{});
		if (kind == 2)
			return put(GinCta{});
		if (kind == 3)
			return Gin(dc, 0).putFrom(peer, target, 0, from, bytes, GinNone{},
						  GinNone{}, GinThread{}, options);
		if (kind == 4)
			return Gin(dc, 0).atomicFetchAdd(peer, target, 0, uint64_t{1}, &old);
		if (kind == 5)
			return Gin(dc, 0).get(peer, source, 0, target, 0, bytes, GinThread{},
					      options);
		return put(GinThread{});
	}

	GIN_FN void operator()() const
	{
		ginResult_t mine = call();
		if (ginThreadIndex() == 0)
			*result = mine;
	}
};

static uint64_t posted(Rank &r, const ginDevComm &dc)
{
	ginStats_t stats = GIN_STATS_INIT;
	CHECK(ginCommGetStats(r.comm, &dc, 0, &stats));
	return stats.posted;
}

/* Makes the call; it posts `expected` descriptors. */
static void expectPosts(Rank &r, uint32_t block, OneCall call, uint64_t expected)
{
	Results result(r, 1);
	uint64_t before = posted(r, call.dc);
	result.words[0] = 0;
	call.result = reinterpret_cast<ginResult_t *>(result.words);
	launch(r, 1, block, call);
	EXPECT(*call.result == ginSuccess);
	uint64_t posts = posted(r, call.dc) - before;
	if (posts != expected)
		fprintf(stderr, "kind %d, %zu bytes, copyBy %d to rank %d: %llu posts\n", call.kind,
			call.bytes, call.copyBy, call.peer, static_cast<unsigned long long>(posts));
	EXPECT(posts == expected);
}

/* Which puts go to an engine. */
static void choice_thresholds(Rank &r)
{
	Device device(r, 1, 1);
	const ginDevComm &dc = device.dc;
	if (!onAllRanks(r, isDirect(r) && dc.engineBytes == LEAST))
		return;

	const uint32_t warp = blockFor<GinWarp>(r), big = 64;
	const size_t forWarp = LEAST * static_cast<size_t>(warp < 16 ? warp : 16);
	const int own = r.rank, peer = rightOf(dc);
	/* The left neighbour writes `target`, this rank `here`. No rank writes `source`. */
	Buffer target(r, MOST), here(r, MOST), source(r, MOST);
	auto call = [&](int to, size_t bytes, ginCopyBy by, int kind) {
		return OneCall{dc,
			       to == own ? here.window : target.window,
			       source.window,
			       to,
			       bytes,
			       by,
			       kind,
			       nullptr};
	};
	expectPosts(r, 1, call(peer, LEAST - 1, ginCopyAuto, 0), 0);
	expectPosts(r, 1, call(peer, LEAST, ginCopyAuto, 0), 1);
	expectPosts(r, 1, call(peer, MOST, ginCopyThreads, 0), 0);
	expectPosts(r, 1, call(peer, 1, ginCopyEngine, 0), 1);
	expectPosts(r, 1, call(peer, 0, ginCopyEngine, 0), 0);
	expectPosts(r, 1, call(own, 1, ginCopyEngine, 0), 1);
	expectPosts(r, 1, call(own, LEAST - 1, ginCopyAuto, 0), 0);
	expectPosts(r, 1, call(own, LEAST, ginCopyAuto, 0), 1);
	expectPosts(r, warp, call(peer, forWarp - 1, ginCopyAuto, 1), 0);
	expectPosts(r, warp, call(peer, forWarp, ginCopyAuto, 1), 1);
	expectPosts(r, big, call(peer, MOST, ginCopyAuto, 2), 0);
	expectPosts(r, big, call(peer, 8, ginCopyEngine, 2), 1);
	expectPosts(r, 1, call(peer, MOST, ginCopyAuto, 3), 0);
	expectPosts(r, 1, call(peer, MOST, ginCopyEngine, 3), 1);
	OneCall get = call(peer, LEAST - 1, ginCopyAuto, 5);
	get.target = here.window;
	expectPosts(r, 1, get, 0);
	get.bytes = LEAST;
	expectPosts(r, 1, get, 1);
	get.peer = own;
	expectPosts(r, 1, get, 1);
	/* Words in windows stay with the GPUs. */
	expectPosts(r, 1, call(peer, 0, ginCopyAuto, 4), 0);
	ginCommInfo_t info = GIN_COMM_INFO_INIT;
	CHECK(ginCommQuery(r.comm, &info));
	EXPECT(info.deviceAtomics);
	meet(r);
}

/*
 * A put beyond the window is undefined by the contract. The proxy reports an error, and every later
 * put fails too.
 */
static void failure_endsThePut(Rank &r)
{
	Device device(r, 2, 1);
	if (!onAllRanks(r, isDirect(r) && device.dc.engineBytes))
		return;
	Buffer target(r, LEAST), source(r, LEAST);
	Results result(r, 1);
	OneCall call = {device.dc,
			target.window,
			source.window,
			rightOf(device.dc),
			MOST,
			ginCopyEngine,
			0,
			reinterpret_cast<ginResult_t *>(result.words)};
	for (int i = 0; i < 2; i++) {
		launch(r, 1, 1, call);
		EXPECT(*call.result == ginErrorInvalidArgument);
		call.bytes = 8;
	}
	ginErrorRecord_t record;
	CHECK(ginDevCommGetError(r.comm, &device.dc, &record));
	EXPECT(record.valid && record.call == ginCallPut && record.result == *call.result);
	meet(r);
}

/* A put with a timeout, then a flush with one. */
struct PutLate {
	ginDevComm dc;
	ginWindow_t target, source;
	size_t bytes;
	uint64_t timeout, flushTimeout;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		ginOptions options = ginTimeout(timeout);
		options.copyBy = ginCopyEngine;
		results[0] = gin.put(rightOf(dc), target, 0, source, 0, bytes, GinSignalInc{0},
				     GinCounterInc{0}, GinThread{}, options);
		results[1] = gin.flush(GinThread{}, ginTimeout(flushTimeout));
		struct ginRequest request = gin.flushAsync(rightOf(dc));
		results[2] = gin.wait(request, GinThread{}, ginTimeout(flushTimeout));
		results[3] = gin.readSignal(0) + gin.readCounter(0);
	}
};

/* Runs the body in a thread of its own; calls `meanwhile` until it has ended. */
template <class Body> void launchWhile(Rank &r, Body body, const std::function<void()> &meanwhile)
{
	int ended = 0;
	std::thread kernel([&] {
#ifdef __CUDACC__
		if (r.device >= 0)
			CUDA(cudaSetDevice(r.device));
#endif
		launch(r, 1, 1, body);
		__atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
	});
	while (!__atomic_load_n(&ended, __ATOMIC_ACQUIRE))
		meanwhile();
	kernel.join();
}

/*
 * No thread makes copies: the put times out, raises no signal, and a flush waits for the copy. Then
 * the program drives the proxy, and puts succeed.
 */
static void timeout_thenFlush(Rank &r)
{
	const uint64_t brief = 20000000, lasting = 30000000000ull;
	Device device(r, 1, 1);
	EXPECT(device.dc.engineBytes);
	Buffer target(r, LEAST), source(r, LEAST);
	Results results(r, 4);
	fillPattern(r, source);
	target.poison();
	meet(r);
	PutLate late = {device.dc, target.window, source.window, LEAST,
			brief,	   brief,	  results.words};
	launch(r, 1, 1, late);
	EXPECT(results.words[0] == ginErrorTimeout && results.words[1] == ginErrorTimeout);
	EXPECT(results.words[2] == ginErrorTimeout && results.words[3] == 0);
	EXPECT(target.read() == std::vector<unsigned char>(LEAST, 0x5a));
	meet(r);
	auto drive = [&] { CHECK(ginCommProgress(r.comm, nullptr)); };
	late.timeout = late.flushTimeout = lasting;
	launchWhile(r, late, drive);
	EXPECT(!results.words[0] && !results.words[1] && !results.words[2]);
	EXPECT(results.words[3] >= 1 && results.words[3] <= 2);
	int did = 1;
	while (did)
		CHECK(ginCommProgress(r.comm, &did));
	meet(r);
	std::vector<unsigned char> expected(LEAST);
	for (size_t i = 0; i < LEAST; i++)
		expected[i] = pattern(static_cast<uint32_t>(leftOf(device.dc)), 0, i);
	EXPECT(target.read() == expected);
	meet(r);
}

/* The abort ends a put that waits for its copy. */
static void abort_endsThePut(Rank &r)
{
	Device device(r, 1, 1);
	/*
	 * Deregister first: the descriptor that is left when the rings close must find no window.
	 */
	Buffer target(r, LEAST), source(r, LEAST);
	Results results(r, 4);
	meet(r);
	int rounds = 0;
	launchWhile(r,
		    PutLate{device.dc, target.window, source.window, LEAST, GIN_FOREVER,
			    GIN_FOREVER, results.words},
		    [&] {
			    usleep(1000);
			    if (++rounds == 50)
				    ginCommAbort(r.comm);
		    });
	EXPECT(results.words[0] == ginErrorAborted || results.words[0] == ginErrorPeer);
}

static const Test tests[] = {
	{"rule 1: what a put by a copy engine covers", rule1_byChoice},
	{"rule 1: puts that go to an engine by themselves", rule1_byItself},
	{"rule 1: from a pointer", rule1_fromAPointer},
	{"rule 1: from and to host memory", rule1_hostMemory},
	{"rule 2: puts of other threads", rule2_putsOfOtherThreads},
	{"rule 9: puts to the own rank", rule9_ownRank},
	{"which puts go to an engine", choice_thresholds},
	{"a failure ends the put", failure_endsThePut},
};

static const Test undriven[] = {
	{"rule 7: a put times out; a flush waits for its copy", timeout_thenFlush},
	{"rule 7: an abort ends the put", abort_endsThePut},
};

static int run(const ginConfig_t *given)
{
	ginConfig_t config = GIN_CONFIG_INIT;
	const char *threads = getenv("GIN_PROXY_THREADS");
	Rank r;
	if (given)
		config = *given;
	config.copyEngines = 1;
	rankOpen(r, &config);
	if (!threads || strcmp(threads, "0"))
		runTests(r, "semantics_engine", tests);
	else
		runTests(r, "semantics_engine, driven by the program", undriven);
	if (!threads || strcmp(threads, "0"))
		rankClose(r);
	else
		ginCommDestroy(r.comm);
	return 0;
}

int main(int argc, char **argv)
{
	setenv("GIN_COPY_ENGINE_BYTES", "4096", 0);
	return suiteMain(argc, argv, run);
}
