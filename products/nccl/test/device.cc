/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.cc - every name of NCCL's device API that the headers declare, with data checked
 */
#include "barriers.h"
#include "rig.h"

/* Teams, on the device; the host's overloads agree. Words of each team, by sender. */
struct Teams : Kernel {
	ncclWindow_t w;

	GIN_FN size_t word(size_t team, int sender) const
	{
		return team * static_cast<size_t>(dc.nRanks) + static_cast<size_t>(sender);
	}

	/* A put to each member by its number in the team; no rank beside the team is a member. */
	GIN_FN void put(ncclTeam team, size_t number) const
	{
		ncclGin gin{dc, 0};
		int members = 0;

		for (int p = 0; p < team.nRanks; p++)
			gin.putValue(team, p, w, word(number, dc.rank) * 8,
				     1 + static_cast<uint64_t>(ncclTeamRankToWorld(dc, team, p)));
		for (int p = -dc.nRanks; p < 2 * dc.nRanks; p++)
			members += ncclTeamRankIsMember(team, ncclTeamWorld(dc), p);
		KERNEL_EXPECT(members == team.nRanks);
	}

	GIN_FN void expectPuts(ncclTeam team, size_t number) const
	{
		const uint64_t own = 1 + static_cast<uint64_t>(dc.rank);
		const volatile uint64_t *words =
			static_cast<const volatile uint64_t *>(ncclGetLocalPointer(w, 0));

		for (int p = 0; p < dc.nRanks; p++)
			KERNEL_EXPECT(words[word(number, p)] ==
				      (ncclTeamRankIsMember(team, ncclTeamWorld(dc), p) ? own : 0));
	}

	GIN_FN void operator()() const
	{
		const ncclTeam teams[] = {ncclTeamWorld(dc), ncclTeamLsa(dc), ncclTeamRail(dc)};

		numbers();
		for (size_t i = 0; i < 3; i++)
			put(teams[i], i);
		ncclGinBarrier(ncclCoopThread(), ncclGin{dc, 0}, ncclTeamTagWorld(), 0);
		for (size_t i = 0; i < 3; i++)
			expectPuts(teams[i], i);
	}

	GIN_FN void numbers() const
	{
		ncclTeam world = ncclTeamWorld(dc), lsa = ncclTeamLsa(dc), rail = ncclTeamRail(dc);

		KERNEL_EXPECT(world.nRanks == dc.nRanks && world.rank == dc.rank);
		KERNEL_EXPECT(lsa.nRanks == dc.lsaSize && lsa.rank == dc.lsaRank);
		KERNEL_EXPECT(rail.nRanks * lsa.nRanks == dc.nRanks && rail.stride == lsa.nRanks);
		for (int p = 0; p < lsa.nRanks; p++) {
			int w = ncclTeamRankToWorld(dc, lsa, p);
			KERNEL_EXPECT(w == dc.rank - dc.lsaRank + p);
			KERNEL_EXPECT(ncclTeamRankToLsa(dc, world, w) == p);
			KERNEL_EXPECT(ncclTeamRankToTeam(world, lsa, p) == w);
			KERNEL_EXPECT(ncclTeamRankIsMember(lsa, world, w));
			KERNEL_EXPECT(ncclTeamRankIsMember(rail, lsa, p) == (p == lsa.rank));
		}
		ncclTeam inner = ncclTeamInnerFactor(world, lsa.nRanks);
		ncclTeam outer = ncclTeamOuterFactor(world, lsa.nRanks);
		KERNEL_EXPECT(inner.rank == lsa.rank && inner.nRanks == lsa.nRanks);
		KERNEL_EXPECT(outer.rank == rail.rank && outer.stride == rail.stride);
		int seen = 0;
		for (int i = 0; i < world.nRanks - rail.nRanks; i++) {
			int p = ncclTeamRankInDifference(world, rail, i);
			KERNEL_EXPECT(p >= seen && !ncclTeamRankIsMember(rail, world, p));
			seen = p + 1;
		}
	}
};

