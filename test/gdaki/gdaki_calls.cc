/* SPDX-License-Identifier: BSD-3-Clause */
/* gdaki_calls.cc - the WQEs of each call in a send queue, and the call's result for a completion */
/* COMPILE: -O0 */
#include "gdaki_late.h"

#include <utility>

static void puts()
{
	Rig r;
	Gin gin(r.dc, 0);
	Expected plain(r);
	EXPECT(gin.put(PEER, r.window, 64, r.window, 8, 100) == ginSuccess);
	plain.one(ginMlx5Write(plain.slot(CQE), there, here, 100));
	plain.end();

	Expected raises(r);
	EXPECT(gin.put(PEER, r.window, 64, r.window, 8, 100, GinSignalAdd{2, 7}) == ginSuccess);
	raises.one(ginMlx5Write(raises.slot(), there, here, 100));
	raises.one(ginMlx5FetchAdd(raises.slot(CQE), word(2), sink, 7));
	raises.end();

	Expected nothing(r);
	EXPECT(gin.put(PEER, r.window, 64, r.window, 8, 0) == ginSuccess);
	nothing.nothing(CQE);
	EXPECT(gin.put(PEER, r.window, 64, r.window, 8, 0, GinSignalInc{1}) == ginSuccess);
	nothing.nothing();
	nothing.one(ginMlx5FetchAdd(nothing.slot(CQE), word(1), sink, 1));
	nothing.end();

	Expected from(r);
	const char *source = reinterpret_cast<const char *>(0x5010);
	EXPECT(gin.putFrom(PEER, r.window, 64, source, 0xf0) == ginSuccess);
	from.one(ginMlx5Write(from.slot(CQE), there, {0x995010, ginMlx5Key(0x91)}, 0xf0));
	EXPECT(gin.putFrom(PEER, r.window, 64, source, 1, GinSignalAdd{2, 7}) == ginSuccess);
	from.one(ginMlx5Write(from.slot(), there, {0x995010, ginMlx5Key(0x91)}, 1));
	from.one(ginMlx5FetchAdd(from.slot(CQE), word(2), sink, 7));
	from.end();
	EXPECT(!r.error.valid);
	EXPECT(gin.putFrom(PEER, r.window, 64, source, 0xf1) == ginErrorInvalidArgument);
	EXPECT(r.error.valid && r.error.result == ginErrorInvalidArgument && r.error.peer == PEER);
	EXPECT(gin.putFrom(PEER, r.window, 64, source - 0x11, 1) == ginErrorInvalidArgument);
	from.end();
}

/* In posts of 1 GiB: the signal and the counter come with the last one. */
static void longPuts()
{
	Rig r;
	Gin gin(r.dc, 0);
	Expected e(r);
	EXPECT(gin.put(PEER, r.window, 64, r.window, 8, 5 * GIB + 5, GinSignalInc{0},
		       GinCounterInc{0}) == ginSuccess);
	for (uint32_t i = 0; i < 5; i++) {
		e.one(ginMlx5Write(e.slot(), part(there, i * GIB), part(here, i * GIB),
				   GIN_MLX5_MESSAGE_BYTES));
		e.nothing(CQE);
	}
	e.one(ginMlx5Write(e.slot(), part(there, 5 * GIB), part(here, 5 * GIB), 5));
	e.one(ginMlx5FetchAdd(e.slot(CQE), word(0), sink, 1));
	r.m->complete(9);
	EXPECT(gin.readCounter(0) == 0);
	e.end();
	EXPECT(gin.readCounter(0) == 1);
}

/* A WQE moves up to 1 GiB: one more byte is a post of its own. */
static void oneMessage()
{
	Rig r;
	Gin gin(r.dc, 0);
	Expected e(r);
	EXPECT(gin.put(PEER, r.window, 64, r.window, 8, GIB) == ginSuccess);
	e.one(ginMlx5Write(e.slot(CQE), there, here, GIN_MLX5_MESSAGE_BYTES));
	EXPECT(gin.put(PEER, r.window, 64, r.window, 8, GIB + 1) == ginSuccess);
	e.one(ginMlx5Write(e.slot(CQE), there, here, GIN_MLX5_MESSAGE_BYTES));
	e.one(ginMlx5Write(e.slot(CQE), part(there, GIB), part(here, GIB), 1));
	EXPECT(gin.get(PEER, r.window, 64, r.window, 8, GIB + 1) == ginSuccess);
	e.one(ginMlx5Read(e.slot(CQE), there, here, GIN_MLX5_MESSAGE_BYTES));
	e.one(ginMlx5Read(e.slot(CQE), part(there, GIB), part(here, GIB), 1));
	EXPECT(gin.flush() == ginErrorTimeout);
	e.one(ginMlx5Dump(e.slot(CQE | ginMlx5FenceAndSmall), base, 1));
	e.end();
}

