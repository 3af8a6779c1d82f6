// SPDX-License-Identifier: BSD-3-Clause
// selftest.cu - a put and a signal between every pair of ranks, with verified data
//
// In round k rank i meets rank (k - i) modulo nRanks: every pair meets once, and each rank with
// itself. A pair whose peer does not answer ends by the timeout of its device calls. The ranks meet
// in an allgather after each round.
#include "selftest.h"

#define GIN_CALLS 1 // compiles in a third of the time
#include <gin_device.cuh>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	MOST_THREADS = 256,
	SMALL = 16,	 // words of a ping
	WORDS = 1 << 18, // words of a large put: 1 MiB
	PINGS = 20,
	PUTS = 4, // large puts in each direction
};
#define POISON 0xa5a5a5a5u

// The steps of a pair, in order.
enum Step { stepReady, stepPing, stepLarge, stepLargeBack, STEPS };

static const char *const stepText[STEPS] = {"a signal", "a put of 64 bytes with a signal",
					    "puts of 1 MiB with a signal",
					    "puts of 1 MiB with a signal, from the higher rank"};

// Written by the threads of the pair, read by the host after they end. In pinned memory.
struct Seen {
	ginResult_t result;
	uint32_t step;
	uint64_t pingNs, largeNs;
	uint32_t wrong[MOST_THREADS];
};

struct Pair {
	ginDevComm dc;
	ginWindow_t in, out;
	uint32_t *inbox, *outbox; // [WORDS]
	uint32_t peer, round;
	bool byEngine; // puts to direct peers ask for a copy engine
	uint64_t patience;
	Seen *seen;

	GIN_FN static uint32_t word(uint32_t from, uint32_t to, uint32_t turn, uint32_t i)
	{
		return (from * 0x9e3779b1u ^ to * 0x85ebca6bu ^ turn * 0xc2b2ae35u) +
		       i * 0x27d4eb2fu;
	}

	GIN_FN uint32_t turn(uint32_t ping) const { return round * (PINGS + 1) + ping + 1; }

	GIN_FN void fill(uint32_t words, uint32_t ping) const
	{
		for (uint32_t i = ginThreadIndex(); i < words; i += ginBlockSize())
			outbox[i] = word(dc.rank, peer, turn(ping), i);
	}

	GIN_FN void verify(uint32_t words, uint32_t ping) const
	{
		uint32_t wrong = 0;

		for (uint32_t i = ginThreadIndex(); i < words; i += ginBlockSize())
			wrong += inbox[i] != word(peer, dc.rank, turn(ping), i);
		seen->wrong[ginThreadIndex()] += wrong;
	}

	// A coop of more than 32 threads uses copy engines only if it asks for them.
	GIN_FN ginOptions options() const
	{
		ginOptions chosen;
		chosen.copyBy = byEngine ? ginCopyEngine : ginCopyAuto;
		chosen.timeout = patience;
		return chosen;
	}

	GIN_FN ginResult_t put(const Gin &gin, uint32_t words) const
	{
		GinCta{}.sync();
		return gin.put(static_cast<int>(peer), in, 0, out, 0, words * sizeof(uint32_t),
			       GinSignalInc{dc.rank}, GinNone{}, GinCta{}, options());
	}

	GIN_FN ginResult_t signal(const Gin &gin) const
	{
		return gin.signal(static_cast<int>(peer), GinSignalInc{dc.rank}, GinCta{},
				  options());
	}

	GIN_FN ginResult_t wait(const Gin &gin, uint64_t &heard) const
	{
		return gin.waitSignal(peer, ++heard, GinCta{}, options());
	}

	GIN_FN ginResult_t ready(const Gin &gin, uint64_t &heard) const
	{
		for (uint32_t i = ginThreadIndex(); i < WORDS; i += ginBlockSize())
			inbox[i] = POISON;
		GinCta{}.sync();
		ginResult_t result = signal(gin);
		return result == ginSuccess ? wait(gin, heard) : result;
	}

	// The lower rank's turn: the answer shows that the source may be reused.
	GIN_FN ginResult_t ask(const Gin &gin, uint64_t &heard, uint32_t i) const
	{
		fill(SMALL, i);
		ginResult_t result = put(gin, SMALL);
		if (result == ginSuccess)
			result = wait(gin, heard);
		if (result == ginSuccess)
			verify(SMALL, i);
		return result;
	}

