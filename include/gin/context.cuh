/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context.cuh - class Gin: the calls on one context of a device communicator
 */
#ifndef GIN_CONTEXT_CUH
#define GIN_CONTEXT_CUH

#include "detail/context_base.cuh"
#include "options.cuh"

/* A ticket of Gin::flushAsync; plain data that may be kept in any memory. */
struct ginRequest {
	uint64_t opaque[2];
};

/*
 * One context of a device communicator: puts and signals of different contexts have no order.
 * Cheap to make; any number of threads may use the same context at the same time, each with a Gin
 * of its own. `devComm` must outlive it.
 *
 * Every call that names a peer takes a world rank, or a team and a rank of it.
 */
class Gin : public GinContext
{
public:
	GIN_FN Gin(const ginDevComm &devComm, uint32_t contextIndex,
		   ginSharing contextSharing = ginSharingGpu)
	    : GinContext(devComm, contextIndex, contextSharing)
	{
	}

	/*
	 * Write `bytes` bytes from offset srcOff of this rank's part of srcWin to offset dstOff of
	 * the peer's part of dstWin, then do `remote` there and, once the source bytes may be
	 * reused, `local` here. All threads of the coop copy, or one posts, by a route with queues:
	 * the source is read later then. Zero bytes and the own rank are like any other.
	 * ginErrorTimeout: the queue is full, nothing is posted; ginErrorPeer, ginErrorAborted:
	 * neither action is done, and the target may have been written in part.
	 */
	template <class Remote = GinNone, class Local = GinNone, class Coop = GinThread>
	GIN_FN ginResult_t put(int peer, ginWindow_t dstWin, size_t dstOff, ginWindow_t srcWin,
			       size_t srcOff, size_t bytes, Remote remote = {}, Local local = {},
			       Coop coop = {}, ginOptions options = {}) const
	{
		return putSource(peer, dstWin, dstOff, ginSourceIn(srcWin, srcOff), bytes,
				 ginSignalOf(remote), ginCounterOf(local), coop, options);
	}

	/*
	 * The same from anywhere in a registered window of this rank. The direct route reads there;
	 * by routes with queues the window has to be found, a search among all of them, by the CPU
	 * for the proxy, by the caller for a NIC, and a source that is not known to be this GPU's
	 * memory is released to the system. ginErrorInvalidArgument: the caller has found none.
	 */
	template <class Remote = GinNone, class Local = GinNone, class Coop = GinThread>
	GIN_FN ginResult_t putFrom(int peer, ginWindow_t dstWin, size_t dstOff, const void *src,
				   size_t bytes, Remote remote = {}, Local local = {},
				   Coop coop = {}, ginOptions options = {}) const
	{
		return putSource(peer, dstWin, dstOff, ginSourceAnywhere(src), bytes,
				 ginSignalOf(remote), ginCounterOf(local), coop, options);
	}

	/*
	 * Write `value`, at most 32 bytes, to offset dstOff of the peer's part of dstWin, then do
	 * `remote` there. There is no source to reuse. One that is aligned and of 4 or 8 bytes is
	 * seen whole or not at all. ginErrorPeer, ginErrorAborted: the value may have been written.
	 */
	template <class Value, class Remote = GinNone, class Coop = GinThread>
	GIN_FN ginResult_t putValue(int peer, ginWindow_t dstWin, size_t dstOff, Value value,
				    Remote remote = {}, Coop coop = {},
				    ginOptions options = {}) const
	{
		static_assert(sizeof(Value) <= 32, "putValue takes up to 32 bytes: use put");
		static_assert(__is_trivially_copyable(Value), "a value is sent as its bytes");
		coop.sync(); /* a value may be a flag: all of the coop have come before it */
		struct ginSignalOp op = ginSignalOf(remote);
		if (networked() && beyondAll(op))
			return refuse(coop, ginCallPutValue, peer);
		if (queued(peer))
			return valueNetwork(peer, dstWin, dstOff, value, op, coop, options);
		struct ginPeer to = ginPeerObserve(&dc.peers[peer]);
		ginResult_t result = usable(to);
		if (result == ginSuccess && coop.thread_rank() == 0)
			ginDirectStore(ginWindowAt(dstWin, peer).address + dstOff, value);
		result = ginAgree(coop, result);
		return act(coop, ginCallPutValue, to, peer, result, op, UINT32_MAX, options);
	}

