/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * functions.cuh - the calls of class Gin as C functions over scalars and pointers
 *
 * For compilers without C++ templates: libgin_device.bc, Triton, Python kernels. Each function
 * makes the call of its name on class Gin or GinBarrier, and returns its result. The functions own
 * no state and are inline; a file that defines GIN_C_FN as `extern "C" __device__` before it
 * includes this header gets them as symbols.
 *
 * All threads of the coop make a call with equal arguments, and get equal results, even where one
 * thread alone makes the call of class Gin. So a compiler that runs scalar code on every thread of
 * a block, as Triton does, calls the functions with ginCoopCta.
 *
 * Common arguments:
 *	dc, context	the device communicator, and the number of the context
 *	peer		a world rank
 *	kind		ginSignalKind; with ginSignalNone the other signal arguments are ignored
 *	window, where	NULL and the id of a signal, or a window and an offset in bytes
 *	value		the number that the signal is raised by
 *	counter		the id of a counter, or UINT32_MAX: none
 *	coop		ginCoopKind, or of ginCoopOfSpan(): the threads that make the call
 *	timeout		nanoseconds; 0: ginDevComm.timeout
 *	failed		NULL, or a word that gets the result of a call that fails; success leaves it
 */
#ifndef GIN_FUNCTIONS_CUH
#define GIN_FUNCTIONS_CUH

#include "barrier.cuh"
#include "context.cuh"
#include "packets.cuh"
#ifdef GIN_TRACE
#include "traced.cuh"
#endif

#ifndef GIN_C_FN
#define GIN_C_FN GIN_FN
#endif

enum ginSignalKind { ginSignalNone = 0, ginSignalStrong = 1, ginSignalWeak = 2 };

GIN_FN ginSignalOp ginSignalFrom(uint32_t kind, struct ginWindowTable *window, uint64_t where,
				 uint64_t value)
{
	if (kind == ginSignalNone)
		return ginSignalOf(GinNone{});
	if (window)
		return ginSignalByOffset(kind == ginSignalStrong, {window}, where, value);
	return ginSignalById(kind == ginSignalStrong, static_cast<uint32_t>(where), value);
}

/* A counter, or UINT32_MAX: none. */
struct ginCounterOp {
	uint32_t id;
};

GIN_FN constexpr uint32_t ginCounterOf(ginCounterOp a)
{
	return a.id;
}
template <> struct ginActionTyped<ginCounterOp> {
	static constexpr bool value = false;
};

/* The options of functions named ...With. Grows at its end. */
struct ginCallOptions {
	uint64_t size; /* sizeof(struct ginCallOptions); members beyond it have their defaults */
	uint64_t timeout;
	uint32_t fromFirst, fromCount, fromStride; /* ginOptions.from */
	uint32_t given, required;		   /* enum ginScope */
	uint32_t bits;				   /* 0: 64 */
	uint32_t aggregate;
	uint32_t copyBy; /* enum ginCopyBy */
	void *scratch;
	uint32_t scratchBytes;
	uint32_t reserved; /* 0 */
};

/* NULL: defaults. */
GIN_FN ginOptions ginOptionsOf(const struct ginCallOptions *call)
{
	ginOptions options;

	if (!call)
		return options;
	options.timeout = call->timeout;
	options.from = {call->fromFirst, call->fromCount, call->fromStride};
	options.given = static_cast<ginScope>(call->given);
	options.required = static_cast<ginScope>(call->required);
	options.bits = call->bits ? call->bits : 64;
	options.aggregate = call->aggregate;
	options.copyBy = static_cast<ginCopyBy>(call->copyBy);
	options.scratch = call->scratch;
	options.scratchBytes = call->scratchBytes;
	return options;
}