static void teams(const Rank &r)
{
	ncclDevCommRequirements want = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
	want.worldGinBarrierCount = 1;
	Buffer buffer(r, 4096);
	Device device(r, want);
	if (getenv("HOSTS"))
		EXPECT(device.dc.lsaSize == r.nRanks / atoi(getenv("HOSTS")));
	launch(r, 1, 1, Teams{{device.dc, nullptr}, buffer.window});
	EXPECT(ncclTeamLsa(r.comm).nRanks == device.dc.lsaSize);
	EXPECT(ncclTeamRail(r.comm).rank == ncclTeamRail(device.dc).rank);
	EXPECT(ncclTeamWorld(r.comm).nRanks == r.nRanks);
	EXPECT(ncclTeamRankToWorld(r.comm, ncclTeamLsa(r.comm), 0) == r.rank - device.dc.lsaRank);
	EXPECT(ncclTeamRankToLsa(r.comm, ncclTeamWorld(r.comm), r.rank) == device.dc.lsaRank);
}

/* Stores by pointers, and a barrier of the domain. Words by sender at `out` of each rank. */
struct Pointers : Kernel {
	ncclWindow_t w;

	GIN_FN void operator()() const
	{
		ncclTeam lsa = ncclTeamLsa(dc);
		ncclLsaBarrierSession<ncclCoopCta> bar{ncclCoopCta(), dc, ncclTeamTagLsa(), 0};
		ncclSymPtr<uint64_t> words = ncclSymPtr<uint64_t>(w) + 4;
		const int first = dc.rank - dc.lsaRank;

		for (int p = ncclCoopCta().thread_rank(); p < lsa.nRanks;
		     p += ncclCoopCta().size()) {
			*(words + dc.lsaRank).lsaPtr(p) = 1000u + static_cast<uint32_t>(dc.rank);
			KERNEL_EXPECT(words.lsaPtr(p) == words.peerPtr(first + p));
			KERNEL_EXPECT(words.peerPtr(lsa, p) == ncclGetPeerPointer(w, 32, lsa, p));
		}
		bar.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
		for (int p = 0; p < lsa.nRanks; p++)
			KERNEL_EXPECT(words.localPtr()[p] ==
				      1000u + static_cast<uint32_t>(first + p));
		KERNEL_EXPECT(ncclGetLocalPointer(w, 0) == ncclGetLsaPointer(w, 0, dc.lsaRank));
		KERNEL_EXPECT(ncclGetPeerPointer(w, 8, dc.rank) ==
			      ncclGetLsaPointer(w, 8, dc.lsaRank));
		for (int p = 0; p < dc.nRanks; p++)
			if (!ncclTeamRankIsMember(lsa, ncclTeamWorld(dc), p) && dc.lsaSize == 1)
				KERNEL_EXPECT(!ncclGetPeerPointer(w, 0, p));
		ncclSymPtr<uint64_t> end = words;
		end += 3;
		end -= 1u;
		KERNEL_EXPECT(end - words == 2 && words - end == -2 && end != words &&
			      end - 2 == words);
		ncclSymPtr<char> bytes = words;
		KERNEL_EXPECT(bytes.offset == 32 && bytes.window == w);
		KERNEL_EXPECT(!words.multimemPtr({}) && !words.lsaMultimemPtr(dc));
		KERNEL_EXPECT(!ncclGetMultimemPointer(w, 0, {}) &&
			      !ncclGetLsaMultimemPointer(w, 0, dc));
		bar.arrive(ncclCoopCta(), cuda::memory_order_release);
		bar.wait(ncclCoopCta(), cuda::memory_order_acquire);
	}
};

