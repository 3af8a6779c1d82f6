/* SPDX-License-Identifier: BSD-3-Clause */
/* context.cuh - classes GinOn and Gin: the calls on one context of a device communicator */
#ifndef GIN_CONTEXT_CUH
#define GIN_CONTEXT_CUH

#include "calls/context_words.cuh"
#include "core/options.cuh"

/* A ticket of Gin::flushAsync(): plain data, to be kept in any memory. */
struct ginRequest {
	uint64_t opaque[2];
};

/*
 * The calls on one context of a device communicator. Puts and signals of different contexts have no
 * order. A Gin is cheap to make and lives in registers; `devComm` must outlive it. Any number of
 * threads, within the promise of `contextSharing`, may use a context concurrently, each with its
 * own Gin.
 *
 * A call with a coop is made by all threads of the coop with equal arguments, and returns one
 * result to all of them. A call that names a peer takes a world rank, or a team and a rank of the
 * team. Offsets and sizes are bytes. Arguments are checked with -DGIN_DEVICE_CHECKS only.
 *
 * `routes` is the set of routes, GIN_ROUTES_... of abi.h, that the kernel is compiled for. Calls
 * whose peer is on another route return ginErrorUnsupported; waits and flush() leave out signals
 * and posts of other routes. ginDevCommRequirements_t.routes makes the host check the routes of all
 * peers.
 */
