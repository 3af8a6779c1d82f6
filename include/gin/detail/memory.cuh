/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.cuh - every memory access that another agent takes part in
 *
 * Each ordering is fused with the access that publishes or observes it and named for its purpose;
 * the name says which two observers it stands between. The labels pair the two ends:
 *
 *   edge  publishes (release)     observes (acquire)     what it carries
 *   S     ginSignalPublish         ginSignalObserve       data of puts, to the target
 *   B     ginBarrierRelease, then
 *         ginBarrierTell           ginBarrierObserve      all before a barrier, to all after
 *   C     ginCounterPublish        ginCounterObserve      reads of a source, to its reuse
 *   A     ginAtomic... (both)      ginAtomic..., S        all before, to who sees the word
 *   E     ginErrorPublish          ginDevCommGetError     the error record, to the host
 *   D     ginSourceRelease, then
 *         ginDescriptorPublish     descriptorTake         a descriptor and its source, to the proxy
 *   R     proxy: done words        ginDoneObserve         what it has done, to who waits for it
 *   Q     proxy: consumed word     ginHostLook            its reads of a place, to the next in it
 *
 * Accesses without an edge are relaxed: they stand for themselves (a state, an abort word, a byte
 * of data that an edge publishes). On a GPU all but C are of system scope, because the peer may be
 * another GPU or the host. There is no bare fence on the host: ThreadSanitizer does not know them.
 */
#ifndef GIN_MEMORY_CUH
#define GIN_MEMORY_CUH

#include "target.cuh"

/* 16 bytes that move in one access of the GPU; each half is single-copy atomic. */
struct alignas(16) ginWord16 {
	uint64_t half[2];
};

/*
 * S, release end. Observers: this thread and all whose writes happen before the call; the target's
 * ginSignalObserve. One cumulative release orders every earlier put of the context, by whatever
 * thread, before the signal: no fence per store. Made by all threads of a coop, without a branch, and
 * done by the one that says `mine`.
 */
GIN_FN void ginSignalPublish(bool mine, uint64_t *word, uint64_t value)
{
#if GIN_ON_GPU
	asm volatile(
		"{ .reg .pred p; setp.ne.u32 p, %0, 0;"
		" @p red.release.sys.global.add.u64 [%1], %2; }" ::"r"(static_cast<uint32_t>(mine)),
		"l"(word), "l"(value)
		: "memory");
#else
	if (mine)
		__atomic_fetch_add(word, value, __ATOMIC_RELEASE);
#endif
}

/* Relaxed: a signal that carries nothing, or whose caller has released to the system. */
GIN_FN void ginSignalPublishRelaxed(bool mine, uint64_t *word, uint64_t value)
{
#if GIN_ON_GPU
	asm volatile(
		"{ .reg .pred p; setp.ne.u32 p, %0, 0;"
		" @p red.relaxed.sys.global.add.u64 [%1], %2; }" ::"r"(static_cast<uint32_t>(mine)),
		"l"(word), "l"(value)
		: "memory");
#else
	if (mine)
		__atomic_fetch_add(word, value, __ATOMIC_RELAXED);
#endif
}

GIN_FN uint64_t ginAcquireSystem(const uint64_t *word)
{
#if GIN_ON_GPU
	uint64_t value;
	asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
	return value;
#else
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

/* S, acquire end: what happened before the ginSignalPublish whose value this sees is visible. */
GIN_FN uint64_t ginSignalObserve(const uint64_t *word)
{
	return ginAcquireSystem(word);
}

/* Relaxed: the caller guarantees that nobody raises the signal, or counter, meanwhile. */
GIN_FN void ginWordClear(uint64_t *word)
{
#if GIN_ON_GPU
	asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(0ull) : "memory");
#else
	__atomic_store_n(word, 0, __ATOMIC_RELAXED);
#endif
}

/*
 * B, release end: once, then ginBarrierTell for each word that is to say so. Observers: the peers'
 * ginBarrierObserve. On the host each of the stores is a release.
 */
