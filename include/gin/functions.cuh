/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * functions.cuh - the calls of class Gin as C functions over scalars and pointers
 *
 * For compilers without C++ templates: a bitcode build, Triton, Python kernels. Each function makes
 * the call of its name on class Gin or GinBarrier, and returns its result. The functions own no
 * state and are inline; a file that defines GIN_C_FN as `extern "C" __device__` before it includes
 * this header gets them as symbols.
 *
 * Common arguments:
 *	dc, context	the device communicator, and the number of the context
 *	peer		a world rank
 *	kind		ginSignalKind; with ginSignalNone the other signal arguments are ignored
 *	window, where	NULL and the id of a signal, or a window and an offset in bytes
 *	value		is added to the signal
 *	counter		the id of a counter, or UINT32_MAX: none
 *	coop		ginCoopKind: the threads that make the call together
 *	timeout		nanoseconds; 0: ginDevComm.timeout
 */
#ifndef GIN_FUNCTIONS_CUH
#define GIN_FUNCTIONS_CUH

#include "barrier.cuh"
#include "context.cuh"
#include "packets.cuh"

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

/* Atomics of 64 and 32 bits. `old` may be NULL. */
GIN_C_FN ginResult_t ginAtomicFetchAdd64(const ginDevComm *dc, uint32_t context, int peer,
					 struct ginWindowTable *win, uint64_t off, uint64_t value,
					 uint64_t *old)
{
	return Gin(*dc, context).atomicFetchAdd(peer, {win}, off, value, old);
}

GIN_C_FN ginResult_t ginAtomicFetchAdd32(const ginDevComm *dc, uint32_t context, int peer,
					 struct ginWindowTable *win, uint64_t off, uint32_t value,
					 uint32_t *old)
{
	return Gin(*dc, context).atomicFetchAdd(peer, {win}, off, value, old);
}

GIN_C_FN ginResult_t ginAtomicCompareSwap64(const ginDevComm *dc, uint32_t context, int peer,
					    struct ginWindowTable *win, uint64_t off,
					    uint64_t compare, uint64_t value, uint64_t *old)
{
	return Gin(*dc, context).atomicCompareSwap(peer, {win}, off, compare, value, old);
}

GIN_C_FN ginResult_t ginAtomicCompareSwap32(const ginDevComm *dc, uint32_t context, int peer,
					    struct ginWindowTable *win, uint64_t off,
					    uint32_t compare, uint32_t value, uint32_t *old)
{
	return Gin(*dc, context).atomicCompareSwap(peer, {win}, off, compare, value, old);
}

GIN_C_FN ginResult_t ginAtomicSwap64(const ginDevComm *dc, uint32_t context, int peer,
				     struct ginWindowTable *win, uint64_t off, uint64_t value,
				     uint64_t *old)
{
	return Gin(*dc, context).atomicSwap(peer, {win}, off, value, old);
}

GIN_C_FN ginResult_t ginAtomicSwap32(const ginDevComm *dc, uint32_t context, int peer,
				     struct ginWindowTable *win, uint64_t off, uint32_t value,
				     uint32_t *old)
{
	return Gin(*dc, context).atomicSwap(peer, {win}, off, value, old);
}

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

/* Signals: `window` NULL and the id, or a window and an offset. */
GIN_C_FN uint64_t ginReadSignal(const ginDevComm *dc, uint32_t context,
				struct ginWindowTable *window, uint64_t where)
{
	Gin gin(*dc, context);
	return window ? gin.readSignal({window}, where)
		      : gin.readSignal(static_cast<uint32_t>(where));
}

GIN_C_FN void ginResetSignal(const ginDevComm *dc, uint32_t context, struct ginWindowTable *window,
			     uint64_t where)
{
	Gin gin(*dc, context);
	if (window)
		gin.resetSignal({window}, where);
	else
		gin.resetSignal(static_cast<uint32_t>(where));
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
			       uint64_t off, uint32_t bytes)
{
	Gin gin(*dc, context);
	return bytes == 4 ? gin.readValue<uint32_t>({win}, off) : gin.readValue({win}, off);
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
				      uint64_t delta)
{
	Gin(*dc, context).increaseSignalShadow(id, delta);
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

GIN_C_FN uint64_t ginReadCounter(const ginDevComm *dc, uint32_t context, uint32_t id)
{
	return Gin(*dc, context).readCounter(id);
}

GIN_C_FN void ginResetCounter(const ginDevComm *dc, uint32_t context, uint32_t id)
{
	Gin(*dc, context).resetCounter(id);
}

GIN_C_FN ginResult_t ginWaitCounter(const ginDevComm *dc, uint32_t context, uint32_t id,
				    uint64_t least, uint32_t coop, uint64_t timeout)
{
	return Gin(*dc, context).waitCounter(id, least, GinAnyCoop{coop}, ginTimeout(timeout));
}

/* The three numbers of the team: see ginTeam. */
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

/* The members of a ginPacketBox, then a call of GinPackets. */
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