static void pointers(const Rank &r)
{
	ncclDevCommRequirements want = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
	want.lsaBarrierCount = 1;
	Buffer buffer(r, 4096);
	Device device(r, want);
	void *at = nullptr, *lsa = nullptr;

	launch(r, 1, 5, Pointers{{device.dc, nullptr}, buffer.window});
	for (int p = 0; p < device.dc.lsaSize; p++) {
		CHECK(ncclGetPeerDevicePointer(buffer.window, 64, r.rank - device.dc.lsaRank + p,
					       &at));
		CHECK(ncclGetLsaDevicePointer(buffer.window, 64, p, &lsa));
		EXPECT(at && at == lsa);
	}
	CHECK(ncclWinGetUserPtr(r.comm, buffer.window, &at));
	EXPECT(at == buffer.ptr);
}

/* The all-to-all of NCCL's benchmarks: a message of `bytes` for every rank. */
template <class Coop> struct AllToAll : Kernel {
	ncclWindow_t send, receive;
	size_t bytes;

	GIN_FN void operator()() const
	{
		const int context = static_cast<int>(ginBlockIndex()) % dc.ginContextCount;
		const uint32_t signal = ginBlockIndex();
		ncclGin gin{dc, context};
		const uint64_t before = gin.readSignal(signal);
		ncclBarrierSession<ncclCoopCta> bar{ncclCoopCta(), ncclTeamTagWorld(), gin, signal};
		const size_t slice = bytes * signal;
		Coop coop;

		bar.sync(ncclCoopCta(), cuda::memory_order_acquire, ncclGinFenceLevel::Relaxed);
		const int mine = ncclCoopCta().thread_rank() / coop.size();
		const int all = ncclCoopCta().size() / coop.size();
		if (mine < all)
			for (int p = mine; p < dc.nRanks; p += all)
				gin.put(ncclTeamWorld(dc), p, receive,
					slice * static_cast<size_t>(dc.nRanks) +
						static_cast<size_t>(dc.rank) * bytes,
					send, static_cast<size_t>(p) * bytes, bytes,
					ncclGin_SignalInc{signal}, ncclGin_None{}, coop);
		gin.waitSignal(ncclCoopCta(), signal, before + static_cast<uint64_t>(dc.nRanks));
		gin.flush(ncclCoopCta());
		bar.sync(ncclCoopCta(), cuda::memory_order_release, ncclGinFenceLevel::Relaxed);
	}
};

static unsigned char byteOf(int from, int to, int round, size_t i)
{
	return static_cast<unsigned char>(from * 89 + to * 31 + round * 7 +
					  static_cast<int>(i) * 5 + 1);
}

template <class Coop> static void exchange(const Rank &r, const Device &device, Buffer &send,
					   Buffer &receive, size_t bytes, int round)
{
	const size_t n = static_cast<size_t>(r.nRanks), blocks = 2;
	std::vector<unsigned char> out(n * bytes + 1), in(blocks * n * bytes + 1);

	for (size_t p = 0; p < n; p++)
		for (size_t i = 0; i < bytes; i++)
			out[p * bytes + i] = byteOf(r.rank, static_cast<int>(p), round, i);
	copyBytes(send.ptr, out.data(), n * bytes);
	launch(r, blocks, r.gpu ? 64 : 8,
	       AllToAll<Coop>{{device.dc, nullptr}, send.window, receive.window, bytes});
	copyBytes(in.data(), receive.ptr, blocks * n * bytes);
	for (size_t at = 0; at < blocks * n * bytes; at++)
		EXPECT(in[at] ==
		       byteOf(static_cast<int>(at / bytes % n), r.rank, round, at % bytes));
	meet(r);
}

static void allToAll(const Rank &r)
{
	ncclDevCommRequirements want = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
	want.barrierCount = 2;
	want.ginSignalCount = 2;
	want.ginConnectionType = NCCL_GIN_CONNECTION_FULL;
	want.ginQueueDepth = 193;
	Buffer send(r, 1 << 16), receive(r, 1 << 16);
	Device device(r, want);
	int round = 0;
	for (size_t bytes : {1, 24, 1000, 4099}) {
		exchange<ncclCoopThread>(r, device, send, receive, bytes, round++);
		exchange<ncclCoopWarp>(r, device, send, receive, bytes, round++);
		exchange<ncclCoopCta>(r, device, send, receive, bytes, round++);
	}
}