GIN_FN void ginBarrierRelease()
{
#if GIN_ON_GPU
	asm volatile("fence.acq_rel.sys;" ::: "memory");
#endif
}

/* Behind ginBarrierRelease; the word has this one writer. */
GIN_FN void ginBarrierTell(uint64_t *word, uint64_t epoch)
{
#if GIN_ON_GPU
	asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(epoch) : "memory");
#else
	__atomic_store_n(word, epoch, __ATOMIC_RELEASE);
#endif
}

/* B, acquire end. */
GIN_FN uint64_t ginBarrierObserve(const uint64_t *word)
{
	return ginAcquireSystem(word);
}

/* C, release end: this coop's reads of the source. Observer: threads of this GPU. */
GIN_FN void ginCounterPublish(uint64_t *word)
{
#if GIN_ON_GPU
	asm volatile("red.release.gpu.global.add.u64 [%0], %1;" ::"l"(word), "l"(1ull) : "memory");
#else
	__atomic_fetch_add(word, 1, __ATOMIC_RELEASE);
#endif
}

/* C, acquire end. */
GIN_FN uint64_t ginCounterObserve(const uint64_t *word)
{
#if GIN_ON_GPU
	uint64_t value;
	asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
	return value;
#else
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

/* Relaxed: a word of the user's own, which threads of this GPU share. */
GIN_FN uint64_t ginLocalLoad(const uint64_t *word)
{
#if GIN_ON_GPU
	uint64_t value;
	asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
	return value;
#else
	return __atomic_load_n(word, __ATOMIC_RELAXED);
#endif
}

GIN_FN void ginLocalStore(uint64_t *word, uint64_t value)
{
#if GIN_ON_GPU
	asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
#else
	__atomic_store_n(word, value, __ATOMIC_RELAXED);
#endif
}

GIN_FN void ginLocalAdd(uint64_t *word, uint64_t value)
{
#if GIN_ON_GPU
	asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
#else
	__atomic_fetch_add(word, value, __ATOMIC_RELAXED);
#endif
}

/* A, both ends: atomics of 4 and 8 bytes in a peer's memory; the old value is returned. */
template <class Word> GIN_FN Word ginAtomicAdd(Word *word, Word value)
{
#if GIN_ON_GPU
	Word old;
	if constexpr (sizeof(Word) == 8)
		asm volatile("atom.acq_rel.sys.global.add.u64 %0, [%1], %2;"
			     : "=l"(old)
			     : "l"(word), "l"(value)
			     : "memory");
	else
		asm volatile("atom.acq_rel.sys.global.add.u32 %0, [%1], %2;"
			     : "=r"(old)
			     : "l"(word), "r"(value)
			     : "memory");
	return old;
#else
	return __atomic_fetch_add(word, value, __ATOMIC_ACQ_REL);
#endif
}

template <class Word> GIN_FN Word ginAtomicSwap(Word *word, Word value)
{
#if GIN_ON_GPU
	Word old;
	if constexpr (sizeof(Word) == 8)
		asm volatile("atom.acq_rel.sys.global.exch.b64 %0, [%1], %2;"
			     : "=l"(old)
			     : "l"(word), "l"(value)
			     : "memory");
	else
		asm volatile("atom.acq_rel.sys.global.exch.b32 %0, [%1], %2;"
			     : "=r"(old)
			     : "l"(word), "r"(value)
			     : "memory");
	return old;
#else
	return __atomic_exchange_n(word, value, __ATOMIC_ACQ_REL);
#endif
}

template <class Word> GIN_FN Word ginAtomicCas(Word *word, Word compare, Word value)
{
#if GIN_ON_GPU
	Word old;
	if constexpr (sizeof(Word) == 8)
		asm volatile("atom.acq_rel.sys.global.cas.b64 %0, [%1], %2, %3;"
			     : "=l"(old)
			     : "l"(word), "l"(compare), "l"(value)
			     : "memory");
	else
		asm volatile("atom.acq_rel.sys.global.cas.b32 %0, [%1], %2, %3;"
			     : "=r"(old)
			     : "l"(word), "r"(compare), "r"(value)
			     : "memory");
	return old;
#else
	__atomic_compare_exchange_n(word, &compare, value, false, __ATOMIC_ACQ_REL,
				    __ATOMIC_ACQUIRE);
	return compare;
#endif
}

/*
 * D, release end, with ginDescriptorPublish behind it. Observers: this thread, all whose writes
 * happen before the call, and the CPU that finds the phase of its lap in every word (descriptorTake
 * in backends/proxy/descriptor.c). One fence stands for all eight words, which are relaxed. To the
 * device is enough for a source in this GPU's own memory: the CPU has it read by agents that go
 * through the same L2. For memory elsewhere the words may not overtake the source on their way:
 * system. On the host the stores of the words release.
 */
GIN_FN void ginSourceRelease(uint32_t scope)
{
#if GIN_ON_GPU
	if (scope == ginScopeDevice)
		asm volatile("fence.acq_rel.gpu;" ::: "memory");
	else if (scope == ginScopeSystem)
		asm volatile("fence.acq_rel.sys;" ::: "memory");
#else
	(void)scope;
#endif
}

/* D, behind ginSourceRelease: two words of a descriptor. */
GIN_FN void ginDescriptorPublish(uint64_t *place, uint64_t first, uint64_t second)
{
#if GIN_ON_GPU
	asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(place), "l"(first),
		     "l"(second)
		     : "memory");
#else
	__atomic_store_n(place, first, __ATOMIC_RELEASE);
	__atomic_store_n(place + 1, second, __ATOMIC_RELEASE);
#endif
}