/* The value of the coop's first thread, on every thread; a sync. A vote for each byte and bit. */
GIN_FN_COLD uint64_t ginFromFirst(uint32_t coop, uint64_t value)
{
	const GinAnyCoop all = {coop};
	const bool first = all.thread_rank() == 0;
	uint64_t agreed = 0;

	if (coop == ginCoopThread)
		return value;
	for (uint32_t shift = 0; shift < 64; shift += 8) {
		const uint32_t byte = first ? value >> shift & 0xff : 0;
		if (!all.any(byte))
			continue;
		for (uint32_t bit = 0; bit < 8; bit++)
			agreed |= static_cast<uint64_t>(all.any(byte >> bit & 1)) << (shift + bit);
	}
	return agreed;
}

/* call() by the first thread of the coop; all threads get its result. */
template <class Call> GIN_FN uint64_t ginByFirst(uint32_t coop, Call call)
{
	const GinAnyCoop all = {coop};
	uint64_t value = 0;

	all.sync();
	if (all.thread_rank() == 0)
		value = call();
	return ginFromFirst(coop, value);
}

/*
 * call() by the first thread of the coop, when all threads have come; the other threads wait until
 * it returns.
 */
template <class Call> GIN_FN void ginOnlyFirst(uint32_t coop, Call call)
{
	const GinAnyCoop all = {coop};

	all.sync();
	if (all.thread_rank() == 0)
		call();
	all.sync();
}

GIN_C_FN ginResult_t ginPut(const ginDevComm *dc, uint32_t context, int peer,
			    struct ginWindowTable *dstWin, uint64_t dstOff,
			    struct ginWindowTable *srcWin, uint64_t srcOff, uint64_t bytes,
			    uint32_t kind, struct ginWindowTable *window, uint64_t where,
			    uint64_t value, uint32_t counter, uint32_t coop, uint64_t timeout)
{
	return Gin(*dc, context)
		.put(peer, {dstWin}, dstOff, {srcWin}, srcOff, bytes,
		     ginSignalFrom(kind, window, where, value), ginCounterOp{counter},
		     GinAnyCoop{coop}, ginTimeout(timeout));
}

GIN_C_FN ginResult_t ginPutFrom(const ginDevComm *dc, uint32_t context, int peer,
				struct ginWindowTable *dstWin, uint64_t dstOff, const void *src,
				uint64_t bytes, uint32_t kind, struct ginWindowTable *window,
				uint64_t where, uint64_t value, uint32_t counter, uint32_t coop,
				uint64_t timeout)
{
	return Gin(*dc, context)
		.putFrom(peer, {dstWin}, dstOff, src, bytes,
			 ginSignalFrom(kind, window, where, value), ginCounterOp{counter},
			 GinAnyCoop{coop}, ginTimeout(timeout));
}

/* Calls with options in memory. */
GIN_C_FN ginResult_t ginPutWith(const ginDevComm *dc, uint32_t context, int peer,
				struct ginWindowTable *dstWin, uint64_t dstOff,
				struct ginWindowTable *srcWin, uint64_t srcOff, uint64_t bytes,
				uint32_t kind, struct ginWindowTable *window, uint64_t where,
				uint64_t value, uint32_t counter, uint32_t coop,
				const struct ginCallOptions *options)
{
	return Gin(*dc, context)
		.put(peer, {dstWin}, dstOff, {srcWin}, srcOff, bytes,
		     ginSignalFrom(kind, window, where, value), ginCounterOp{counter},
		     GinAnyCoop{coop}, ginOptionsOf(options));
}

GIN_C_FN ginResult_t ginGetWith(const ginDevComm *dc, uint32_t context, int peer,
				struct ginWindowTable *srcWin, uint64_t srcOff,
				struct ginWindowTable *dstWin, uint64_t dstOff, uint64_t bytes,
				uint32_t coop, const struct ginCallOptions *options)
{
	return Gin(*dc, context)
		.get(peer, {srcWin}, srcOff, {dstWin}, dstOff, bytes, GinAnyCoop{coop},
		     ginOptionsOf(options));
}

