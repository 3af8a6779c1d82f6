/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * semantics_checks.cc - with -DGIN_DEVICE_CHECKS: every wrong argument ends its call on all threads
 * of the coop, is named by the error record and by ginGetLastError(), and changes nothing
 */
/* COMPILE: -O0 */
#define GIN_DEVICE_CHECKS
#include "suite.h"

enum { BYTES = 256, SIGNALS = 16, COUNTERS = 2, CONTEXTS = 2 };

/* All kinds of arguments of the calls. */
struct Calls {
	ginDevComm dc;
	ginWindow_t window; /* host memory if no agent can change words of GPU memory */
	ginWindow_t other;  /* of another communicator: one rank */
	ginWindow_t none;
	ginWindow_t local; /* of GIN_WINDOW_LOCAL, if the misuse is about it */
	ginWindow_t gone;  /* deregistered, if the misuse is about it */
	ginPacketBox box;
	int peer;
	const char *memory; /* of `window` */
};

enum Misuse {
	contextAtLimit,
	peerAtLimit,
	peerNegative,
	putToNoWindow,
	putToOtherCommunicator,
	putBeyondTarget,
	putBeyondSource,
	putWithWrappingOffset,
	putFromBeyondTarget,
	putSignalId,
	putSignalOffset,
	putSignalAlignment,
	putCounterId,
	valueBeyondTarget,
	valueSignalId,
	getBeyondPeer,
	getBeyondOwn,
	signalId,
	signalAtNoWindow,
	atomicBeyond,
	atomicAlignment,
	swapPeer,
	flushContext,
	flushAsyncPeer,
	waitSignalId,
	waitSignalAlignment,
	waitValueAlignment,
	waitCounterId,
	readSignalId,
	resetSignalId,
	resetSignalOffset,
	readValueBeyond,
	readCounterId,
	resetCounterId,
	shadowId,
	followShadowId,
	barrierIndex,
	barrierTeam,
	barrierContext,
	packetsPeer,
	packetsBox,
	packetsSignals,
	packetsLength,
	spanWithoutBarrier,
	spanOutsideBlock,
	differentArguments,
	putEmptyBeyondTarget,
	putOfHalfTheMemory,
	putFromNull,
	putFromNoWindow, /* on the route gdaki */
	waitBitsZero,
	waitBitsMore,
	waitFromBeyond,
	flushFromBeyond,
	peerBeyondTeam,
	peerNegativeInTeam,
	putOverlaps,
	putFromOverlaps,
	getOverlaps,
	putToLocal,
	signalAtLocal,
	getIntoLocal,
	putToGone,
	putFromGone,
	putToGarbage,
	barrierIndexHuge,
	barrierContextHuge,
	packetsMost,
	MISUSES
};

struct Expected {
	uint32_t call, argument, fault;
	const char *words; /* of ginGetLastError() */
};

