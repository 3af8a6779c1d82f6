/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connections.cc - each call of ncclGin by one thread, a warp and a block, from all ranks to all
 *
 * With connections of each type: what arrives comes from the ranks that are connected, and the
 * other calls fail with a sentence. Barriers reach all ranks.
 */
#include "rig.h"

#include <memory>

enum { BULK = 4096, PART = BULK + 64, WARPS = 2 };

/* Sets of ranks. */
static GIN_FN bool isIn(uint64_t set, int rank)
{
	return set >> rank & 1;
}

static GIN_FN uint64_t sizeOf(uint64_t set)
{
	return set ? (set & 1) + sizeOf(set >> 1) : 0;
}

/*
 * The window has a part for each sender, of a long put and then words; the source; and a word for
 * each get.
 */
template <class Coop> struct Calls : Kernel {
	ncclWindow_t w;
	uint64_t from, to;

	GIN_FN size_t part(int number) const { return static_cast<size_t>(PART) * number; }

	GIN_FN void callAll(const ncclGin &gin, Coop coop) const
	{
		const ncclTeam world = ncclTeamWorld(dc);
		const size_t mine = part(dc.rank), words = mine + BULK, source = part(dc.nRanks);
		ncclGinRequest_t request;

		for (int p = 0; p < dc.nRanks; p++) {
			gin.put(world, p, w, mine, w, source, BULK, ncclGin_SignalInc{0},
				ncclGin_CounterInc{0}, coop);
			gin.put(world, p, w, words, w, source, 0, ncclGin_VASignalInc{w, words},
				ncclGin_CounterInc{0}, coop);
			gin.putValue(world, p, w, words + 8, uint64_t{5}, ncclGin_SignalInc{1},
				     coop);
			gin.signal(world, p, ncclGin_SignalAdd{2, 3}, coop);
			gin.signal(world, p, ncclGin_VASignalAdd{w, words + 16, 4}, coop);
			gin.get(world, p, w, source, w, part(dc.nRanks + 1) + 8 * p, 8, coop);
			if (isIn(to, p)) {
				gin.flushAsync(world, p, &request, coop);
				gin.wait(request, coop);
			}
		}
		gin.flush(coop);
		gin.waitCounter(coop, 0, 2 * sizeOf(to));
		gin.waitSignal(coop, 0, sizeOf(from));
		gin.waitSignal(coop, 1, sizeOf(from));
	}

	GIN_FN uint64_t wordAt(size_t offset) const
	{
		return *static_cast<uint64_t *>(ncclGetLocalPointer(w, offset));
	}

	/* 1 if rank `p` is in the set. */
	GIN_FN void expectOf(const ncclGin &gin, int p, uint64_t sent, uint64_t got) const
	{
		const size_t words = part(p) + BULK;
		const uint64_t bytes = 0x0707070707070707;

		KERNEL_EXPECT(wordAt(part(p)) == sent * bytes);
		KERNEL_EXPECT(wordAt(words - 8) == sent * bytes);
		KERNEL_EXPECT(gin.readSignal(w, words) == sent);
		KERNEL_EXPECT(wordAt(words + 8) == 5 * sent);
		KERNEL_EXPECT(gin.readSignal(w, words + 16) == 4 * sent);
		KERNEL_EXPECT(wordAt(part(dc.nRanks + 1) + 8 * p) == got * bytes);
	}

	/* libgin's calls return what ncclGin's drop. */
	GIN_FN void expectRefused(const ncclGin &gin, int p) const
	{
		const auto own = gin.own();
		const ginWindow_t window = ginNcclWindow(w);

		KERNEL_EXPECT(own.put(p, window, 0, window, 0, 8) == ginErrorPeer);
		KERNEL_EXPECT(own.putValue(p, window, 0, 1) == ginErrorPeer);
		KERNEL_EXPECT(own.get(p, window, 0, window, 0, 8) == ginErrorPeer);
		KERNEL_EXPECT(own.signal(p, GinSignalInc{0}) == ginErrorPeer);
		KERNEL_EXPECT(own.signal(p, GinSignalIncAt{window, 0}) == ginErrorPeer);
	}

	GIN_FN void meetAll(ncclCoopCta block, const ncclGin &gin) const
	{
		const ncclBarrierSession<ncclCoopCta> all(block, ncclTeamTagWorld{}, gin, 0);
		KERNEL_EXPECT(all.sync(block, cuda::memory_order_acq_rel,
				       ncclGinFenceLevel::Put | ncclGinFenceLevel::Get,
				       uint64_t{1} << 40) == ncclSuccess);
	}

	GIN_FN void operator()() const
	{
		const ncclGin gin(dc, 0);
		const ncclCoopCta block;

		if (block.thread_rank() < Coop{}.size())
			callAll(gin, Coop{});
		meetAll(block, gin);
		if (block.thread_rank() == 0) {
			for (int p = 0; p < dc.nRanks; p++) {
				expectOf(gin, p, isIn(from, p), isIn(to, p));
				if (!isIn(to, p))
					expectRefused(gin, p);
			}
			KERNEL_EXPECT(gin.readSignal(0) == sizeOf(from));
			KERNEL_EXPECT(gin.readSignal(1) == sizeOf(from));
			KERNEL_EXPECT(gin.readSignal(2) == 3 * sizeOf(from));
			KERNEL_EXPECT(gin.readCounter(0) == 2 * sizeOf(to));
		}
		meetAll(block, gin);
	}
};