	// The higher rank's turn: the next question shows that the source may be reused.
	GIN_FN ginResult_t answer(const Gin &gin, uint64_t &heard, uint32_t i) const
	{
		ginResult_t result = wait(gin, heard);
		if (result != ginSuccess)
			return result;
		verify(SMALL, i);
		fill(SMALL, i);
		return put(gin, SMALL);
	}

	GIN_FN ginResult_t ping(const Gin &gin, uint64_t &heard) const
	{
		ginResult_t result = ginSuccess;
		uint64_t start = ginNow();

		for (uint32_t i = 0; i < PINGS && result == ginSuccess; i++)
			result = dc.rank <= peer ? ask(gin, heard, i) : answer(gin, heard, i);
		if (ginThreadIndex() == 0)
			seen->pingNs = ginNow() - start;
		return result == ginSuccess ? gin.flush(GinCta{}, options()) : result;
	}

	// The rank that sends waits for a signal without data, which says that all data has
	// arrived.
	GIN_FN ginResult_t large(const Gin &gin, uint64_t &heard, bool sends) const
	{
		ginResult_t result = ginSuccess;
		uint64_t start = ginNow();

		for (int i = 0; sends && i < PUTS && result == ginSuccess; i++)
			result = i < PUTS - 1 ? gin.put(static_cast<int>(peer), in, 0, out, 0,
							WORDS * sizeof(uint32_t), GinNone{},
							GinNone{}, GinCta{}, options())
					      : put(gin, WORDS);
		if (result == ginSuccess)
			result = wait(gin, heard);
		if (sends && ginThreadIndex() == 0)
			seen->largeNs = ginNow() - start;
		if (result != ginSuccess || (sends && peer != dc.rank))
			return result;
		if (peer != dc.rank)
			result = signal(gin);
		verify(WORDS, PINGS);
		return result;
	}

	GIN_FN ginResult_t run(uint32_t &step) const
	{
		const Gin gin(dc, 0);
		uint64_t heard = 0;
		ginResult_t result = ready(gin, heard);

		step = stepReady;
		if (result != ginSuccess)
			return result;
		step = stepPing;
		result = ping(gin, heard);
		if (result != ginSuccess)
			return result;
		fill(WORDS, PINGS);
		GinCta{}.sync();
		step = stepLarge;
		result = large(gin, heard, dc.rank <= peer);
		if (result != ginSuccess || peer == dc.rank)
			return result;
		step = stepLargeBack;
		return large(gin, heard, dc.rank > peer);
	}

	GIN_FN void operator()() const
	{
		uint32_t step = 0;
		ginResult_t result = run(step);

		if (ginThreadIndex() == 0) {
			seen->result = result;
			seen->step = step;
		}
	}
};

#ifdef __CUDACC__
static __global__ void pairKernel(const __grid_constant__ Pair pair)
{
	pair();
}
#endif

static void pairOnHost(void *pair)
{
	(*static_cast<const Pair *>(pair))();
}

// The test of one rank.
struct Test {
	ginComm_t comm;
	int rank, nRanks, device;
	struct selftestLimits limits;
	bool byEngine; // GIN_COPY_ENGINE=on
	ginDevComm dc;
	void *in, *out;
	ginWindow_t inWindow, outWindow;
	Seen *seen;
	struct selftestCell *cells;
	char fault[sizeof(selftestCell::fault)]; // of this process, not of a pair
#ifdef __CUDACC__
	int before; // the caller's device
	cudaStream_t stream;
#endif
};

#ifdef __CUDACC__
static bool cudaFails(Test &t, cudaError_t error, const char *call)
{
	if (error == cudaSuccess)
		return false;
	snprintf(t.fault, sizeof(t.fault), "%s: %s", call, cudaGetErrorString(error));
	return true;
}
#endif