static const Expected expected[MISUSES] = {
	{ginCallPut, ginArgumentContext, ginFaultRange, "put in context 2, rank "},
	{ginCallPut, ginArgumentPeer, ginFaultRange, "peer is "},
	{ginCallSignal, ginArgumentPeer, ginFaultRange, "peer is -1: a rank is not negative"},
	{ginCallPut, ginArgumentTarget, ginFaultWindow, "target: the window is NULL"},
	{ginCallPut, ginArgumentTarget, ginFaultWindow, "or of another communicator"},
	{ginCallPut, ginArgumentTarget, ginFaultEnd, "target ends at byte 257 of window "},
	{ginCallPut, ginArgumentSource, ginFaultEnd, "source ends at byte 260 of window "},
	{ginCallPut, ginArgumentTarget, ginFaultBegin, "target begins at byte -4 of window "},
	{ginCallPut, ginArgumentTarget, ginFaultEnd, "target ends at byte 272"},
	{ginCallPut, ginArgumentSignal, ginFaultRange, "signal is 16: must be below 16"},
	{ginCallPut, ginArgumentSignal, ginFaultEnd, "signal ends at byte 264"},
	{ginCallPut, ginArgumentSignal, ginFaultAlignment, "signal: offset 12 of window "},
	{ginCallPut, ginArgumentCounter, ginFaultRange, "counter is 2: must be below 2"},
	{ginCallPutValue, ginArgumentTarget, ginFaultEnd, "target ends at byte 260"},
	{ginCallPutValue, ginArgumentSignal, ginFaultRange, "signal is 17"},
	{ginCallGet, ginArgumentSource, ginFaultEnd, "source ends at byte 300"},
	{ginCallGet, ginArgumentTarget, ginFaultEnd, "target ends at byte 301"},
	{ginCallSignal, ginArgumentSignal, ginFaultRange, "signal is 4294967295"},
	{ginCallSignal, ginArgumentSignal, ginFaultWindow, "signal: the window is NULL"},
	{ginCallAtomic, ginArgumentTarget, ginFaultEnd, "target ends at byte 264"},
	{ginCallAtomic, ginArgumentTarget, ginFaultAlignment, "must be a multiple of 8"},
	{ginCallAtomic, ginArgumentPeer, ginFaultRange, "peer is "},
	{ginCallFlush, ginArgumentContext, ginFaultRange, "flush in context 1000"},
	{ginCallFlush, ginArgumentPeer, ginFaultRange, "peer is "},
	{ginCallWaitSignal, ginArgumentSignal, ginFaultRange, "signal is 16: must be below 16"},
	{ginCallWaitSignal, ginArgumentSignal, ginFaultAlignment, "signal: offset 4 of window "},
	{ginCallWaitValue, ginArgumentWord, ginFaultAlignment, "word: offset 6 of window "},
	{ginCallWaitCounter, ginArgumentCounter, ginFaultRange, "counter is 3"},
	{ginCallReadSignal, ginArgumentSignal, ginFaultRange, "readSignal in context 0"},
	{ginCallResetSignal, ginArgumentSignal, ginFaultRange, "resetSignal in context 0"},
	{ginCallResetSignal, ginArgumentSignal, ginFaultEnd, "signal ends at byte 257"},
	{ginCallReadValue, ginArgumentWord, ginFaultEnd, "readValue in context 0"},
	{ginCallReadCounter, ginArgumentCounter, ginFaultRange, "readCounter in context 0"},
	{ginCallResetCounter, ginArgumentCounter, ginFaultRange, "resetCounter in context 0"},
	{ginCallShadow, ginArgumentSignal, ginFaultRange, "call on a signal's shadow"},
	{ginCallShadow, ginArgumentSignal, ginFaultRange, "signal is 16"},
	{ginCallBarrier, ginArgumentBarrier, ginFaultRange, "barrier is 77"},
	{ginCallBarrier, ginArgumentTeam, ginFaultRange, "team is "},
	{ginCallBarrier, ginArgumentContext, ginFaultRange, "context is 2: must be below 2"},
	{ginCallPacketsSend, ginArgumentPeer, ginFaultRange, "peer is "},
	{ginCallPacketsReceive, ginArgumentBox, ginFaultEnd, "box ends at byte "},
	{ginCallPacketsSend, ginArgumentSignals, ginFaultRange, "box.signals is 16"},
	{ginCallPacketsSend, ginArgumentLength, ginFaultRange, "length is 9: must be below 9"},
	{ginCallPut, ginArgumentCoop, ginFaultBlock, "is in no such coop"},
	{ginCallFlush, ginArgumentCoop, ginFaultBlock, "is in no such coop"},
	{ginCallPut, ginArgumentCoop, ginFaultDiffers, "threads pass different arguments"},
	{ginCallPut, ginArgumentTarget, ginFaultEnd, "target ends at byte 257"},
	{ginCallPut, ginArgumentTarget, ginFaultEnd, "which has 256 there"},
	{ginCallPut, ginArgumentSource, ginFaultNoWindow, "its 16 bytes are in no window"},
	{ginCallPut, ginArgumentSource, ginFaultNoWindow, "its 17 bytes are in no window"},
	{ginCallWaitSignal, ginArgumentBits, ginFaultBits, "options.bits is 0: must be 1 to 64"},
	{ginCallWaitCounter, ginArgumentBits, ginFaultBits, "options.bits is 65: must be 1 to 64"},
	{ginCallWaitValue, ginArgumentFrom, ginFaultRange, "options.from is "},
	{ginCallFlush, ginArgumentFrom, ginFaultRange, "options.from is 4294967295"},
	{ginCallPutValue, ginArgumentPeer, ginFaultRange, "peer is 1: must be below 1"},
	{ginCallSignal, ginArgumentPeer, ginFaultRange, "peer is -1: a rank is not negative"},
	{ginCallPut, ginArgumentSource, ginFaultOverlap, "its 8 bytes overlap the target's"},
	{ginCallPut, ginArgumentSource, ginFaultOverlap, "its 9 bytes overlap the target's"},
	{ginCallGet, ginArgumentSource, ginFaultOverlap, "its 1 bytes overlap the target's"},
	{ginCallPut, ginArgumentTarget, ginFaultLocal, "target: a window of GIN_WINDOW_LOCAL"},
	{ginCallSignal, ginArgumentSignal, ginFaultLocal, "signal: a window of GIN_WINDOW_LOCAL"},
	{ginCallGet, ginArgumentTarget, ginFaultLocal, "target: a window of GIN_WINDOW_LOCAL"},
	{ginCallPut, ginArgumentTarget, ginFaultGone, "target: the handle is of no window"},
	{ginCallPut, ginArgumentSource, ginFaultGone, "source: the handle is of no window"},
	{ginCallPut, ginArgumentTarget, ginFaultGone, "target: the handle is of no window"},
	{ginCallBarrier, ginArgumentBarrier, ginFaultRange, "barrier is 1048576: must be below "},
	{ginCallBarrier, ginArgumentContext, ginFaultRange, "context is 65536: must be below 2"},
	{ginCallPacketsSend, ginArgumentMost, ginFaultRange, "box.most is 16385"},
};

