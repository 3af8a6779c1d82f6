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
	ginPacketBox box;
	int peer;
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
	MISUSES
};

struct Expected {
	uint32_t call, argument, fault;
	const char *words; /* of ginGetLastError() */
};

static const Expected expected[MISUSES] = {
	{ginCallPut, ginArgumentContext, ginFaultRange, "put in context 2, rank "},
	{ginCallPut, ginArgumentPeer, ginFaultRange, "peer is "},
	{ginCallSignal, ginArgumentPeer, ginFaultRange, "peer is 4294967295: must be below "},
	{ginCallPut, ginArgumentTarget, ginFaultWindow, "target: the window is NULL"},
	{ginCallPut, ginArgumentTarget, ginFaultWindow, "or of another communicator"},
	{ginCallPut, ginArgumentTarget, ginFaultEnd, "target ends at byte 257 of window "},
	{ginCallPut, ginArgumentSource, ginFaultEnd, "source ends at byte 260 of window "},
	{ginCallPut, ginArgumentTarget, ginFaultEnd, "which has 256 there"},
	{ginCallPut, ginArgumentTarget, ginFaultEnd, "target ends at byte 272"},
	{ginCallPut, ginArgumentSignal, ginFaultRange, "signal is 16: must be below 16"},
	{ginCallPut, ginArgumentSignal, ginFaultEnd, "signal ends at byte 264"},
	{ginCallPut, ginArgumentSignal, ginFaultAlignment, "signal: offset 12 of window "},
	{ginCallPut, ginArgumentCounter, ginFaultRange, "counter is 2: must be below 2"},
	{ginCallPutValue, ginArgumentTarget, ginFaultEnd, "target ends at byte 260"},
	{ginCallPutValue, ginArgumentSignal, ginFaultRange, "signal is 17"},
	{ginCallGet, ginArgumentTarget, ginFaultEnd, "target ends at byte 300"},
	{ginCallGet, ginArgumentSource, ginFaultEnd, "source ends at byte 301"},
	{ginCallSignal, ginArgumentSignal, ginFaultRange, "signal is 4294967295"},
	{ginCallSignal, ginArgumentSignal, ginFaultWindow, "signal: the window is NULL"},
	{ginCallAtomic, ginArgumentTarget, ginFaultEnd, "target ends at byte 264"},
	{ginCallAtomic, ginArgumentTarget, ginFaultAlignment, "must be a multiple of 8"},
	{ginCallAtomic, ginArgumentPeer, ginFaultRange, "peer is "},
	{ginCallFlush, ginArgumentContext, ginFaultRange, "flush in context 1000"},
	{ginCallFlush, ginArgumentPeer, ginFaultRange, "peer is "},
	{ginCallWaitSignal, ginArgumentSignal, ginFaultRange, "signal is 16: must be below 16"},
	{ginCallWaitSignal, ginArgumentSignal, ginFaultAlignment, "signal: offset 4 of window "},
	{ginCallWaitValue, ginArgumentSource, ginFaultAlignment, "must be a multiple of 4"},
	{ginCallWaitCounter, ginArgumentCounter, ginFaultRange, "counter is 3"},
	{ginCallReadSignal, ginArgumentSignal, ginFaultRange, "readSignal in context 0"},
	{ginCallResetSignal, ginArgumentSignal, ginFaultRange, "resetSignal in context 0"},
	{ginCallResetSignal, ginArgumentSource, ginFaultEnd, "source ends at byte 257"},
	{ginCallReadValue, ginArgumentSource, ginFaultEnd, "readValue in context 0"},
	{ginCallReadCounter, ginArgumentCounter, ginFaultRange, "readCounter in context 0"},
	{ginCallResetCounter, ginArgumentCounter, ginFaultRange, "resetCounter in context 0"},
	{ginCallShadow, ginArgumentSignal, ginFaultRange, "call on a signal's shadow"},
	{ginCallShadow, ginArgumentSignal, ginFaultRange, "signal is 16"},
	{ginCallBarrier, ginArgumentBarrier, ginFaultRange, "barrier is 77"},
	{ginCallBarrier, ginArgumentTeam, ginFaultRange, "team is "},
	{ginCallBarrier, ginArgumentContext, ginFaultRange, "context is 2: must be below 2"},
	{ginCallPacketsSend, ginArgumentPeer, ginFaultRange, "peer is "},
	{ginCallPacketsReceive, ginArgumentBox, ginFaultEnd, "box ends at byte "},
	{ginCallPacketsSend, ginArgumentBox, ginFaultRange, "box is "},
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
		return GinBarrier(c.dc, all, 0, CONTEXTS).wait();
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
		if (misuse >= packetsPeer && misuse <= packetsLength)
			return packets();
		if (misuse >= barrierIndex && misuse <= barrierContext)
			return barriers();
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
	launch(r, 1, block,
	       MakeMisuse{{dc,
			   memory.window,
			   other,
			   {nullptr},
			   {box.window, 0, 8, SIGNALS - 2 * static_cast<uint32_t>(r.nRanks)},
			   rightOf(dc)},
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
	       RightCalls{{device.dc, memory.window, {nullptr}, {nullptr}, {}, rightOf(device.dc)},
			  results.words});
	EXPECT(results.all(ginSuccess));
	for (size_t i = 0; i < BYTES / 2; i++)
		bytes[BYTES / 2 + i] = pattern(static_cast<uint32_t>(leftOf(device.dc)), 0, i);
	EXPECT(memory.read() == bytes);
	meet(r);
}

static const Test tests[] = {
	{"wrong arguments are named and change nothing", misuses},
	{"right arguments at their limits pass", rightCalls},
};

int main(int argc, char **argv)
{
	return suiteMain(argc, argv, "semantics_checks", tests);
}
