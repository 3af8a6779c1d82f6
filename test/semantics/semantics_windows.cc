/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * semantics_windows.cc - windows in any memory, many of them, and while kernels run
 */
#include <thread>

#include "suite.h"

/* Puts to the right neighbour; the left neighbour's signal shows its put. */
struct PutRight {
	ginDevComm dc;
	ginWindow_t target, source;
	size_t to, from, bytes;
	uint64_t round;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		ginResult_t result = gin.put(rightOf(dc), target, to, source, from, bytes,
					     GinSignalInc{0}, GinNone{}, GinCta{});
		if (result == ginSuccess)
			result = gin.waitSignal(0, round, GinCta{});
		results[ginThreadIndex()] = result;
	}
};

static uint32_t leftRank(const Rank &r)
{
	return static_cast<uint32_t>((r.rank + r.nRanks - 1) % r.nRanks);
}

/* Puts exactly `bytes` bytes at `at` into the right neighbour's `memory` of `span` bytes. */
struct Ring {
	Rank &r;
	Device device;
	Results results;
	uint64_t round;

	explicit Ring(Rank &rank)
	    : r(rank), device(rank, 1, 1), results(rank, blockFor<GinCta>(rank)), round(0)
	{
	}

	void put(ginWindow_t target, size_t to, ginWindow_t source, size_t from, size_t bytes)
	{
		results.clear();
		launch(r, 1, blockFor<GinCta>(r),
		       PutRight{device.dc, target, source, to, from, bytes, ++round,
				results.words});
		EXPECT(results.all(ginSuccess));
	}
};

/* Memory that is in no window yet, filled with poison. */
struct Memory {
	Rank &r;
	size_t bytes;
	char *at;

	Memory(Rank &rank, size_t n, Allocator *alloc = ginMemAlloc)
	    : r(rank), bytes(n), at(nullptr)
	{
		void *ptr = nullptr;
		CHECK(alloc(r.comm, n, &ptr));
		at = static_cast<char *>(ptr);
		write(std::vector<unsigned char>(n, 0x5a));
	}

	~Memory() { CHECK(ginMemFree(r.comm, at)); }

	Memory(const Memory &) = delete;
	Memory &operator=(const Memory &) = delete;

	void write(const std::vector<unsigned char> &from) { copyBytes(r, at, from.data(), bytes); }

	std::vector<unsigned char> read() const
	{
		std::vector<unsigned char> out(bytes);
		copyBytes(r, out.data(), at, bytes);
		return out;
	}
};

static ginWindow_t registerPart(Rank &r, char *at, size_t bytes, int flags = 0)
{
	ginWindow_t window;
	CHECK(ginWindowRegister(r.comm, at, bytes, flags, &window));
	return window;
}

/* Host memory of this process alone, pinned when a GPU reads it. */
struct HostMemory {
	Results words;
	unsigned char *at;

	HostMemory(Rank &r, size_t bytes)
	    : words(r, (bytes + 7) / 8), at(reinterpret_cast<unsigned char *>(words.words))
	{
	}
};

/* Local windows send from host memory; ranks make different numbers of them. */
static void localSources(Rank &r)
{
	const size_t bytes = 10007;
	Buffer target(r, bytes + 64);
	HostMemory host(r, bytes + 64);
	std::vector<ginWindow_t> local;
	void *ptr = nullptr;

	for (size_t i = 0; i < bytes + 64; i++)
		host.at[i] = pattern(static_cast<uint32_t>(r.rank), 7, i);
	for (int i = 0; i < 3 * r.rank + 2; i++)
		local.push_back(registerPart(r, reinterpret_cast<char *>(host.at) + i, bytes,
					     GIN_WINDOW_LOCAL));
	target.poison();
	Ring ring(r);
	ring.put(target.window, 5, local[1], 3, bytes - 3);
	std::vector<unsigned char> expected(target.bytes, 0x5a);
	for (size_t i = 0; i < bytes - 3; i++)
		expected[5 + i] = pattern(leftRank(r), 7, 4 + i);
	EXPECT(target.read() == expected);
	CHECK(ginWindowPointer(r.comm, local[1], &ptr));
	EXPECT(ptr == host.at + 1);
	CHECK(ginPeerPointer(r.comm, local[0], r.rank, &ptr));
	EXPECT(ptr != nullptr);
	CHECK(ginPeerPointer(r.comm, local[0], (r.rank + 1) % r.nRanks, &ptr));
	EXPECT((ptr != nullptr) == (r.nRanks == 1));
	for (size_t i = 0; i < local.size(); i += 2)
		CHECK(ginWindowDeregister(r.comm, local[i]));
	meet(r);
	for (size_t i = 1; i < local.size(); i += 2)
		CHECK(ginWindowDeregister(r.comm, local[i]));
}

