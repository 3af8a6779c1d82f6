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
#include "../proxy/copy_engine.cuh"
#include "../proxy/route.cuh"
#include "wait.cuh"

/*
 * ginSame: a type that is not deduced from the argument. ginBits: the unsigned integer of its size.
 */
template <class Type> struct ginSameType {
	typedef Type type;
};
template <class Type> using ginSame = typename ginSameType<Type>::type;
template <class Word> using ginBits = typename ginUint<sizeof(Word)>::type;

/* A context of a device communicator. Class Gin in context.cuh has the calls. */
class GinContext
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

	/* The words of a signal in GPU memory. */
	GIN_FN ginGpuLook gpuSignals(size_t index) const
	{
		const uint64_t *gpu = dc.signal[ginWriterGpu], *nic = dc.signal[ginWriterNic];
		return {gpu ? gpu + index : nullptr, nic ? nic + index : nullptr};
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
		if (dc.route == ginRouteDirect)
			return dc.signal[ginWriterGpu] + index;
		return dc.route == ginRouteGdaki ? dc.signal[ginWriterNic] + index : nullptr;
	}

	/* How a wait loads a signal: with the word of the CPU class only if CPUs raise signals. */
	GIN_FN ginSignalLook signalLook(size_t index) const
	{
		if (!dc.signalMirror)
			return {gpuSignals(index), ginHostLook(nullptr, nullptr)};
		return {gpuSignals(index),
			ginHostLook(cpuSignal(index), mirrorOf(dc.signalMirror, index))};
	}

	GIN_FN ginCounterLook counterLook(uint32_t id) const
	{
		if (!dc.counterMirror)
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
	GIN_FN bool networked() const { return dc.route != ginRouteDirect; }

	/* Is this peer on the proxy or gdaki route? Needs no load if all peers have one route. */
	GIN_FN bool queued(int peer) const
	{
		if (dc.route != ginRouteNone)
			return dc.route != ginRouteDirect;
		return ginPeerRoute(&dc.peers[peer]) != ginRouteDirect;
	}

	GIN_FN struct ginGdakiContext sender() const { return {dc.self, context, sharing}; }

	/*
	 * The context that posts for words in windows of the peer. For a direct peer that is the
	 * queues of all contexts together; `words` tells flush and barriers to wait for them.
	 */
	GIN_FN struct ginGdakiContext wordSender(int peer) const
	{
		if (queued(peer))
			return sender();
		ginLocalStore(&dc.results[dc.contexts].words, 1);
		return {dc.self, dc.contexts, ginSharingGpu};
	}

	GIN_FN struct ginGdakiContext senderOf(int peer, const ginSignalOp &op) const
	{
		return op.at ? wordSender(peer) : sender();
	}

	/* Writes the error record if `result` is an error; returns `result`. */
	GIN_FN ginResult_t leaving(ginResult_t result, uint32_t call, int peer, uint32_t id) const
	{
		if (result != ginSuccess)
			leaveError(call, result, peer, id, 0, 0);
		return result;
	}

	/*
	 * The first thread of the coop posts to the peer's NIC: by once(), the fast path, and if
	 * that returns ginSentFull by atLength(), the general path. A post by the fast path costs
	 * one branch after it.
	 */
	template <class Coop, class Once, class AtLength>
	GIN_FN ginResult_t send(Coop coop, uint32_t call, int peer, const ginSignalOp &op,
				Once once, AtLength atLength) const
	{
		ginResult_t result = ginSuccess;
		if (coop.thread_rank() == 0) {
			uint32_t fate = once();
			if (fate != ginSentOk)
				result =
					leaving(fate == ginSentFull ? atLength()
								    : onceResult(senderOf(peer, op),
										 peer, fate),
						call, peer, op.id);
		}
		return ginAgree(coop, result);
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
		if (dc.sendQueues)
			return send(
				coop, call, peer, op,
				[&] { return signalOnce(senderOf(peer, op), peer, op, scope); },
				[&] {
					return ginGdakiSignal(senderOf(peer, op), peer,
							      ginSignalOp(op), scope,
							      ginOptions(options));
				});
		return post(coop, call, peer, op.id, options,
			    ginReadyCall{ginDescribe(ginOpSignal, peer, op, 0), scope});
	}

	/* The send queue to a peer; NULL: the peer is on another route. */
	GIN_FN struct ginSendQueue *sendQueue(int peer) const
	{
		if (!dc.sendQueues || ginPeerRoute(&dc.peers[peer]) != ginRouteGdaki)
			return nullptr;
		return ginGdakiQueue(dc, context, peer);
	}

	/* The first thread of the coop waits for posts to `peer`, or to all peers: -1. */
	template <class Coop> GIN_FN ginResult_t awaitNic(Coop coop, int peer, uint64_t ticket,
							  const ginOptions &options) const
	{
		bool mine = coop.thread_rank() == 0;
		ginResult_t result = ginSuccess;
		if (mine) {
			struct ginPoll poll = ginPollStart(dc, options);
			result = peer < 0 ? ginGdakiFlush(sender(), &poll)
					  : ginGdakiWait(sendQueue(peer), ticket, &poll, sharing);
		}
		result = ginAgree(coop, result);
		if (result != ginSuccess && mine)
			leaveError(ginCallFlush, result, peer, UINT32_MAX,
				   ticket & ~GIN_SEND_DUMPED,
				   peer < 0 ? 0 : ginSendDone(sendQueue(peer), sharing));
		return result;
	}

	template <class Coop> GIN_FN ginResult_t waitCounterNic(uint32_t id, uint64_t least,
								Coop coop,
								const ginOptions &options) const
	{
		ginResult_t result = ginSuccess;
		if (coop.thread_rank() == 0) {
			struct ginPoll poll = ginPollStart(dc, options);
			uint64_t seen;
			result = ginGdakiWaitCounter(sender(), id, least, options.bits, &poll,
						     &seen);
			if (result != ginSuccess)
				leaveError(ginCallWaitCounter, result, poll.failed, id, least,
					   seen);
		}
		return ginAgree(coop, result);
	}

	template <class Coop> GIN_FN ginResult_t refuse(Coop coop, uint32_t call, int peer) const
	{
		if (coop.thread_rank() == 0)
			leaveError(call, ginErrorUnsupported, peer, UINT32_MAX, 0, 0);
		coop.sync();
		return ginErrorUnsupported;
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
		if (result == ginSuccess && dc.sendQueues) {
			result = ginGdakiAtomic(wordSender(peer), op, peer, win, off, sizeof(Word),
						static_cast<ginBits<Word>>(operand),
						static_cast<ginBits<Word>>(compare),
						old ? &seen : nullptr, ginOptions(options));
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

	GIN_FN ginResult_t onceResult(const ginGdakiContext &me, int peer, uint32_t fate) const
	{
		return ginSendOutcomeResult(fate, onceQueue(me, peer), &dc.abortLine->word);
	}

	/* A call of the fast path: one WQE, and a signal after it. */
	GIN_FN struct ginFastCall callOnce(const ginGdakiContext &me, int peer, ginWindow_t dstWin,
					   size_t dstOff, const ginSignalOp &remote,
					   bool hold) const
	{
		return {onceQueue(me, peer),
			&dc.peers[peer],
			dstWin,
			dstOff,
			remote,
			context * dc.signals,
			peer,
			static_cast<uint32_t>(me.sharing),
			hold};
	}

	/* A put by the fast path: enum ginSent. ginSentFull: take the general path. */
	GIN_FN uint32_t putOnce(int peer, ginWindow_t dstWin, size_t dstOff,
				const ginSource &source, size_t bytes, const ginSignalOp &remote,
				uint32_t counter, const ginOptions &options) const
	{
		if (source.anywhere || bytes - 1 >= GIN_MLX5_MESSAGE_BYTES)
			return ginSentFull;
		return ginFastPut(
			callOnce(sender(), peer, dstWin, dstOff, remote, options.aggregate),
			{source.window, source.offset, counterWord(0), counter + 1u,
			 static_cast<uint32_t>(bytes), static_cast<uint32_t>(options.given),
			 static_cast<uint32_t>(options.required)});
	}

	/* A value by the fast path. */
	template <class Value>
	GIN_FN uint32_t valueOnce(int peer, ginWindow_t dstWin, size_t dstOff, const Value &value,
				  const ginSignalOp &remote, const ginOptions &options) const
	{
		if constexpr (sizeof(Value) > GIN_MLX5_INLINE_BYTES) {
			return ginSentFull;
		} else {
			struct ginFastValue words = {{}, sizeof(Value)};
			memcpy(words.word, &value, sizeof(Value));
			return ginFastPutValue(
				callOnce(sender(), peer, dstWin, dstOff, remote, options.aggregate),
				words);
		}
	}

	/* A signal by the fast path. `scope`: the release that is left to do. */
	GIN_FN uint32_t signalOnce(const ginGdakiContext &me, int peer, const ginSignalOp &op,
				   uint32_t scope) const
	{
		return ginFastPut(callOnce(me, peer, {}, 0, op, false),
				  {{}, 0, nullptr, 0, 0, ginScopeThread, scope});
	}

	/* The send queue to `peer`. If every peer is on route gdaki, the rank is its number. */
	GIN_FN struct ginSendQueue *onceQueue(const ginGdakiContext &me, int peer) const
	{
		uint32_t queue = dc.route == ginRouteGdaki ? static_cast<uint32_t>(peer)
							   : dc.peers[peer].sendQueue;
		return ginGdakiQueues(dc, me.context) + queue;
	}

	template <class Coop> GIN_FN ginResult_t putNetwork(int peer, ginWindow_t dstWin,
							    size_t dstOff, const ginSource &source,
							    size_t bytes, const ginSignalOp &remote,
							    uint32_t counter, Coop coop,
							    const ginOptions &options) const
	{
		if (!dc.sendQueues)
			return post(coop, ginCallPut, peer, remote.id, options,
				    ginPutCall{source, dstWin, dstOff, bytes, remote, peer, counter,
					       static_cast<uint32_t>(options.given),
					       static_cast<uint32_t>(options.required)});
		auto once = [&] {
			return putOnce(peer, dstWin, dstOff, source, bytes, remote, counter,
				       options);
		};
		return send(coop, ginCallPut, peer, remote, once, [&] {
			return ginGdakiPut(sender(), peer, dstWin, dstOff, ginSource(source), bytes,
					   ginSignalOp(remote), counter, ginOptions(options));
		});
	}

	template <class Value, class Coop>
	GIN_FN ginResult_t valueNetwork(int peer, ginWindow_t dstWin, size_t dstOff,
					const Value &value, const ginSignalOp &remote, Coop coop,
					const ginOptions &options) const
	{
		if (!dc.sendQueues)
			return post(coop, ginCallPutValue, peer, remote.id, options,
				    ginReadyCall{ginDescribeValue(peer,
								  ginDescribeOffset(dstWin, dstOff),
								  value, remote),
						 ginScopeThread});
		auto once = [&] { return valueOnce(peer, dstWin, dstOff, value, remote, options); };
		return send(coop, ginCallPutValue, peer, remote, once, [&] {
			uint32_t words[8];
			memcpy(words, &value, sizeof(value));
			return ginGdakiPutValue(sender(), peer, dstWin, dstOff, words,
						sizeof(value), ginSignalOp(remote),
						ginOptions(options));
		});
	}

	template <class Coop> GIN_FN ginResult_t getNetwork(int peer, ginWindow_t srcWin,
							    size_t srcOff, ginWindow_t dstWin,
							    size_t dstOff, size_t bytes, Coop coop,
							    const ginOptions &options) const
	{
		if (!dc.sendQueues)
			return post(coop, ginCallGet, peer, UINT32_MAX, options,
				    ginReadyCall{ginDescribeGet(
							 peer, ginDescribeOffset(srcWin, srcOff),
							 ginDescribeOffset(dstWin, dstOff), bytes),
						 ginScopeThread});
		auto full = [] { return static_cast<uint32_t>(ginSentFull); };
		return send(coop, ginCallGet, peer, ginSignalOf(GinNone{}), full, [&] {
			return ginGdakiGet(sender(), peer, srcWin, srcOff, dstWin, dstOff, bytes,
					   ginOptions(options));
		});
	}

	/*
	 * Does a copy engine make this copy to or from a direct peer? All threads of the coop find
	 * one answer. `anywhere`: the source is a pointer. Only the caller knows whether the
	 * pointer is in a window: the proxy ends a context that names another source.
	 */
	template <class Coop> GIN_FN bool byEngine(int peer, bool anywhere, size_t bytes, Coop coop,
						   const ginOptions &options) const
	{
		bool chosen = options.copyBy == ginCopyEngine && bytes;
		bool may = options.copyBy == ginCopyAuto && bytes >= GIN_ENGINE_LEAST && !anywhere;
		if (!(chosen || may) || !dc.engineBytes || static_cast<uint32_t>(peer) == dc.rank)
			return false;
		return chosen || ginEngineIsFaster(dc, bytes, coop, options);
	}

	/* The first thread posts the copy and waits for it. `flags`: GIN_ENGINE_... */
	template <class Coop>
	GIN_FN ginResult_t copyByEngine(uint32_t flags, int peer, ginWindow_t there,
					size_t thereOff, const ginSource &here, size_t bytes,
					Coop coop, const ginOptions &options) const
	{
		if (coop.thread_rank())
			return ginSuccess;
		if (here.anywhere)
			flags |= GIN_ENGINE_ANYWHERE;
		return ginEngineCopy(dc.self, context,
				     ginEngineHow(flags, sharing == ginSharingThread, options),
				     peer, there.table, thereOff,
				     here.anywhere ? here.address : here.window.table, here.offset,
				     bytes, options.timeout);
	}

	/* All threads of the coop copy. */
	template <class Coop>
	GIN_FN ginResult_t copyByThreads(const struct ginPeer &to, int peer, ginWindow_t dstWin,
					 size_t dstOff, const ginSource &source, size_t bytes,
					 Coop coop, const ginOptions &options) const
	{
		const char *src = source.anywhere ? static_cast<const char *>(source.address)
						  : own(source.window, source.offset);
		char *dst = ginWindowAt(dstWin, peer).address + dstOff;
		bool moved = ginMove(dst, src, bytes, coop, options,
				     [&] { return to.state == ginPeerAlive; });
		return moved ? ginSuccess : lost();
	}

	template <class Coop> GIN_FN ginResult_t getByThreads(const struct ginPeer &to, int peer,
							      ginWindow_t srcWin, size_t srcOff,
							      char *dst, size_t bytes, Coop coop,
							      const ginOptions &options) const
	{
		const char *src = ginWindowAt(srcWin, peer).address + srcOff;
		bool moved = ginMove(dst, src, bytes, coop, options,
				     [&] { return to.state == ginPeerAlive; });
		return moved ? ginSuccess : lost();
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
		struct ginPeer to = ginPeerObserve(&dc.peers[peer]);
		ginResult_t result;
		if (byEngine(peer, source.anywhere, bytes, coop, options))
			result =
				copyByEngine(0, peer, dstWin, dstOff, source, bytes, coop, options);
		else
			result = copyByThreads(to, peer, dstWin, dstOff, source, bytes, coop,
					       options);
		result = ginAgree(coop, result);
		return act(coop, ginCallPut, to, peer, result, remote, counter, options);
	}

	template <class Word> GIN_FN static void keep(ginBits<Word> value, Word *old)
	{
		if (old)
			*old = static_cast<Word>(value);
	}

	/* The result of a call on a peer that has failed. */
	GIN_FN ginResult_t lost() const { return ginPeerLost(&dc.abortLine->word); }

	/*
	 * ginSuccess if the peer is alive. Every peer has a route: ginDevCommCreate() checks that.
	 */
	GIN_FN ginResult_t usable(const struct ginPeer &to) const
	{
		return to.state == ginPeerAlive ? ginSuccess : lost();
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