template <size_t bytes>
static ginResult_t putValue(Rig &r, ginSharing sharing, const ginSignalOp &remote)
{
	return Gin(r.dc, 0, sharing).putValue(PEER, r.window, 64, valueOf<bytes>(), remote);
}

/* In one WQE or two; the last of all has the CQE. */
template <size_t bytes> static void expectValue(Expected &e, uint32_t last)
{
	const Value<bytes> v = valueOf<bytes>();
	uint32_t words[8] = {};

	memcpy(words, &v, bytes);
	if constexpr (bytes <= 28) {
		e.first(ginMlx5WriteInline(e.slot(last), there, words, bytes), 36 + bytes);
	} else {
		e.first(ginMlx5WriteInline(e.slot(), there, words, 16), 36 + 16);
		e.first(ginMlx5WriteInline(e.slot(last), part(there, 16), words + 4, bytes - 16),
			36 + bytes - 16);
	}
}

template <size_t bytes> static void value(Rig &r, ginSharing sharing, bool late)
{
	Expected e(late ? fill(r, sharing) : r);
	EXPECT(putValue<bytes>(r, sharing, ginSignalOf(GinNone{})) == ginSuccess);
	expectValue<bytes>(e, CQE);
	EXPECT(putValue<bytes>(r, sharing, ginSignalOf(GinSignalInc{3})) == ginSuccess);
	expectValue<bytes>(e, 0);
	e.one(ginMlx5FetchAdd(e.slot(CQE), word(3), sink, 1));
	EXPECT(putValue<bytes>(r, sharing, ginSignalOf(GinSignalAddAt{r.window, 64, 1ull << 40})) ==
	       ginSuccess);
	expectValue<bytes>(e, 0);
	e.one(ginMlx5FetchAdd(e.slot(CQE), strict, sink, 1ull << 40));
	e.end();
}

template <size_t... less> static void values(std::index_sequence<less...>)
{
	for (ginSharing sharing : {ginSharingGpu, ginSharingCta, ginSharingThread}) {
		for (bool late : {false, true}) {
			Rig r;
			(value<less + 1>(r, sharing, late), ...);
		}
	}
}

static void signalsAndGets()
{
	Rig r;
	Gin gin(r.dc, 0);
	Expected e(r);
	EXPECT(gin.signal(PEER, GinSignalAdd{3, 1ull << 40}) == ginSuccess);
	e.one(ginMlx5FetchAdd(e.slot(CQE), word(3), sink, 1ull << 40));
	EXPECT(gin.signal(PEER, GinWeakSignalIncAt{r.window, 64}) == ginSuccess);
	e.one(ginMlx5FetchAdd(e.slot(CQE), strict, sink, 1));
	EXPECT(gin.get(PEER, r.window, 64, r.window, 8, 12) == ginSuccess);
	e.one(ginMlx5Read(e.slot(CQE), there, here, 12));
	EXPECT(gin.get(PEER, r.window, 64, r.window, 8, 0) == ginSuccess);
	e.nothing(CQE);
	EXPECT(gin.flush() == ginErrorTimeout && gin.flush() == ginErrorTimeout);
	e.one(ginMlx5Dump(e.slot(CQE | ginMlx5FenceAndSmall), base, 1)); /* one is enough */
	e.end();
	Expected other(r);
	EXPECT(Gin(r.dc, 1).signal(0, GinSignalInc{1}) == ginSuccess);
	struct ginMlx5Wqebb there0 =
		ginMlx5FetchAdd({r.queues[2].fixed.queue, 0, CQE},
				{0x90000000 + (SIGNALS + 1) * 8, ginMlx5Key(0x61)}, sink, 1);
	EXPECT(!memcmp(&r.memory[2].wqes[0], &there0, sizeof(there0)));
	other.end();
}