/*
 * Every action, from every rank to its right neighbour, by one thread. The signals of a context are
 * 0 before. Words of 8 bytes: [0] source, [1..] targets.
 */
struct Actions : Kernel {
	ncclWindow_t w;

	template <class Gin, class Action>
	GIN_FN void putWord(const Gin &gin, int word, Action action) const
	{
		gin.put(ncclTeamWorld(dc), (dc.rank + 1) % dc.nRanks, w,
			static_cast<size_t>(word) * 8, w, 0, 8, action);
	}

	/* The bytes that the left neighbour puts. */
	GIN_FN uint64_t expected() const
	{
		return 5000u + static_cast<uint64_t>((dc.rank + dc.nRanks - 1) % dc.nRanks);
	}

	GIN_FN uint64_t word(int i) const
	{
		return static_cast<const volatile uint64_t *>(ncclGetLocalPointer(w, 0))[i];
	}

	GIN_FN void operator()() const
	{
		ncclGin gin{dc, 1, NCCL_GIN_RESOURCE_SHARING_THREAD};
		ncclGin_BackendOne<NCCL_NET_DEVICE_GIN_PROXY> byProxy{dc, 1};
		ncclGin_BackendOne<NCCL_NET_DEVICE_GIN_GDAKI> byNic{dc, 1};
		ncclTeam world = ncclTeamWorld(dc);
		const int right = (dc.rank + 1) % dc.nRanks;
		const uint64_t value = 77;

		(void)byProxy;
		(void)byNic;
		putWord(gin, 1, ncclGin_SignalInc{0});
		putWord(gin, 2, ncclGin_StrongSignalInc{0});
		putWord(gin, 3, ncclGin_WeakSignalInc{0});
		putWord(gin, 4, ncclGin_SignalAdd{0, 10});
		putWord(gin, 5, ncclGin_StrongSignalAdd{0, 100});
		putWord(gin, 6, ncclGin_WeakSignalAdd{0, 1000});
		gin.signal(world, right, ncclGin_StrongSignalAdd{0, 10000});
		gin.waitSignal(ncclCoopThread(), 0, 11113);
		for (int i = 1; i <= 6; i++)
			KERNEL_EXPECT(word(i) == expected());
		KERNEL_EXPECT(gin.readSignal(0) == 11113 && gin.readSignal(0, 4) == (11113 & 15));

		gin.putValue(world, right, w, 7 * 8, value, ncclGin_SignalInc{1});
		gin.putValue(world, right, ncclSymPtr<uint64_t>(w) + 8, value + 1,
			     ncclGin_SignalInc{1}, ncclCoopThread(), ncclGin_None(),
			     cuda::thread_scope_thread, cuda::thread_scope_device,
			     ncclGinOptFlagsMaySkipCreditCheck);
		gin.put(world, right, ncclSymPtr<uint64_t>(w) + 9, ncclSymPtr<uint64_t>(w), 1,
			ncclGin_SignalInc{1});
		gin.waitSignal(ncclCoopThread(), 1, 3, 32);
		KERNEL_EXPECT(word(7) == value && word(8) == value + 1 && word(9) == expected());

		counters(gin, world, right);
		vaSignals(gin, world, right);
		gets(gin, world, right);
		shadows(gin, world, right);
	}