	/*
	 * Read `bytes` bytes from offset srcOff of the peer's part of srcWin to offset dstOff of
	 * this rank's part of dstWin. They are there, for whoever the caller synchronises with
	 * afterwards, once a flush or a wait for a later request has returned. ginErrorPeer,
	 * ginErrorAborted.
	 */
	template <class Coop = GinThread>
	GIN_FN ginResult_t get(int peer, ginWindow_t srcWin, size_t srcOff, ginWindow_t dstWin,
			       size_t dstOff, size_t bytes, Coop coop = {},
			       ginOptions options = {}) const
	{
		coop.sync(); /* none of the coop uses the bytes that are replaced */
		if (queued(peer))
			return getNetwork(peer, srcWin, srcOff, dstWin, dstOff, bytes, coop,
					  options);
		struct ginPeer to = ginPeerObserve(&dc.peers[peer]);
		const char *src = ginWindowAt(srcWin, peer).address + srcOff;
		bool moved = ginMove(own(dstWin, dstOff), src, bytes, coop, options,
				     [&] { return to.state == ginPeerAlive; });
		ginResult_t result = ginAgree(coop, moved ? ginSuccess : lost());
		return act(coop, ginCallGet, to, peer, result, ginSignalOf(GinNone{}), UINT32_MAX,
			   options);
	}

	/* Do `remote` at the peer. ginErrorPeer, ginErrorAborted: it may have been done. */
	template <class Remote, class Coop = GinThread>
	GIN_FN ginResult_t signal(int peer, Remote remote, Coop coop = {},
				  ginOptions options = {}) const
	{
		static_assert(ginSignalOf(Remote{}).present ||
				      sizeof(Remote) == sizeof(ginSignalOp),
			      "signal needs a remote action");
		struct ginSignalOp op = ginSignalOf(remote);
		coop.sync(); /* it covers what the coop put */
		uint64_t *near = op.at ? nullptr : ginDirectNear(dc, peer);
		if (near)
			return signalDirect(coop, peer, near, op, options);
		if (networked() && (queued(peer) || byAgent(op)))
			return postSignal(coop, ginCallSignal, peer, op, options);
		return signalDirect(coop, peer, ginPeerObserve(&dc.peers[peer]).signals, op,
				    options);
	}

	/*
	 * Atomics on an aligned word of 4 or 8 bytes, as `value` has, at offset `off` of the peer's
	 * part of `win`, by one thread. The old value goes to *old unless that is NULL. An atomic
	 * covers what a strong signal would, and the old value is an acquire. Words that atomics
	 * and signals change must be changed by nothing else. ginErrorPeer, ginErrorAborted.
	 */
	template <class Word> GIN_FN ginResult_t atomicFetchAdd(int peer, ginWindow_t win,
								size_t off, Word value,
								ginSame<Word> *old = nullptr,
								ginOptions options = {}) const
	{
		ginBits<Word> *word = nullptr;
		if (win.table->agent != ginAgentGpu)
			return postAtomic<Word>(ginOpFetchAdd, peer, win, off, value, 0, old,
						options);
		ginResult_t result = atomicWord(peer, win, off, &word);
		if (result == ginSuccess)
			keep<Word>(ginAtomicAdd(word, static_cast<ginBits<Word>>(value)), old);
		return result;
	}

	/* Set to `value` when it is `compare`. */
	template <class Word>
	GIN_FN ginResult_t atomicCompareSwap(int peer, ginWindow_t win, size_t off,
					     ginSame<Word> compare, Word value,
					     ginSame<Word> *old = nullptr,
					     ginOptions options = {}) const
	{
		ginBits<Word> *word = nullptr;
		if (win.table->agent != ginAgentGpu)
			return postAtomic<Word>(ginOpCompareSwap, peer, win, off, value, compare,
						old, options);
		ginResult_t result = atomicWord(peer, win, off, &word);
		if (result == ginSuccess)
			keep<Word>(ginAtomicCas(word, static_cast<ginBits<Word>>(compare),
						static_cast<ginBits<Word>>(value)),
				   old);
		return result;
	}

	template <class Word>
	GIN_FN ginResult_t atomicSwap(int peer, ginWindow_t win, size_t off, Word value,
				      ginSame<Word> *old = nullptr, ginOptions options = {}) const
	{
		ginBits<Word> *word = nullptr;
		if (win.table->agent != ginAgentGpu)
			return postAtomic<Word>(ginOpSwap, peer, win, off, value, 0, old, options);
		ginResult_t result = atomicWord(peer, win, off, &word);
		if (result == ginSuccess)
			keep<Word>(ginAtomicSwap(word, static_cast<ginBits<Word>>(value)), old);
		return result;
	}