/* The ranks that `want` connects with `rank`, as sender or receiver. */
static uint64_t connected(const Rank &r, const ncclDevCommRequirements &want, bool isSender)
{
	const int domain = ncclTeamLsa(r.comm).nRanks, next = isSender ? 1 : r.nRanks - 1;
	uint64_t set = 0;

	for (int p = 0; p < r.nRanks; p++) {
		const int distance = p - r.rank;
		if (want.ginConnectionType == NCCL_GIN_CONNECTION_RAIL ? distance % domain == 0
		    : want.ginConnectionType == NCCL_GIN_CONNECTION_CUSTOM_STRIDE
			    ? distance % want.ginCustomStride == 0
		    : want.ginConnectionType == NCCL_GIN_CONNECTION_CUSTOM_ARRAY
			    ? !distance || (r.rank + next) % r.nRanks == p
			    : true)
			set |= uint64_t{1} << p;
	}
	return set;
}

template <class Coop> static void call(const Rank &r, const ncclDevCommRequirements &want)
{
	const size_t parts = static_cast<size_t>(r.nRanks) + 2;
	std::vector<char> sevens(BULK, 7);
	const uint64_t to = connected(r, want, true);
	const uint32_t warp = r.gpu ? 32 : GIN_HOST_WARP;
	ncclResult_t error = ncclNumResults;
	char pair[64] = "from rank ";

	Buffer buffer(r, parts * PART);
	copyBytes(static_cast<char *>(buffer.ptr) + (parts - 2) * PART, sevens.data(), BULK);
	meet(r);
	std::unique_ptr<Device> older(new Device(r, want));
	Device device(r, want);
	older.reset(); /* the end of one is not the end of the others' errors */
	launch(r, 1, WARPS * warp,
	       Calls<Coop>{{device.dc, nullptr}, buffer.window, connected(r, want, false), to});
	CHECK(ncclCommGetAsyncError(r.comm, &error));
	if (to + 1 == uint64_t{1} << r.nRanks) {
		EXPECT(error == ncclSuccess);
		return;
	}
	for (int p = r.nRanks - 1; p >= 0; p--)
		if (!isIn(to, p))
			snprintf(pair, sizeof(pair), "called rank %d from rank %d", p, r.rank);
	EXPECT_FAILS(error, ncclInvalidUsage, pair);
	EXPECT(strstr(ncclGetLastError(nullptr), "NCCL_GIN_CONNECTION_FULL connects"));
}

static void run(const Rank &r)
{
	ncclDevCommRequirements want = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
	const int next = (r.rank + 1) % r.nRanks;

	want.ginSignalCount = 3;
	want.ginCounterCount = want.barrierCount = 1;
	want.ginContextCount = 1;
	want.ginCustomStride = r.nRanks % 2 ? r.nRanks : 2;
	want.ginCustomArray = &next;
	want.ginCustomArrayCount = 1;
	for (ncclGinConnectionType_t type :
	     {NCCL_GIN_CONNECTION_NONE, NCCL_GIN_CONNECTION_FULL, NCCL_GIN_CONNECTION_RAIL,
	      NCCL_GIN_CONNECTION_CUSTOM_STRIDE, NCCL_GIN_CONNECTION_CUSTOM_ARRAY}) {
		want.ginConnectionType = type;
		call<ncclCoopThread>(r, want);
		call<ncclCoopWarp>(r, want);
		call<ncclCoopCta>(r, want);
	}
}

int main(int argc, char **argv)
{
	setenv("GIN_LOG", "none", 0); /* failures are meant */
	return rigMain(argc, argv, "nccl connections", run);
}
