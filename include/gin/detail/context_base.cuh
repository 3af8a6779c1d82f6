/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context_base.cuh - the parts of the calls on a context: addresses, and dispatch to the routes
 *
 * A direct put moves the bytes, votes on the result and does the actions. A put on the proxy or
 * gdaki route describes the transfer, posts it and votes.
 */
#ifndef GIN_CONTEXT_BASE_CUH
#define GIN_CONTEXT_BASE_CUH

#include "../coop.cuh"
#include "../direct/route.cuh"
#include "../gdaki/complete.cuh"
#include "../proxy/route.cuh"
#include "routes.cuh"
#include "wait.cuh"

/*
 * ginSame: a type that is not deduced from the argument. ginBits: the unsigned integer of its size.
 */
template <class Type> struct ginSameType {
	typedef Type type;
};
template <class Type> using ginSame = typename ginSameType<Type>::type;
template <class Word> using ginBits = typename ginUint<sizeof(Word)>::type;

/* A context of a device communicator. Class GinOn in context.cuh has the calls. */
template <uint32_t routes> class GinContext
{
public:
	const ginDevComm &dc;
	const uint32_t context;
	const ginSharing sharing;

protected:
	GIN_FN GinContext(const ginDevComm &devComm, uint32_t contextIndex,
			  ginSharing contextSharing)
	    : dc(devComm), context(contextIndex), sharing(contextSharing)
	{
	}

	GIN_FN char *own(ginWindow_t window, size_t offset) const
	{
		return ginWindowAt(window, static_cast<int>(dc.rank)).address + offset;
	}

	GIN_FN uint64_t *ownWord(ginWindow_t window, size_t offset) const
	{
		return reinterpret_cast<uint64_t *>(own(window, offset));
	}

	GIN_FN size_t wordIndex(uint32_t id) const
	{
		return static_cast<size_t>(context) * dc.signals + id;
	}

	GIN_FN size_t counterIndex(uint32_t id) const
	{
		return static_cast<size_t>(context) * dc.counters + id;
	}

	GIN_FN uint64_t *counterWord(uint32_t id) const { return dc.counter + counterIndex(id); }

	GIN_FN uint64_t *hostCounterWord(uint32_t id) const
	{
		return dc.hostCounter + counterIndex(id);
	}

	GIN_FN struct ginQueue *queue() const { return dc.queues + context; }

	/* A word of a signal in GPU memory; NULL: no agent of the class raises it. */
	GIN_FN const uint64_t *signalBy(ginWriterClass writer, size_t index) const
	{
		const uint64_t *words = dc.signal[writer];
		return words ? words + index : nullptr;
	}

	/* The words of a signal in GPU memory. */
	GIN_FN ginGpuLook gpuSignals(size_t index) const
	{
		return {routes & GIN_ROUTES_DIRECT ? signalBy(ginWriterGpu, index) : nullptr,
			routes & GIN_ROUTES_GDAKI ? signalBy(ginWriterNic, index) : nullptr};
	}

	GIN_FN uint64_t *cpuSignal(size_t index) const
	{
		return dc.signal[ginWriterCpu] + index * GIN_CPU_WORD_STRIDE;
	}

	/*
	 * The only word of a signal, if all peers raise one class of words; NULL: there are
	 * several.
	 */
	GIN_FN const uint64_t *onlySignal(size_t index) const
	{
		if (routes == GIN_ROUTES_DIRECT)
			return signalBy(ginWriterGpu, index);
		if (routes & GIN_ROUTES_DIRECT && dc.route == ginRouteDirect)
			return dc.signal[ginWriterGpu] + index;
		if (routes & GIN_ROUTES_GDAKI && dc.route == ginRouteGdaki)
			return dc.signal[ginWriterNic] + index;
		return nullptr;
	}

	/* Do CPUs raise signals here? */
	GIN_FN bool cpuSignals() const { return routes & GIN_ROUTES_PROXY && dc.signalMirror; }

	/* How a wait loads a signal: with the word of the CPU class only if CPUs raise signals. */
	GIN_FN ginSignalLook signalLook(size_t index) const
	{
		if (!cpuSignals())
			return {gpuSignals(index), ginHostLook(nullptr, nullptr)};
		return {gpuSignals(index),
			ginHostLook(cpuSignal(index), mirrorOf(dc.signalMirror, index))};
	}

	GIN_FN ginCounterLook counterLook(uint32_t id) const
	{
		if (!(routes & GIN_ROUTES_PROXY && dc.counterMirror))
			return {counterWord(id), ginHostLook(nullptr, nullptr)};
		return {counterWord(id), ginHostLook(hostCounterWord(id),
						     mirrorOf(dc.counterMirror, counterIndex(id)))};
	}

	/* A thread that is alone on the context needs no mirror. */
	GIN_FN struct ginMirror *mirrorOf(struct ginMirror *mirrors, size_t index) const
	{
		return sharing == ginSharingThread ? nullptr : mirrors + index;
	}

	/* Is it a signal that no agent can raise? */
	GIN_FN static bool beyondAll(const ginSignalOp &op)
	{
		return byAgent(op) && op.window.table->agent == ginAgentNone;
	}

	GIN_FN struct ginRing poster() const
	{
		return ginRingOf(dc, context, sharing == ginSharingThread);
	}

	/* Is there a peer on the proxy or gdaki route? */
	GIN_FN bool networked() const { return ginHasNetwork<routes>(dc); }

	/* Are there peers on the gdaki route, not on the proxy route? */
	GIN_FN bool byNic() const { return ginHasNic<routes>(dc); }

	GIN_FN bool byProxy() const { return ginHasProxy<routes>(dc); }

	/*
	 * Does a call go to the proxy that goes neither to a direct peer nor to the NIC? A kernel
	 * for all routes does not ask: there is no other route.
	 */
	GIN_FN bool elseProxy() const
	{
		return (routes & GIN_ROUTES_NETWORK) == GIN_ROUTES_NETWORK || byProxy();
	}

	/* Does the kernel have no code for this direct peer? */
	GIN_FN static constexpr bool withoutDirect() { return !(routes & GIN_ROUTES_DIRECT); }

	/* Is this peer on the proxy or gdaki route? */
	GIN_FN bool queued(int peer) const
	{
		return ginRouteTo<routes>(dc, peer) != ginRouteDirect;
	}

	/*
	 * The context whose queues carry words in windows of the peer. For a direct peer that is
	 * the queues of all contexts together; `words` tells flush and barriers to wait for them.
	 */
	GIN_FN uint32_t wordContext(int peer) const
	{
		if (queued(peer))
			return context;
		ginLocalStore(&dc.results[dc.contexts].words, 1);
		return dc.contexts;
	}

	GIN_FN ginSharing sharingOf(uint32_t queues) const
	{
		return queues == dc.contexts ? ginSharingGpu : sharing;
	}

	/* Writes the error record if `result` is an error; returns `result`. */
	GIN_FN ginResult_t leaving(ginResult_t result, uint32_t call, int peer, uint32_t id) const
	{
		if (result != ginSuccess)
			leaveError(call, result, peer, id, 0, 0);
		return result;
	}

	/* Is it a word in a window on which another agent than the GPU does signals? */
	GIN_FN static bool byAgent(const ginSignalOp &op)
	{
		return op.at && op.window.table->agent != ginAgentGpu;
	}

	/* The first thread of the coop posts `call` to the proxy; all threads return the result. */
	template <class Coop, class Call>
	GIN_FN ginResult_t post(Coop coop, uint32_t number, int peer, uint32_t id,
				const ginOptions &options, const Call &call) const
	{
		ginResult_t result = ginSuccess;
		if (coop.thread_rank() == 0) {
			const struct ginRing by = poster();
			const struct ginPeer *to = &dc.peers[peer];
			struct ginPostedAs as = ginPostTry(call, by, to, dc);
			if (as.posted != ginPostedOk)
				result = leaving(ginPostWait(as, call, by, to, dc, options).result,
						 number, peer, id);
		}
		return ginAgree(coop, result);
	}

	/* A strong signal releases the caller's writes, for a peer that gets them afterwards. */
	template <class Coop> GIN_FN ginResult_t postSignal(Coop coop, uint32_t call, int peer,
							    const ginSignalOp &op,
							    const ginOptions &options) const
	{
		/*
		 * Earlier puts, or the put of this call, may be direct: stores to another GPU's
		 * memory.
		 */
		bool mayBeDirect = call != ginCallSignal || dc.route == ginRouteNone;
		uint32_t scope =
			ginFenceLeft(options.given, mayBeDirect ? ginScopeSystem : ginScopeDevice);
		if (call == ginCallSignal && !op.strong)
			scope = ginScopeThread;
		if (beyondAll(op))
			return refuse(coop, call, peer);
		if (byNic())
			return signalNic(coop, call, peer, op, scope, options);
		if (!elseProxy())
			return refuse(coop, call, peer);
		return post(coop, call, peer, op.id, options,
			    ginReadyCall{ginDescribe(ginOpSignal, peer, op, 0), scope});
	}

	/* Where the NIC raises a signal: what ginGdakiPut() takes. */
	GIN_FN uint64_t raiseOff(const ginSignalOp &op) const
	{
		return op.at ? op.offset : wordIndex(op.id) * sizeof(uint64_t);
	}

	GIN_FN static const struct ginWindowPeer *raiseAt(const ginSignalOp &op, int peer)
	{
		return op.at ? &ginWindowAt(op.window, peer) : nullptr;
	}

	template <class Coop> GIN_FN ginResult_t signalNic(Coop coop, uint32_t call, int peer,
							   const ginSignalOp &op, uint32_t scope,
							   const ginOptions &options) const
	{
		ginResult_t result = ginSuccess;
		ginOptions how = options;
		how.required = static_cast<ginScope>(scope);
		how.aggregate = false;
		if (coop.thread_rank() == 0) {
			uint32_t by = op.at ? wordContext(peer) : context;
			result = ginGdakiSignal(
				dc.self, ginGdakiQueue(dc, by, peer), &dc.peers[peer], context,
				ginHow(call, 0, sharingOf(by), op, how), raiseAt(op, peer),
				raiseOff(op), op.value, options.timeout, ginFromPack(options.from));
		}
		return ginAgree(coop, result);
	}

	/* The send queue to a peer; NULL: the peer is on another route. */
	GIN_FN struct ginSendQueue *sendQueue(int peer) const
	{
		if (!byNic() || ginPeerRoute(&dc.peers[peer]) != ginRouteGdaki)
			return nullptr;
		return ginGdakiQueue(dc, context, peer);
	}

	GIN_FN uint32_t howNic() const
	{
		return ginHow(ginCallNone, 0, sharing, ginSignalOf(GinNone{}), ginOptions());
	}

	/* The first thread of the coop waits for posts to `peer`, or to all peers: -1. */
	template <class Coop> GIN_FN ginResult_t awaitNic(Coop coop, int peer, uint64_t ticket,
							  const ginOptions &options) const
	{
		ginResult_t result = ginSuccess;
		uint64_t from = ginFromPack(options.from);
		if (coop.thread_rank() == 0)
			result = peer < 0 ? ginGdakiFlush(dc.self, context, howNic(),
							  options.timeout, from)
					  : ginGdakiWait(dc.self, sendQueue(peer), peer, context,
							 howNic(), ticket, options.timeout, from);
		return ginAgree(coop, result);
	}

	template <class Coop> GIN_FN ginResult_t waitCounterNic(uint32_t id, uint64_t least,
								Coop coop,
								const ginOptions &options) const
	{
		ginResult_t result = ginSuccess;
		if (coop.thread_rank() == 0)
			result = ginGdakiWaitCounter(dc.self, context, howNic(), id, least,
						     options.bits, options.timeout,
						     ginFromPack(options.from));
		return ginAgree(coop, result);
	}

	template <class Coop> GIN_FN ginResult_t refuse(Coop coop, uint32_t call, int peer) const
	{
		if (coop.thread_rank() == 0)
			leaveError(call, ginErrorUnsupported, peer, UINT32_MAX, 0, 0);
		coop.sync();
		return ginErrorUnsupported;
	}

	template <enum ginOp op, uint32_t bytes>
	GIN_FN ginResult_t atomicNic(int peer, ginWindow_t win, size_t off, uint64_t operand,
				     uint64_t compare, uint64_t *old,
				     const ginOptions &options) const
	{
		uint32_t by = wordContext(peer);
		struct ginSendQueue *q = ginGdakiQueue(dc, by, peer);
		uint32_t how =
			ginHow(ginCallAtomic, 0, sharingOf(by), ginSignalOf(GinNone{}), options);
		if (old)
			return ginGdakiAtomicOld<op, bytes>(dc.self, q, &dc.peers[peer], context,
							    how, by, &ginWindowAt(win, peer), off,
							    operand, compare, old, options.timeout,
							    ginFromPack(options.from));
		return ginGdakiAtomic<op, bytes>(dc.self, q, &dc.peers[peer], context, how,
						 &ginWindowAt(win, peer), off, operand, compare,
						 options.timeout, ginFromPack(options.from));
	}

	/* `op` is known at compile time: postAtomic() is inlined. */
	template <uint32_t bytes>
	GIN_FN ginResult_t atomicNicOf(enum ginOp op, int peer, ginWindow_t win, size_t off,
				       uint64_t operand, uint64_t compare, uint64_t *old,
				       const ginOptions &options) const
	{
		if (op == ginOpFetchAdd)
			return atomicNic<ginOpFetchAdd, bytes>(peer, win, off, operand, compare,
							       old, options);
		if (op == ginOpSwap)
			return atomicNic<ginOpSwap, bytes>(peer, win, off, operand, compare, old,
							   options);
		return atomicNic<ginOpCompareSwap, bytes>(peer, win, off, operand, compare, old,
							  options);
	}

	template <class Word> GIN_FN ginResult_t postAtomic(enum ginOp op, int peer,
							    ginWindow_t win, size_t off,
							    Word operand, Word compare, Word *old,
							    const ginOptions &options) const
	{
		struct ginPeer to = ginPeerObserve(&dc.peers[peer]);
		uint64_t seen = 0;
		ginResult_t result = usable(to);
		if (result == ginSuccess && win.table->agent == ginAgentNone)
			result = ginErrorUnsupported;
		if (result == ginSuccess && byNic()) {
			result = atomicNicOf<sizeof(Word)>(op, peer, win, off,
							   static_cast<ginBits<Word>>(operand),
							   static_cast<ginBits<Word>>(compare),
							   old ? &seen : nullptr, options);
			if (result == ginSuccess)
				keep<Word>(static_cast<ginBits<Word>>(seen), old);
			return result;
		}
		if (result == ginSuccess && !elseProxy()) {
			result = ginErrorUnsupported;
		} else if (result == ginSuccess) {
			struct ginReadyCall call = {
				ginDescribeAtomic(op, peer, ginDescribeOffset(win, off),
						  sizeof(Word), static_cast<ginBits<Word>>(operand),
						  static_cast<ginBits<Word>>(compare)),
				ginFenceLeft(options.given, ginScopeSystem)};
			result = old ? ginPostAtomic(&call, poster(), dc, options, &seen)
				     : ginPost(call, poster(), nullptr, dc, options).result;
		}
		if (result == ginSuccess)
			keep<Word>(static_cast<ginBits<Word>>(seen), old);
		else
			leaveError(ginCallAtomic, result, peer, UINT32_MAX, 0, 0);
		return result;
	}

	/*
	 * The first thread of the coop waits for descriptors to `peer`, or to all peers: nRanks. R.
	 */
	template <class Coop> GIN_FN ginResult_t await(Coop coop, uint32_t peer, uint64_t ticket,
						       const ginOptions &options) const
	{
		ginResult_t result = ginSuccess;
		bool mine = coop.thread_rank() == 0;
		if (mine)
			result = ginRingWait(queue(), peer, ticket, ginPollStart(dc, options));
		result = ginAgree(coop, result);
		if (result != ginSuccess && mine)
			leaveError(ginCallFlush, result,
				   peer == dc.nRanks ? -1 : static_cast<int>(peer), UINT32_MAX,
				   ticket, ginHostWordObserve(&queue()->done[peer]));
		return result;
	}

	template <class Coop> GIN_FN ginResult_t putNetwork(int peer, ginWindow_t dstWin,
							    size_t dstOff, const ginSource &source,
							    size_t bytes, const ginSignalOp &remote,
							    uint32_t counter, Coop coop,
							    const ginOptions &options) const
	{
		if (!byNic() && !elseProxy())
			return refuse(coop, ginCallPut, peer);
		if (!byNic())
			return post(coop, ginCallPut, peer, remote.id, options,
				    ginPutCall{source, dstWin, dstOff, bytes, remote, peer, counter,
					       static_cast<uint32_t>(options.given),
					       static_cast<uint32_t>(options.required)});
		ginResult_t result = ginSuccess;
		if (coop.thread_rank() == 0)
			result = putNic(peer, dstWin, dstOff, source, bytes, remote, counter,
					options);
		return ginAgree(coop, result);
	}

	GIN_FN ginResult_t putNic(int peer, ginWindow_t dstWin, size_t dstOff,
				  const ginSource &source, size_t bytes, const ginSignalOp &remote,
				  uint32_t counter, const ginOptions &options) const
	{
		const uint64_t src = source.anywhere
					     ? reinterpret_cast<uintptr_t>(source.address)
					     : reinterpret_cast<uintptr_t>(source.window.table);
		return ginGdakiPut(
			dc.self, ginGdakiQueue(dc, context, peer), &dc.peers[peer], context,
			ginHow(ginCallPut, 0, sharing, remote, options) |
				static_cast<uint32_t>(source.anywhere) << GIN_HOW_ANYWHERE,
			&ginWindowAt(dstWin, peer), dstOff, src, source.offset, bytes,
			raiseAt(remote, peer), raiseOff(remote), remote.value,
			counter == UINT32_MAX ? nullptr : counterWord(0), counter, options.timeout,
			ginFromPack(options.from));
	}

	template <class Value, class Coop>
	GIN_FN ginResult_t valueNetwork(int peer, ginWindow_t dstWin, size_t dstOff,
					const Value &value, const ginSignalOp &remote, Coop coop,
					const ginOptions &options) const
	{
		if (!byNic() && !elseProxy())
			return refuse(coop, ginCallPutValue, peer);
		if (!byNic())
			return post(coop, ginCallPutValue, peer, remote.id, options,
				    ginReadyCall{ginDescribeValue(peer,
								  ginDescribeOffset(dstWin, dstOff),
								  value, remote),
						 ginScopeThread});
		ginResult_t result = ginSuccess;
		if (coop.thread_rank() == 0)
			result = valueNic(peer, dstWin, dstOff, value, remote, options);
		return ginAgree(coop, result);
	}

	template <class Value>
	GIN_FN ginResult_t valueNic(int peer, ginWindow_t dstWin, size_t dstOff, const Value &value,
				    const ginSignalOp &remote, const ginOptions &options) const
	{
		uint64_t v[4] = {0, 0, 0, 0};
		memcpy(v, &value, sizeof(Value));
		return ginGdakiPutValue<sizeof(Value)>(
			dc.self, ginGdakiQueue(dc, context, peer), &dc.peers[peer], context,
			ginHow(ginCallPutValue, 0, sharing, remote, options),
			&ginWindowAt(dstWin, peer), dstOff, v[0], v[1], v[2], v[3],
			raiseAt(remote, peer), raiseOff(remote), remote.value, options.timeout,
			ginFromPack(options.from));
	}

	template <class Coop> GIN_FN ginResult_t getNetwork(int peer, ginWindow_t srcWin,
							    size_t srcOff, ginWindow_t dstWin,
							    size_t dstOff, size_t bytes, Coop coop,
							    const ginOptions &options) const
	{
		if (!byNic() && !elseProxy())
			return refuse(coop, ginCallGet, peer);
		if (!byNic())
			return post(coop, ginCallGet, peer, UINT32_MAX, options,
				    ginReadyCall{ginDescribeGet(
							 peer, ginDescribeOffset(srcWin, srcOff),
							 ginDescribeOffset(dstWin, dstOff), bytes),
						 ginScopeThread});
		ginResult_t result = ginSuccess;
		if (coop.thread_rank() == 0)
			result = ginGdakiGet(
				dc.self, ginGdakiQueue(dc, context, peer), &dc.peers[peer], context,
				ginHow(ginCallGet, 0, sharing, ginSignalOf(GinNone{}), options),
				&ginWindowAt(srcWin, peer), srcOff, dstWin.table, dstOff, bytes,
				options.timeout, ginFromPack(options.from));
		return ginAgree(coop, result);
	}

	template <class Coop>
	GIN_FN ginResult_t putSource(int peer, ginWindow_t dstWin, size_t dstOff, ginSource source,
				     size_t bytes, const ginSignalOp &remote, uint32_t counter,
				     Coop coop, const ginOptions &options) const
	{
		coop.sync(); /* what the coop wrote is what is sent */
		if (networked() && beyondAll(remote))
			return refuse(coop, ginCallPut, peer);
		if (queued(peer))
			return putNetwork(peer, dstWin, dstOff, source, bytes, remote, counter,
					  coop, options);
		if (withoutDirect())
			return refuse(coop, ginCallPut, peer);
		struct ginPeer to = ginPeerObserve(&dc.peers[peer]);
		const char *src = source.anywhere ? static_cast<const char *>(source.address)
						  : own(source.window, source.offset);
		char *dst = ginWindowAt(dstWin, peer).address + dstOff;
		bool moved = ginMove(dst, src, bytes, coop, options, [&] { return alive(to); });
		ginResult_t result = ginAgree(coop, moved ? ginSuccess : lost(to));
		return act(coop, ginCallPut, to, peer, result, remote, counter, options);
	}

	template <class Word> GIN_FN static void keep(ginBits<Word> value, Word *old)
	{
		if (old)
			*old = static_cast<Word>(value);
	}

	/*
	 * Can a direct call use the peer? Every peer has a route: ginDevCommCreate() checks that. A
	 * kernel for direct peers alone checks here that the peer is one.
	 */
	GIN_FN static bool alive(const struct ginPeer &to)
	{
		if (routes == GIN_ROUTES_DIRECT)
			return to.state == ginPeerAlive && to.route == ginRouteDirect;
		return to.state == ginPeerAlive;
	}

	/* The result of a call on a peer that is not alive(). */
	GIN_FN ginResult_t lost(const struct ginPeer &to) const
	{
		if (routes == GIN_ROUTES_DIRECT && to.route != ginRouteDirect)
			return ginErrorUnsupported;
		return ginPeerLost(&dc.abortLine->word);
	}

	GIN_FN ginResult_t usable(const struct ginPeer &to) const
	{
		return alive(to) ? ginSuccess : lost(to);
	}

	GIN_FN void leaveError(uint32_t call, ginResult_t result, int peer, uint32_t id,
			       uint64_t expected, uint64_t seen) const
	{
		ginErrorLeave(dc.self, result, call, context, peer, id, expected, seen);
	}

	/*
	 * Does the actions of a direct call. All threads call it, after the coop has agreed on
	 * `result`: the coop has met, so its accesses come before the actions, which the first
	 * thread does. C and S, release ends.
	 */
	template <class Coop>
	GIN_FN ginResult_t act(Coop coop, uint32_t call, const struct ginPeer &to, int peer,
			       ginResult_t result, const ginSignalOp &remote, uint32_t counter,
			       const ginOptions &options) const
	{
		bool mine = coop.thread_rank() == 0;
		if (result != ginSuccess) {
			if (mine)
				leaveError(call, result, peer, remote.id, 0, 0);
			return result;
		}
		if (counter != UINT32_MAX && mine)
			ginCounterPublish(counterWord(counter));
		if (networked() && byAgent(remote))
			return postSignal(coop, call, peer, remote, options);
		if (remote.present)
			ginDirectSignal(mine, ginDirectWord(dc, to.signals, peer, context, remote),
					remote, true, options.given);
		return ginSuccess;
	}

	/* A direct signal without data. */
	template <class Coop>
	GIN_FN ginResult_t signalDirect(Coop coop, int peer, uint64_t *signals,
					const ginSignalOp &op, const ginOptions &options) const
	{
		bool mine = coop.thread_rank() == 0;
		ginDirectSignal(mine, ginDirectWord(dc, signals, peer, context, op), op, false,
				options.given);
		/*
		 * After the signal, so that the load does not delay it. The memory of a failed peer
		 * stays mapped.
		 */
		ginResult_t result = ginAgree(coop, usable(ginPeerObserve(&dc.peers[peer])));
		if (result != ginSuccess && mine)
			leaveError(ginCallSignal, result, peer, op.id, 0, 0);
		return result;
	}

	template <class Word>
	GIN_FN ginResult_t atomicWord(int peer, ginWindow_t win, size_t off, Word **word) const
	{
		static_assert(sizeof(Word) == 4 || sizeof(Word) == 8, "32 or 64 bits");
		ginResult_t result = leaving(usable(ginPeerObserve(&dc.peers[peer])), ginCallAtomic,
					     peer, UINT32_MAX);
		*word = reinterpret_cast<Word *>(ginWindowAt(win, peer).address + off);
		return result;
	}

	/* The longer wait, after ginLookBriefly(). */
	template <class Look> GIN_FN ginResult_t pollOn(uint32_t call, uint32_t id, Look look,
							uint64_t least, const ginOptions &options,
							struct ginMirroredWord *failed) const
	{
		return ginWaitOn(dc.self, look,
				 {call, context, id, options.bits, least, options.timeout,
				  options.from, failed});
	}

	/*
	 * The first threads of the coop poll (ginLeads()); the vote passes their acquire to the
	 * whole coop.
	 */
	template <class Look, class Coop>
	GIN_FN ginResult_t pollFor(uint32_t call, uint32_t id, Look look, uint64_t least, Coop coop,
				   const ginOptions &options,
				   struct ginMirroredWord *failed = nullptr) const
	{
		ginResult_t result = ginSuccess;
		if (ginLeads(coop) && !ginLookBriefly(look, least, options.bits))
			result = pollOn(call, id, look, least, options, failed);
		return ginAgree(coop, result);
	}
};

#endif