struct MakeMisuse {
	Calls c;
	Misuse misuse;
	uint64_t *results; /* of each thread; ginErrorInvalidArgument if a call has none */

	GIN_FN ginResult_t puts(const Gin &gin) const
	{
		const ginWindow_t w = c.window;
		switch (misuse) {
		case contextAtLimit:
			return Gin(c.dc, CONTEXTS).put(c.peer, w, 0, w, 0, 8);
		case peerAtLimit:
			return gin.put(static_cast<int>(c.dc.nRanks), w, 0, w, 0, 8);
		case putToNoWindow:
			return gin.put(c.peer, c.none, 0, w, 0, 0);
		case putToOtherCommunicator:
			return gin.put(c.peer, c.other, 0, w, 0, 8);
		case putBeyondTarget:
			return gin.put(c.peer, w, BYTES - 7, w, 0, 8, GinSignalInc{0}, GinNone{},
				       GinCta{});
		case putBeyondSource:
			return gin.put(c.peer, w, 0, w, BYTES - 4, 8);
		case putWithWrappingOffset:
			return gin.put(c.peer, w, SIZE_MAX - 3, w, 0, 8);
		case putFromBeyondTarget:
			return gin.putFrom(c.peer, w, BYTES, &c, 16);
		case putSignalId:
			return gin.put(c.peer, w, 0, w, 8, 8, GinSignalInc{SIGNALS});
		case putSignalOffset:
			return gin.put(c.peer, w, 0, w, 8, 8, GinSignalAddAt{w, BYTES, 1});
		case putSignalAlignment:
			return gin.put(c.peer, w, 0, w, 8, 8, GinWeakSignalIncAt{w, 12});
		case putCounterId:
			return gin.put(c.peer, w, 0, w, 8, 8, GinSignalInc{0},
				       GinCounterInc{COUNTERS});
		case spanWithoutBarrier:
			return gin.put(c.peer, w, 0, w, 8, 8, GinSignalInc{0}, GinNone{},
				       GinWarpSpan{0, 1, 0});
		case putEmptyBeyondTarget:
			return gin.put(c.peer, w, BYTES + 1, w, 0, 0);
		case putOfHalfTheMemory:
			return gin.put(c.peer, w, 0, w, 0, SIZE_MAX / 2 + 9);
		case putFromNull:
			return gin.putFrom(c.peer, w, 0, nullptr, 16);
		case putFromNoWindow:
			return gin.putFrom(c.peer, w, 0, &c, 17);
		default: /* differentArguments */
			return gin.put(c.peer, w, ginThreadIndex() == 1 ? 16 : 0, w, 8, 8,
				       GinSignalInc{0}, GinNone{}, GinCta{});
		}
	}