	/*
	 * The source bytes of all puts of this context that happen before the call may be reused,
	 * and the bytes of all gets are there. It says nothing of the targets. Direct puts and gets
	 * have done so when they return: the coop only has to meet. ginErrorTimeout; what a transfer
	 * has failed with; ginErrorPeer, ginErrorAborted.
	 */
	template <class Coop = GinThread>
	GIN_FN ginResult_t flush(Coop coop = {}, ginOptions options = {}) const
	{
		coop.sync();
		if (!networked())
			return ginSuccess;
		if (dc.sendQueues)
			return awaitNic(coop, -1, 0, options);
		return await(coop, dc.nRanks, ginLocalLoad(&queue()->posted[dc.nRanks]), options);
	}

	/* The same for one peer, in two steps: a ticket now, the wait when it is needed. */
	template <class Coop = GinThread>
	GIN_FN struct ginRequest flushAsync(int peer, Coop coop = {}) const
	{
		coop.sync();
		uint64_t ticket = 0;
		if (dc.queues)
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
		coop.sync();
		if (!request.opaque[1])
			return ginSuccess;
		if (dc.sendQueues)
			return awaitNic(coop, static_cast<int>(request.opaque[0]),
					request.opaque[1], options);
		return await(coop, static_cast<uint32_t>(request.opaque[0]), request.opaque[1],
			     options);
	}

	/* The value of this rank's signal; what it covers is visible to the calling thread. */
	GIN_FN uint64_t readSignal(uint32_t id) const
	{
		const size_t at = wordIndex(id);
		return gpuSignals(at)() + (dc.signalMirror ? ginSignalObserve(cpuSignal(at)) : 0);
	}

	GIN_FN uint64_t readSignal(ginWindow_t win, size_t off) const
	{
		return ginSignalObserve(ownWord(win, off));
	}

	/* Set the signal, and its shadow, to 0. Nobody may raise it meanwhile. By one thread. */
	GIN_FN void resetSignal(uint32_t id) const
	{
		size_t at = wordIndex(id);
		if (dc.signal[ginWriterGpu])
			ginWordClear(dc.signal[ginWriterGpu] + at);
		if (dc.signal[ginWriterNic])
			ginWordClear(dc.signal[ginWriterNic] + at);
		if (dc.signalMirror) {
			ginWordClear(cpuSignal(at));
			ginLocalStore(&dc.signalMirror[at].seen, 0);
		}
		ginLocalStore(signalShadow(id), 0);
	}

	GIN_FN void resetSignal(ginWindow_t win, size_t off) const
	{
		ginWordClear(ownWord(win, off));
	}

	/*
	 * Wait until this rank's signal is at least `least`, by a rolling compare: the difference
	 * is less than 2^(bits - 1). An acquire for the whole coop. ginErrorTimeout; ginErrorPeer
	 * when a peer that the wait depends on has failed; ginErrorAborted.
	 */
	template <class Coop = GinThread>
	GIN_FN ginResult_t waitSignal(uint32_t id, uint64_t least, Coop coop = {},
				      ginOptions options = {}) const
	{
		const uint64_t *only = onlySignal(wordIndex(id));
		if (only)
			return pollFor(ginCallWaitSignal, id, ginWordLook{only}, least, coop,
				       options);
		ginResult_t result = ginSuccess;
		if (ginLeads(coop))
			result = pollOn(ginCallWaitSignal, id, signalLook(wordIndex(id)), least,
					options, nullptr);
		return ginAgree(coop, result);
	}

	template <class Coop = GinThread>
	GIN_FN ginResult_t waitSignal(ginWindow_t win, size_t off, uint64_t least, Coop coop = {},
				      ginOptions options = {}) const
	{
		return pollFor(ginCallWaitSignal, UINT32_MAX, ginWordLook{ownWord(win, off)}, least,
			       coop, options);
	}

	/*
	 * A shadow is a word of the user's own beside each signal: what he expects it to be. Only
	 * these calls and resetSignal touch it.
	 */
	GIN_FN uint64_t *signalShadow(uint32_t id) const
	{
		return dc.shadow + static_cast<size_t>(context) * dc.signals + id;
	}

	GIN_FN void increaseSignalShadow(uint32_t id, uint64_t delta) const
	{
		ginLocalAdd(signalShadow(id), delta);
	}

	/* Wait until the signal is at least its shadow. */
	template <class Coop = GinThread>
	GIN_FN ginResult_t waitSignalMeetShadow(uint32_t id, Coop coop = {},
						ginOptions options = {}) const
	{
		return waitSignal(id, ginLocalLoad(signalShadow(id)), coop, options);
	}