/* Tickets for gets have their DUMPs; later gets, into memory of two kinds, have another two. */
static void getsByTicket(ginSharing sharing)
{
	Rig r;
	Gin gin(r.dc, 0, sharing);
	Expected e(r);
	Table hosts;
	ginWindow_t host = {&hosts.head};
	memcpy(&hosts, r.window.table, sizeof(hosts));
	hosts.head.fence = ginScopeSystem;
	hosts.head.nicKey = ginMlx5Key(0x32);
	EXPECT(gin.get(PEER, r.window, 64, r.window, 8, 12) == ginSuccess);
	e.one(ginMlx5Read(e.slot(CQE), there, here, 12));
	struct ginRequest request = gin.flushAsync(PEER);
	e.one(ginMlx5Dump(e.slot(CQE | ginMlx5FenceAndSmall), base, 1));
	EXPECT(gin.get(PEER, r.window, 64, host, 8, 12) == ginSuccess);
	e.one(ginMlx5Read(e.slot(CQE), there, {here.address, ginMlx5Key(0x32)}, 12));
	EXPECT(gin.get(PEER, r.window, 64, r.window, 8, 12) == ginSuccess);
	e.one(ginMlx5Read(e.slot(CQE), there, here, 12));
	EXPECT(gin.wait(request) == ginErrorTimeout);
	r.m->complete(1);
	EXPECT(gin.wait(request) == ginSuccess);
	EXPECT(gin.flush() == ginErrorTimeout);
	e.one(ginMlx5Dump(e.slot(CQE | ginMlx5FenceAndSmall), base, 1));
	e.one(ginMlx5Dump(e.slot(CQE | ginMlx5FenceAndSmall), {base.address, ginMlx5Key(0x32)}, 1));
	e.end();
	EXPECT(gin.flush() == ginSuccess && r.q->reserved == 6);
}

/* Atomics without and with an old value; no NIC writes it. */
static void atomics()
{
	Rig r;
	Gin gin(r.dc, 0);
	Expected e(r);
	EXPECT(gin.atomicFetchAdd(PEER, r.window, 64, uint64_t{5}) == ginSuccess);
	e.one(ginMlx5FetchAdd(e.slot(CQE), strict, sink, 5));
	EXPECT(gin.atomicCompareSwap(PEER, r.window, 64, 6, uint64_t{7}) == ginSuccess);
	e.one(ginMlx5CompareSwap(e.slot(CQE), strict, sink, 6, 7));
	EXPECT(gin.atomicFetchAdd(PEER, r.window, 64, 5u) == ginSuccess);
	e.one(ginMlx5MaskedFetchAdd4(e.slot(CQE), strict, sink, 5, 0));
	EXPECT(gin.atomicCompareSwap(PEER, r.window, 64, 6, 7u) == ginSuccess);
	e.one(ginMlx5MaskedCompareSwap4(e.slot(CQE), strict, sink, {6, UINT32_MAX, 7, UINT32_MAX}));
	EXPECT(gin.atomicSwap(PEER, r.window, 64, 7u) == ginSuccess);
	e.one(ginMlx5MaskedCompareSwap4(e.slot(CQE), strict, sink, {0, 0, 7, UINT32_MAX}));
	EXPECT(gin.atomicSwap(PEER, r.window, 64, uint64_t{9}) == ginSuccess);
	struct ginMlx5TwoWqebbs two =
		ginMlx5MaskedCompareSwap8(e.slot(), strict, sink, {0, 0, 9, UINT64_MAX});
	e.one(two.wqebb[0]);
	e.one(two.wqebb[1]);
	e.one(ginMlx5Nop(e.slot(CQE)));
	e.end();
}

/* Without masked atomics there are plain ones of 8 bytes. */
static void atomicsWithoutMasks()
{
	Rig r;
	Gin gin(r.dc, 0);
	Expected e(r);
	r.q->fixed.masked = 0;
	EXPECT(gin.atomicFetchAdd(PEER, r.window, 64, 5u) == ginErrorUnsupported);
	EXPECT(gin.atomicCompareSwap(PEER, r.window, 64, 6, 7u) == ginErrorUnsupported);
	EXPECT(gin.atomicSwap(PEER, r.window, 64, 7u) == ginErrorUnsupported);
	EXPECT(gin.atomicSwap(PEER, r.window, 64, uint64_t{9}) == ginErrorUnsupported);
	EXPECT(r.error.valid && r.error.result == ginErrorUnsupported);
	EXPECT(gin.atomicFetchAdd(PEER, r.window, 64, uint64_t{5}) == ginSuccess);
	e.one(ginMlx5FetchAdd(e.slot(CQE), strict, sink, 5));
	e.end();
}

