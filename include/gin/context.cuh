/* SPDX-License-Identifier: BSD-3-Clause */
/* context.cuh - classes GinOn and Gin: the calls on one context of a device communicator */
#ifndef GIN_CONTEXT_CUH
#define GIN_CONTEXT_CUH

#include "calls/checks.cuh"
#include "calls/context_base.cuh"
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
template <uint32_t routes, bool checks = ginChecks, bool traces = ginTraces> class GinOn
    : public GinContext<routes>
{
	using Base = GinContext<routes>;

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
		if (this->networked() && this->beyondAll(op))
			return this->refuse(coop, ginCallPutValue, peer);
		const uint32_t route = this->routeTo(peer);
		if (route != ginRouteDirect)
			return Base::template valueNetwork<ginActionShape<Remote>, Value, Coop>(
				route, peer, dstWin, dstOff, value, op, coop, options);
		if (this->withoutDirect())
			return this->refuse(coop, ginCallPutValue, peer);
		struct ginPeer to = ginPeerObserve(&dc.peers[peer]);
		ginResult_t result = this->usable(to);
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
		const uint32_t route = this->routeTo(peer);
		if (route != ginRouteDirect)
			return Base::template getNetwork<Coop>(route, peer, srcWin, srcOff, dstWin,
							       dstOff, bytes, coop, options);
		if (this->withoutDirect())
			return this->refuse(coop, ginCallGet, peer);
		struct ginPeer to = ginPeerObserve(&dc.peers[peer]);
		ginResult_t result;
		if (this->byEngine(peer, false, srcOff | dstOff, bytes, coop, options))
			result = Base::template copyByEngine<true>(peer, srcWin, srcOff,
								   ginSourceIn(dstWin, dstOff),
								   bytes, coop, options);
		else
			result =
				this->getByThreads(to, peer, srcWin, srcOff,
						   this->own(dstWin, dstOff), bytes, coop, options);
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
		uint64_t *known =
			op.at || this->withoutDirect() ? nullptr : ginDirectSignals(dc, peer);
		if (known)
			return this->signalDirect(coop, peer, known, op, options);
		const uint32_t route = this->routeTo(peer);
		if (route != ginRouteDirect)
			return Base::template postSignal<ginActionShape<Remote>, Coop>(
				coop, route, ginCallSignal, peer, op, options);
		if (this->networked() && this->byAgent(op))
			return Base::template postSignal<ginActionShape<Remote>, Coop>(
				coop, this->networkRoute(), ginCallSignal, peer, op, options);
		struct ginPeer to = ginPeerObserve(&dc.peers[peer]);
		if (this->withoutDirect() ||
		    (routes == GIN_ROUTES_DIRECT && to.route != ginRouteDirect))
			return this->refuse(coop, ginCallSignal, peer);
		if (this->isUnconnected(to))
			return this->byFirst(coop, [&] {
				return this->leaving(this->usable(to), ginCallSignal, peer, op.id);
			});
		return this->signalDirect(coop, peer, to.signals, op, options);
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
		if (this->withoutDirect() || win.table->agent != ginAgentGpu)
			return Base::template postAtomic<ginOpFetchAdd, Word>(peer, win, off, value,
									      Word{}, old, options);
		ginResult_t result = this->atomicWord(peer, win, off, &word);
		if (result == ginSuccess)
			this->keep(ginAtomicAdd(word, static_cast<ginBits<Word>>(value)), old);
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
		if (this->withoutDirect() || win.table->agent != ginAgentGpu)
			return Base::template postAtomic<ginOpCompareSwap, Word>(
				peer, win, off, value, compare, old, options);
		ginResult_t result = this->atomicWord(peer, win, off, &word);
		if (result == ginSuccess)
			this->keep(ginAtomicCas(word, static_cast<ginBits<Word>>(compare),
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
		if (this->withoutDirect() || win.table->agent != ginAgentGpu)
			return Base::template postAtomic<ginOpSwap, Word>(peer, win, off, value,
									  Word{}, old, options);
		ginResult_t result = this->atomicWord(peer, win, off, &word);
		if (result == ginSuccess)
			this->keep(ginAtomicSwap(word, static_cast<ginBits<Word>>(value)), old);
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
		if (!this->networked() && !this->byProxy())
			return ginSuccess;
		return this->awaitPosts(coop, -1, 0, options);
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
		if (this->byProxy())
			ticket = ginLocalLoad(&this->queue()->posted[peer]);
		else if (struct ginSendQueue *q = this->sendQueue(peer))
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
		return this->awaitPosts(coop, peer, request.opaque[1], options);
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

	/*
	 * The value of this rank's signal. All that the signal covers is visible to the calling
	 * thread.
	 */
	GIN_FN uint64_t readSignal(uint32_t id) const
	{
		const size_t at = this->wordIndex(id);
		if (!hasSignal(ginCallReadSignal, id))
			return 0;
		return this->gpuSignals(at)() +
		       (this->cpuSignals() ? ginSignalObserve(this->cpuSignal(at)) : 0);
	}

	GIN_FN uint64_t readSignal(ginWindow_t win, size_t off) const
	{
		if (!hasWord(ginCallReadSignal, ginArgumentSignal, win, off, sizeof(uint64_t)))
			return 0;
		return ginSignalObserve(this->ownWord(win, off));
	}

	/*
	 * Sets a signal and its shadow to 0, by one thread. No agent may raise the signal
	 * meanwhile.
	 */
	GIN_FN void resetSignal(uint32_t id) const
	{
		size_t at = this->wordIndex(id);
		if (!hasSignal(ginCallResetSignal, id))
			return;
		if (dc.signal[ginWriterGpu])
			ginWordClear(dc.signal[ginWriterGpu] + at);
		if (dc.signal[ginWriterNic])
			ginWordClear(dc.signal[ginWriterNic] + at);
		if (dc.signalMirror) {
			ginWordClear(this->cpuSignal(at));
			ginLocalStore(&dc.signalMirror[at].seen, 0);
		}
		ginLocalStore(signalShadow(id), 0);
	}

	GIN_FN void resetSignal(ginWindow_t win, size_t off) const
	{
		if (hasWord(ginCallResetSignal, ginArgumentSignal, win, off, sizeof(uint64_t)))
			ginWordClear(this->ownWord(win, off));
	}

	/*
	 * Waits until this rank's signal is at least `least`. The compare rolls over: signal minus
	 * `least` is below 2^(options.bits - 1). An acquire for the whole coop. ginErrorTimeout;
	 * ginErrorPeer: a peer that the wait depends on (options.from) has failed; ginErrorAborted.
	 */
	template <class Coop = GinThread>
	GIN_FN ginResult_t waitSignal(uint32_t id, uint64_t least, Coop coop = {},
				      ginOptions options = {}) const
	{
		const ginResult_t valid = check(coop, ginCallWaitSignal, -1, [&](ginArguments &a) {
			a.below(ginArgumentSignal, id, dc.signals);
			a.note(least);
			if constexpr (checks)
				a.options(options);
		});
		if (valid != ginSuccess)
			return valid;
		const uint64_t *only = this->onlySignal(this->wordIndex(id));
		if (only)
			return this->pollFor(ginCallWaitSignal, id, ginWordLook{only}, least, coop,
					     options);
		if (routes == GIN_ROUTES_DIRECT) /* no direct peer raises signals */
			return this->refuse(coop, ginCallWaitSignal, -1);
		ginResult_t result = ginSuccess;
		if (ginLeads(coop))
			result = this->pollOn(ginCallWaitSignal, id,
					      this->signalLook(this->wordIndex(id)), least, options,
					      nullptr);
		return ginAgree(coop, result);
	}

	template <class Coop = GinThread>
	GIN_FN ginResult_t waitSignal(ginWindow_t win, size_t off, uint64_t least, Coop coop = {},
				      ginOptions options = {}) const
	{
		const ginResult_t valid = check(coop, ginCallWaitSignal, -1, [&](ginArguments &a) {
			a.own(ginArgumentSignal, win, off, 8, 8);
			a.note(least);
			if constexpr (checks)
				a.options(options);
		});
		if (valid != ginSuccess)
			return valid;
		return this->pollFor(ginCallWaitSignal, UINT32_MAX,
				     ginWordLook{this->ownWord(win, off)}, least, coop, options);
	}

	/*
	 * The aligned word of 4 or 8 bytes at offset `off` of this rank's part of `win`, which one
	 * rank writes, by putValue() or as bytes of a put. The value is never torn. It says nothing
	 * about other bytes, not even of its own put. If the writer writes the word again before it
	 * knows that this rank has seen the old value, the word may keep the old value: puts have
	 * no order.
	 */
	template <class Word = uint64_t> GIN_FN Word readValue(ginWindow_t win, size_t off) const
	{
		if (!hasWord(ginCallReadValue, ginArgumentWord, win, off, sizeof(Word)))
			return Word{};
		return static_cast<Word>(Base::template valueLook<Word>(win, off)());
	}

	/* Waits until the word is at least `least`, as waitSignal() does. */
	template <class Word = uint64_t, class Coop = GinThread>
	GIN_FN ginResult_t waitValue(ginWindow_t win, size_t off, ginSame<Word> least,
				     Coop coop = {}, ginOptions options = {}) const
	{
		const ginResult_t valid = check(coop, ginCallWaitValue, -1, [&](ginArguments &a) {
			a.own(ginArgumentWord, win, off, sizeof(Word), sizeof(Word));
			a.note(static_cast<uint64_t>(least));
			if constexpr (checks)
				a.options(options);
		});
		if (valid != ginSuccess)
			return valid;
		if (sizeof(Word) == 4 && options.bits > 32)
			options.bits = 32;
		return this->pollFor(ginCallWaitValue, UINT32_MAX,
				     Base::template valueLook<Word>(win, off),
				     static_cast<ginBits<Word>>(least), coop, options);
	}

	/*
	 * A shadow is the user's word for a signal: the value that the user expects. Only the calls
	 * below and resetSignal() change it.
	 */
	GIN_FN uint64_t *signalShadow(uint32_t id) const
	{
		return dc.shadow + static_cast<size_t>(context) * dc.signals + id;
	}

	GIN_FN void increaseSignalShadow(uint32_t id, uint64_t delta) const
	{
		if (hasSignal(ginCallShadow, id))
			ginLocalAdd(signalShadow(id), delta);
	}

	/* Waits until the signal is at least its shadow. Results as waitSignal(). */
	template <class Coop = GinThread>
	GIN_FN ginResult_t waitSignalMeetShadow(uint32_t id, Coop coop = {},
						ginOptions options = {}) const
	{
		const uint64_t least =
			hasSignal(ginCallShadow, id) ? ginLocalLoad(signalShadow(id)) : 0;
		return waitSignal(id, least, coop, options);
	}

	/*
	 * Waits until the signal is at least its shadow plus `leastDelta`, then sets the shadow to
	 * the value of the signal. *before gets the old shadow and *delta the increase, on success
	 * only; on failure the shadow does not change. One coop at a time per signal. Results as
	 * waitSignal().
	 */
	template <class Coop = GinThread>
	GIN_FN ginResult_t waitSignalFollowShadow(uint32_t id, uint64_t leastDelta,
						  uint64_t *before, uint64_t *delta, Coop coop = {},
						  ginOptions options = {}) const
	{
		ginResult_t result = check(coop, ginCallShadow, -1, [&](ginArguments &a) {
			a.below(ginArgumentSignal, id, dc.signals);
			a.note(leastDelta);
			if constexpr (checks)
				a.options(options);
		});
		if (result != ginSuccess)
			return result;
		uint64_t *shadow = signalShadow(id), old = ginLocalLoad(shadow);
		coop.sync(); /* every thread has read the shadow before it changes */
		if (coop.thread_rank() == 0) {
			result = waitSignal(id, old + leastDelta, GinThread{}, options);
			if (result == ginSuccess)
				ginLocalStore(shadow, readSignal(id));
		}
		result = ginAgree(coop, result);
		if (result != ginSuccess)
			return result;
		*before = old;
		*delta = ginLocalLoad(shadow) - old;
		coop.sync(); /* and again, before the next call changes it */
		return result;
	}

	/*
	 * The number of puts with this local action whose source bytes may be reused. On the gdaki
	 * route the call polls each send queue of the context with such a put in flight.
	 */
	GIN_FN uint64_t readCounter(uint32_t id) const
	{
		if (!hasCounter(ginCallReadCounter, id))
			return 0;
		if (this->byNic())
			ginGdakiCreditCounters(dc.self, context, this->howWait());
		uint64_t sum = ginCounterObserve(this->counterWord(id));
		if (!(routes & GIN_ROUTES_PROXY && dc.counterMirror))
			return sum;
		return sum + ginDoneObserve(this->hostCounterWord(id));
	}

	/* Sets a counter to 0, by one thread. No put with this counter may be in flight. */
	GIN_FN void resetCounter(uint32_t id) const
	{
		if (!hasCounter(ginCallResetCounter, id))
			return;
		ginWordClear(this->counterWord(id));
		if (!dc.counterMirror)
			return;
		ginWordClear(this->hostCounterWord(id));
		ginLocalStore(&dc.counterMirror[this->counterIndex(id)].seen, 0);
	}

	/* Waits until the counter is at least `least`. Results as waitSignal(). */
	template <class Coop = GinThread>
	GIN_FN ginResult_t waitCounter(uint32_t id, uint64_t least, Coop coop = {},
				       ginOptions options = {}) const
	{
		const ginResult_t valid = check(coop, ginCallWaitCounter, -1, [&](ginArguments &a) {
			a.below(ginArgumentCounter, id, dc.counters);
			a.note(least);
			if constexpr (checks)
				a.options(options);
		});
		if (valid != ginSuccess)
			return valid;
		if (this->byNic())
			return this->waitCounterNic(id, least, coop, options);
		struct ginMirroredWord *failed =
			this->byProxy() ? &this->queue()->failed[1] : nullptr;
		return this->pollFor(ginCallWaitCounter, id, this->counterLook(id), least, coop,
				     options, failed);
	}

protected:
	/* The world rank of a team's rank; -1, after a record, if the team has no such rank. */
	GIN_FN int inTeam(uint32_t call, ginTeam team, int peer) const
	{
		return check(GinThread{}, call, -1,
			     [&](ginArguments &a) {
				     a.team(team);
				     a.rankBelow(ginArgumentPeer, peer, team.nRanks);
			     }) == ginSuccess
			       ? ginTeamToWorld(dc, team, peer)
			       : -1;
	}

private:
	/*
	 * With -DGIN_DEVICE_CHECKS: checks the context and the arguments that `list` adds.
	 * Otherwise ginSuccess. A list captures `options` only if `checks` is set.
	 */
	template <class Coop, class List>
	GIN_FN ginResult_t check(Coop coop, uint32_t call, int peer, List list) const
	{
		if constexpr (!checks)
			return ginSuccess;
		else
			return ginCheckCall(dc, coop, call, context, peer, [&](ginArguments &a) {
				a.below(ginArgumentContext, context, dc.contexts);
				list(a);
			});
	}

	/*
	 * The source of putFrom(): there is a list of this rank's windows if the gdaki route is in
	 * use.
	 */
	GIN_FN void checkSource(ginArguments &a, const void *src, size_t bytes) const
	{
		const uintptr_t address = reinterpret_cast<uintptr_t>(src);
		struct ginMlx5Memory found = {0, 0};
		a.note(address);
		if (bytes &&
		    (!src || (dc.sources && !ginSourceFind(dc.sources, address, bytes, &found))))
			a.refuse(ginArgumentSource, ginFaultNoWindow, 0, bytes);
	}

	/* An aligned word of a window at a peer. */
	GIN_FN ginResult_t checkWord(uint32_t call, int peer, ginWindow_t win, size_t off,
				     uint32_t bytes) const
	{
		return check(GinThread{}, call, peer, [&](ginArguments &a) {
			a.peer(peer);
			a.bytes(ginArgumentTarget, win, peer, off, bytes, bytes);
		});
	}

	/* By one thread: is it a word of this rank's part, a signal, a counter? */
	GIN_FN bool hasWord(uint32_t call, uint32_t which, ginWindow_t win, size_t off,
			    uint32_t bytes) const
	{
		return check(GinThread{}, call, -1, [&](ginArguments &a) {
			       a.own(which, win, off, bytes, bytes);
		       }) == ginSuccess;
	}

	GIN_FN bool hasSignal(uint32_t call, uint32_t id) const
	{
		return check(GinThread{}, call, -1, [&](ginArguments &a) {
			       a.below(ginArgumentSignal, id, dc.signals);
		       }) == ginSuccess;
	}

	GIN_FN bool hasCounter(uint32_t call, uint32_t id) const
	{
		return check(GinThread{}, call, -1, [&](ginArguments &a) {
			       a.below(ginArgumentCounter, id, dc.counters);
		       }) == ginSuccess;
	}
};

/* For every route. */
using Gin = GinOn<GIN_ROUTES_ALL>;

#endif