/* R, acquire end: pairs with the proxy's store of a done word. */
GIN_FN uint64_t ginDoneObserve(const uint64_t *word)
{
	return ginAcquireSystem(word);
}

/*
 * Q goes on from thread to thread by the shadow. Relaxed on a GPU: the stores into a place depend on
 * the branch that has found it free, and no GPU stores before it knows.
 */
GIN_FN uint64_t ginShadowObserve(const uint64_t *shadow)
{
#if GIN_ON_GPU
	return ginLocalLoad(shadow);
#else
	return __atomic_load_n(shadow, __ATOMIC_ACQUIRE);
#endif
}

/* The largest that any thread has brought. */
GIN_FN void ginLocalMax(uint64_t *word, uint64_t value)
{
#if GIN_ON_GPU
	asm volatile("red.relaxed.gpu.global.max.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
#else
	uint64_t old = __atomic_load_n(word, __ATOMIC_RELAXED);
	while (old < value && !__atomic_compare_exchange_n(word, &old, value, true,
							   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		;
#endif
}

/* Tickets; relaxed, because descriptors carry their phase and nothing else hangs on a ticket. */
GIN_FN uint64_t ginTicketAdd(uint64_t *producer, uint64_t count)
{
#if GIN_ON_GPU
	uint64_t old;
	asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;"
		     : "=l"(old)
		     : "l"(producer), "l"(count)
		     : "memory");
	return old;
#else
	return __atomic_fetch_add(producer, count, __ATOMIC_RELAXED);
#endif
}

/*
 * Sets *word to `value` when it is `compare`. Of both orders, as it hands things from thread to
 * thread: who gives back a place has read it before the next one has it.
 */
GIN_FN bool ginLocalCas(uint64_t *word, uint64_t compare, uint64_t value)
{
#if GIN_ON_GPU
	uint64_t old;
	asm volatile("atom.acq_rel.gpu.global.cas.b64 %0, [%1], %2, %3;"
		     : "=l"(old)
		     : "l"(word), "l"(compare), "l"(value)
		     : "memory");
	return old == compare;
#else
	return __atomic_compare_exchange_n(word, &compare, value, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED);
#endif
}

/* Relaxed: a word of the host's that says all by itself, no data stands behind it. */
GIN_FN uint64_t ginHostWordObserve(const uint64_t *word)
{
#if GIN_ON_GPU
	uint64_t value;
	asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
	return value;
#else
	return __atomic_load_n(word, __ATOMIC_RELAXED);
#endif
}

/* It never changes: a plain load, for which L1 is good until the next fence. */
GIN_FN uint32_t ginPeerRoute(const struct ginPeer *peer)
{
	return peer->route;
}

/* Relaxed: route and signals never change, the state stands for itself. */
GIN_FN struct ginPeer ginPeerObserve(const struct ginPeer *peer)
{
	struct ginPeer seen;
#if GIN_ON_GPU
	uint64_t both, signals;
	asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
		     : "=l"(both), "=l"(signals)
		     : "l"(peer));
	seen.route = static_cast<uint32_t>(both);
	seen.state = static_cast<uint32_t>(both >> 32);
	seen.signals = reinterpret_cast<uint64_t *>(signals);
#else
	seen.route = peer->route;
	seen.state = __atomic_load_n(&peer->state, __ATOMIC_RELAXED);
	seen.signals = peer->signals;
#endif
	return seen;
}

/* Is this thread the first to fail? Relaxed: only the winner goes on to write the record. */
GIN_FN bool ginErrorClaim(uint32_t *claim)
{
#if GIN_ON_GPU
	return atomicCAS(claim, 0u, 1u) == 0;
#else
	uint32_t none = 0;
	return __atomic_compare_exchange_n(claim, &none, 1u, false, __ATOMIC_RELAXED,
					   __ATOMIC_RELAXED);
#endif
}

/* E, release end: the record's fields are whole before `valid` reads 1. Observer: the host. */
GIN_FN void ginErrorPublish(uint32_t *valid)
{
#if GIN_ON_GPU
	asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(valid), "r"(1) : "memory");
#else
	__atomic_store_n(valid, 1u, __ATOMIC_RELEASE);
#endif
}