/*
 * Threads that give up leave their result slots; a slot is free again when its queue has passed it.
 */
static void places()
{
	Rig r;
	Gin gin(r.dc, 0);
	uint64_t old = 0;
	r.results[0].freeResults = 3;
	for (int peer : {0, 1})
		EXPECT(gin.atomicFetchAdd(peer, r.window, 64, uint64_t{1}, &old) ==
		       ginErrorTimeout);
	EXPECT(!r.results[0].freeResults && r.results[0].abandoned[0] && r.results[0].abandoned[1]);
	EXPECT(gin.atomicFetchAdd(PEER, r.window, 64, uint64_t{1}, &old) == ginErrorTimeout);
	EXPECT(r.q->reserved == 1); /* it has found no place, and posted nothing */
	r.m->complete(0);
	EXPECT(gin.atomicFetchAdd(0, r.window, 64, uint64_t{1}, &old) == ginErrorTimeout);
	struct ginMlx5Wqebb wqe = r.memory[0].wqes[1];
	EXPECT(wqe.segment[3].word[3] == ginMlx5Swap(0x7000 + 8)); /* the peer's, not queue 0's */
	EXPECT(r.queues[0].reserved == 2 && old == 0);
}

/* Posts that aggregate ring with the first post that does not, or with a thread that waits. */
static void aggregate(ginSharing sharing)
{
	Rig r;
	Gin gin(r.dc, 0, sharing);
	ginOptions more;
	more.aggregate = true;
	for (int i = 0; i < 2; i++)
		EXPECT(gin.put(PEER, r.window, 0, r.window, 0, 8, GinNone{}, GinNone{}, GinThread{},
			       more) == ginSuccess);
	EXPECT(gin.putValue(PEER, r.window, 0, 1, GinNone{}, GinThread{}, more) == ginSuccess);
	EXPECT(r.m->rung() == 0 && r.q->handed == 3);
	EXPECT(gin.putValue(PEER, r.window, 0, valueOf<32>(), GinNone{}, GinThread{}, more) ==
	       ginSuccess);
	EXPECT(r.m->rung() == 0 && r.q->handed == 5);
	EXPECT(gin.put(PEER, r.window, 0, r.window, 0, 8) == ginSuccess);
	EXPECT(r.m->rung() == 6);
	EXPECT(gin.put(PEER, r.window, 0, r.window, 0, 8, GinNone{}, GinNone{}, GinThread{},
		       more) == ginSuccess);
	EXPECT(r.m->rung() == 6);
	EXPECT(gin.flush(GinThread{}, ginTimeout(SHORT)) == ginErrorTimeout);
	EXPECT(r.m->rung() == 7);
}

/* A full queue: calls time out, with nothing reserved; then they go on. */
static void full(ginSharing sharing)
{
	Rig r;
	Gin gin(r.dc, 0, sharing);
	for (int i = 0; i < DEPTH / 2; i++)
		EXPECT(gin.put(PEER, r.window, 0, r.window, 0, 8, GinSignalInc{0}) == ginSuccess);
	EXPECT(gin.putValue(PEER, r.window, 0, 1u) == ginErrorTimeout);
	EXPECT(r.q->reserved == DEPTH && r.error.valid && r.error.call == ginCallPutValue);
	r.m->complete(0); /* room for one */
	EXPECT(gin.put(PEER, r.window, 0, r.window, 0, 8, GinSignalInc{0}) == ginErrorTimeout);
	EXPECT(gin.putValue(PEER, r.window, 0, 1u, GinSignalInc{0}) == ginErrorTimeout);
	EXPECT(r.q->reserved == DEPTH);
	EXPECT(gin.putValue(PEER, r.window, 0, 1u) == ginSuccess);
	EXPECT(r.q->reserved == DEPTH + 1 && r.m->rung() == DEPTH + 1);
	struct ginRequest request = gin.flushAsync(PEER);
	r.m->complete(DEPTH - 1);
	EXPECT(gin.wait(request, GinThread{}, ginTimeout(SHORT)) == ginErrorTimeout);
	r.m->complete(DEPTH);
	EXPECT(gin.wait(request) == ginSuccess);
}

