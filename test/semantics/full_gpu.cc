/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * full_gpu.cc - a kernel with more blocks than fit on the GPU ends, by every route
 *
 * Blocks that wait hold all SMs, and further blocks are not started before these have ended. So no
 * route may need an SM for its work: copies, small values and words written by the driver, tables
 * of host calls. Each block communicates with the block of its own number at every rank, itself
 * included.
 */
/* COMPILE: -O0 */
#include "suite.h"

#include <chrono>
#include <thread>

enum { BYTES = 4096, VALUES = 5, CONTEXTS = 8 };

static const uint32_t valueBytes[VALUES] = {1, 4, 8, 12, 32};

/*
 * The offset of the bytes of block `block` of rank `from` at a target; one value of each size
 * follows.
 */
struct Layout {
	uint32_t blocks;

	GIN_FN size_t data(uint32_t from, uint32_t block) const
	{
		return (static_cast<size_t>(from) * blocks + block) * (BYTES + VALUES * 32);
	}
	GIN_FN size_t value(uint32_t from, uint32_t block, uint32_t which) const
	{
		return data(from, block) + BYTES + which * 32;
	}
	size_t total(uint32_t ranks) const { return data(ranks, 0); }
};

template <size_t n> struct Bytes {
	unsigned char at[n];
};

/*
 * A put, values of several sizes and a signal to every rank, a wait, gets and a barrier, by each
 * block.
 */
struct Everything {
	ginDevComm dc;
	Layout layout;
	ginWindow_t target, source, fetched;
	uint64_t *wrong; /* [block] */

	GIN_FN void operator()() const
	{
		const uint32_t block = ginBlockIndex();
		Gin gin(dc, block % CONTEXTS);
		ginOptions options;
		uint64_t bad = 0;

		options.copyBy = ginCopyEngine;
		for (uint32_t peer = 0; peer < dc.nRanks; peer++)
			bad += sendTo(gin, static_cast<int>(peer), block, options);
		bad += gin.waitSignal(block, dc.nRanks, GinCta{}) != ginSuccess;
		for (uint32_t peer = 0; peer < dc.nRanks; peer++)
			bad += gin.get(static_cast<int>(peer), source, own(block), fetched,
				       layout.data(peer, block), BYTES, GinCta{},
				       options) != ginSuccess;
		bad += gin.flush(GinCta{}) != ginSuccess;
		bad += GinBarrier(dc, ginTeamWorld(dc), block).sync(GinCta{}) != ginSuccess;
		if (ginThreadIndex() == 0)
			wrong[block] = bad;
	}

	GIN_FN size_t own(uint32_t block) const { return static_cast<size_t>(block) * BYTES; }

	GIN_FN uint64_t sendTo(const Gin &gin, int peer, uint32_t block,
			       const ginOptions &options) const
	{
		uint64_t bad =
			gin.put(peer, target, layout.data(dc.rank, block), source, own(block),
				BYTES, GinNone{}, GinNone{}, GinCta{}, options) != ginSuccess;
		bad += sendValue<1>(gin, peer, block, 0);
		bad += sendValue<4>(gin, peer, block, 1);
		bad += sendValue<8>(gin, peer, block, 2);
		bad += sendValue<12>(gin, peer, block, 3);
		bad += sendValue<32>(gin, peer, block, 4);
		return bad + (gin.signal(peer, GinSignalInc{block}, GinCta{}) != ginSuccess);
	}

	template <size_t n>
	GIN_FN uint64_t sendValue(const Gin &gin, int peer, uint32_t block, uint32_t which) const
	{
		Bytes<n> value;
		for (size_t i = 0; i < n; i++)
			value.at[i] = pattern(dc.rank, block, i);
		return gin.putValue(peer, target, layout.value(dc.rank, block, which), value,
				    GinNone{}, GinCta{}) != ginSuccess;
	}
};

/* Byte i of block `block` in the source of rank `from`: as fillPattern() writes it. */
static unsigned char sourceByte(uint32_t from, uint32_t block, size_t i)
{
	return pattern(from, 0, static_cast<size_t>(block) * BYTES + i);
}

static void expectReceived(const std::vector<unsigned char> &bytes, const Layout &layout,
			   uint32_t from, uint32_t block, bool withValues)
{
	for (size_t i = 0; i < BYTES; i++)
		EXPECT(bytes[layout.data(from, block) + i] == sourceByte(from, block, i));
	for (uint32_t v = 0; v < VALUES; v++)
		for (size_t i = 0; i < 32; i++)
			EXPECT(bytes[layout.value(from, block, v) + i] ==
			       (withValues && i < valueBytes[v] ? pattern(from, block, i) : 0x5a));
}