/* While one rank makes and ends local windows, the others wait in a collective call. */
static void localWindowsTalkToNobody(Rank &r)
{
	HostMemory host(r, 100);
	for (int i = 0; i < (r.rank == 0 ? 50 : 0); i++) {
		ginWindow_t window =
			registerPart(r, reinterpret_cast<char *>(host.at), 100, GIN_WINDOW_LOCAL);
		CHECK(ginWindowDeregister(r.comm, window));
	}
	meet(r);
	ginWindow_t empty = registerPart(r, nullptr, 0, GIN_WINDOW_LOCAL);
	meet(r);
	CHECK(ginWindowDeregister(r.comm, empty));
}

/* Windows that overlap, at odd places of one allocation: each is its own. */
static void windowsOverlap(Rank &r)
{
	const size_t parts = 40, bytes = 1001, step = 333;
	Memory source(r, parts * step + bytes + 1), target(r, source.bytes);
	std::vector<ginWindow_t> from, to;
	std::vector<unsigned char> data(source.bytes), expected(source.bytes, 0x5a);

	for (size_t i = 0; i < data.size(); i++)
		data[i] = pattern(static_cast<uint32_t>(r.rank), 1, i);
	source.write(data);
	for (size_t p = 0; p < parts; p++) {
		from.push_back(registerPart(r, source.at + p * step + 1, bytes));
		to.push_back(registerPart(r, target.at + p * step + 1, bytes));
	}
	Ring ring(r);
	for (size_t p = 0; p < parts; p += 3) {
		ring.put(to[p], p, from[p], 2 * p, bytes - 2 * p);
		for (size_t i = 0; i < bytes - 2 * p; i++)
			expected[p * step + 1 + p + i] =
				pattern(leftRank(r), 1, p * step + 1 + 2 * p + i);
	}
	EXPECT(target.read() == expected);
	meet(r);
	for (size_t p = 0; p < parts; p++) {
		CHECK(ginWindowDeregister(r.comm, to[p]));
		CHECK(ginWindowDeregister(r.comm, from[parts - 1 - p]));
	}
}

/* Registered before and after the device communicator, deregistered and registered again. */
static void beforeAndAfter(Rank &r)
{
	const size_t bytes = 5000;
	Memory memory(r, 4 * bytes);
	std::vector<unsigned char> data(memory.bytes, 0x5a);

	for (size_t i = 0; i < bytes; i++)
		data[i] = pattern(static_cast<uint32_t>(r.rank), 2, i);
	memory.write(data);
	ginWindow_t source = registerPart(r, memory.at, bytes);
	ginWindow_t before = registerPart(r, memory.at + bytes, bytes);
	Ring ring(r);
	ginWindow_t after = registerPart(r, memory.at + 2 * bytes, bytes);
	ring.put(before, 0, source, 0, bytes);
	ring.put(after, 0, source, 0, bytes);
	CHECK(ginWindowDeregister(r.comm, before));
	ginWindow_t again = registerPart(r, memory.at + 3 * bytes, bytes);
	ring.put(again, 0, source, 0, bytes);
	for (size_t i = 0; i < 3 * bytes; i++)
		data[bytes + i] = pattern(leftRank(r), 2, i % bytes);
	EXPECT(memory.read() == data);
	meet(r);
	CHECK(ginWindowDeregister(r.comm, again));
	CHECK(ginWindowDeregister(r.comm, after));
	CHECK(ginWindowDeregister(r.comm, source));
}