/* A put that counts; `known`: its source is in a window that the call names. */
static ginResult_t countedPut(const Rig &r, const Gin &gin, int peer, uint32_t counter, bool known,
			      ginOptions options = {})
{
	const char *source = reinterpret_cast<const char *>(0x5010);

	return known ? gin.put(peer, r.window, 0, r.window, 0, 8, GinNone{}, GinCounterInc{counter},
			       GinThread{}, options)
		     : gin.putFrom(peer, r.window, 0, source, 8, GinNone{}, GinCounterInc{counter},
				   GinThread{}, options);
}

/* Completed posts raise their counters once, whichever thread polls. */
static void counters(ginSharing sharing, bool known)
{
	Rig r;
	Gin gin(r.dc, 0, sharing), other(r.dc, 1);
	for (uint32_t i = 0; i < 3 * DEPTH; i++) {
		EXPECT(countedPut(r, gin, PEER, i % 2, known) == ginSuccess);
		EXPECT(countedPut(r, gin, 0, 2, known) == ginSuccess);
		r.memory[0].complete(i);
		if (i % 5 == 4)
			r.m->complete(i);
	}
	EXPECT(gin.waitCounter(2, 3 * DEPTH) == ginSuccess);
	uint64_t done = (3 * DEPTH) / 5 * 5;
	EXPECT(gin.readCounter(0) + gin.readCounter(1) == done);
	EXPECT(gin.waitCounter(1, 3 * DEPTH / 2) == ginErrorTimeout);
	EXPECT(other.readCounter(0) == 0 && other.flush() == ginSuccess);
	r.m->complete(3 * DEPTH - 1);
	EXPECT(gin.waitCounter(1, 3 * DEPTH / 2) == ginSuccess);
	EXPECT(gin.readCounter(0) == 3 * DEPTH / 2 && gin.readCounter(2) == 3 * DEPTH);
	gin.resetCounter(0);
	EXPECT(gin.flush() == ginSuccess && gin.readCounter(0) == 0);
}

/* The compare of a counter rolls over at 2^options.bits. */
static void countersRoll(ginSharing sharing)
{
	Rig r;
	Gin gin(r.dc, 0, sharing);
	ginOptions narrow;
	narrow.bits = 32;
	r.counters[0] = 5;
	EXPECT(gin.waitCounter(0, 0xfffffffe, GinThread{}, narrow) == ginSuccess);
	EXPECT(gin.waitCounter(0, 6, GinThread{}, narrow) == ginErrorTimeout);
	EXPECT(gin.waitCounter(0, 0xfffffffe) == ginErrorTimeout);
}

/* A ticket taken between the reservation of another thread and the undoing of that reservation. */
static void ticketsOfUndoneReservations(ginSharing sharing)
{
	Rig r;
	Gin gin(r.dc, 0, sharing);
	EXPECT(gin.put(PEER, r.window, 0, r.window, 0, 8) == ginSuccess);
	r.q->reserved += 3;
	struct ginRequest request = gin.flushAsync(PEER);
	r.q->reserved -= 3;
	EXPECT(gin.wait(request) == ginErrorTimeout);
	r.m->complete(0);
	EXPECT(gin.wait(request) == ginSuccess);
}

/* The error record names the context of the call. */
static void errorsOfLaterContexts()
{
	Rig r;
	const char *nowhere = reinterpret_cast<const char *>(0x1000);
	EXPECT(Gin(r.dc, 1).putFrom(PEER, r.window, 0, nowhere, 8) == ginErrorInvalidArgument);
	EXPECT(r.error.valid && r.error.context == 1 && r.error.peer == PEER);
}

/* A put with a signal counts by the signal's WQE, its last one. */
static void countsLast(ginSharing sharing)
{
	Rig r;
	Gin gin(r.dc, 0, sharing);
	EXPECT(gin.put(PEER, r.window, 0, r.window, 0, 8, GinSignalInc{0}, GinCounterInc{1}) ==
	       ginSuccess);
	r.m->complete(0);
	EXPECT(gin.readCounter(1) == 0);
	r.m->complete(1);
	EXPECT(gin.readCounter(1) == 1);
}