static void expectAll(Rank &r, const Buffer &buffer, const Layout &layout, bool withValues)
{
	const std::vector<unsigned char> bytes = buffer.read();

	for (uint32_t from = 0; from < static_cast<uint32_t>(r.nRanks); from++)
		for (uint32_t block = 0; block < layout.blocks; block++)
			expectReceived(bytes, layout, from, block, withValues);
}

/*
 * BLOCKS of the environment; otherwise many times as many as an H200 holds, or a few on host
 * threads.
 */
static uint32_t blocksFor(const Rank &r)
{
	const char *blocks = getenv("BLOCKS");

	return blocks ? static_cast<uint32_t>(atoi(blocks)) : r.device < 0 ? 6 : 2048;
}

static ginDevComm deviceFor(Rank &r, uint32_t blocks)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginDevComm dc;

	want.contexts = CONTEXTS;
	want.signals = want.barriers = blocks;
	want.timeout = 40000000000ull;
	CHECK(ginDevCommCreate(r.comm, &want, &dc));
	return dc;
}

static void moreBlocksThanFit(Rank &r)
{
	const Layout layout = {blocksFor(r)};
	const size_t total = layout.total(static_cast<uint32_t>(r.nRanks));
	Buffer target(r, total), fetched(r, total), source(r, size_t{layout.blocks} * BYTES);
	Results wrong(r, layout.blocks);
	ginDevComm dc = deviceFor(r, layout.blocks);

	fillPattern(r, source);
	target.poison();
	fetched.poison();
	meet(r);
	launch(r, layout.blocks, r.device < 0 ? 2 : 256,
	       Everything{dc, layout, target.window, source.window, fetched.window, wrong.words});
	EXPECT(wrong.all(0));
	expectAll(r, target, layout, true);
	expectAll(r, fetched, layout, false);
	meet(r);
	CHECK(ginDevCommDestroy(r.comm, &dc));
}

/* Holds every SM until the host says so, or for 40 s. */
struct Hold {
	const uint64_t *go;
	uint64_t *ended; /* [block] */

	GIN_FN void operator()() const
	{
		const uint64_t start = ginNow();

		while (!ginHostWordObserve(go) && ginNow() - start < 40000000000ull)
			ginYield();
		if (ginThreadIndex() == 0)
			ended[ginBlockIndex()] = ginHostWordObserve(go);
	}
};

/*
 * Route gdaki unpins doorbell registers with a device communicator, and unpinning waits for
 * kernels.
 */
static bool destroyWaits(Rank &r)
{
	ginPeerInfo_t info = GIN_PEER_INFO_INIT;
	bool waits = false;

	for (int peer = 0; peer < r.nRanks && !waits; peer++) {
		CHECK(ginCommQueryPeer(r.comm, peer, &info));
		waits = info.route == ginRouteGdaki;
	}
	return waits;
}

/* Host calls that write the GPU's memory while no SM is free. */
static void hostCallsWhileFull(Rank &r)
{
	const uint32_t blocks = blocksFor(r);
	Results go(r, 1), ended(r, blocks);
	go.words[0] = 0;
	std::thread kernel([&] {
#ifdef __CUDACC__
		if (r.device >= 0)
			CUDA(cudaSetDevice(r.device));
#endif
		launch(r, blocks, r.device < 0 ? 2 : 256, Hold{go.words, ended.words});
	});
	std::this_thread::sleep_for(std::chrono::milliseconds(100));
	void *memory;
	ginWindow_t window;
	CHECK(ginMemAlloc(r.comm, 1 << 20, &memory));
	CHECK(ginWindowRegister(r.comm, memory, 1 << 20, 0, &window));
	ginDevComm dc = deviceFor(r, 4096);
	if (!destroyWaits(r))
		CHECK(ginDevCommDestroy(r.comm, &dc));
	CHECK(ginWindowDeregister(r.comm, window));
	__atomic_store_n(go.words, 1, __ATOMIC_RELAXED);
	kernel.join();
	EXPECT(ended.all(1)); /* no block gave up waiting */
	if (destroyWaits(r))
		CHECK(ginDevCommDestroy(r.comm, &dc));
	CHECK(ginMemFree(r.comm, memory));
	meet(r);
}

static const Test tests[] = {
	{"more blocks than fit", moreBlocksThanFit},
	{"host calls while the GPU is full", hostCallsWhileFull},
};

int main(int argc, char **argv)
{
	return suiteMain(argc, argv, "full_gpu", tests);
}
