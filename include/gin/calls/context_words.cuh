/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context_words.cuh - the calls on words of this rank: signals, values and counters
 */
#ifndef GIN_CONTEXT_WORDS_CUH
#define GIN_CONTEXT_WORDS_CUH

#include "context_checks.cuh"

/* The base of GinOn in context.cuh. */
template <uint32_t routes, bool checks> class GinContextWords
    : public GinContextChecks<routes, checks>
{
	using Base = GinContextChecks<routes, checks>;

public:
	using Base::context;
	using Base::dc;

	/*
	 * The value of this rank's signal. All that the signal covers is visible to the calling
	 * thread.
	 */
	GIN_FN uint64_t readSignal(uint32_t id) const
	{
		const size_t at = wordIndex(id);
		if (!hasSignal(ginCallReadSignal, id))
			return 0;
		return gpuSignals(at)() + (cpuSignals() ? ginSignalObserve(cpuSignal(at)) : 0);
	}

	GIN_FN uint64_t readSignal(ginWindow_t win, size_t off) const
	{
		if (!hasWord(ginCallReadSignal, ginArgumentSignal, win, off, sizeof(uint64_t)))
			return 0;
		return ginSignalObserve(ownWord(win, off));
	}

	/*
	 * Sets a signal and its shadow to 0, by one thread. No agent may raise the signal
	 * meanwhile.
	 */
	GIN_FN void resetSignal(uint32_t id) const
	{
		size_t at = wordIndex(id);
		if (!hasSignal(ginCallResetSignal, id))
			return;
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
		if (hasWord(ginCallResetSignal, ginArgumentSignal, win, off, sizeof(uint64_t)))
			ginWordClear(ownWord(win, off));
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
		const uint64_t *only = onlySignal(wordIndex(id));
		if (only)
			return pollFor(ginCallWaitSignal, id, ginWordLook{only}, least, coop,
				       options);
		if (routes == GIN_ROUTES_DIRECT) /* no direct peer raises signals */
			return refuse(coop, ginCallWaitSignal, -1);
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
		const ginResult_t valid = check(coop, ginCallWaitSignal, -1, [&](ginArguments &a) {
			a.own(ginArgumentSignal, win, off, 8, 8);
			a.note(least);
			if constexpr (checks)
				a.options(options);
		});
		if (valid != ginSuccess)
			return valid;
		return pollFor(ginCallWaitSignal, UINT32_MAX, ginWordLook{ownWord(win, off)}, least,
			       coop, options);
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
		return pollFor(ginCallWaitValue, UINT32_MAX,
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
		if (byNic())
			ginGdakiCreditCounters(dc.self, context, howWait());
		uint64_t sum = ginCounterObserve(counterWord(id));
		if (!(routes & GIN_ROUTES_PROXY && dc.counterMirror))
			return sum;
		return sum + ginDoneObserve(hostCounterWord(id));
	}

	/* Sets a counter to 0, by one thread. No put with this counter may be in flight. */
	GIN_FN void resetCounter(uint32_t id) const
	{
		if (!hasCounter(ginCallResetCounter, id))
			return;
		ginWordClear(counterWord(id));
		if (!dc.counterMirror)
			return;
		ginWordClear(hostCounterWord(id));
		ginLocalStore(&dc.counterMirror[counterIndex(id)].seen, 0);
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
		if (byNic())
			return waitCounterNic(id, least, coop, options);
		struct ginMirroredWord *failed = byProxy() ? &queue()->failed[1] : nullptr;
		return pollFor(ginCallWaitCounter, id, counterLook(id), least, coop, options,
			       failed);
	}

protected:
	using Base::Base;
	using Base::byNic;
	using Base::byProxy;
	using Base::check;
	using Base::counterIndex;
	using Base::counterLook;
	using Base::counterWord;
	using Base::cpuSignal;
	using Base::cpuSignals;
	using Base::gpuSignals;
	using Base::hasCounter;
	using Base::hasSignal;
	using Base::hasWord;
	using Base::hostCounterWord;
	using Base::howWait;
	using Base::onlySignal;
	using Base::own;
	using Base::ownWord;
	using Base::pollFor;
	using Base::pollOn;
	using Base::queue;
	using Base::refuse;
	using Base::signalLook;
	using Base::waitCounterNic;
	using Base::wordIndex;
};

#endif