	/* Windows that no call may use so, and the ranks of teams. */
	GIN_FN ginResult_t windows(const Gin &gin) const
	{
		const ginWindow_t w = c.window;
		const int self = static_cast<int>(c.dc.rank);
		const ginTeam alone = {1, 0, 1};
		switch (misuse) {
		case peerBeyondTeam:
			return gin.putValue(alone, 1, w, 0, 1u);
		case peerNegativeInTeam:
			return gin.signal(alone, -1, GinSignalInc{0});
		case putOverlaps:
			return gin.put(self, w, 16, w, 23, 8, GinNone{}, GinNone{}, GinCta{});
		case putFromOverlaps:
			return gin.putFrom(self, w, 16, c.memory + 8, 9);
		case getOverlaps:
			return gin.get(self, w, 5, w, 5, 1);
		case putToLocal:
			return gin.put(self, c.local, 0, w, 0, 8);
		case signalAtLocal:
			return gin.signal(c.peer, GinSignalIncAt{c.local, 0});
		case getIntoLocal:
			return gin.get(c.peer, w, 0, c.local, 0, 8);
		case putToGone:
			return gin.put(c.peer, c.gone, 0, w, 0, 8, GinNone{}, GinNone{}, GinCta{});
		case putFromGone:
			return gin.put(c.peer, w, 0, c.gone, 0, 8);
		default: { /* putToGarbage: not aligned as a table is */
			ginWindow_t garbage;
			memset(&garbage, 0x5a, sizeof(garbage));
			return gin.put(c.peer, garbage, 0, w, 0, 8);
		}
		}
	}

	GIN_FN ginResult_t transfers(const Gin &gin) const
	{
		const ginWindow_t w = c.window;
		const int beyond = static_cast<int>(c.dc.nRanks);
		switch (misuse) {
		case peerNegative:
			return gin.signal(-1, GinSignalInc{0});
		case valueBeyondTarget:
			return gin.putValue(c.peer, w, BYTES - 4, uint64_t{1});
		case valueSignalId:
			return gin.putValue(c.peer, w, 0, 1u, GinSignalInc{SIGNALS + 1});
		case getBeyondPeer:
			return gin.get(c.peer, w, 100, w, 0, 200);
		case getBeyondOwn:
			return gin.get(c.peer, w, 0, w, 101, 200, GinCta{});
		case signalId:
			return gin.signal(c.peer, GinSignalAdd{UINT32_MAX, 1});
		case signalAtNoWindow:
			return gin.signal(c.peer, GinSignalIncAt{c.none, 0});
		case atomicBeyond:
			return gin.atomicFetchAdd(c.peer, w, BYTES, uint64_t{1});
		case atomicAlignment:
			return gin.atomicCompareSwap(c.peer, w, 4, 0, uint64_t{1});
		case swapPeer:
			return gin.atomicSwap(beyond, w, 8, 1u);
		case flushContext:
			return Gin(c.dc, 1000).flush();
		default: /* flushAsyncPeer: its request waits for nothing */
			gin.wait(gin.flushAsync(beyond));
			return ginErrorInvalidArgument;
		}
	}

	GIN_FN ginResult_t waits(const Gin &gin) const
	{
		const ginWindow_t w = c.window;
		uint64_t before, delta;
		ginOptions options;
		options.bits = misuse == waitBitsZero ? 0 : misuse == waitBitsMore ? 65 : 64;
		if (misuse == waitFromBeyond)
			options.from = {c.dc.nRanks - 1, 2, 1};
		if (misuse == flushFromBeyond)
			options.from = {UINT32_MAX, 1, 1};
		switch (misuse) {
		case waitBitsZero:
			return gin.waitSignal(0, 0, GinCta{}, options);
		case waitBitsMore:
			return gin.waitCounter(0, 0, GinThread{}, options);
		case waitFromBeyond:
			return gin.waitValue<uint32_t>(w, 0, 0, GinThread{}, options);
		case flushFromBeyond:
			return gin.flush(GinCta{}, options);
		case waitSignalId:
			return gin.waitSignal(SIGNALS, 1, GinCta{});
		case waitSignalAlignment:
			return gin.waitSignal(w, 4, 1);
		case waitValueAlignment:
			return gin.waitValue<uint32_t>(w, 6, 1);
		case waitCounterId:
			return gin.waitCounter(COUNTERS + 1, 1);
		default: /* followShadowId */
			return gin.waitSignalFollowShadow(SIGNALS, 1, &before, &delta, GinCta{});
		}
	}