	template <class Gin> GIN_FN void counters(const Gin &gin, ncclTeam world, int right) const
	{
		ncclGinDescriptorSmem space;

		gin.put(world, right, w, 10 * 8, w, 0, 8, ncclGin_None{}, ncclGin_CounterInc{0},
			ncclCoopThread(), ncclGin_DescriptorSmem{&space}, cuda::thread_scope_thread,
			cuda::thread_scope_device, ncclGinOptFlagsAggregateRequests,
			ncclGin_SegmentMixed{});
		gin.put(world, right, w, 11 * 8, w, 0, 8, ncclGin_SignalInc{2},
			ncclGin_WeakCounterInc{0}, ncclCoopThread(), ncclGin_None{},
			cuda::thread_scope_system, cuda::thread_scope_block, ncclGinOptFlagsDefault,
			ncclGin_SegmentHostNuma{});
		gin.waitCounter(ncclCoopThread(), 0, 2);
		KERNEL_EXPECT(gin.readCounter(0) == 2 && gin.readCounter(0, 1) == 0);
		gin.resetCounter(0);
		KERNEL_EXPECT(gin.readCounter(0) == 0);
		gin.waitSignal(ncclCoopThread(), 2, 1);
		KERNEL_EXPECT(word(10) == expected() && word(11) == expected());
	}

	/* Word 12 of the right neighbour. */
	template <class Gin> GIN_FN void vaSignals(const Gin &gin, ncclTeam world, int right) const
	{
		gin.signal(world, right, ncclGin_VASignalInc{w, 96});
		gin.signal(world, right, ncclGin_StrongVASignalInc{w, 96});
		gin.signal(world, right, ncclGin_WeakVASignalInc{w, 96});
		gin.signal(world, right, ncclGin_VASignalAdd{w, 96, 10});
		gin.signal(world, right, ncclGin_StrongVASignalAdd{w, 96, 100});
		putWord(gin, 13, ncclGin_WeakVASignalAdd{w, 96, 1000});
		gin.waitSignal(ncclCoopThread(), w, 96, 1113);
		KERNEL_EXPECT(gin.readSignal(w, 96) == 1113 && gin.readSignal(w, 96, 1) == 1);
		KERNEL_EXPECT(word(13) == expected());
		KERNEL_EXPECT(gin.waitSignal(ncclCoopThread(), w, 96, 1114, 64,
					     cuda::memory_order_acquire, 1000) == ncclTimeout);
		gin.resetSignal(w, 96);
		KERNEL_EXPECT(gin.readSignal(w, 96) == 0);
	}

	/* Word 0 of the right neighbour, which does not change. */
	template <class Gin> GIN_FN void gets(const Gin &gin, ncclTeam world, int right) const
	{
		ncclGinRequest_t request = {{0, 0}};

		gin.wait(request); /* all zero: done */
		gin.get(world, right, w, 0, w, 14 * 8, 8);
		gin.flushAsync(world, static_cast<uint32_t>(right), &request);
		gin.wait(request);
		gin.get(world, right, w, 0, w, 15 * 8, 8, ncclCoopThread(), ncclGin_None(),
			ncclGinOptFlagsDefault, ncclGin_SegmentMixed());
		gin.flush(ncclCoopThread(), cuda::memory_order_acquire);
		KERNEL_EXPECT(word(14) == 5000u + static_cast<uint64_t>(right));
		KERNEL_EXPECT(word(15) == word(14));
		KERNEL_EXPECT(gin.flush(ncclCoopThread(), cuda::memory_order_acquire,
					ncclGin_None(), 1000000000) == ncclSuccess);
		KERNEL_EXPECT(gin.wait(request, ncclCoopThread(), ncclGin_None(),
				       cuda::memory_order_acquire, 1000000000) == ncclSuccess);
	}