	/*
	 * Wait until the signal is at least its shadow plus `leastDelta`, then let the shadow follow
	 * to what the signal is. *before is the shadow before, *delta by how much it went on; both
	 * are written on success only. Not by two coops at the same time on one signal. On failure
	 * the shadow stays.
	 */
	template <class Coop = GinThread>
	GIN_FN ginResult_t waitSignalFollowShadow(uint32_t id, uint64_t leastDelta,
						  uint64_t *before, uint64_t *delta, Coop coop = {},
						  ginOptions options = {}) const
	{
		uint64_t *shadow = signalShadow(id), old = ginLocalLoad(shadow);
		ginResult_t result = ginSuccess;
		coop.sync(); /* all have read it before it moves on */
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
		coop.sync(); /* and read it again before the next call moves it */
		return result;
	}

	/*
	 * How many puts with this local action may have their source reused. By the gdaki route it looks
	 * at each of the context's queues in which a put that counts is under way.
	 */
	GIN_FN uint64_t readCounter(uint32_t id) const
	{
		if (dc.sendQueues)
			ginGdakiCreditCounters(sender());
		uint64_t sum = ginCounterObserve(counterWord(id));
		return dc.queues ? sum + ginDoneObserve(hostCounterWord(id)) : sum;
	}

	/* Set the counter to 0. No put that counts may be under way. By one thread. */
	GIN_FN void resetCounter(uint32_t id) const
	{
		ginWordClear(counterWord(id));
		if (!dc.counterMirror)
			return;
		ginWordClear(hostCounterWord(id));
		ginLocalStore(&dc.counterMirror[counterIndex(id)].seen, 0);
	}

	/* Wait until the counter is at least `least`; results as waitSignal's. */
	template <class Coop = GinThread>
	GIN_FN ginResult_t waitCounter(uint32_t id, uint64_t least, Coop coop = {},
				       ginOptions options = {}) const
	{
		if (dc.sendQueues)
			return waitCounterNic(id, least, coop, options);
		struct ginWatch *failed = dc.queues ? &queue()->failed[1] : nullptr;
		return pollFor(ginCallWaitCounter, id, counterLook(id), least, coop, options,
			       failed);
	}

	/* The same calls with a team in front of the peer. */
	template <class... Args>
	GIN_FN ginResult_t put(ginTeam team, int peer, ginWindow_t dstWin, Args... args) const
	{
		return put(ginTeamToWorld(dc, team, peer), dstWin, args...);
	}

	template <class... Args>
	GIN_FN ginResult_t putFrom(ginTeam team, int peer, ginWindow_t dstWin, Args... args) const
	{
		return putFrom(ginTeamToWorld(dc, team, peer), dstWin, args...);
	}

	template <class... Args>
	GIN_FN ginResult_t putValue(ginTeam team, int peer, ginWindow_t dstWin, Args... args) const
	{
		return putValue(ginTeamToWorld(dc, team, peer), dstWin, args...);
	}

	template <class... Args>
	GIN_FN ginResult_t get(ginTeam team, int peer, ginWindow_t srcWin, Args... args) const
	{
		return get(ginTeamToWorld(dc, team, peer), srcWin, args...);
	}

	template <class Remote, class... Args>
	GIN_FN ginResult_t signal(ginTeam team, int peer, Remote remote, Args... args) const
	{
		return signal(ginTeamToWorld(dc, team, peer), remote, args...);
	}

	template <class... Args> GIN_FN ginResult_t atomicFetchAdd(ginTeam team, int peer,
								   ginWindow_t win,
								   Args... args) const
	{
		return atomicFetchAdd(ginTeamToWorld(dc, team, peer), win, args...);
	}

	template <class... Args> GIN_FN ginResult_t atomicCompareSwap(ginTeam team, int peer,
								      ginWindow_t win,
								      Args... args) const
	{
		return atomicCompareSwap(ginTeamToWorld(dc, team, peer), win, args...);
	}

	template <class... Args>
	GIN_FN ginResult_t atomicSwap(ginTeam team, int peer, ginWindow_t win, Args... args) const
	{
		return atomicSwap(ginTeamToWorld(dc, team, peer), win, args...);
	}

	template <class... Args>
	GIN_FN struct ginRequest flushAsync(ginTeam team, int peer, Args... args) const
	{
		return flushAsync(ginTeamToWorld(dc, team, peer), args...);
	}
};

#endif