	/* Calls that return no result. */
	GIN_FN ginResult_t words(const Gin &gin) const
	{
		const ginWindow_t w = c.window;
		uint64_t value = 0;
		if (misuse == readSignalId)
			value = gin.readSignal(SIGNALS);
		else if (misuse == resetSignalId)
			gin.resetSignal(SIGNALS + 5);
		else if (misuse == resetSignalOffset)
			gin.resetSignal(w, BYTES - 7);
		else if (misuse == readValueBeyond)
			value = gin.readValue(w, BYTES);
		else if (misuse == readCounterId)
			value = gin.readCounter(COUNTERS);
		else if (misuse == resetCounterId)
			gin.resetCounter(COUNTERS);
		else
			gin.increaseSignalShadow(SIGNALS, 1);
		return value ? ginSuccess : ginErrorInvalidArgument;
	}

	GIN_FN ginResult_t barriers() const
	{
		const ginTeam all = ginTeamWorld(c.dc);
		if (misuse == barrierIndex)
			return GinBarrier(c.dc, all, 77).sync(GinCta{});
		if (misuse == barrierTeam)
			return GinBarrier(c.dc, {all.nRanks + 1, all.rank, 1}, 0).arrive();
		if (misuse == barrierIndexHuge)
			return GinBarrier(c.dc, all, 1 << 20).sync();
		return GinBarrier(c.dc, all, 0, misuse == barrierContext ? CONTEXTS : 65536).wait();
	}

	GIN_FN ginResult_t packets() const
	{
		char message[16] = {};
		ginPacketBox box = c.box;
		if (misuse == packetsPeer)
			return GinPackets(c.dc, 0, box, 1000).send(message, 8, GinCta{});
		if (misuse == packetsLength)
			return GinPackets(c.dc, 0, box, c.peer).send(message, box.most + 1);
		if (misuse == packetsSignals)
			box.signals = SIGNALS;
		else if (misuse == packetsMost)
			box.most = GIN_PACKETS_MOST + 1;
		else
			box.offset = BYTES;
		GinPackets wrong(c.dc, 0, box, c.peer);
		return misuse == packetsBox ? wrong.receive(message, 8) : wrong.send(message, 8);
	}

	GIN_FN ginResult_t call() const
	{
		const Gin gin(c.dc, 0);
		if (misuse == spanOutsideBlock)
			return gin.flush(GinWarpSpan{1, 1000, 1});
		if ((misuse >= packetsPeer && misuse <= packetsLength) || misuse == packetsMost)
			return packets();
		if ((misuse >= barrierIndex && misuse <= barrierContext) ||
		    misuse >= barrierIndexHuge)
			return barriers();
		if (misuse >= peerBeyondTeam)
			return windows(gin);
		if (misuse >= readSignalId && misuse <= shadowId)
			return words(gin);
		if ((misuse >= waitSignalId && misuse <= waitCounterId) ||
		    misuse == followShadowId || misuse >= waitBitsZero)
			return waits(gin);
		if ((misuse >= valueBeyondTarget && misuse <= flushAsyncPeer) ||
		    misuse == peerNegative)
			return transfers(gin);
		return puts(gin);
	}

	GIN_FN void operator()() const { results[ginThreadIndex()] = call(); }
};

/* A handle that is of no window any more, or of a local window of `ptr`, for a misuse of it. */
static ginWindow_t otherWindow(Rank &r, Misuse which, void *ptr)
{
	const bool gone = which == putToGone || which == putFromGone;
	const bool local = which >= putToLocal && which <= getIntoLocal;
	ginWindow_t window = {nullptr};

	if (gone || local)
		CHECK(ginWindowRegister(r.comm, ptr, BYTES, local ? GIN_WINDOW_LOCAL : 0, &window));
	if (gone)
		CHECK(ginWindowDeregister(r.comm, window));
	return window;
}