	template <class Gin> GIN_FN void shadows(const Gin &gin, ncclTeam world, int right) const
	{
		uint64_t before = 9, delta = 9;

		gin.increaseSignalShadow(3, 2);
		KERNEL_EXPECT(*gin.getSignalShadowPtr(3) == 2);
		gin.signal(world, right, ncclGin_SignalAdd{3, 2});
		gin.waitSignalMeetShadow(ncclCoopThread(), 3);
		gin.signal(world, right, ncclGin_SignalAdd{3, 5});
		gin.waitSignalFollowShadow(ncclCoopThread(), 3, uint64_t(5), &before, &delta);
		KERNEL_EXPECT(before == 2 && delta == 5 && *gin.getSignalShadowPtr(3) == 7);
		KERNEL_EXPECT(gin.waitSignal(ncclCoopThread(), 3, 8, 64, cuda::memory_order_acquire,
					     1000) == ncclTimeout);
		KERNEL_EXPECT(gin.waitSignal(ncclCoopThread(), 3, 7, 64, cuda::memory_order_acquire,
					     1000) == ncclSuccess);
		KERNEL_EXPECT(gin.waitCounter(ncclCoopThread(), 0, 1, 56,
					      cuda::memory_order_acquire, 1000) == ncclTimeout);
		KERNEL_EXPECT(gin.waitCounter(ncclCoopThread(), 0, 2, 1, cuda::memory_order_acquire,
					      1000) == ncclSuccess);
		/* Of 3 bits 7 is 15. */
		gin.increaseSignalShadow(3, 8);
		gin.waitSignalMeetShadow(ncclCoopThread(), 3, 3);
		gin.waitSignalFollowShadow(ncclCoopThread(), 3, uint64_t(0), &before, &delta, 3);
		KERNEL_EXPECT(before == 15 && delta == uint64_t(0) - 8);
	}
};

/* The words that foreign code polls by _ginHandle have the values of the signals. */
struct Handle : Kernel {
	GIN_FN void operator()() const
	{
		ncclGin gin{dc, 1};
		ncclGinGdakiGPUContext *context =
			static_cast<ncclGinGdakiGPUContext *>(gin._ginHandle) + gin.contextId;
		uint64_t *words = context->signals_table.buffer;

		uint64_t *const *by = dc.gin.signal;
		KERNEL_EXPECT(!words ==
			      (by[ginWriterCpu] || (by[ginWriterGpu] && by[ginWriterNic])));
		if (words)
			KERNEL_EXPECT(words[0] == 11113 && words[1] == 3);
		gin.resetSignal(0);
		KERNEL_EXPECT(gin.readSignal(0) == 0 && *gin.getSignalShadowPtr(0) == 0);
	}
};

static void actions(const Rank &r)
{
	ncclDevCommRequirements want = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
	want.ginSignalCount = 4;
	want.ginCounterCount = 1;
	want.ginContextCount = 2;
	Buffer buffer(r, 4096);
	const uint64_t source = 5000u + static_cast<uint64_t>(r.rank);
	copyBytes(buffer.ptr, &source, 8);
	Device device(r, want);
	launch(r, 1, 1, Actions{{device.dc, nullptr}, buffer.window});
	meet(r);
	launch(r, 1, 1, Handle{{device.dc, nullptr}});
}

/* Coops: their numbers, masks, and a value from one thread to all. */
struct Coops : Kernel {
	ncclWindow_t w;

	/* A coop of the program's own; sync() need not be const. */
	struct Own {
		GIN_FN int thread_rank() const { return ncclCoopCta().thread_rank(); }
		GIN_FN int size() const { return ncclCoopCta().size(); }
		GIN_FN void sync() { ncclCoopCta().sync(); }
	};

	/* The number of a span's barrier of the hardware. */
	GIN_FN static uint32_t barrierOf(GinWarpSpan span) { return span.id; }
	template <class Coop> GIN_FN static uint32_t barrierOf(Coop) { return 0; }

	template <class Coop> GIN_FN void one(Coop coop) const
	{
		const int root = coop.size() - 1;
		KERNEL_EXPECT(coop.thread_rank() >= 0 && coop.thread_rank() < coop.size());
		KERNEL_EXPECT(coop.num_threads() == coop.size());
		coop.sync();
		const uint64_t got = ncclCoopBcast(
			coop, 0x123456789abcull + static_cast<uint64_t>(coop.thread_rank()), root);
		KERNEL_EXPECT(got == 0x123456789abcull + static_cast<uint64_t>(root));
		waits(coop);
	}

