/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * traced.cuh - the classes with calls in kernels with -DGIN_TRACE: each call writes a record
 *
 * A traced class has the calls of its untraced base, which is compiled as it is without the macro.
 * A call that makes other calls, for example waitSignalFollowShadow(), is one record.
 */
#ifndef GIN_TRACED_CUH
#define GIN_TRACED_CUH

#include "barrier.cuh"
#include "context.cuh"
#include "core/trace.cuh"
#include "packets.cuh"

template <uint32_t routes, bool checks> class GinOn<routes, checks, true>
    : public GinOn<routes, checks, false>
{
	using Base = GinOn<routes, checks, false>;

public:
	using Base::context;
	using Base::dc;

	GIN_FN GinOn(const ginDevComm &devComm, uint32_t contextIndex,
		     ginSharing contextSharing = ginSharingGpu)
	    : Base(devComm, contextIndex, contextSharing)
	{
	}

	template <class Remote = GinNone, class Local = GinNone, class Coop = GinThread>
	GIN_FN ginResult_t put(int peer, ginWindow_t dstWin, size_t dstOff, ginWindow_t srcWin,
			       size_t srcOff, size_t bytes, Remote remote = {}, Local local = {},
			       Coop coop = {}, ginOptions options = {}) const
	{
		return post(ginCallPut, peer, bytes, ginSignalOf(remote), coop, [&] {
			return Base::put(peer, dstWin, dstOff, srcWin, srcOff, bytes, remote, local,
					 coop, options);
		});
	}

	template <class Remote = GinNone, class Local = GinNone, class Coop = GinThread>
	GIN_FN ginResult_t putFrom(int peer, ginWindow_t dstWin, size_t dstOff, const void *src,
				   size_t bytes, Remote remote = {}, Local local = {},
				   Coop coop = {}, ginOptions options = {}) const
	{
		return post(ginCallPut, peer, bytes, ginSignalOf(remote), coop, [&] {
			return Base::putFrom(peer, dstWin, dstOff, src, bytes, remote, local, coop,
					     options);
		});
	}

	template <class Value, class Remote = GinNone, class Coop = GinThread>
	GIN_FN ginResult_t putValue(int peer, ginWindow_t dstWin, size_t dstOff, Value value,
				    Remote remote = {}, Coop coop = {},
				    ginOptions options = {}) const
	{
		return post(ginCallPutValue, peer, sizeof(Value), ginSignalOf(remote), coop, [&] {
			return Base::putValue(peer, dstWin, dstOff, value, remote, coop, options);
		});
	}

	template <class Coop = GinThread>
	GIN_FN ginResult_t get(int peer, ginWindow_t srcWin, size_t srcOff, ginWindow_t dstWin,
			       size_t dstOff, size_t bytes, Coop coop = {},
			       ginOptions options = {}) const
	{
		return post(ginCallGet, peer, bytes, ginSignalOf(GinNone{}), coop, [&] {
			return Base::get(peer, srcWin, srcOff, dstWin, dstOff, bytes, coop,
					 options);
		});
	}

	template <class Remote, class Coop = GinThread>
	GIN_FN ginResult_t signal(int peer, Remote remote, Coop coop = {},
				  ginOptions options = {}) const
	{
		return post(ginCallSignal, peer, 0, ginSignalOf(remote), coop,
			    [&] { return Base::signal(peer, remote, coop, options); });
	}

	template <class Word> GIN_FN ginResult_t atomicFetchAdd(int peer, ginWindow_t win,
								size_t off, Word value,
								ginSame<Word> *old = nullptr,
								ginOptions options = {}) const
	{
		return atomic<Word>(peer, win, off, [&] {
			return Base::atomicFetchAdd(peer, win, off, value, old, options);
		});
	}

	template <class Word>
	GIN_FN ginResult_t atomicCompareSwap(int peer, ginWindow_t win, size_t off,
					     ginSame<Word> compare, Word value,
					     ginSame<Word> *old = nullptr,
					     ginOptions options = {}) const
	{
		return atomic<Word>(peer, win, off, [&] {
			return Base::atomicCompareSwap(peer, win, off, compare, value, old,
						       options);
		});
	}

	template <class Word>
	GIN_FN ginResult_t atomicSwap(int peer, ginWindow_t win, size_t off, Word value,
				      ginSame<Word> *old = nullptr, ginOptions options = {}) const
	{
		return atomic<Word>(peer, win, off, [&] {
			return Base::atomicSwap(peer, win, off, value, old, options);
		});
	}

	template <class Coop = GinThread>
	GIN_FN ginResult_t flush(Coop coop = {}, ginOptions options = {}) const
	{
		return await(ginCallFlush, UINT32_MAX, 0, coop, options,
			     [&] { return Base::flush(coop, options); });
	}

	template <class Coop = GinThread> GIN_FN ginResult_t wait(const struct ginRequest &request,
								  Coop coop = {},
								  ginOptions options = {}) const
	{
		options.from = {static_cast<uint32_t>(request.opaque[0]), 1, 1};
		return await(ginCallFlush, UINT32_MAX, 0, coop, options,
			     [&] { return Base::wait(request, coop, options); });
	}

	GIN_FN void resetSignal(uint32_t id) const
	{
		reset(id, 0, [&] { Base::resetSignal(id); });
	}

	GIN_FN void resetSignal(ginWindow_t win, size_t off) const
	{
		reset(UINT32_MAX, ginTraceWhere(win, off), [&] { Base::resetSignal(win, off); });
	}

	template <class Coop = GinThread>
	GIN_FN ginResult_t waitSignal(uint32_t id, uint64_t least, Coop coop = {},
				      ginOptions options = {}) const
	{
		return await(ginCallWaitSignal, id, least, coop, options,
			     [&] { return Base::waitSignal(id, least, coop, options); });
	}

	template <class Coop = GinThread>
	GIN_FN ginResult_t waitSignal(ginWindow_t win, size_t off, uint64_t least, Coop coop = {},
				      ginOptions options = {}) const
	{
		return await(
			ginCallWaitSignal, UINT32_MAX, least, coop, options,
			[&] { return Base::waitSignal(win, off, least, coop, options); }, win, off);
	}

	template <class Word = uint64_t, class Coop = GinThread>
	GIN_FN ginResult_t waitValue(ginWindow_t win, size_t off, ginSame<Word> least,
				     Coop coop = {}, ginOptions options = {}) const
	{
		return await(
			ginCallWaitValue, UINT32_MAX, static_cast<ginBits<Word>>(least), coop,
			options,
			[&] {
				return Base::template waitValue<Word>(win, off, least, coop,
								      options);
			},
			win, off);
	}

	template <class Coop = GinThread>
	GIN_FN ginResult_t waitSignalMeetShadow(uint32_t id, Coop coop = {},
						ginOptions options = {}) const
	{
		const uint64_t least = shadowOf(id);
		return await(ginCallWaitSignal, id, least, coop, options,
			     [&] { return Base::waitSignalMeetShadow(id, coop, options); });
	}

	template <class Coop = GinThread>
	GIN_FN ginResult_t waitSignalFollowShadow(uint32_t id, uint64_t leastDelta,
						  uint64_t *before, uint64_t *delta, Coop coop = {},
						  ginOptions options = {}) const
	{
		const uint64_t least = shadowOf(id) + leastDelta;
		return await(ginCallWaitSignal, id, least, coop, options, [&] {
			return Base::waitSignalFollowShadow(id, leastDelta, before, delta, coop,
							    options);
		});
	}

	template <class Coop = GinThread>
	GIN_FN ginResult_t waitCounter(uint32_t id, uint64_t least, Coop coop = {},
				       ginOptions options = {}) const
	{
		return await(ginCallWaitCounter, id, least, coop, options,
			     [&] { return Base::waitCounter(id, least, coop, options); });
	}

	/* The calls above with a team before the peer. */
	template <class... Args>
	GIN_FN ginResult_t put(ginTeam team, int peer, ginWindow_t dstWin, Args... args) const
	{
		return put(this->inTeam(ginCallPut, team, peer), dstWin, args...);
	}

	template <class... Args>
	GIN_FN ginResult_t putFrom(ginTeam team, int peer, ginWindow_t dstWin, Args... args) const
	{
		return putFrom(this->inTeam(ginCallPut, team, peer), dstWin, args...);
	}

	template <class... Args>
	GIN_FN ginResult_t putValue(ginTeam team, int peer, ginWindow_t dstWin, Args... args) const
	{
		return putValue(this->inTeam(ginCallPutValue, team, peer), dstWin, args...);
	}

	template <class... Args>
	GIN_FN ginResult_t get(ginTeam team, int peer, ginWindow_t srcWin, Args... args) const
	{
		return get(this->inTeam(ginCallGet, team, peer), srcWin, args...);
	}

	template <class Remote, class... Args>
	GIN_FN ginResult_t signal(ginTeam team, int peer, Remote remote, Args... args) const
	{
		return signal(this->inTeam(ginCallSignal, team, peer), remote, args...);
	}

	template <class... Args> GIN_FN ginResult_t atomicFetchAdd(ginTeam team, int peer,
								   ginWindow_t win,
								   Args... args) const
	{
		return atomicFetchAdd(this->inTeam(ginCallAtomic, team, peer), win, args...);
	}

	template <class... Args> GIN_FN ginResult_t atomicCompareSwap(ginTeam team, int peer,
								      ginWindow_t win,
								      Args... args) const
	{
		return atomicCompareSwap(this->inTeam(ginCallAtomic, team, peer), win, args...);
	}

	template <class... Args>
	GIN_FN ginResult_t atomicSwap(ginTeam team, int peer, ginWindow_t win, Args... args) const
	{
		return atomicSwap(this->inTeam(ginCallAtomic, team, peer), win, args...);
	}

private:
	GIN_FN uint64_t shadowOf(uint32_t id) const
	{
		return id < dc.signals ? ginLocalLoad(this->signalShadow(id)) : 0;
	}

	GIN_FN static uint32_t flagsOf(const ginSignalOp &op)
	{
		return op.present * GIN_TRACE_RAISES | op.at * GIN_TRACE_AT;
	}

	/* A call that sends, gets or signals. */
	template <class Coop, class Call>
	GIN_FN ginResult_t post(uint32_t call, int peer, size_t bytes, const ginSignalOp &op,
				Coop coop, Call make) const
	{
		return ginTraceCall(
			dc.trace, coop,
			[&]() -> ginTraced {
				return {ginTraceWhat(call, this->routeTo(peer), flagsOf(op),
						     context),
					ginTraceWhom(peer, op.id), bytes, op.value,
					op.at ? ginTraceWhere(op.window, op.offset) : 0};
			},
			make);
	}

	template <class Word, class Call>
	GIN_FN ginResult_t atomic(int peer, ginWindow_t win, size_t off, Call make) const
	{
		return ginTraceCall(
			dc.trace, GinThread{},
			[&]() -> ginTraced {
				return {ginTraceWhat(ginCallAtomic, this->routeTo(peer),
						     GIN_TRACE_AT, context),
					ginTraceWhom(peer, UINT32_MAX), sizeof(Word), 0,
					ginTraceWhere(win, off)};
			},
			make);
	}

	/* A call that waits, for the peer that it names in options.from, or for any. */
	template <class Coop, class Call>
	GIN_FN ginResult_t await(uint32_t call, uint32_t id, uint64_t least, Coop coop,
				 const ginOptions &options, Call make, ginWindow_t win = {nullptr},
				 size_t off = 0) const
	{
		const int peer =
			options.from.count == 1 ? static_cast<int>(options.from.first) : -1;
		return ginTraceCall(
			dc.trace, coop,
			[&]() -> ginTraced {
				return {ginTraceWhat(call, ginRouteNone,
						     win.table ? GIN_TRACE_AT : 0, context),
					ginTraceWhom(peer, id), 0, least,
					win.table ? ginTraceWhere(win, off) : 0};
			},
			make);
	}

	template <class Call> GIN_FN void reset(uint32_t id, uint64_t where, Call make) const
	{
		ginTraceCall(
			dc.trace, GinThread{},
			[&]() -> ginTraced {
				return {ginTraceWhat(ginCallResetSignal, ginRouteNone,
						     id == UINT32_MAX ? GIN_TRACE_AT : 0, context),
					ginTraceWhom(-1, id), 0, 0, where};
			},
			[&] {
				make();
				return ginSuccess;
			});
	}
};