/* Every rank makes the misuse; no byte changes, and every rank has its own record. */
static void misuse(Rank &r, Misuse which, ginWindow_t other)
{
	const uint32_t block = r.device < 0 ? 4 : 64;
	const size_t boxBytes = ginPacketBoxBytes(static_cast<uint32_t>(r.nRanks), 8);
	Buffer memory(r, BYTES, wordsAllocator(r)), box(r, boxBytes);
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginErrorRecord_t record;
	ginDevComm dc;

	want.contexts = CONTEXTS;
	want.signals = SIGNALS;
	want.counters = COUNTERS;
	box.write(std::vector<unsigned char>(boxBytes, 0));
	memory.poison();
	CHECK(ginDevCommCreate(r.comm, &want, &dc));
	Results results(r, block);
	const ginWindow_t odd = otherWindow(r, which, memory.ptr);
	launch(r, 1, block,
	       MakeMisuse{{dc,
			   memory.window,
			   other,
			   {nullptr},
			   odd,
			   odd,
			   {box.window, 0, 8, SIGNALS - 2 * static_cast<uint32_t>(r.nRanks)},
			   rightOf(dc),
			   memory.ptr},
			  which,
			  results.words});
	EXPECT(results.all(ginErrorInvalidArgument));
	CHECK(ginDevCommGetError(r.comm, &dc, &record));
	const Expected &e = expected[which];
	if (record.call != e.call || record.argument != e.argument || record.fault != e.fault ||
	    !strstr(ginGetLastError(), e.words))
		fprintf(stderr, "misuse %d: call %u, argument %u, fault %u: %s\n", which,
			record.call, record.argument, record.fault, ginGetLastError());
	EXPECT(record.valid && record.result == ginErrorInvalidArgument);
	EXPECT(record.call == e.call && record.argument == e.argument && record.fault == e.fault);
	EXPECT(strstr(ginGetLastError(), e.words) != nullptr);
	CHECK(ginDevCommDestroy(r.comm, &dc));
	if (which >= putToLocal && which <= getIntoLocal)
		CHECK(ginWindowDeregister(r.comm, odd));
	EXPECT(memory.read() == std::vector<unsigned char>(BYTES, 0x5a));
	EXPECT(box.read() == std::vector<unsigned char>(boxBytes, 0));
}

static bool hasGdaki(Rank &r)
{
	bool has = false;

	for (int peer = 0; peer < r.nRanks; peer++) {
		ginPeerInfo_t info = GIN_PEER_INFO_INIT;
		CHECK(ginCommQueryPeer(r.comm, peer, &info));
		has |= info.route == ginRouteGdaki;
	}
	return has;
}

static void misuses(Rank &r)
{
	Rank alone;
	ginComm_t comm;
	CHECK(ginCommSplit(r.comm, r.rank, 0, &comm));
	alone = rankTake(comm);
	{
		Buffer other(alone, BYTES);
		/* Windows of two communicators of one rank look alike. */
		for (int which = 0; which < MISUSES; which++)
			if ((which != putToOtherCommunicator || r.nRanks > 1) &&
			    (which != putFromNoWindow || hasGdaki(r)))
				misuse(r, static_cast<Misuse>(which), other.window);
	}
	rankClose(alone);
}

/* Calls by a device communicator that is destroyed, and by its handle. */
struct LateCalls {
	ginDevComm dc;
	ginWindow_t window;
	uint64_t *results;

	GIN_FN ginResult_t call() const
	{
		const Gin gin(dc, 0), byHandle(*dc.self, 0);
		const ginWindow_t w = window;
		const ginResult_t all[] = {
			gin.put(rightOf(dc), w, 0, w, 8, 8, GinSignalInc{0}, GinNone{}, GinCta{}),
			byHandle.put(rightOf(dc), w, 0, w, 8, 8, GinSignalInc{0}),
			gin.waitSignal(0, 1),
			gin.flush(),
			GinBarrier(dc, ginTeamWorld(dc), 0).sync(GinCta{}),
			GinPackets(dc, 0, {w, 0, 8, 0}, rightOf(dc)).send(this, 8, GinCta{}),
			gin.flush(GinWarpSpan{0, 1, 0}), /* a coop that does not fit */
		};
		for (ginResult_t result : all)
			if (result != ginErrorInvalidArgument)
				return ginSuccess;
		return gin.readSignal(0) ? ginSuccess : ginErrorInvalidArgument;
	}

	GIN_FN void operator()() const { results[ginThreadIndex()] = call(); }
};