GIN_C_FN ginResult_t ginSignalWith(const ginDevComm *dc, uint32_t context, int peer, uint32_t kind,
				   struct ginWindowTable *window, uint64_t where, uint64_t value,
				   uint32_t coop, const struct ginCallOptions *options)
{
	return Gin(*dc, context)
		.signal(peer, ginSignalFrom(kind, window, where, value), GinAnyCoop{coop},
			ginOptionsOf(options));
}

GIN_C_FN ginResult_t ginWaitSignalWith(const ginDevComm *dc, uint32_t context,
				       struct ginWindowTable *window, uint64_t where,
				       uint64_t least, uint32_t coop,
				       const struct ginCallOptions *options)
{
	Gin gin(*dc, context);
	GinAnyCoop all = {coop};
	if (window)
		return gin.waitSignal({window}, where, least, all, ginOptionsOf(options));
	return gin.waitSignal(static_cast<uint32_t>(where), least, all, ginOptionsOf(options));
}

/* Sends the low `bytes` bytes of `data`: 1, 2, 4 or 8. */
GIN_C_FN ginResult_t ginPutValue(const ginDevComm *dc, uint32_t context, int peer,
				 struct ginWindowTable *dstWin, uint64_t dstOff, uint64_t data,
				 uint32_t bytes, uint32_t kind, struct ginWindowTable *window,
				 uint64_t where, uint64_t value, uint32_t coop, uint64_t timeout)
{
	Gin gin(*dc, context);
	ginSignalOp remote = ginSignalFrom(kind, window, where, value);
	GinAnyCoop all = {coop};
	ginOptions options = ginTimeout(timeout);

	if (bytes == 1)
		return gin.putValue(peer, {dstWin}, dstOff, static_cast<uint8_t>(data), remote, all,
				    options);
	if (bytes == 2)
		return gin.putValue(peer, {dstWin}, dstOff, static_cast<uint16_t>(data), remote,
				    all, options);
	if (bytes == 4)
		return gin.putValue(peer, {dstWin}, dstOff, static_cast<uint32_t>(data), remote,
				    all, options);
	if (bytes == 8)
		return gin.putValue(peer, {dstWin}, dstOff, data, remote, all, options);
	return ginErrorInvalidArgument;
}

GIN_C_FN ginResult_t ginGet(const ginDevComm *dc, uint32_t context, int peer,
			    struct ginWindowTable *srcWin, uint64_t srcOff,
			    struct ginWindowTable *dstWin, uint64_t dstOff, uint64_t bytes,
			    uint32_t coop, uint64_t timeout)
{
	return Gin(*dc, context)
		.get(peer, {srcWin}, srcOff, {dstWin}, dstOff, bytes, GinAnyCoop{coop},
		     ginTimeout(timeout));
}

GIN_C_FN ginResult_t ginSignal(const ginDevComm *dc, uint32_t context, int peer, uint32_t kind,
			       struct ginWindowTable *window, uint64_t where, uint64_t value,
			       uint32_t coop, uint64_t timeout)
{
	return Gin(*dc, context)
		.signal(peer, ginSignalFrom(kind, window, where, value), GinAnyCoop{coop},
			ginTimeout(timeout));
}

/* An atomic by the calling thread; `old` may be NULL. */
template <enum ginOp op, class Word>
GIN_FN_COLD ginResult_t ginAtomicOnce(const ginDevComm *dc, uint32_t context, int peer,
				      struct ginWindowTable *win, uint64_t off, Word compare,
				      Word value, Word *old, uint64_t timeout)
{
	const Gin gin(*dc, context);

	if constexpr (op == ginOpFetchAdd)
		return gin.atomicFetchAdd(peer, {win}, off, value, old, ginTimeout(timeout));
	else if constexpr (op == ginOpSwap)
		return gin.atomicSwap(peer, {win}, off, value, old, ginTimeout(timeout));
	else
		return gin.atomicCompareSwap(peer, {win}, off, compare, value, old,
					     ginTimeout(timeout));
}