template <uint32_t routes, bool checks, bool alwaysFlat>
class GinBarrierOn<routes, checks, alwaysFlat, true>
    : public GinBarrierOn<routes, checks, alwaysFlat, false>
{
	using Base = GinBarrierOn<routes, checks, alwaysFlat, false>;

public:
	using Base::Base;

	template <class Coop = GinThread>
	GIN_FN ginResult_t arrive(Coop coop = {}, ginOptions options = {}) const
	{
		return traced(GIN_TRACE_ARRIVES, coop, [&] { return Base::arrive(coop, options); });
	}

	template <class Coop = GinThread>
	GIN_FN ginResult_t wait(Coop coop = {}, ginOptions options = {}) const
	{
		return traced(GIN_TRACE_AWAITS, coop, [&] { return Base::wait(coop, options); });
	}

	template <class Coop = GinThread>
	GIN_FN ginResult_t sync(Coop coop = {}, ginOptions options = {}) const
	{
		return traced(GIN_TRACE_ARRIVES | GIN_TRACE_AWAITS, coop,
			      [&] { return Base::sync(coop, options); });
	}

private:
	template <class Coop, class Call>
	GIN_FN ginResult_t traced(uint32_t flags, Coop coop, Call call) const
	{
		ginTraceRing *const trace = this->dc.trace;
		const bool first = coop.thread_rank() == 0;
		const uint64_t epoch = first ? this->next() : 0; /* the call changes it */
		return ginTraceCall(
			trace, coop,
			[&]() -> ginTraced {
				return {ginTraceWhat(ginCallBarrier, ginRouteNone, flags,
						     this->context()),
					ginTraceWhom(-1, this->index()), 0, epoch,
					ginFromPack(this->teamSet())};
			},
			call);
	}
};