/* A WQE fails: later WQEs do not count, and every later call on the queue returns the error. */
static void failure(ginSharing sharing)
{
	Rig r;
	Gin gin(r.dc, 0, sharing);
	uint64_t old = 0;
	for (int i = 0; i < 3; i++)
		EXPECT(gin.put(PEER, r.window, 0, r.window, 0, 8, GinNone{}, GinCounterInc{0}) ==
		       ginSuccess);
	r.m->complete(0);
	EXPECT(gin.readCounter(0) == 1);
	r.m->complete(1, ginMlx5CqeRequestError, ginMlx5RemoteAccess, 0x5a);
	EXPECT(gin.waitCounter(0, 1) == ginSuccess); /* the done index at the failure */
	EXPECT(gin.waitCounter(0, 2, GinThread{}, ginTimeout(GIN_FOREVER)) == ginErrorPeer);
	EXPECT(r.error.valid && r.error.call == ginCallWaitCounter && r.error.seen == 1);
	r.m->complete(2, ginMlx5CqeRequestError, ginMlx5Flushed);
	EXPECT(r.q->latched >> 56 == ginMlx5RemoteAccess && (r.q->latched >> 32 & 0xffff) == 1);
	EXPECT((r.q->latched >> 48 & 0xff) == 0x5a);
	EXPECT(gin.put(PEER, r.window, 0, r.window, 0, 8) == ginErrorPeer);
	EXPECT(gin.putValue(PEER, r.window, 0, 1u) == ginErrorPeer);
	EXPECT(gin.get(PEER, r.window, 0, r.window, 0, 8) == ginErrorPeer);
	EXPECT(gin.signal(PEER, GinSignalInc{0}) == ginErrorPeer);
	EXPECT(gin.atomicSwap(PEER, r.window, 0, 1u) == ginErrorPeer);
	EXPECT(gin.atomicFetchAdd(PEER, r.window, 0, uint64_t{1}, &old) == ginErrorPeer);
	EXPECT(gin.flush() == ginErrorPeer && gin.wait(gin.flushAsync(PEER)) == ginErrorPeer);
	EXPECT(r.counters[0] == 1 && r.results[0].freeResults == UINT32_MAX);
	EXPECT(gin.put(0, r.window, 0, r.window, 0, 8) == ginSuccess); /* the other queue */
}

/* The host says that a peer has failed: calls return at once, and post nothing that moves. */
static void lostPeer(ginSharing sharing)
{
	Rig r;
	Gin gin(r.dc, 0, sharing);
	Expected e(r);
	r.peers[PEER].state = ginPeerFailed;
	EXPECT(gin.put(PEER, r.window, 0, r.window, 0, 8, GinSignalInc{0}, GinCounterInc{0}) ==
	       ginErrorPeer);
	e.nothing();
	e.nothing(CQE);
	e.end();
	EXPECT(countedPut(r, gin, PEER, 0, false) == ginErrorPeer);
	e.nothing(CQE);
	e.end();
	EXPECT(gin.readCounter(0) == 0 && r.error.valid && r.error.peer == PEER);
	EXPECT(gin.put(PEER, r.window, 0, r.window, 0, 8, GinSignalInc{0}) == ginErrorPeer);
	EXPECT(gin.signal(PEER, GinSignalInc{0}) == ginErrorPeer);
	e.nothing();
	e.nothing(CQE);
	e.nothing(CQE);
	e.end();
	EXPECT(gin.putValue(PEER, r.window, 0, 1u) == ginErrorPeer);
	EXPECT(gin.putValue(PEER, r.window, 0, 1u, GinSignalInc{0}) == ginErrorPeer);
	EXPECT(gin.putValue(PEER, r.window, 0, valueOf<32>()) == ginErrorPeer);
	e.nothing(CQE);
	e.nothing();
	e.nothing(CQE);
	e.nothing();
	e.nothing(CQE);
	e.end();
}

/* The abort line names the peer to a thread that waits already. */
static void lostPeerOfCounter(ginSharing sharing)
{
	Rig r;
	Gin gin(r.dc, 0, sharing);
	r.line.word = uint64_t{PEER} << 32 | ginErrorPeer;
	EXPECT(gin.waitCounter(1, 1, GinThread{}, ginTimeout(GIN_FOREVER)) == ginErrorPeer);
	EXPECT(r.error.call == ginCallWaitCounter && r.error.peer == PEER);
}