	/* All threads of a coop get one result, of a wait in vain, too. */
	template <class Coop> GIN_FN void waits(Coop coop) const
	{
		const auto order = cuda::memory_order_acquire;
		const int right = (dc.rank + 1) % dc.nRanks;
		ncclGin gin{dc, 0};
		ncclGinRequest_t request = {{0, 0}};

		KERNEL_EXPECT(gin.waitSignal(coop, 0, 99, 64, order, 100) == ncclTimeout);
		KERNEL_EXPECT(gin.waitSignal(coop, w, 0, 99, 64, order, 100) == ncclTimeout);
		KERNEL_EXPECT(gin.waitCounter(coop, 0, 99, 56, order, 100) == ncclTimeout);
		gin.get(ncclTeamWorld(dc), right, w, 0, w, 2048, 1024, coop);
		gin.flushAsync(ncclTeamWorld(dc), static_cast<uint32_t>(right), &request, coop);
		if (request.opaque[1])
			request.opaque[1] += 1u << 20; /* posts that do not come */
		const uint64_t result = gin.wait(request, coop, ncclGin_None(), order, 100);
		KERNEL_EXPECT(result == ncclSuccess || result == ncclTimeout);
		KERNEL_EXPECT(result == ncclCoopBcast(coop, result, 0));
		KERNEL_EXPECT(gin.flush(coop, order, ncclGin_None(), 1ull << 40) == ncclSuccess);
		coop.sync();
	}

	GIN_FN void operator()() const
	{
		ncclGin gin{dc, 0};
		const int warp = ncclCoopCta().thread_rank() / ncclCoopWarp().size();

		one(ncclCoopThread());
		one(ncclCoopTile<2>());
		one(ncclCoopWarp());
		one(ncclCoopCta());
		one(ncclCoopWarpSpan(0, ncclCoopCta().size() / ncclCoopWarp().size(), 0));
		one(ncclCoopAny(ncclCoopWarp()));
		one(ncclCoopAny(ncclCoopCta()));
		one(ncclCoopAny(ncclCoopThread()));
		one(ncclCoopAny(ncclCoopTile<2>()));
		const ncclCoopAny any(
			ncclCoopWarpSpan(0, ncclCoopCta().size() / ncclCoopWarp().size(), 2));
		one(any);
		KERNEL_EXPECT(any.with([](auto own) { return barrierOf(own); }) == 3);
		if (ncclCoopWarp().thread_rank() < 2) {
			one(ncclCoopLanes(3));
			one(ncclCoopAny(ncclCoopLanes(3)));
		}
		ncclCoopCta().sync();
		one(ncclCoopCoalesced(ncclCoopWarp()));
		KERNEL_EXPECT(ncclCoopCoalesced().size() >= 1);
		KERNEL_EXPECT(ncclCoopCoalesced(ncclCoopCta()).size() == ncclCoopWarp().size());
		KERNEL_EXPECT(ncclCoopCoalesced(ncclCoopLanes(5)).lmask == 5);
		KERNEL_EXPECT(ncclCoopIsThread(ncclCoopThread()) &&
			      !ncclCoopIsThread(ncclCoopCta()));
		KERNEL_EXPECT(ncclCoopWithinWarp(ncclCoopLanes(1)) &&
			      !ncclCoopWithinWarp(ncclCoopCta()));
		KERNEL_EXPECT(ncclCoopGetLaneMask(ncclCoopLanes(6)) == 6);
		KERNEL_EXPECT(ncclCoopGetLaneMask(ncclCoopTile<32>()) == 0xffffffffu);
		ncclCoopCta().sync();
		/* Calls with coops of each kind. */
		gin.signal(ncclTeamWorld(dc), dc.rank, ncclGin_SignalInc{0}, Own());
		gin.signal(ncclTeamWorld(dc), dc.rank, ncclGin_SignalInc{0},
			   ncclCoopAny(ncclCoopCta()));
		if (warp == 0)
			gin.signal(ncclTeamWorld(dc), dc.rank, ncclGin_SignalInc{0},
				   ncclCoopWarpSpan(0, 1, 1));
		gin.waitSignal(Own(), 0, 3);
		KERNEL_EXPECT(gin.readSignal(0) == 3);
	}
};