/* Every second rank's part is empty: zero bytes may be put there, and nothing changes. */
static void someHaveNothing(Rank &r)
{
	const size_t bytes = 777;
	Memory memory(r, bytes);
	Buffer source(r, bytes);
	bool has = r.rank % 2 == 0, rightHas = (r.rank + 1) % r.nRanks % 2 == 0;
	std::vector<unsigned char> expected(bytes, 0x5a);

	fillPattern(r, source);
	ginWindow_t window = registerPart(r, has ? memory.at : nullptr, has ? bytes : 0);
	Ring ring(r);
	ring.put(window, 0, source.window, 0, rightHas ? bytes : 0);
	for (size_t i = 0; has && i < bytes; i++)
		expected[i] = pattern(leftRank(r), 0, i);
	EXPECT(memory.read() == expected);
	meet(r);
	CHECK(ginWindowDeregister(r.comm, window));
}

/* Every second rank's part of the window is host memory, the others' is not. */
static Allocator *allocatorOf(uint32_t rank, bool evenOnHost)
{
	return (rank % 2 == 0) == evenOnHost ? ginMemAllocHost : ginMemAlloc;
}

/* CPUs of this rank see the bytes that have arrived in a peer's host memory. */
static void seeOnHost(Rank &r, ginWindow_t window, const std::vector<unsigned char> &expected)
{
	void *ptr = nullptr;
	CHECK(ginPeerPointer(r.comm, window, (r.rank + 1) % r.nRanks, &ptr));
	if (!isDirect(r, (r.rank + 1) % r.nRanks)) {
		EXPECT(ptr == nullptr || r.nRanks == 1);
		return;
	}
	EXPECT(ptr != nullptr);
	EXPECT(!memcmp(ptr, expected.data(), expected.size()));
}

static void throughHostMemory(Rank &r, size_t bytes, bool evenOnHost)
{
	const size_t to = 5, from = 3;
	uint32_t me = static_cast<uint32_t>(r.rank);
	Allocator *mine = allocatorOf(me, evenOnHost);
	Allocator *rights = allocatorOf((me + 1) % static_cast<uint32_t>(r.nRanks), evenOnHost);
	Memory source(r, bytes + from, rights), target(r, bytes + to + 1, mine);
	std::vector<unsigned char> data(source.bytes), left(target.bytes, 0x5a), own(left);

	for (size_t i = 0; i < data.size(); i++)
		data[i] = pattern(me, 5, i);
	for (size_t i = 0; i < bytes; i++) {
		left[to + i] = pattern(leftRank(r), 5, from + i);
		own[to + i] = data[from + i];
	}
	source.write(data);
	ginWindow_t sources = registerPart(r, source.at, source.bytes);
	ginWindow_t targets = registerPart(r, target.at, target.bytes);
	{
		Ring ring(r);
		ring.put(targets, to, sources, from, bytes);
	}
	EXPECT(target.read() == left);
	if (mine == ginMemAllocHost)
		EXPECT(!memcmp(target.at, left.data(), left.size()));
	meet(r);
	if (rights == ginMemAllocHost)
		seeOnHost(r, targets, own);
	CHECK(ginWindowDeregister(r.comm, targets));
	CHECK(ginWindowDeregister(r.comm, sources));
}

/* Of every size, at odd offsets; a peer's part is other memory than this rank's. */
static void windowsInHostMemory(Rank &r)
{
	for (size_t bytes : {1, 8, 4091, 4097, 65535, 300001}) {
		throughHostMemory(r, bytes, true);
		throughHostMemory(r, bytes, false);
	}
}