template <uint32_t routes, bool checks = ginChecks> class GinOn
    : public GinContextWords<routes, checks>
{
	using Base = GinContextWords<routes, checks>;

public:
	using Base::context;
	using Base::dc;
	using Base::sharing;

	GIN_FN GinOn(const ginDevComm &devComm, uint32_t contextIndex,
		     ginSharing contextSharing = ginSharingGpu)
	    : Base(devComm, contextIndex, contextSharing)
	{
	}

	/*
	 * Writes `bytes` bytes from offset srcOff of this rank's part of srcWin to offset dstOff of
	 * the peer's part of dstWin, then does `remote` at the peer and, once the source bytes may
	 * be reused, `local` on this rank. On the direct route all threads of the coop copy, or one
	 * thread waits for a copy engine (options.copyBy); on the other routes one thread posts,
	 * and the source is read later. `bytes` may be 0, and `peer` this rank.
	 *
	 * ginErrorTimeout: the ring or send queue stayed full, and nothing is posted; or a copy
	 * engine is late: flush() waits until it has finished with source and target. ginErrorPeer,
	 * ginErrorAborted: neither action is done; the target may have been written in part.
	 */
	template <class Remote = GinNone, class Local = GinNone, class Coop = GinThread>
	GIN_FN ginResult_t put(int peer, ginWindow_t dstWin, size_t dstOff, ginWindow_t srcWin,
			       size_t srcOff, size_t bytes, Remote remote = {}, Local local = {},
			       Coop coop = {}, ginOptions options = {}) const
	{
		const ginResult_t valid = check(coop, ginCallPut, peer, [&](ginArguments &a) {
			a.peer(peer);
			a.bytes(ginArgumentTarget, dstWin, peer, dstOff, bytes);
			a.own(ginArgumentSource, srcWin, srcOff, bytes, 1, true);
			a.apart(dstWin, peer, dstOff, srcWin, srcOff, bytes);
			a.signal(ginSignalOf(remote), peer);
			a.counter(ginCounterOf(local));
			if constexpr (checks)
				a.options(options);
		});
		if (valid != ginSuccess)
			return valid;
		return Base::template putSource<ginActionShape<Remote, Local>>(
			peer, dstWin, dstOff, ginSourceIn(srcWin, srcOff), bytes,
			ginSignalOf(remote), ginCounterOf(local), coop, options);
	}

	/*
	 * put() with a source at an address in any registered window of this rank. The direct route
	 * needs no window. On the proxy route the CPU searches all windows for the source, on the
	 * gdaki route the caller does, and on both the caller releases the source to the system.
	 * ginErrorInvalidArgument: gdaki has found no window; otherwise as put().
	 */
	template <class Remote = GinNone, class Local = GinNone, class Coop = GinThread>
	GIN_FN ginResult_t putFrom(int peer, ginWindow_t dstWin, size_t dstOff, const void *src,
				   size_t bytes, Remote remote = {}, Local local = {},
				   Coop coop = {}, ginOptions options = {}) const
	{
		const ginResult_t valid = check(coop, ginCallPut, peer, [&](ginArguments &a) {
			a.peer(peer);
			a.bytes(ginArgumentTarget, dstWin, peer, dstOff, bytes);
			a.signal(ginSignalOf(remote), peer);
			a.counter(ginCounterOf(local));
			if constexpr (checks) {
				a.options(options);
				this->checkSource(a, src, bytes);
				a.apart(dstWin, peer, dstOff, src, bytes);
			}
		});
		if (valid != ginSuccess)
			return valid;
		return Base::template putSource<ginActionShape<Remote, Local>>(
			peer, dstWin, dstOff, ginSourceAnywhere(src), bytes, ginSignalOf(remote),
			ginCounterOf(local), coop, options);
	}

	/*
	 * Writes `value`, at most 32 bytes, to offset dstOff of the peer's part of dstWin, then
	 * does `remote` at the peer. An aligned value of 4 or 8 bytes arrives in one piece.
	 * ginErrorTimeout: nothing is posted. ginErrorPeer, ginErrorAborted: the value may have
	 * been written.
	 */
	template <class Value, class Remote = GinNone, class Coop = GinThread>
	GIN_FN ginResult_t putValue(int peer, ginWindow_t dstWin, size_t dstOff, Value value,
				    Remote remote = {}, Coop coop = {},
				    ginOptions options = {}) const
	{
		static_assert(sizeof(Value) <= 32, "putValue takes up to 32 bytes: use put");
		static_assert(__is_trivially_copyable(Value), "a value is sent as its bytes");
		struct ginSignalOp op = ginSignalOf(remote);
		const ginResult_t valid = check(coop, ginCallPutValue, peer, [&](ginArguments &a) {
			a.peer(peer);
			a.bytes(ginArgumentTarget, dstWin, peer, dstOff, sizeof(Value));
			a.signal(op, peer);
			if constexpr (checks)
				a.options(options);
		});
		if (valid != ginSuccess)
			return valid;
		coop.sync(); /* a value may be a flag for what the coop wrote */
		if (networked() && beyondAll(op))
			return refuse(coop, ginCallPutValue, peer);
		const uint32_t route = routeTo(peer);
		if (route != ginRouteDirect)
			return Base::template valueNetwork<ginActionShape<Remote>, Value, Coop>(
				route, peer, dstWin, dstOff, value, op, coop, options);
		if (withoutDirect())
			return refuse(coop, ginCallPutValue, peer);
		struct ginPeer to = ginPeerObserve(&dc.peers[peer]);
		ginResult_t result = usable(to);
		if (result == ginSuccess && coop.thread_rank() == 0)
			ginDirectStore(ginWindowAt(dstWin, peer).address + dstOff, value);
		result = ginAgree(coop, result);
		return Base::template act<ginActionShape<Remote>>(coop, ginCallPutValue, to, peer,
								  result, op, UINT32_MAX, options);
	}

	/*
	 * Reads `bytes` bytes from offset srcOff of the peer's part of srcWin into offset dstOff of
	 * this rank's part of dstWin. The bytes are there, for every thread that the caller
	 * synchronises with, once a flush or a wait for a later request has returned.
	 * ginErrorTimeout: nothing is posted. ginErrorPeer, ginErrorAborted.
	 */
	template <class Coop = GinThread>
	GIN_FN ginResult_t get(int peer, ginWindow_t srcWin, size_t srcOff, ginWindow_t dstWin,
			       size_t dstOff, size_t bytes, Coop coop = {},
			       ginOptions options = {}) const
	{
		const ginResult_t valid = check(coop, ginCallGet, peer, [&](ginArguments &a) {
			a.peer(peer);
			a.bytes(ginArgumentSource, srcWin, peer, srcOff, bytes);
			a.own(ginArgumentTarget, dstWin, dstOff, bytes);
			a.apart(srcWin, peer, srcOff, dstWin, dstOff, bytes);
			if constexpr (checks)
				a.options(options);
		});
		if (valid != ginSuccess)
			return valid;
		coop.sync(); /* no thread of the coop still uses the overwritten bytes */
		const uint32_t route = routeTo(peer);
		if (route != ginRouteDirect)
			return Base::template getNetwork<Coop>(route, peer, srcWin, srcOff, dstWin,
							       dstOff, bytes, coop, options);
		if (withoutDirect())
			return refuse(coop, ginCallGet, peer);
		struct ginPeer to = ginPeerObserve(&dc.peers[peer]);
		ginResult_t result;
		if (byEngine(peer, false, srcOff | dstOff, bytes, coop, options))
			result = Base::template copyByEngine<true>(peer, srcWin, srcOff,
								   ginSourceIn(dstWin, dstOff),
								   bytes, coop, options);
		else
			result = getByThreads(to, peer, srcWin, srcOff, own(dstWin, dstOff), bytes,
					      coop, options);
		result = ginAgree(coop, result);
		return Base::template act<ginActionShape<GinNone>>(coop, ginCallGet, to, peer,
								   result, ginSignalOf(GinNone{}),
								   UINT32_MAX, options);
	}

	/*
	 * Does `remote` at the peer. ginErrorTimeout: nothing is posted. ginErrorPeer,
	 * ginErrorAborted: the signal may have been raised.
	 */
	template <class Remote, class Coop = GinThread>
	GIN_FN ginResult_t signal(int peer, Remote remote, Coop coop = {},
				  ginOptions options = {}) const
	{
		static_assert(ginSignalOf(Remote{}).present ||
				      sizeof(Remote) == sizeof(ginSignalOp),
			      "signal needs a remote action");
		struct ginSignalOp op = ginSignalOf(remote);
		const ginResult_t valid = check(coop, ginCallSignal, peer, [&](ginArguments &a) {
			a.peer(peer);
			a.signal(op, peer);
			if constexpr (checks)
				a.options(options);
		});
		if (valid != ginSuccess)
			return valid;
		coop.sync(); /* the signal covers what the coop put */
		uint64_t *known = op.at || withoutDirect() ? nullptr : ginDirectSignals(dc, peer);
		if (known)
			return signalDirect(coop, peer, known, op, options);
		const uint32_t route = routeTo(peer);
		if (route != ginRouteDirect)
			return Base::template postSignal<ginActionShape<Remote>, Coop>(
				coop, route, ginCallSignal, peer, op, options);
		if (networked() && byAgent(op))
			return Base::template postSignal<ginActionShape<Remote>, Coop>(
				coop, networkRoute(), ginCallSignal, peer, op, options);
		struct ginPeer to = ginPeerObserve(&dc.peers[peer]);
		if (withoutDirect() || (routes == GIN_ROUTES_DIRECT && to.route != ginRouteDirect))
			return refuse(coop, ginCallSignal, peer);
		if (isUnconnected(to))
			return byFirst(coop, [&] {
				return leaving(usable(to), ginCallSignal, peer, op.id);
			});
		return signalDirect(coop, peer, to.signals, op, options);
	}

	/*
	 * Atomics by one thread on an aligned word at offset `off` of the peer's part of `win`; the
	 * word has the size of `value`, 4 or 8 bytes. *old gets the old value, unless `old` is
	 * NULL. An atomic covers what a strong signal would cover, and reading the old value is an
	 * acquire. Only atomics and signals may change such a word. ginErrorTimeout, ginErrorPeer,
	 * ginErrorAborted: the atomic may have been done. ginErrorUnsupported: no agent can do
	 * atomics in this window (ginCommInfo_t.deviceAtomics).
	 */
	template <class Word> GIN_FN ginResult_t atomicFetchAdd(int peer, ginWindow_t win,
								size_t off, Word value,
								ginSame<Word> *old = nullptr,
								ginOptions options = {}) const
	{
		ginBits<Word> *word = nullptr;
		const ginResult_t valid = checkWord(ginCallAtomic, peer, win, off, sizeof(Word));
		if (valid != ginSuccess)
			return valid;
		if (withoutDirect() || win.table->agent != ginAgentGpu)
			return Base::template postAtomic<ginOpFetchAdd, Word>(peer, win, off, value,
									      Word{}, old, options);
		ginResult_t result = atomicWord(peer, win, off, &word);
		if (result == ginSuccess)
			keep(ginAtomicAdd(word, static_cast<ginBits<Word>>(value)), old);
		return result;
	}

	/* Sets the word to `value` if it is `compare`. */
	template <class Word>
	GIN_FN ginResult_t atomicCompareSwap(int peer, ginWindow_t win, size_t off,
					     ginSame<Word> compare, Word value,
					     ginSame<Word> *old = nullptr,
					     ginOptions options = {}) const
	{
		ginBits<Word> *word = nullptr;
		const ginResult_t valid = checkWord(ginCallAtomic, peer, win, off, sizeof(Word));
		if (valid != ginSuccess)
			return valid;
		if (withoutDirect() || win.table->agent != ginAgentGpu)
			return Base::template postAtomic<ginOpCompareSwap, Word>(
				peer, win, off, value, compare, old, options);
		ginResult_t result = atomicWord(peer, win, off, &word);
		if (result == ginSuccess)
			keep(ginAtomicCas(word, static_cast<ginBits<Word>>(compare),
					  static_cast<ginBits<Word>>(value)),
			     old);
		return result;
	}

	template <class Word>
	GIN_FN ginResult_t atomicSwap(int peer, ginWindow_t win, size_t off, Word value,
				      ginSame<Word> *old = nullptr, ginOptions options = {}) const
	{
		ginBits<Word> *word = nullptr;
		const ginResult_t valid = checkWord(ginCallAtomic, peer, win, off, sizeof(Word));
		if (valid != ginSuccess)
			return valid;
		if (withoutDirect() || win.table->agent != ginAgentGpu)
			return Base::template postAtomic<ginOpSwap, Word>(peer, win, off, value,
									  Word{}, old, options);
		ginResult_t result = atomicWord(peer, win, off, &word);
		if (result == ginSuccess)
			keep(ginAtomicSwap(word, static_cast<ginBits<Word>>(value)), old);
		return result;
	}

	/*
	 * Waits until the source bytes of all puts of this context that happen before the call may
	 * be reused, and the bytes of all gets are there. Promises nothing about targets. Direct
	 * puts and gets are complete when they return. ginErrorTimeout, ginErrorPeer,
	 * ginErrorAborted, or the error of a transfer that failed.
	 */
	template <class Coop = GinThread>
	GIN_FN ginResult_t flush(Coop coop = {}, ginOptions options = {}) const
	{
		const ginResult_t valid =
			check(coop, ginCallFlush, -1, [&]([[maybe_unused]] ginArguments &a) {
				if constexpr (checks)
					a.options(options);
			});
		if (valid != ginSuccess)
			return valid;
		coop.sync();
		if (!networked() && !byProxy())
			return ginSuccess;
		return awaitPosts(coop, -1, 0, options);
	}

	/* flush() for one peer in two steps: flushAsync() takes a ticket, wait() waits for it. */
	template <class Coop = GinThread>
	GIN_FN struct ginRequest flushAsync(int peer, Coop coop = {}) const
	{
		const ginResult_t valid =
			check(coop, ginCallFlush, peer, [&](ginArguments &a) { a.peer(peer); });
		if (valid != ginSuccess)
			return {{0, 0}};
		coop.sync();
		uint64_t ticket = 0;
		if (byProxy())
			ticket = ginLocalLoad(&queue()->posted[peer]);
		else if (struct ginSendQueue *q = sendQueue(peer))
			ticket = coop.thread_rank() == 0 ? ginGetsTicket(q, sharing)
							 : ginSendTicket(q);
		return {{static_cast<uint64_t>(peer), ticket}};
	}

	template <class Coop = GinThread> GIN_FN ginResult_t wait(const struct ginRequest &request,
								  Coop coop = {},
								  ginOptions options = {}) const
	{
		const int peer = static_cast<int>(request.opaque[0]);
		const ginResult_t valid = check(coop, ginCallFlush, peer, [&](ginArguments &a) {
			a.peer(peer);
			if constexpr (checks)
				a.options(options);
		});
		if (valid != ginSuccess)
			return valid;
		/* Tickets of the threads of a coop may differ: only some may be 0. */
		if (!coop.any(request.opaque[1] != 0))
			return ginSuccess;
		return awaitPosts(coop, peer, request.opaque[1], options);
	}

	/* The calls above with a team before the peer, which is a rank of the team. */
	template <class... Args>
	GIN_FN ginResult_t put(ginTeam team, int peer, ginWindow_t dstWin, Args... args) const
	{
		return put(inTeam(ginCallPut, team, peer), dstWin, args...);
	}

	template <class... Args>
	GIN_FN ginResult_t putFrom(ginTeam team, int peer, ginWindow_t dstWin, Args... args) const
	{
		return putFrom(inTeam(ginCallPut, team, peer), dstWin, args...);
	}

	template <class... Args>
	GIN_FN ginResult_t putValue(ginTeam team, int peer, ginWindow_t dstWin, Args... args) const
	{
		return putValue(inTeam(ginCallPutValue, team, peer), dstWin, args...);
	}

	template <class... Args>
	GIN_FN ginResult_t get(ginTeam team, int peer, ginWindow_t srcWin, Args... args) const
	{
		return get(inTeam(ginCallGet, team, peer), srcWin, args...);
	}

	template <class Remote, class... Args>
	GIN_FN ginResult_t signal(ginTeam team, int peer, Remote remote, Args... args) const
	{
		return signal(inTeam(ginCallSignal, team, peer), remote, args...);
	}

	template <class... Args> GIN_FN ginResult_t atomicFetchAdd(ginTeam team, int peer,
								   ginWindow_t win,
								   Args... args) const
	{
		return atomicFetchAdd(inTeam(ginCallAtomic, team, peer), win, args...);
	}

	template <class... Args> GIN_FN ginResult_t atomicCompareSwap(ginTeam team, int peer,
								      ginWindow_t win,
								      Args... args) const
	{
		return atomicCompareSwap(inTeam(ginCallAtomic, team, peer), win, args...);
	}

	template <class... Args>
	GIN_FN ginResult_t atomicSwap(ginTeam team, int peer, ginWindow_t win, Args... args) const
	{
		return atomicSwap(inTeam(ginCallAtomic, team, peer), win, args...);
	}

	template <class... Args>
	GIN_FN struct ginRequest flushAsync(ginTeam team, int peer, Args... args) const
	{
		return flushAsync(inTeam(ginCallFlush, team, peer), args...);
	}

private:
	using Base::atomicWord;
	using Base::awaitPosts;
	using Base::beyondAll;
	using Base::byAgent;
	using Base::byEngine;
	using Base::byFirst;
	using Base::byProxy;
	using Base::check;
	using Base::checkWord;
	using Base::getByThreads;
	using Base::inTeam;
	using Base::isUnconnected;
	using Base::keep;
	using Base::leaving;
	using Base::networked;
	using Base::networkRoute;
	using Base::own;
	using Base::queue;
	using Base::refuse;
	using Base::routeTo;
	using Base::sendQueue;
	using Base::signalDirect;
	using Base::usable;
	using Base::withoutDirect;
};

/* For every route. */
using Gin = GinOn<GIN_ROUTES_ALL>;

#endif