template <uint32_t routes, bool checks> class GinPacketsOn<routes, checks, true>
    : public GinPacketsOn<routes, checks, false>
{
	using Base = GinPacketsOn<routes, checks, false>;

public:
	using Base::Base;

	template <class Coop = GinThread> GIN_FN ginResult_t send(const void *src, uint32_t bytes,
								  Coop coop = {},
								  ginOptions options = {})
	{
		return traced(ginCallPacketsSend, bytes, coop,
			      [&] { return Base::send(src, bytes, coop, options); });
	}

	template <class Coop = GinThread> GIN_FN ginResult_t receive(void *dst, uint32_t bytes,
								     Coop coop = {},
								     ginOptions options = {})
	{
		return traced(ginCallPacketsReceive, bytes, coop,
			      [&] { return Base::receive(dst, bytes, coop, options); });
	}

private:
	template <class Coop, class Call>
	GIN_FN ginResult_t traced(uint32_t call, uint32_t bytes, Coop coop, Call make) const
	{
		const int to = static_cast<int>(this->peer);
		return ginTraceCall(
			this->dc.trace, coop,
			[&]() -> ginTraced {
				return {ginTraceWhat(call, ginRouteTo<routes>(this->dc, to), 0,
						     this->context),
					ginTraceWhom(to, UINT32_MAX), bytes, 0, 0};
			},
			make);
	}
};

#endif