// Memory for the results, and a stream. Sets t.fault on failure.
static void openDevice(Test &t)
{
	if (t.device < 0) {
		t.seen = static_cast<Seen *>(calloc(1, sizeof(Seen)));
		if (!t.seen)
			snprintf(t.fault, sizeof(t.fault), "no memory");
		return;
	}
#ifdef __CUDACC__
	void *seen = nullptr;
	if (cudaFails(t, cudaGetDevice(&t.before), "cudaGetDevice") ||
	    cudaFails(t, cudaSetDevice(t.device), "cudaSetDevice") ||
	    cudaFails(t, cudaHostAlloc(&seen, sizeof(Seen), cudaHostAllocPortable),
		      "cudaHostAlloc"))
		return;
	t.seen = static_cast<Seen *>(seen);
	cudaFails(t, cudaStreamCreateWithFlags(&t.stream, cudaStreamNonBlocking),
		  "cudaStreamCreate");
#endif
}

static void closeDevice(Test &t)
{
	if (t.device < 0) {
		free(t.seen);
		return;
	}
#ifdef __CUDACC__
	if (t.stream)
		cudaStreamDestroy(t.stream);
	if (t.seen)
		cudaFreeHost(t.seen);
	cudaSetDevice(t.before);
#endif
}

// Runs the pair as a kernel or on host threads, and waits until it ends.
static void launchPair(Test &t, Pair &pair)
{
	memset(t.seen, 0, sizeof(*t.seen));
	t.seen->result = ginErrorCuda;
	t.fault[0] = 0;
	if (t.device < 0) {
		ginResult_t result = ginHostLaunch(1, GIN_HOST_WARP, pairOnHost, &pair);
		if (result != ginSuccess)
			snprintf(t.fault, sizeof(t.fault), "host threads: %s",
				 ginGetErrorString(result));
		return;
	}
#ifdef __CUDACC__
	pairKernel<<<1, MOST_THREADS, 0, t.stream>>>(pair);
	if (!cudaFails(t, cudaGetLastError(), "a kernel"))
		cudaFails(t, cudaStreamSynchronize(t.stream), "a kernel");
#endif
}

// What a device call that failed has found: the cause that the host knows, or the result.
static void describeFailure(Test &t, uint64_t patience, struct selftestCell &cell)
{
	ginErrorRecord_t record;
	ginResult_t cause = ginSuccess, result = t.seen->result;
	const char *step = stepText[t.seen->step < STEPS ? t.seen->step : 0];

	if (t.fault[0]) {
		snprintf(cell.fault, sizeof(cell.fault), "%s", t.fault);
	} else if (result == ginErrorTimeout) {
		snprintf(cell.fault, sizeof(cell.fault), "%s: no answer in %.1f s", step,
			 static_cast<double>(patience) / 1e9);
	} else {
		if (result == ginErrorPeer || result == ginErrorAborted)
			ginCommGetAsyncError(t.comm, &cause);
		else
			ginDevCommGetError(t.comm, &t.dc, &record);
		snprintf(cell.fault, sizeof(cell.fault), "%.40s: %.110s", step,
			 *ginGetLastError() ? ginGetLastError() : ginGetErrorString(result));
	}
}

static uint32_t clamp(double value)
{
	return value < 4e9 ? static_cast<uint32_t>(value) : 4000000000u;
}

static void judge(Test &t, uint64_t patience, struct selftestCell &cell)
{
	uint64_t wrong = 0;

	for (uint32_t count : t.seen->wrong)
		wrong += count;
	cell.state = selftestBroken;
	if (t.fault[0] || t.seen->result != ginSuccess) {
		describeFailure(t, patience, cell);
	} else if (wrong) {
		snprintf(
			cell.fault, sizeof(cell.fault),
			"%llu words of the peer's data are wrong although its signals have arrived",
			static_cast<unsigned long long>(wrong));
	} else {
		cell.state = selftestGood;
		cell.latencyNs = clamp(static_cast<double>(t.seen->pingNs) / PINGS);
		cell.mbPerS = clamp(1e3 * PUTS * WORDS * sizeof(uint32_t) /
				    static_cast<double>(t.seen->largeNs + 1));
	}
}

// Descriptors that copy engines and network routes have taken: 0 if there is no proxy.
static uint64_t postedToProxy(const Test &t)
{
	ginStats_t stats = GIN_STATS_INIT;

	return ginCommGetStats(t.comm, &t.dc, 0, &stats) == ginSuccess ? stats.posted : 0;
}