/* The first thread of the coop does the atomic; `old` gets the old value on all threads. */
template <enum ginOp op, class Word>
GIN_FN ginResult_t ginAtomicBy(const ginDevComm *dc, uint32_t context, int peer,
			       struct ginWindowTable *win, uint64_t off, Word compare, Word value,
			       Word *old, uint32_t coop, uint64_t timeout)
{
	const GinAnyCoop all = {coop};
	ginResult_t result = ginSuccess;
	Word seen = 0;

	all.sync(); /* the atomic covers what the coop wrote */
	if (all.thread_rank() == 0)
		result = ginAtomicOnce<op, Word>(dc, context, peer, win, off, compare, value,
						 old ? &seen : nullptr, timeout);
	result = ginAgree(all, result);
	if (result == ginSuccess && old)
		*old = static_cast<Word>(ginFromFirst(coop, seen));
	return result;
}

/*
 * ginAtomicBy() that returns the old value. After a failure it is the largest signed number: no
 * item of a queue of work, and not the value of a word that is free.
 */
template <enum ginOp op, class Word>
GIN_FN Word ginAtomicOld(const ginDevComm *dc, uint32_t context, int peer,
			 struct ginWindowTable *win, uint64_t off, Word compare, Word value,
			 uint32_t coop, uint64_t timeout, uint32_t *failed)
{
	Word old = ~Word{0} >> 1;
	ginResult_t result = ginAtomicBy<op, Word>(dc, context, peer, win, off, compare, value,
						   &old, coop, timeout);

	if (result != ginSuccess && failed && GinAnyCoop{coop}.thread_rank() == 0)
		*failed = static_cast<uint32_t>(result);
	return old;
}

/*
 * Atomics on a word of 64 or 32 bits, each as two functions. ginAtomicFetchAdd64() returns a
 * ginResult_t; `old` may be NULL, on all threads. ginFetchAdd64() returns the old value.
 */
#define GIN_C_ATOMIC(name, Word, op, compare, ...)                                                 \
	GIN_C_FN ginResult_t ginAtomic##name(                                                      \
		const ginDevComm *dc, uint32_t context, int peer, struct ginWindowTable *win,      \
		uint64_t off, __VA_ARGS__, Word *old, uint32_t coop, uint64_t timeout)             \
	{                                                                                          \
		return ginAtomicBy<op, Word>(dc, context, peer, win, off, compare, value, old,     \
					     coop, timeout);                                       \
	}                                                                                          \
	GIN_C_FN Word gin##name(const ginDevComm *dc, uint32_t context, int peer,                  \
				struct ginWindowTable *win, uint64_t off, __VA_ARGS__,             \
				uint32_t coop, uint64_t timeout, uint32_t *failed)                 \
	{                                                                                          \
		return ginAtomicOld<op, Word>(dc, context, peer, win, off, compare, value, coop,   \
					      timeout, failed);                                    \
	}

GIN_C_ATOMIC(FetchAdd64, uint64_t, ginOpFetchAdd, 0, uint64_t value)
GIN_C_ATOMIC(CompareSwap64, uint64_t, ginOpCompareSwap, compare, uint64_t compare, uint64_t value)
GIN_C_ATOMIC(Swap64, uint64_t, ginOpSwap, 0, uint64_t value)
GIN_C_ATOMIC(FetchAdd32, uint32_t, ginOpFetchAdd, 0, uint32_t value)
GIN_C_ATOMIC(CompareSwap32, uint32_t, ginOpCompareSwap, compare, uint32_t compare, uint32_t value)
GIN_C_ATOMIC(Swap32, uint32_t, ginOpSwap, 0, uint32_t value)
#undef GIN_C_ATOMIC

GIN_C_FN ginResult_t ginFlush(const ginDevComm *dc, uint32_t context, uint32_t coop,
			      uint64_t timeout)
{
	return Gin(*dc, context).flush(GinAnyCoop{coop}, ginTimeout(timeout));
}

GIN_C_FN void ginFlushAsync(const ginDevComm *dc, uint32_t context, int peer, uint32_t coop,
			    struct ginRequest *request)
{
	*request = Gin(*dc, context).flushAsync(peer, GinAnyCoop{coop});
}

