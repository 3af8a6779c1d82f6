/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gin_device.cuh - device API of libgin: the one header that a kernel includes
 *
 * C++17. nvcc compiles it for kernels and for host threads, g++ and clang++ for host threads alone
 * (see gin/host_launch.h). No device globals: everything comes in by the ginDevComm.
 *
 * The contract of these calls is gin_memory_model(7); in short:
 *  - A call sends what its coop could see when it was made.
 *  - Puts are unordered among themselves. A signal, once seen at the target, makes its own put and
 *    all earlier puts of the same context to the same peer visible there, those of other threads
 *    that happen before the signalling call included.
 *  - flush: the source bytes of all earlier puts may be reused. It says nothing of the target.
 *  - A call with a coop is made by all of its threads, with the same arguments, and returns the
 * same to all of them.
 *  - A call that times out has reserved nothing and can be repeated.
 *  - Calls on a peer that has failed return ginErrorPeer at once.
 *
 * Arguments are not checked here: a peer, context, signal or offset out of range is undefined.
 */
#ifndef GIN_DEVICE_CUH
#define GIN_DEVICE_CUH

#include "gin/coop.cuh"
#include "gin/direct.cuh"
#include "gin/wait.cuh"

/* Remote actions: what happens at the target once the put is visible there. */
struct GinNone {
};

/* Add 1 to signal `id` of the context at the target. */
struct GinSignalInc {
	uint32_t id;
};

/* Add `value`; sums wrap at 2^64. */
struct GinSignalAdd {
	uint32_t id;
	uint64_t value;
};

GIN_FN constexpr bool ginIsAction(GinNone)
{
	return false;
}
template <class Remote> GIN_FN constexpr bool ginIsAction(Remote)
{
	return true;
}
GIN_FN uint32_t ginActionSignal(GinNone)
{
	return 0;
}
template <class Remote> GIN_FN uint32_t ginActionSignal(Remote remote)
{
	return remote.id;
}
GIN_FN uint64_t ginActionValue(GinNone)
{
	return 0;
}
GIN_FN uint64_t ginActionValue(GinSignalInc)
{
	return 1;
}
GIN_FN uint64_t ginActionValue(GinSignalAdd remote)
{
	return remote.value;
}

/* What `window` is at `peer`. */
GIN_FN const struct ginWindowPeer &ginWindowAt(ginWindow_t window, int peer)
{
	return reinterpret_cast<const struct ginWindowPeer *>(window.table + 1)[peer];
}

/*
 * Where this rank loads and stores byte `offset` of `window` at `peer`; NULL when the route to it
 * is not direct or its part is empty. Such accesses are ordered by the caller's own means.
 */
GIN_FN void *ginPeerPointer(ginWindow_t window, size_t offset, int peer)
{
	char *address = ginWindowAt(window, peer).address;
	return address ? address + offset : nullptr;
}

/*
 * One context of a device communicator: puts and signals of different contexts have no order.
 * Cheap to make; any number of threads may use the same context at the same time, each with a Gin
 * of its own. `devComm` must outlive it.
 */
class Gin
{
public:
	GIN_FN Gin(const ginDevComm &devComm, uint32_t contextIndex)
	    : dc(devComm), context(contextIndex)
	{
	}

	/*
	 * Write `bytes` bytes from offset srcOff of this rank's part of srcWin to offset dstOff of
	 * the peer's part of dstWin, then do `remote` there. All threads of the coop copy. Zero
	 * bytes and the own rank are peers like any other. ginErrorPeer, ginErrorAborted.
	 */
	template <class Remote = GinNone, class Coop = GinThread>
	GIN_FN ginResult_t put(int peer, ginWindow_t dstWin, size_t dstOff, ginWindow_t srcWin,
			       size_t srcOff, size_t bytes, Remote remote = {}, Coop coop = {},
			       ginOptions options = {}) const
	{
		coop.sync(); /* what the coop wrote is what is sent */
		struct ginPeer to = ginPeerObserve(&dc.peers[peer]);
		ginResult_t result = usable(to, options);
		if (result == ginSuccess) {
			const char *src = ginWindowAt(srcWin, static_cast<int>(dc.rank)).address;
			ginCopy(ginWindowAt(dstWin, peer).address + dstOff, src + srcOff, bytes,
				coop.thread_rank(), coop.size());
		}
		return finish(ginCallPut, to, peer, ginAgree(coop, result), remote, coop);
	}

	/*
	 * Write `value`, at most 32 bytes, to offset dstOff of the peer's part of dstWin, then do
	 * `remote` there. There is no source to reuse. One that is aligned and of 4 or 8 bytes is
	 * seen whole or not at all. ginErrorPeer, ginErrorAborted.
	 */
	template <class Value, class Remote = GinNone, class Coop = GinThread>
	GIN_FN ginResult_t putValue(int peer, ginWindow_t dstWin, size_t dstOff, Value value,
				    Remote remote = {}, Coop coop = {},
				    ginOptions options = {}) const
	{
		static_assert(sizeof(Value) <= 32, "putValue takes up to 32 bytes: use put");
		static_assert(__is_trivially_copyable(Value), "a value is sent as its bytes");
		coop.sync(); /* a signal covers what the coop put before */
		struct ginPeer to = ginPeerObserve(&dc.peers[peer]);
		ginResult_t result = usable(to, options);
		if (result == ginSuccess && coop.thread_rank() == 0)
			ginDirectStore(ginWindowAt(dstWin, peer).address + dstOff, value);
		return finish(ginCallPutValue, to, peer, ginAgree(coop, result), remote, coop);
	}