/* As above with a full queue: no thread waits for room. */
static void lostPeerWhenFull(ginSharing sharing)
{
	Rig r;
	Gin gin(r.dc, 0, sharing);
	for (int i = 0; i < DEPTH; i++)
		EXPECT(gin.putValue(PEER, r.window, 0, 1u) == ginSuccess);
	r.peers[PEER].state = ginPeerFailed;
	r.dc.timeout = GIN_FOREVER;
	EXPECT(gin.putValue(PEER, r.window, 0, 1u, GinSignalInc{0}) == ginErrorPeer);
	EXPECT(gin.put(PEER, r.window, 0, r.window, 0, 8) == ginErrorPeer);
	EXPECT(r.q->reserved == DEPTH && r.m->rung() == DEPTH);
}

/* Threads use one context one after the other, in different ways. */
static void inTurn()
{
	const ginSharing ways[] = {ginSharingThread, ginSharingGpu, ginSharingCta};
	Rig r;
	for (uint32_t i = 0; i < 20 * DEPTH; i++) {
		ginOptions options;
		options.aggregate = i % 3 == 1;
		Gin gin(r.dc, 0, ways[i * 7 / 5 % 3]);
		EXPECT(countedPut(r, gin, PEER, 1, i % 4 < 2, options) == ginSuccess);
		if (i % 7 == 6) {
			r.m->complete(i);
			EXPECT(gin.flush() == ginSuccess && gin.readCounter(1) == i + 1);
			EXPECT(options.aggregate || r.m->rung() == ((i + 1) & 0xffff));
		}
	}
	for (uint64_t i = 0; i < DEPTH; i++)
		EXPECT(r.m->turn[i] == (i == r.q->handed % DEPTH ? GIN_TURN : 0));
}

/* A barrier waits for all contexts' posts, reads after them, then sets its word at the peer. */
static void barrier()
{
	Rig r;
	uint64_t words[CONTEXTS * SIGNALS + GIN_BARRIER_ROUNDS] = {}, epoch = 4;
	r.dc.signal[ginWriterNic] = words;
	r.dc.epoch = &epoch;
	r.dc.barriers = 1;
	GinBarrier barrier(r.dc, ginTeamWorld(r.dc), 0);
	EXPECT(Gin(r.dc, 1, ginSharingThread).putValue(PEER, r.window, 0, 1u) == ginSuccess);
	EXPECT(barrier.arrive() == ginErrorTimeout && r.q->reserved == 0);
	r.memory[2 + PEER].complete(0);
	Expected e(r);
	EXPECT(barrier.arrive() == ginErrorTimeout); /* its READ is in flight */
	e.one(ginMlx5Read(e.slot(CQE), {0x90001000, ginMlx5Key(0x62)}, sink, 8));
	EXPECT(barrier.arrive() == ginErrorTimeout && r.q->reserved == 1); /* one is enough */
	r.m->complete(0);
	EXPECT(barrier.arrive() == ginSuccess);
	e.one(ginMlx5WriteInline8(
		e.slot(CQE), {0x90001000 + sizeof(uint64_t) * CONTEXTS * SIGNALS, ginMlx5Key(0x62)},
		5));
	e.end();
	EXPECT(barrier.wait() == ginErrorTimeout && epoch == 4);
	words[CONTEXTS * SIGNALS] = 5;
	EXPECT(barrier.wait() == ginSuccess && epoch == 5);
	EXPECT(barrier.arrive() == ginSuccess && r.q->reserved == 3); /* no put: no READ */
	r.m->complete(2, ginMlx5CqeRequestError, ginMlx5TransportRetries);
	EXPECT(barrier.arrive() == ginErrorPeer);
}

/*
 * Barrier 1 posts in the queue of context 1, where its drain posts READs. Barrier 0 waits for that
 * queue.
 */