GIN_C_FN ginResult_t ginWait(const ginDevComm *dc, uint32_t context,
			     const struct ginRequest *request, uint32_t coop, uint64_t timeout)
{
	return Gin(*dc, context).wait(*request, GinAnyCoop{coop}, ginTimeout(timeout));
}

/* A request as two numbers: the peer, and the ticket that ginFlushTicket() returns. */
GIN_C_FN uint64_t ginFlushTicket(const ginDevComm *dc, uint32_t context, int peer, uint32_t coop)
{
	return ginFromFirst(coop, Gin(*dc, context).flushAsync(peer, GinAnyCoop{coop}).opaque[1]);
}

GIN_C_FN ginResult_t ginWaitTicket(const ginDevComm *dc, uint32_t context, int peer,
				   uint64_t ticket, uint32_t coop, uint64_t timeout)
{
	return Gin(*dc, context)
		.wait({{static_cast<uint64_t>(peer), ticket}}, GinAnyCoop{coop},
		      ginTimeout(timeout));
}

/* Signals: `window` NULL and the id, or a window and an offset. */
GIN_C_FN uint64_t ginReadSignal(const ginDevComm *dc, uint32_t context,
				struct ginWindowTable *window, uint64_t where, uint32_t coop)
{
	Gin gin(*dc, context);
	return ginByFirst(coop, [&] {
		return window ? gin.readSignal({window}, where)
			      : gin.readSignal(static_cast<uint32_t>(where));
	});
}

GIN_C_FN void ginResetSignal(const ginDevComm *dc, uint32_t context, struct ginWindowTable *window,
			     uint64_t where, uint32_t coop)
{
	Gin gin(*dc, context);
	ginOnlyFirst(coop, [&] {
		if (window)
			gin.resetSignal({window}, where);
		else
			gin.resetSignal(static_cast<uint32_t>(where));
	});
}

GIN_C_FN ginResult_t ginWaitSignal(const ginDevComm *dc, uint32_t context,
				   struct ginWindowTable *window, uint64_t where, uint64_t least,
				   uint32_t coop, uint64_t timeout)
{
	Gin gin(*dc, context);
	GinAnyCoop all = {coop};
	if (window)
		return gin.waitSignal({window}, where, least, all, ginTimeout(timeout));
	return gin.waitSignal(static_cast<uint32_t>(where), least, all, ginTimeout(timeout));
}

/* A word of `bytes` bytes: 4 or 8. */
GIN_C_FN uint64_t ginReadValue(const ginDevComm *dc, uint32_t context, struct ginWindowTable *win,
			       uint64_t off, uint32_t bytes, uint32_t coop)
{
	Gin gin(*dc, context);
	return ginByFirst(coop, [&] {
		return bytes == 4 ? gin.readValue<uint32_t>({win}, off) : gin.readValue({win}, off);
	});
}

GIN_C_FN ginResult_t ginWaitValue(const ginDevComm *dc, uint32_t context,
				  struct ginWindowTable *win, uint64_t off, uint32_t bytes,
				  uint64_t least, uint32_t coop, uint64_t timeout)
{
	Gin gin(*dc, context);
	GinAnyCoop all = {coop};
	if (bytes == 4)
		return gin.waitValue<uint32_t>({win}, off, static_cast<uint32_t>(least), all,
					       ginTimeout(timeout));
	if (bytes == 8)
		return gin.waitValue({win}, off, least, all, ginTimeout(timeout));
	return ginErrorInvalidArgument;
}

GIN_C_FN uint64_t *ginSignalShadow(const ginDevComm *dc, uint32_t context, uint32_t id)
{
	return Gin(*dc, context).signalShadow(id);
}

GIN_C_FN void ginIncreaseSignalShadow(const ginDevComm *dc, uint32_t context, uint32_t id,
				      uint64_t delta, uint32_t coop)
{
	ginOnlyFirst(coop, [&] { Gin(*dc, context).increaseSignalShadow(id, delta); });
}