/* Puts round after round while the host changes other windows. */
struct PutRounds {
	ginDevComm dc;
	ginWindow_t target, source;
	size_t bytes;
	uint32_t rounds;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		ginResult_t result = ginSuccess;
		for (uint32_t i = 1; i <= rounds && result == ginSuccess; i++) {
			result = gin.put(rightOf(dc), target, 0, source, 0, bytes, GinSignalInc{0},
					 GinNone{}, GinCta{});
			if (result == ginSuccess)
				result = gin.waitSignal(0, i, GinCta{});
		}
		results[ginThreadIndex()] = result;
	}
};

static void runRounds(Rank *r, PutRounds body)
{
#ifdef __CUDACC__
	if (r->device >= 0)
		CUDA(cudaSetDevice(r->device));
#endif
	launch(*r, 1, blockFor<GinCta>(*r), body);
}

/* Tables and mappings come and go while a kernel uses others. */
static void whileKernelsRun(Rank &r)
{
	const size_t bytes = 400;
	Buffer source(r, bytes), target(r, bytes);
	Memory other(r, 4096);
	Device device(r, 1, 1);
	Results results(r, blockFor<GinCta>(r));

	fillPattern(r, source);
	target.poison();
	meet(r);
	std::thread kernel(
		runRounds, &r,
		PutRounds{device.dc, target.window, source.window, bytes, 300, results.words});
	for (int i = 0; i < 60; i++) {
		ginWindow_t whole = registerPart(r, other.at, other.bytes);
		ginWindow_t part = registerPart(r, other.at + i, 100, i % 2 * GIN_WINDOW_LOCAL);
		CHECK(ginWindowDeregister(r.comm, whole));
		CHECK(ginWindowDeregister(r.comm, part));
	}
	kernel.join();
	EXPECT(results.all(ginSuccess));
	std::vector<unsigned char> expected(bytes);
	for (size_t i = 0; i < bytes; i++)
		expected[i] = pattern(leftRank(r), 0, i);
	EXPECT(target.read() == expected);
	meet(r);
}

/* The same memory in the windows of two communicators: the end of one does not affect the other. */
static void twoCommunicators(Rank &r, const ginConfig_t *config)
{
	const size_t bytes = 2049;
	Rank second;
	rankOpen(second, config);
	{
		Memory memory(r, 2 * bytes);
		std::vector<unsigned char> data(memory.bytes, 0x5a);
		for (size_t i = 0; i < bytes; i++)
			data[i] = pattern(static_cast<uint32_t>(r.rank), 3, i);
		memory.write(data);
		ginWindow_t first = registerPart(r, memory.at, 2 * bytes);
		ginWindow_t other = registerPart(second, memory.at, 2 * bytes);
		CHECK(ginWindowDeregister(r.comm, first));
		{
			Ring ring(second);
			ring.put(other, bytes, other, 0, bytes);
		}
		for (size_t i = 0; i < bytes; i++)
			data[bytes + i] = pattern(leftRank(r), 3, i);
		EXPECT(memory.read() == data);
		CHECK(ginWindowDeregister(second.comm, other));
	}
	rankClose(second);
}

static int run(const ginConfig_t *config)
{
	static const Test tests[] = {
		{"local windows are sources", localSources},
		{"local windows talk to nobody", localWindowsTalkToNobody},
		{"windows overlap", windowsOverlap},
		{"windows before and after", beforeAndAfter},
		{"some ranks have nothing", someHaveNothing},
		{"windows in host memory", windowsInHostMemory},
		{"windows come and go while kernels run", whileKernelsRun},
	};
	Rank r;
	rankOpen(r, config);
	runTests(r, "semantics_windows", tests);
	twoCommunicators(r, config);
	rankClose(r);
	return 0;
}

int main(int argc, char **argv)
{
	return suiteMain(argc, argv, run);
}
