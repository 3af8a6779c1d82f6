/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context_state.cuh - addresses, words and routes of a context, and the state of its peers
 */
#ifndef GIN_CONTEXT_STATE_CUH
#define GIN_CONTEXT_STATE_CUH

#include "../direct/route.cuh"
#include "../core/routes.cuh"
#include "../core/wait.cuh"

/*
 * ginSame: a type that is not deduced from the argument. ginBits: the unsigned integer of its size.
 */
template <class Type> struct ginSameType {
	typedef Type type;
};
template <class Type> using ginSame = typename ginSameType<Type>::type;
template <class Word> using ginBits = typename ginUint<sizeof(Word)>::type;

/* The base of GinContext in context_base.cuh. It moves no data and posts nothing. */
template <uint32_t routes> class GinContextState
{
public:
	const ginDevComm &dc;
	const uint32_t context;
	const ginSharing sharing;

protected:
	GIN_FN GinContextState(const ginDevComm &devComm, uint32_t contextIndex,
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
	 * context, 2^30. A 32-bit number saves registers in kernels for direct peers alone, but
	 * costs stack in kernels for all routes.
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
	 * field: ptxas would otherwise reuse the unused registers, and wait for the load first, and
	 * so would the loads of the source.
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
};

#endif