GIN_C_FN ginResult_t ginWaitSignalMeetShadow(const ginDevComm *dc, uint32_t context, uint32_t id,
					     uint32_t coop, uint64_t timeout)
{
	return Gin(*dc, context).waitSignalMeetShadow(id, GinAnyCoop{coop}, ginTimeout(timeout));
}

GIN_C_FN ginResult_t ginWaitSignalFollowShadow(const ginDevComm *dc, uint32_t context, uint32_t id,
					       uint64_t leastDelta, uint64_t *before,
					       uint64_t *delta, uint32_t coop, uint64_t timeout)
{
	return Gin(*dc, context)
		.waitSignalFollowShadow(id, leastDelta, before, delta, GinAnyCoop{coop},
					ginTimeout(timeout));
}

GIN_C_FN uint64_t ginReadCounter(const ginDevComm *dc, uint32_t context, uint32_t id, uint32_t coop)
{
	return ginByFirst(coop, [&] { return Gin(*dc, context).readCounter(id); });
}

GIN_C_FN void ginResetCounter(const ginDevComm *dc, uint32_t context, uint32_t id, uint32_t coop)
{
	ginOnlyFirst(coop, [&] { Gin(*dc, context).resetCounter(id); });
}

GIN_C_FN ginResult_t ginWaitCounter(const ginDevComm *dc, uint32_t context, uint32_t id,
				    uint64_t least, uint32_t coop, uint64_t timeout)
{
	return Gin(*dc, context).waitCounter(id, least, GinAnyCoop{coop}, ginTimeout(timeout));
}

/* A team is three numbers: see ginTeam. */
GIN_C_FN ginResult_t ginBarrierArrive(const ginDevComm *dc, int nRanks, int rank, int stride,
				      uint32_t index, uint32_t coop, uint64_t timeout)
{
	return GinBarrier(*dc, {nRanks, rank, stride}, index)
		.arrive(GinAnyCoop{coop}, ginTimeout(timeout));
}

GIN_C_FN ginResult_t ginBarrierWait(const ginDevComm *dc, int nRanks, int rank, int stride,
				    uint32_t index, uint32_t coop, uint64_t timeout)
{
	return GinBarrier(*dc, {nRanks, rank, stride}, index)
		.wait(GinAnyCoop{coop}, ginTimeout(timeout));
}

GIN_C_FN ginResult_t ginBarrierSync(const ginDevComm *dc, int nRanks, int rank, int stride,
				    uint32_t index, uint32_t coop, uint64_t timeout)
{
	return GinBarrier(*dc, {nRanks, rank, stride}, index)
		.sync(GinAnyCoop{coop}, ginTimeout(timeout));
}

/* The arguments: members of a ginPacketBox, then those of the call of GinPackets. */
GIN_C_FN ginResult_t ginPacketsSend(const ginDevComm *dc, uint32_t context,
				    struct ginWindowTable *win, uint64_t off, uint32_t most,
				    uint32_t signals, int peer, const void *src, uint32_t bytes,
				    uint32_t coop, uint64_t timeout)
{
	return GinPackets(*dc, context, {{win}, off, most, signals}, peer)
		.send(src, bytes, GinAnyCoop{coop}, ginTimeout(timeout));
}

GIN_C_FN ginResult_t ginPacketsReceive(const ginDevComm *dc, uint32_t context,
				       struct ginWindowTable *win, uint64_t off, uint32_t most,
				       uint32_t signals, int peer, void *dst, uint32_t bytes,
				       uint32_t coop, uint64_t timeout)
{
	return GinPackets(*dc, context, {{win}, off, most, signals}, peer)
		.receive(dst, bytes, GinAnyCoop{coop}, ginTimeout(timeout));
}

GIN_C_FN void *ginPointer(struct ginWindowTable *window, uint64_t offset, int peer)
{
	return ginPeerPointer({window}, offset, peer);
}

#endif