/*
 * Data. Loads are weak, and never ld.nc: the same kernel may have written the bytes. Stores are
 * relaxed, so that an aligned word of up to 8 bytes is single-copy atomic at the target.
 */
template <class Word> GIN_FN Word ginDataLoad(const char *src)
{
	Word word;
#if GIN_ON_GPU
	asm volatile("" ::: "memory"); /* the compiler holds back no earlier store */
	word = *reinterpret_cast<const volatile Word *>(src);
#else
	memcpy(&word, src, sizeof(word));
#endif
	return word;
}

template <class Word> GIN_FN void ginDataStore(char *dst, Word word)
{
#if GIN_ON_GPU
	if constexpr (sizeof(Word) == 8)
		asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(dst), "l"(word)
			     : "memory");
	else if constexpr (sizeof(Word) == 4)
		asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(dst), "r"(word)
			     : "memory");
	else if constexpr (sizeof(Word) == 2)
		asm volatile("st.relaxed.sys.global.u16 [%0], %1;" ::"l"(dst), "h"(word)
			     : "memory");
	else
		asm volatile("st.relaxed.sys.global.u8 [%0], %1;" ::"l"(dst),
			     "r"(static_cast<uint32_t>(word))
			     : "memory");
#else
	__atomic_store_n(reinterpret_cast<Word *>(dst), word, __ATOMIC_RELAXED);
#endif
}

#if GIN_ON_GPU
template <> GIN_FN ginWord16 ginDataLoad<ginWord16>(const char *src)
{
	ginWord16 word;
	asm volatile("ld.global.v2.u64 {%0, %1}, [%2];"
		     : "=l"(word.half[0]), "=l"(word.half[1])
		     : "l"(src)
		     : "memory");
	return word;
}

template <> GIN_FN void ginDataStore<ginWord16>(char *dst, ginWord16 word)
{
	asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(dst), "l"(word.half[0]),
		     "l"(word.half[1])
		     : "memory");
}
#endif

#endif