// A pair that does not answer leaves time for other pairs, and for the ranks to agree.
static uint64_t patienceOf(const Test &t)
{
	timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	uint64_t ns =
		static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
	uint64_t left = t.limits.until > ns ? (t.limits.until - ns) / 3 * 2 : 1;
	return left < t.limits.pair ? left : t.limits.pair;
}

static void testPair(Test &t, int peer, uint32_t round)
{
	struct selftestCell &cell = t.cells[peer];
	Pair pair = {t.dc,
		     t.inWindow,
		     t.outWindow,
		     static_cast<uint32_t *>(t.in),
		     static_cast<uint32_t *>(t.out),
		     static_cast<uint32_t>(peer),
		     round,
		     t.byEngine && !strcmp(cell.backend, "direct"),
		     patienceOf(t),
		     t.seen};
	uint64_t before = pair.byEngine ? postedToProxy(t) : 0;

	if (cell.state == selftestNoRoute)
		return;
	launchPair(t, pair);
	judge(t, pair.patience, cell);
	if (pair.byEngine && cell.state == selftestGood && postedToProxy(t) == before) {
		cell.state = selftestNoRoute;
		snprintf(cell.why, sizeof(cell.why),
			 "direct peers, but no copy engine takes their puts");
	}
}

// The ranks that fail early leave the others; the allgather ends on all of them.
static void testPairs(Test &t)
{
	for (int round = 0; round < t.nRanks; round++) {
		testPair(t, (round - t.rank + t.nRanks) % t.nRanks, static_cast<uint32_t>(round));
		if (ginCommAllgather(t.comm, nullptr, nullptr, 0) == ginSuccess)
			continue;
		snprintf(t.fault, sizeof(t.fault), "%.150s", ginGetLastError());
		break;
	}
	for (int peer = 0; peer < t.nRanks; peer++)
		if (t.cells[peer].state == selftestUntested)
			snprintf(t.cells[peer].fault, sizeof(t.cells[peer].fault), "%s", t.fault);
}

// Returns whether this rank has a route to every rank.
static bool askRoutes(Test &t)
{
	bool all = true;

	for (int peer = 0; peer < t.nRanks; peer++) {
		ginPeerInfo_t info = GIN_PEER_INFO_INIT;
		struct selftestCell &cell = t.cells[peer];
		cell = {};
		if (ginCommQueryPeer(t.comm, peer, &info) != ginSuccess)
			continue;
		snprintf(cell.backend, sizeof(cell.backend), "%s", info.backend);
		snprintf(cell.why, sizeof(cell.why), "%s", info.why);
		if (!strcmp(info.backend, "none")) {
			cell.state = selftestNoRoute;
			all = false;
		}
	}
	return all;
}

// The value of an environment variable of libgin.
static const char *parameter(const char *name)
{
	ginParamInfo_t info = GIN_PARAM_INFO_INIT;

	for (int i = 0; i == 0 || i < info.count; i++)
		if (ginParamQuery(i, &info) == ginSuccess && !strcmp(info.name, name))
			return info.value;
	return "";
}

static ginResult_t testWithWindows(Test &t)
{
	const size_t bytes = WORDS * sizeof(uint32_t);
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginResult_t result = ginWindowRegister(t.comm, t.in, bytes, 0, &t.inWindow);

	if (result != ginSuccess)
		return result;
	want.signals = static_cast<uint32_t>(t.nRanks);
	result = ginWindowRegister(t.comm, t.out, bytes, 0, &t.outWindow);
	if (result != ginSuccess)
		return result;
	result = ginDevCommCreate(t.comm, &want, &t.dc);
	if (result != ginSuccess)
		return result;
	testPairs(t);
	ginDevCommDestroy(t.comm, &t.dc);
	ginWindowDeregister(t.comm, t.outWindow);
	ginWindowDeregister(t.comm, t.inWindow);
	return ginSuccess;
}

// Whether every rank can go on. A rank that cannot says why in its cells.
static ginResult_t agree(Test &t, bool can)
{
	uint8_t mine = can, *all = static_cast<uint8_t *>(calloc(static_cast<size_t>(t.nRanks), 1));
	ginResult_t result = all ? ginCommAllgather(t.comm, &mine, all, 1) : ginErrorSystem;

	for (int r = 0; result == ginSuccess && r < t.nRanks; r++)
		if (!all[r]) {
			if (r != t.rank)
				snprintf(t.fault, sizeof(t.fault), "rank %d could not begin", r);
			result = ginErrorSystem;
		}
	free(all);
	return result;
}