static void barriersHaveContexts()
{
	Rig r;
	uint64_t words[CONTEXTS * SIGNALS + 2 * GIN_BARRIER_ROUNDS] = {}, epoch[2] = {7, 8};
	struct ginSendQueue *second = &r.queues[2 + PEER];
	r.dc.signal[ginWriterNic] = words;
	r.dc.epoch = epoch;
	r.dc.barriers = 2;
	EXPECT(GinBarrier(r.dc, ginTeamWorld(r.dc), 1).arrive() == ginSuccess);
	EXPECT(r.q->reserved == 0 && second->reserved == 1);
	const size_t at = CONTEXTS * SIGNALS + GIN_BARRIER_ROUNDS;
	struct ginMlx5Wqebb set = ginMlx5WriteInline8({second->fixed.queue, 0, CQE},
						      word(static_cast<uint32_t>(at)), 9);
	EXPECT(!memcmp(&r.memory[2 + PEER].wqes[0], &set, sizeof(set)));
	EXPECT(GinBarrier(r.dc, ginTeamWorld(r.dc), 0).arrive() == ginErrorTimeout);
}

/*
 * Calls to a direct peer use stores; words in windows go by the NIC, in one queue of all contexts.
 */
static void directPeer()
{
	Rig r;
	char part[256] = {}, own[256] = "words";
	uint64_t words[CONTEXTS * SIGNALS + GIN_BARRIER_ROUNDS] = {}, epoch = 0;
	r.makeDirect(part, words);
	r.dc.signal[ginWriterGpu] = words;
	r.dc.epoch = &epoch;
	r.dc.barriers = 1;
	Expected e(r);
	Gin gin(r.dc, 0), other(r.dc, 1, ginSharingThread);
	EXPECT(gin.signal(PEER, GinSignalAdd{1, 4}) == ginSuccess && words[1] == 4);
	EXPECT(r.q->reserved == 0);
	EXPECT(gin.signal(PEER, GinSignalAddAt{r.window, 64, 3}) == ginSuccess);
	e.one(ginMlx5FetchAdd(e.slot(CQE), strict, sink, 3));
	EXPECT(other.putFrom(PEER, r.window, 8, own, 5, GinSignalIncAt{r.window, 64}) ==
	       ginSuccess);
	e.one(ginMlx5FetchAdd(e.slot(CQE), strict, sink, 1));
	EXPECT(!memcmp(part + 8, "words", 6));
	EXPECT(other.atomicSwap(PEER, r.window, 64, 7u) == ginSuccess);
	e.one(ginMlx5MaskedCompareSwap4(e.slot(CQE), strict, sink, {0, 0, 7, UINT32_MAX}));
	EXPECT(gin.flush() == ginErrorTimeout);
	e.end();
	for (uint32_t i = 0; i < CONTEXTS; i++)
		EXPECT(r.queues[i].reserved == 0);

	GinBarrier barrier(r.dc, ginTeamWorld(r.dc), 0);
	EXPECT(barrier.arrive() == ginErrorTimeout);
	e.one(ginMlx5Read(e.slot(CQE), {0x90001000, ginMlx5Key(0x62)}, sink, 8));
	EXPECT(words[CONTEXTS * SIGNALS] == 0);
	r.m->complete(3);
	EXPECT(barrier.arrive() == ginSuccess && words[CONTEXTS * SIGNALS] == 1);
	e.end();
	/* Another thread has the turn: `other`, alone in its context, shares this queue. */
	const uint64_t handed = r.q->handed;
	uint32_t *turn = &r.m->turn[handed % DEPTH];
	EXPECT(*turn == GIN_TURN);
	*turn = 0;
	EXPECT(other.atomicSwap(PEER, r.window, 64, 7u) == ginSuccess);
	EXPECT(*turn == 1 && r.q->handed == handed && r.m->rung() == handed);
	r.peers[PEER].state = ginPeerFailed;
	EXPECT(gin.atomicSwap(PEER, r.window, 64, 7u) == ginErrorPeer);
}

int main()
{
	puts();
	longPuts();
	oneMessage();
	values(std::make_index_sequence<32>());
	signalsAndGets();
	atomics();
	atomicsWithoutMasks();
	places();
	directPeer();
	for (ginSharing sharing : {ginSharingGpu, ginSharingCta, ginSharingThread}) {
		aggregate(sharing);
		late(sharing);
		full(sharing);
		counters(sharing, true);
		counters(sharing, false);
		countsLast(sharing);
		countersRoll(sharing);
		ticketsOfUndoneReservations(sharing);
		getsByTicket(sharing);
		failure(sharing);
		lostPeer(sharing);
		lostPeerOfCounter(sharing);
		lostPeerWhenFull(sharing);
	}
	errorsOfLaterContexts();
	inTurn();
	barrier();
	barriersHaveContexts();
	printf("every call posts what it should\n");
	return 0;
}
