/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context_base.cuh - the parts of the calls on a context: copies, actions, dispatch to the routes
 *
 * A direct put moves the bytes, votes on the result and does the actions. A put on the proxy or
 * gdaki route describes the transfer, posts it and votes.
 */
#ifndef GIN_CONTEXT_BASE_CUH
#define GIN_CONTEXT_BASE_CUH

#include "../core/coop.cuh"
#include "../core/routes.cuh"
#include "../core/wait.cuh"
#include "../direct/route.cuh"
#include "../gdaki/complete.cuh"
#include "copy_engine.cuh"
#include "../proxy/route.cuh"

/*
 * ginSame: a type that is not deduced from the argument. ginBits: the unsigned integer of its size.
 */
template <class Type> struct ginSameType {
	typedef Type type;
};
template <class Type> using ginSame = typename ginSameType<Type>::type;
template <class Word> using ginBits = typename ginUint<sizeof(Word)>::type;

/* The parts of the calls on a context. Class GinOn in context.cuh has the calls. */
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

	template <class Word>
	GIN_FN ginValueLook<ginBits<Word>> valueLook(ginWindow_t window, size_t offset) const
	{
		static_assert(sizeof(Word) == 4 || sizeof(Word) == 8, "32 or 64 bits");
		return {reinterpret_cast<ginBits<Word> *>(own(window, offset))};
	}

	/*
	 * The number of a signal's word, at most GIN_MAX_CONTEXTS times the most signals of a
	 * context, 2^30. With a product of 64 bits kernel_exchange for direct peers alone takes 44
	 * registers (bench/registers/run: at most 40).
	 */
	GIN_FN size_t wordIndex(uint32_t id) const
	{
		if (routes == GIN_ROUTES_DIRECT)
			return ginUnshared(context) * dc.signals + id;
		return static_cast<size_t>(ginUnshared(context)) * dc.signals + id;
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

	GIN_FN struct ginQueue *queue() const { return dc.queues + ginUnshared(context); }

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

	/* Is this thread alone on the context? */
	GIN_FN bool isAlone() const { return sharing == ginSharingThread; }

	/* Is there a peer on the proxy or gdaki route? */
	GIN_FN bool networked() const { return ginHasNetwork<routes>(dc); }

	/* Are there peers on the gdaki route, not on the proxy route? */
	GIN_FN bool byNic() const { return ginHasNic<routes>(dc); }

	GIN_FN bool byProxy() const { return ginHasProxy<routes>(dc); }

	/* The network route of the device communicator. */
	GIN_FN uint32_t networkRoute() const { return ginNetworkRoute<routes>(dc); }

	GIN_FN uint32_t routeTo(int peer) const { return ginRouteTo<routes>(dc, peer); }

	/* Is this peer on the proxy or gdaki route? */
	GIN_FN bool queued(int peer) const { return routeTo(peer) != ginRouteDirect; }

	/* Does the kernel have no code for this direct peer? */
	GIN_FN static constexpr bool withoutDirect() { return !(routes & GIN_ROUTES_DIRECT); }

	/*
	 * The context that posts for words in windows of the peer. For a direct peer that is the
	 * entry of the queues that all contexts share; `words` makes flush and barriers wait for
	 * them.
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

	/* Is it a word in a window on which another agent than the GPU executes signals? */
	GIN_FN static bool byAgent(const ginSignalOp &op)
	{
		return op.at && op.window.table->agent != ginAgentGpu;
	}

	/* Is it a signal that no agent can raise? */
	GIN_FN static bool beyondAll(const ginSignalOp &op)
	{
		return byAgent(op) && op.window.table->agent == ginAgentNone;
	}

	/*
	 * Is the peer alive, and direct? Asked before its memory is written. Tests every loaded
	 * field: a field that is not used delays the loads of the source (docs/performance.md).
	 */
	GIN_FN static bool within(const struct ginPeer &to)
	{
		return to.state == ginPeerAlive && to.route == ginRouteDirect;
	}

	/*
	 * Can a direct call use the peer? Every peer has a route: ginDevCommCreate() checks that. A
	 * kernel for direct peers alone checks here that the peer is one.
	 */
	GIN_FN static bool alive(const struct ginPeer &to)
	{
		if (routes == GIN_ROUTES_DIRECT)
			return within(to);
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

	/* A device communicator with such a peer has no common route, which saves a load. */
	GIN_FN bool isUnconnected(const struct ginPeer &to) const
	{
		return ginUnshared(dc.route) == ginRouteNone && to.state == ginPeerUnconnected;
	}

	/* Writes the error record if `result` is an error; returns `result`. */
	GIN_FN ginResult_t leaving(ginResult_t result, uint32_t call, int peer, uint32_t id) const
	{
		if (result != ginSuccess)
			leaveError(call, result, peer, id, 0, 0);
		return result;
	}

	/* The first thread of the coop makes the call; all threads return its result. */
	template <class Coop, class Call> GIN_FN static ginResult_t byFirst(Coop coop, Call call)
	{
		ginResult_t result = ginSuccess;
		if (coop.thread_rank() == 0)
			result = call();
		return ginAgree(coop, result);
	}

	template <class Coop> GIN_FN ginResult_t refuse(Coop coop, uint32_t call, int peer) const
	{
		return byFirst(coop, [&] { return unsupported(call, peer); });
	}

	GIN_FN ginResult_t unsupported(uint32_t call, int peer) const
	{
		const ginDevComm *self =
			routes == GIN_ROUTES_GDAKI ? ginUnshared(dc.self) : dc.self;
		if constexpr (routes == GIN_ROUTES_PROXY && !GIN_CALLS)
			ginErrorLeaveCalled(self, ginErrorUnsupported, call, context, peer,
					    UINT32_MAX, 0, 0);
		else
			ginErrorLeave(self, ginErrorUnsupported, call, context, peer, UINT32_MAX, 0,
				      0);
		return ginErrorUnsupported;
	}

	/* Are posts to a NIC function calls? See ginWorkShaped(). */
	static constexpr bool called = (routes & GIN_ROUTES_NETWORK) == GIN_ROUTES_NETWORK;

	/* The arguments of every network call. `id`: of the signal. */
	struct Network {
		uint32_t call;
		int peer;
		uint32_t id, how;
		uint64_t timeout, from;
	};

	GIN_FN Network network(uint32_t call, int peer, const ginSignalOp &op,
			       const ginOptions &options) const
	{
		return {call,
			peer,
			op.id,
			ginHow(call, sharing, op, options),
			options.timeout,
			ginFromPack(options.from)};
	}

	/*
	 * The one dispatch of network calls, by the first thread of the coop. nic() makes the whole
	 * call on route gdaki; proxy(how) posts to the proxy, and ginPost() waits for room.
	 */
	template <class Coop, class Proxy, class Nic>
	GIN_FN ginResult_t dispatch(Coop coop, uint32_t route, const Network &n, Proxy proxy,
				    Nic nic) const
	{
		constexpr bool both = (routes & GIN_ROUTES_NETWORK) == GIN_ROUTES_NETWORK;
		return byFirst(coop, [&] {
			if (routes & GIN_ROUTES_GDAKI && route == ginRouteGdaki)
				return nic();
			if (routes & GIN_ROUTES_PROXY && (both || route == ginRouteProxy))
				return ginPostedResult(ginPost<routes == GIN_ROUTES_PROXY>(
					ginUnshared(dc.self), [&] { return queue(); }, n.how,
					n.peer, n.id, n.timeout, [&] { return n.from; }, proxy));
			return unsupported(n.call, n.peer);
		});
	}

	/*
	 * The scope that a signal's call has to release. Earlier puts, or the put of this call, may
	 * be direct: stores to another GPU's memory. A weak signal alone releases nothing.
	 */
	GIN_FN ginScope signalScope(uint32_t call, const ginSignalOp &op,
				    const ginOptions &options) const
	{
		const bool mayBeDirect = call != ginCallSignal || dc.route == ginRouteNone;
		if (call == ginCallSignal && !op.strong)
			return ginScopeThread;
		return static_cast<ginScope>(
			ginFenceLeft(options.given, mayBeDirect ? ginScopeSystem : ginScopeDevice));
	}

	/* A strong signal releases the caller's writes, for a peer that gets them afterwards. */
	template <class Shape, class Coop>
	GIN_FN_SHARED ginResult_t postSignal(ginCold<Coop> coop, uint32_t route, uint32_t call,
					     int peer, const ginSignalOp &op,
					     const ginOptions &given) const
	{
		ginOptions options = given;
		options.required = signalScope(call, op, options);
		options.aggregate = false;
		const Network n = network(call, peer, op, options);
		if (beyondAll(op))
			return refuse(Coop(coop), call, peer);
		return dispatch(
			Coop(coop), route, n,
			[&](uint32_t how) {
				return ginProxySignal(isAlone(), queue(), &dc.peers[peer], how,
						      peer, op.window.table, ginSignalWhere(op),
						      op.value);
			},
			[&] {
				const uint32_t by = op.at ? wordContext(peer) : context;
				return ginGdakiSignal<called, Shape>(
					ginUnshared(dc.self), ginGdakiQueue(dc, by, peer),
					&dc.peers[peer], context,
					ginHow(call, sharingOf(by), op, options), n.id,
					raiseAt(op, peer), raiseOff(op), op.value, n.timeout,
					n.from);
			});
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

	/* The send queue to a peer; NULL: the peer is on another route. */
	GIN_FN struct ginSendQueue *sendQueue(int peer) const
	{
		if (!byNic() || ginPeerRoute(&dc.peers[peer]) != ginRouteGdaki)
			return nullptr;
		return ginGdakiQueue(dc, ginUnshared(context), peer);
	}

	GIN_FN uint32_t howWait() const
	{
		return ginHow(ginCallFlush, sharing, ginSignalOf(GinNone{}), ginOptions());
	}

	/*
	 * The first thread of the coop waits for the posts to `peer` up to `ticket`, of
	 * flushAsync(). With peer -1 it waits for all posts so far to all peers.
	 */
	template <class Coop> GIN_FN ginResult_t awaitPosts(Coop coop, int peer, uint64_t ticket,
							    const ginOptions &options) const
	{
		const uint64_t timeout = options.timeout, from = ginFromPack(options.from);
		const uint32_t to = peer < 0 ? dc.nRanks : static_cast<uint32_t>(peer);
		return byFirst(coop, [&] {
			if (byNic())
				return peer < 0 ? ginGdakiFlush(dc.self, context, howWait(),
								timeout, from)
						: ginGdakiWait(dc.self, sendQueue(peer), peer,
							       context, howWait(), ticket, timeout,
							       from);
			if (!byProxy())
				return ginSuccess;
			return ginRingWait(dc.self, queue(), howWait(), to,
					   peer < 0 ? ginLocalLoad(&queue()->posted[to]) : ticket,
					   timeout, from);
		});
	}

	template <class Coop> GIN_FN ginResult_t waitCounterNic(uint32_t id, uint64_t least,
								Coop coop,
								const ginOptions &options) const
	{
		return byFirst(coop, [&] {
			return ginGdakiWaitCounter(dc.self, context, howWait(), id, least,
						   options.bits, options.timeout,
						   ginFromPack(options.from));
		});
	}

	template <enum ginOp op, uint32_t bytes>
	GIN_FN struct ginOldValue atomicNic(int peer, ginWindow_t win, size_t off, uint64_t operand,
					    uint64_t compare, bool fetch,
					    const ginOptions &options) const
	{
		const uint32_t by = wordContext(peer);
		const uint32_t how =
			ginHow(ginCallAtomic, sharingOf(by), ginSignalOf(GinNone{}), options);
		const uint64_t from = ginFromPack(options.from);
		struct ginSendQueue *q = ginGdakiQueue(dc, by, peer);
		struct ginOldValue got = {0, ginSuccess};
		if (fetch)
			got.result = ginGdakiAtomicOld<called, op, bytes>(
				dc.self, q, &dc.peers[peer], context, how, by,
				&ginWindowAt(win, peer), off, operand, compare, &got.old,
				options.timeout, from);
		else
			got.result = ginGdakiAtomic<called, op, bytes>(
				dc.self, q, &dc.peers[peer], context, how, &ginWindowAt(win, peer),
				off, operand, compare, options.timeout, from);
		return got;
	}

	template <enum ginOp op, uint32_t bytes>
	GIN_FN struct ginOldValue atomicProxy(int peer, ginWindow_t win, size_t off,
					      uint64_t operand, uint64_t compare, bool fetch,
					      const ginOptions &options) const
	{
		const uint32_t how =
			ginHow(ginCallAtomic, sharing, ginSignalOf(GinNone{}), options);
		const uint64_t from = ginFromPack(options.from);
		if (fetch)
			return ginProxyAtomicFetch(dc.self, context, how, peer, op, win.table, off,
						   bytes, operand, compare, options.timeout, from);
		return {0, ginProxyAtomic(dc.self, context, how, peer, op, win.table, off, bytes,
					  operand, compare, options.timeout, from)};
	}

	template <enum ginOp op, class Word>
	GIN_FN ginResult_t postAtomic(int peer, ginWindow_t win, size_t off, Word operand,
				      Word compare, Word *old, const ginOptions &options) const
	{
		constexpr uint32_t bytes = sizeof(Word);
		const uint64_t with = static_cast<ginBits<Word>>(operand);
		const uint64_t from = static_cast<ginBits<Word>>(compare);
		ginResult_t result = usable(ginPeerObserve(&dc.peers[peer]));
		struct ginOldValue got = {0, ginSuccess};

		if (result == ginSuccess && win.table->agent == ginAgentNone)
			result = ginErrorUnsupported;
		else if (result == ginSuccess && !byNic() && !byProxy())
			result = ginErrorUnsupported;
		if (result != ginSuccess)
			return leaving(result, ginCallAtomic, peer, UINT32_MAX);
		got = byNic() ? atomicNic<op, bytes>(peer, win, off, with, from, old, options)
			      : atomicProxy<op, bytes>(peer, win, off, with, from, old, options);
		if (got.result == ginSuccess)
			keep<Word>(static_cast<ginBits<Word>>(got.old), old);
		return got.result;
	}

	/* putNetwork() on route gdaki, by one thread. */
	template <class Shape> GIN_FN ginResult_t putNic(int peer, ginWindow_t dstWin,
							 size_t dstOff, const ginSource &source,
							 size_t bytes, const ginSignalOp &remote,
							 uint32_t counter, const Network &n) const
	{
		const bool counts = counter != UINT32_MAX;
		uint64_t from = source.word(), fromOff = source.offset;

		if (source.anywhere) {
			const ginWord16 found = ginGdakiFind(dc.self, from, bytes);
			fromOff = found.half[0];
			from = found.half[1];
			if (from == GIN_NO_KEY)
				return leaving(ginErrorInvalidArgument, ginCallPut, peer, n.id);
		}
		return ginGdakiPut<called, Shape>(
			ginUnshared(dc.self), ginGdakiQueue(dc, ginUnshared(context), peer),
			&dc.peers[peer], context, n.how, n.id, bytes, remote.value, counts, counter,
			n.timeout, n.from, [&]() -> ginGdakiPutWhere {
				return {&ginWindowAt(dstWin, peer),
					raiseAt(remote, peer),
					dstOff,
					raiseOff(remote),
					from,
					fromOff,
					counts ? counterWord(0) : nullptr};
			});
	}

	template <class Shape, class Coop>
	GIN_FN_SHARED ginResult_t putNetwork(uint32_t route, int peer, ginCold<ginWindow_t> dstWin,
					     size_t dstOff, const ginSource &source, size_t bytes,
					     const ginSignalOp &remote, uint32_t counter,
					     ginCold<Coop> coop, const ginOptions &options) const
	{
		Network n = network(ginCallPut, peer, remote, options);
		n.how |= static_cast<uint32_t>(source.anywhere) << GIN_HOW_ANYWHERE;
		return dispatch(
			Coop(coop), route, n,
			[&](uint32_t how) {
				return ginProxyPut(isAlone(), queue(), &dc.peers[peer], how, peer,
						   dstWin.table, dstOff, source.word(),
						   source.offset, bytes, remote.window.table,
						   ginSignalWhere(remote), remote.value, counter);
			},
			[&] {
				return putNic<Shape>(peer, dstWin, dstOff, source, bytes, remote,
						     counter, n);
			});
	}

	template <class Shape, class Value, class Coop>
	GIN_FN_SHARED ginResult_t valueNetwork(uint32_t route, int peer,
					       ginCold<ginWindow_t> dstWin, size_t dstOff,
					       const Value &value, const ginSignalOp &remote,
					       ginCold<Coop> coop, const ginOptions &options) const
	{
		const Network n = network(ginCallPutValue, peer, remote, options);
		constexpr uint32_t bytes = sizeof(Value);
		uint64_t v[4] = {};
		memcpy(v, &value, bytes);
		return dispatch(
			Coop(coop), route, n,
			[&](uint32_t how) {
				return ginProxyValue(isAlone(), queue(), &dc.peers[peer], how, peer,
						     dstWin.table, dstOff, bytes, v[0], v[1], v[2],
						     v[3], remote.window.table,
						     ginSignalWhere(remote), remote.value);
			},
			[&] {
				return ginGdakiPutValue<called, Shape, bytes>(
					ginUnshared(dc.self),
					ginGdakiQueue(dc, ginUnshared(context), peer),
					&dc.peers[peer], context, n.how, n.id, v[0], v[1], v[2],
					v[3], remote.value, n.timeout, n.from,
					[&]() -> ginGdakiPutWhere {
						return {&ginWindowAt(dstWin, peer),
							raiseAt(remote, peer),
							dstOff,
							raiseOff(remote),
							0,
							0,
							nullptr};
					});
			});
	}

	template <class Coop>
	GIN_FN_SHARED ginResult_t getNetwork(uint32_t route, int peer, ginCold<ginWindow_t> srcWin,
					     size_t srcOff, ginCold<ginWindow_t> dstWin,
					     size_t dstOff, size_t bytes, ginCold<Coop> coop,
					     const ginOptions &options) const
	{
		const Network n = network(ginCallGet, peer, ginSignalOf(GinNone{}), options);
		return dispatch(
			Coop(coop), route, n,
			[&](uint32_t how) {
				return ginProxyGet(isAlone(), queue(), &dc.peers[peer], how, peer,
						   srcWin.table, srcOff, dstWin.table, dstOff,
						   bytes);
			},
			[&] {
				return ginGdakiGet<called>(
					ginUnshared(dc.self),
					ginGdakiQueue(dc, ginUnshared(context), peer),
					&dc.peers[peer], context, n.how, &ginWindowAt(srcWin, peer),
					srcOff, dstWin.table, dstOff, bytes, n.timeout, n.from);
			});
	}

	/*
	 * Does a copy engine make this copy to or from a direct peer? All threads of the coop find
	 * one answer. `offsets`: of source and target, combined by or. `anywhere`: the source is a
	 * pointer. Only the caller knows whether the pointer is in a window: the proxy ends a
	 * context that names another source.
	 */
	template <class Coop> GIN_FN bool byEngine(int peer, bool anywhere, size_t offsets,
						   size_t bytes, Coop coop,
						   const ginOptions &options) const
	{
		bool chosen = options.copyBy == ginCopyEngine && bytes;
		bool may = options.copyBy == ginCopyAuto && bytes >= GIN_ENGINE_LEAST && !anywhere;
		if (!(routes & GIN_ROUTES_PROXY) || !(chosen || may) || !dc.engineBytes)
			return false;
		const bool isSelf = static_cast<uint32_t>(peer) == dc.rank;
		return chosen || ginEngineIsFaster(dc, isSelf, ginBulkFits(offsets, bytes, options),
						   bytes, coop);
	}

	/* The first thread posts the copy and waits for it. `here`: this rank's side. */
	template <bool isGet, class Coop>
	GIN_FN ginResult_t copyByEngine(int peer, ginWindow_t there, size_t thereOff,
					const ginSource &here, size_t bytes, Coop coop,
					const ginOptions &options) const
	{
		uint32_t how = ginHow(ginCallNone, sharing, ginSignalOf(GinNone{}), options) |
			       static_cast<uint32_t>(here.anywhere) << GIN_HOW_ANYWHERE;
		if (coop.thread_rank())
			return ginSuccess;
		return ginEngineCopy<isGet>(dc.self, context, how, peer, there.table, thereOff,
					    here.word(), here.offset, bytes, options.timeout);
	}

	/*
	 * The accesses that a thread has in flight in a long copy. Up to 32 threads copy 1.6 times
	 * as fast with 8 as with 4; 8 exceed the limit of kernels for direct peers alone.
	 */
	template <class Coop> GIN_FN static constexpr uint32_t inFlight()
	{
		constexpr uint32_t asked = ginInFlight<Coop>(0), size = ginFixedSize<Coop>(0);
		return size && routes != GIN_ROUTES_DIRECT && asked < 8 ? 8 : asked;
	}

	/* All threads of the coop copy. */
	template <class Coop>
	GIN_FN ginResult_t putByThreads(const struct ginPeer &to, int peer, ginWindow_t dstWin,
					size_t dstOff, const ginSource &source, size_t bytes,
					Coop coop, const ginOptions &options) const
	{
		const char *src = source.anywhere ? static_cast<const char *>(source.address)
						  : own(source.window, source.offset);
		char *dst = ginWindowAt({ginUnshared(dstWin.table)}, peer).address + dstOff;
		bool moved = ginMove<inFlight<Coop>()>(dst, src, bytes, coop, options,
						       [&] { return within(to); });
		return moved ? ginSuccess : lost(to);
	}

	template <class Coop> GIN_FN ginResult_t getByThreads(const struct ginPeer &to, int peer,
							      ginWindow_t srcWin, size_t srcOff,
							      char *dst, size_t bytes, Coop coop,
							      const ginOptions &options) const
	{
		const char *src = ginWindowAt(srcWin, peer).address + srcOff;
		bool moved = ginMove<inFlight<Coop>()>(dst, src, bytes, coop, options,
						       [&] { return within(to); });
		return moved ? ginSuccess : lost(to);
	}

	template <class Shape, class Coop>
	GIN_FN ginResult_t putSource(int peer, ginWindow_t dstWin, size_t dstOff, ginSource source,
				     size_t bytes, const ginSignalOp &remote, uint32_t counter,
				     Coop coop, const ginOptions &options) const
	{
		coop.sync(); /* what the coop wrote is what is sent */
		if (networked() && beyondAll(remote))
			return refuse(coop, ginCallPut, peer);
		const uint32_t route = routeTo(peer);
		if (route != ginRouteDirect)
			return putNetwork<Shape, Coop>(route, peer, dstWin, dstOff, source, bytes,
						       remote, counter, coop, options);
		if (withoutDirect())
			return refuse(coop, ginCallPut, peer);
		struct ginPeer to = ginPeerObserve(&dc.peers[peer]);
		ginResult_t result;
		if (byEngine(peer, source.anywhere, dstOff | source.offset, bytes, coop, options))
			result = copyByEngine<false>(peer, dstWin, dstOff, source, bytes, coop,
						     options);
		else
			result = putByThreads(to, peer, dstWin, dstOff, source, bytes, coop,
					      options);
		result = ginAgree(coop, result);
		return act<Shape>(coop, ginCallPut, to, peer, result, remote, counter, options);
	}

	template <class Word> GIN_FN static void keep(ginBits<Word> value, Word *old)
	{
		if (old)
			*old = static_cast<Word>(value);
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
	template <class Shape, class Coop>
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
			return postSignal<Shape, Coop>(coop, networkRoute(), call, peer, remote,
						       options);
		if (remote.present)
			ginDirectSignal(
				mine,
				ginDirectWord(dc, to.signals, peer, ginUnshared(context), remote),
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
		return ginWaitOn<Look>(dc.self, look,
				       {call, context, id, options.bits, least, options.timeout,
					ginFromPack(options.from), failed});
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