static void coops(const Rank &r)
{
	ncclDevCommRequirements want = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
	want.ginSignalCount = 1;
	want.ginCounterCount = 1;
	Buffer buffer(r, 4096);
	Device device(r, want);
	launch(r, 1, r.gpu ? 64 : 2 * GIN_HOST_WARP, Coops{{device.dc, nullptr}, buffer.window});
	meet(r);
}

/* Buffers, signals and counters of requirement lists, apart from the numbered ones. */
struct Resources : Kernel {
	ncclDevResourceHandle small, large;
	ncclGinSignal_t signal;

	GIN_FN void operator()() const
	{
		ncclGin gin{dc, 0};
		const int right = (dc.rank + 1) % dc.nRanks;
		ncclSymPtr<char> to = ncclGetResourceBuffer(dc, large);
		uint64_t *mine =
			static_cast<uint64_t *>(ncclGetResourceBufferLocalPointer(dc, small));
		const volatile uint64_t *got = reinterpret_cast<uint64_t *>(to.localPtr());

		KERNEL_EXPECT(mine[0] == 0);
		mine[0] = 300u + static_cast<uint64_t>(dc.rank);
		gin.put(ncclTeamWorld(dc), right, dc.resourceWindow, to.offset, dc.resourceWindow,
			ncclGetResourceBufferOffset(small), 8, ncclGin_SignalInc{signal},
			ncclGin_CounterInc{0});
		gin.waitSignal(ncclCoopThread(), signal, 1);
		KERNEL_EXPECT(got[0] ==
			      300u + static_cast<uint64_t>((dc.rank + dc.nRanks - 1) % dc.nRanks));
		KERNEL_EXPECT(ncclGetResourceBufferLsaPointer(dc, small, dc.lsaRank) == mine);
		KERNEL_EXPECT(ncclGetResourceBufferPeerPointer(dc, small, ncclTeamWorld(dc),
							       dc.rank) == mine);
		KERNEL_EXPECT(!ncclGetResourceBufferMultimemPointer(dc, small, {}));
		KERNEL_EXPECT(!ncclGetResourceBufferLsaMultimemPointer(dc, small));
		gin.waitCounter(ncclCoopThread(), 0, 1);
	}
};

static void resources(const Rank &r)
{
	ncclDevCommRequirements want = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
	ncclDevResourceHandle small, large;
	ncclGinSignal_t signal;
	ncclGinCounter_t counter;
	ncclDevResourceRequirements_t second = {nullptr, 1000, 4096,	&large,
						1,	 1,    &signal, &counter};
	ncclDevResourceRequirements_t first = {&second, 8, 8, &small, 0, 0, nullptr, nullptr};

	want.resourceRequirementsList = &first;
	want.ginSignalCount = 3;
	Device device(r, want);
	EXPECT(signal == 3 && counter == 0 && device.dc.ginSignalCount == 4);
	EXPECT(large != small && ncclGetResourceBufferOffset(large) % 4096 == 0);
	launch(r, 1, 1, Resources{{device.dc, nullptr}, small, large, signal});
	meet(r);
}

/* With more ranks in a domain than a barrier of libgin has words, the barriers alone. */
static void run(const Rank &r)
{
	if (r.nRanks > static_cast<int>(GIN_BARRIER_ROUNDS)) {
		barriers(r);
		return;
	}
	teams(r);
	pointers(r);
	allToAll(r);
	actions(r);
	barriers(r);
	coops(r);
	resources(r);
}

int main(int argc, char **argv)
{
	return rigMain(argc, argv, "nccl device API", run);
}