static ginResult_t testWithMemory(Test &t)
{
	const size_t bytes = WORDS * sizeof(uint32_t);
	bool can = !t.fault[0] && ginMemAlloc(t.comm, bytes, &t.in) == ginSuccess &&
		   ginMemAlloc(t.comm, bytes, &t.out) == ginSuccess;

	if (!can && !t.fault[0])
		snprintf(t.fault, sizeof(t.fault), "%.150s", ginGetLastError());
	ginResult_t result = agree(t, can);
	if (result == ginSuccess)
		result = testWithWindows(t);
	if (t.out)
		ginMemFree(t.comm, t.out);
	if (t.in)
		ginMemFree(t.comm, t.in);
	return result;
}

// Tests a communicator in which every pair has a route.
static ginResult_t testWhole(ginComm_t comm, const struct selftestLimits &limits,
			     struct selftestCell *cells)
{
	Test t = {};

	t.comm = comm;
	t.cells = cells;
	t.limits = limits;
	t.byEngine = !strcmp(parameter("GIN_COPY_ENGINE"), "on");
	if (ginCommRank(comm, &t.rank) != ginSuccess ||
	    ginCommSize(comm, &t.nRanks) != ginSuccess ||
	    ginCommDevice(comm, &t.device) != ginSuccess)
		return ginErrorInvalidArgument;
	askRoutes(t);
#ifndef __CUDACC__
	if (t.device >= 0)
		snprintf(t.fault, sizeof(t.fault), "%s has no kernels: build libgin with nvcc",
			 SELFTEST_PLUGIN);
	else
#endif
		openDevice(t);
	ginResult_t result = testWithMemory(t);
	for (int peer = 0; result != ginSuccess && peer < t.nRanks; peer++)
		snprintf(cells[peer].fault, sizeof(cells[peer].fault), "%.150s",
			 t.fault[0] ? t.fault : ginGetLastError());
	closeDevice(t);
	return result;
}

// The lowest rank that this rank has a route to: one number for all ranks that reach each other.
static int lowestReached(const Test &t)
{
	int peer = 0;

	while (peer < t.nRanks - 1 && t.cells[peer].state == selftestNoRoute)
		peer++;
	return peer;
}

// A device communicator needs a route between each pair: tests the parts in which all pairs have a
// route.
static ginResult_t testParts(Test &t)
{
	ginComm_t part = nullptr;
	int nRanks = 0;
	ginResult_t result = ginCommSplit(t.comm, lowestReached(t), t.rank, &part);

	if (result != ginSuccess)
		return result;
	ginCommSize(part, &nRanks);
	size_t n = static_cast<size_t>(nRanks);
	int *member = static_cast<int *>(calloc(n, sizeof(int)));
	struct selftestCell *cells = static_cast<struct selftestCell *>(calloc(n, sizeof(*cells)));
	result = member && cells ? ginCommAllgather(part, &t.rank, member, sizeof(int))
				 : ginErrorSystem;
	if (result == ginSuccess)
		result = testWhole(part, t.limits, cells);
	for (size_t i = 0; member && cells && i < n; i++)
		t.cells[member[i]] = cells[i];
	free(member);
	free(cells);
	ginCommDestroy(part);
	return result;
}

static ginResult_t run(ginComm_t comm, struct selftestLimits limits, struct selftestCell *cells)
{
	Test t = {};

	t.comm = comm;
	t.limits = limits;
	t.cells = cells;
	if (ginCommRank(comm, &t.rank) != ginSuccess || ginCommSize(comm, &t.nRanks) != ginSuccess)
		return ginErrorInvalidArgument;
	ginResult_t whole = agree(t, askRoutes(t));
	return whole == ginSuccess ? testWhole(comm, limits, cells) : testParts(t);
}

extern "C" __attribute__((visibility("default"))) const struct selftestCalls ginSelftestCalls = {
	sizeof(struct selftestCalls),
#ifdef __CUDACC__
	1,
#else
	0,
#endif
	run,
};