/* A kernel with a stale device communicator changes nothing, also after another one was made. */
static void lateCalls(Rank &r)
{
	const uint32_t block = r.device < 0 ? 4 : 64;
	Buffer memory(r, BYTES, wordsAllocator(r));
	ginErrorRecord_t record;
	ginDevComm stale;

	memory.poison();
	{
		Device device(r, 1, 2 * static_cast<uint32_t>(r.nRanks));
		stale = device.dc;
	}
	for (int round = 0; round < 2; round++) {
		Device device(r, 1, 2 * static_cast<uint32_t>(r.nRanks));
		Results results(r, block);
		launch(r, 1, block, LateCalls{stale, memory.window, results.words});
		EXPECT(results.all(ginErrorInvalidArgument));
		CHECK(ginDevCommGetError(r.comm, &device.dc, &record));
		EXPECT(!record.valid);
		stale = device.dc;
	}
	EXPECT(memory.read() == std::vector<unsigned char>(BYTES, 0x5a));
}

/* Valid calls at the limits succeed: the checks refuse no valid call. */
struct RightCalls {
	Calls c;
	uint64_t *results;

	GIN_FN ginResult_t call() const
	{
		const Gin gin(c.dc, CONTEXTS - 1);
		const ginWindow_t w = c.window;
		const GinCta block;
		ginResult_t result =
			gin.put(c.peer, w, BYTES / 2, w, 0, BYTES / 2, GinSignalInc{SIGNALS - 1},
				GinCounterInc{COUNTERS - 1}, block);
		if (result == ginSuccess)
			result =
				gin.put(c.peer, w, BYTES, w, BYTES, 0, GinNone{}, GinNone{}, block);
		if (result == ginSuccess)
			result = gin.waitSignal(SIGNALS - 1, 1, block);
		if (result == ginSuccess)
			result = gin.waitCounter(COUNTERS - 1, 1, block);
		if (result == ginSuccess)
			result = gin.wait(gin.flushAsync(c.peer, block), block);
		if (result == ginSuccess) /* beside each other */
			result = gin.put(static_cast<int>(c.dc.rank), w, 8, w, 0, 8,
					 GinSignalInc{0}, GinNone{}, block);
		if (result == ginSuccess)
			result = gin.waitSignal(0, 1, block);
		const uint32_t warps = ginBlockSize() / GIN_WARP_SIZE;
		if (result == ginSuccess)
			result = gin.flush(GinWarpSpan{0, warps, 15});
		if (result == ginSuccess)
			result = gin.flush(GinAnyCoop{ginCoopOfSpan(0, warps, 15)});
		if (result == ginSuccess)
			result = GinBarrier(c.dc, ginTeamWorld(c.dc), c.dc.barriers - 1,
					    CONTEXTS - 1)
					 .sync(block);
		return result;
	}

	GIN_FN void operator()() const { results[ginThreadIndex()] = call(); }
};

static void rightCalls(Rank &r)
{
	const uint32_t block = r.device < 0 ? 4 : 64;
	Buffer memory(r, BYTES);
	std::vector<unsigned char> bytes(BYTES, 0x5a);
	Device device(r, CONTEXTS, SIGNALS);
	Results results(r, block);

	for (size_t i = 0; i < BYTES / 2; i++)
		bytes[i] = pattern(static_cast<uint32_t>(r.rank), 0, i);
	memory.write(bytes);
	meet(r);
	launch(r, 1, block,
	       RightCalls{{device.dc,
			   memory.window,
			   {nullptr},
			   {nullptr},
			   {nullptr},
			   {nullptr},
			   {},
			   rightOf(device.dc),
			   memory.ptr},
			  results.words});
	EXPECT(results.all(ginSuccess));
	memcpy(&bytes[8], bytes.data(), 8);
	for (size_t i = 0; i < BYTES / 2; i++)
		bytes[BYTES / 2 + i] = pattern(static_cast<uint32_t>(leftOf(device.dc)), 0, i);
	EXPECT(memory.read() == bytes);
	meet(r);
}

static const Test tests[] = {
	{"wrong arguments are named and change nothing", misuses},
	{"a destroyed device communicator is refused", lateCalls},
	{"right arguments at their limits pass", rightCalls},
};

int main(int argc, char **argv)
{
	return suiteMain(argc, argv, "semantics_checks", tests);
}