	/* Do `remote` at the peer: it covers the earlier puts. ginErrorPeer, ginErrorAborted. */
	template <class Remote, class Coop = GinThread>
	GIN_FN ginResult_t signal(int peer, Remote remote, Coop coop = {},
				  ginOptions options = {}) const
	{
		static_assert(ginIsAction(Remote{}), "signal needs GinSignalInc or GinSignalAdd");
		coop.sync(); /* it covers what the coop put before */
		struct ginPeer to = ginPeerObserve(&dc.peers[peer]);
		ginResult_t result = ginAgree(coop, usable(to, options));
		return finish(ginCallSignal, to, peer, result, remote, coop);
	}

	/*
	 * Wait until this rank's signal `id` is at least `least`, by a rolling compare: the
	 * difference is less than 2^63. An acquire for the whole coop. ginErrorTimeout,
	 * ginErrorPeer as soon as any rank has failed, ginErrorAborted.
	 */
	template <class Coop = GinThread>
	GIN_FN ginResult_t waitSignal(uint32_t id, uint64_t least, Coop coop = {},
				      ginOptions options = {}) const
	{
		ginResult_t result = ginSuccess;
		if (coop.thread_rank() == 0)
			result = pollSignal(id, least, options);
		return ginAgree(coop, result);
	}

	/* The value of this rank's signal `id`; what it covers is visible to the calling thread. */
	GIN_FN uint64_t readSignal(uint32_t id) const
	{
		uint64_t sum = 0;
		for (int c = 0; c < GIN_WRITER_CLASSES; c++)
			if (dc.signal[c])
				sum += ginSignalObserve(word(c, id));
		return sum;
	}

	/* Set this rank's signal `id` to 0. Nobody may raise it meanwhile. One thread calls it. */
	GIN_FN void resetSignal(uint32_t id) const
	{
		for (int c = 0; c < GIN_WRITER_CLASSES; c++)
			if (dc.signal[c])
				ginSignalClear(word(c, id));
	}

	/*
	 * The source bytes of all puts of this context that happen before the call may be reused.
	 * A direct put has read its source when it returns, so that only the coop has to meet.
	 */
	template <class Coop = GinThread>
	GIN_FN ginResult_t flush(Coop coop = {}, ginOptions options = {}) const
	{
		(void)options;
		coop.sync();
		return ginSuccess;
	}

private:
	const ginDevComm &dc;
	const uint32_t context;

	GIN_FN uint64_t *word(int writerClass, uint32_t id) const
	{
		return dc.signal[writerClass] + static_cast<size_t>(context) * dc.signals + id;
	}

	/*
	 * Can this call go to the peer? Direct calls never wait, so that `options` has nothing to
	 * bound. ginDevCommCreate() has refused peers without a route.
	 */
	GIN_FN ginResult_t usable(const struct ginPeer &to, ginOptions options) const
	{
		(void)options;
		if (to.state == ginPeerAlive)
			return ginSuccess;
		uint64_t why = ginAbortObserve(dc.abortLine);
		return why ? ginAbortResult(why) : ginErrorPeer;
	}

	/* The coop has agreed on `result`, and so has met: its stores come before this signal. */
	template <class Remote, class Coop>
	GIN_FN ginResult_t finish(uint32_t call, const struct ginPeer &to, int peer,
				  ginResult_t result, Remote remote, Coop coop) const
	{
		if (coop.thread_rank() != 0)
			return result;
		if (result != ginSuccess)
			ginErrorLeave(dc, {0, static_cast<uint32_t>(result), call, context, peer,
					   ginActionSignal(remote), 0, 0});
		else if (ginIsAction(remote))
			ginDirectSignal(dc, to, context, ginActionSignal(remote),
					ginActionValue(remote));
		return result;
	}

	GIN_FN ginResult_t pollSignal(uint32_t id, uint64_t least, ginOptions options) const
	{
		struct ginPoll poll = ginPollStart(dc, options);
		for (;;) {
			uint64_t seen = readSignal(id);
			if (static_cast<int64_t>(seen - least) >= 0)
				return ginSuccess;
			ginResult_t result = ginPollStep(dc, poll);
			if (result != ginSuccess)
				return failWait(result, id, least, seen);
		}
	}

	GIN_FN ginResult_t failWait(ginResult_t result, uint32_t id, uint64_t least,
				    uint64_t seen) const
	{
		uint64_t why = ginAbortObserve(dc.abortLine);
		int peer = static_cast<int>(why >> 32);
		ginErrorLeave(dc, {0, static_cast<uint32_t>(result), ginCallWaitSignal, context,
				   result == ginErrorPeer ? peer : -1, id, least, seen});
		return result;
	}
};

#endif
