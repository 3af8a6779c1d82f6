/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * primitives.cuh - memory operations with an order and a scope, on the GPU and on the host
 *
 * PTX on the GPU, __atomic builtins on the host. ordering.cuh builds every shared access from
 * these. Other files call the functions of ordering.cuh, and use these only for relaxed accesses to
 * words that need no edge. Words have 4 or 8 bytes, except for stores and weak loads.
 *
 * The host has no fence: ThreadSanitizer does not know fences. Where a GPU orders relaxed accesses
 * by a fence, or by a dependency, the host therefore orders each access (ginFencedAcquire and
 * ginFencedRelease). The host ignores scopes: its atomics are visible to every thread.
 */
#ifndef GIN_PRIMITIVES_CUH
#define GIN_PRIMITIVES_CUH

#include "target.cuh"

enum ginOrder {
	ginRelaxed = 0,
	ginAcquire = 1,
	ginRelease = 2,
	ginAcqRel = 3,
	ginFencedAcquire = 4, /* relaxed on a GPU: a fence or a dependency follows */
	ginFencedRelease = 5, /* relaxed on a GPU: a fence precedes, or none is needed there */
	ginFencedAcqRel = 6   /* acquires on a GPU: a fence precedes */
};

/* PTX 8.6, of CUDA 12.8, has fences that only release or only acquire. */
#if GIN_ON_GPU && __CUDA_ARCH__ >= 900 && __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1208
#define GIN_HAS_RELEASE_FENCE 1
#else
#define GIN_HAS_RELEASE_FENCE 0
#endif

/* 16 bytes that move in one access of the GPU; each half is single-copy atomic. */
struct alignas(16) ginWord16 {
	uint64_t half[2];
};

#if GIN_ON_GPU
/* clang-format off */
/* The macros below expand ASM(HOW, BITS, R) for the order, the scope and the Word of a template. */
#define GIN_PTX_SIZE(ASM, HOW)                                                                     \
	if constexpr (sizeof(Word) == 8)                                                           \
		ASM(HOW, "64", "l");                                                               \
	else if constexpr (sizeof(Word) == 4)                                                      \
		ASM(HOW, "32", "r");                                                               \
	else if constexpr (sizeof(Word) == 2)                                                      \
		ASM(HOW, "16", "h");                                                               \
	else                                                                                       \
		ASM(HOW, "8", "r")
#define GIN_PTX_SCOPE(ASM, ORDER)                                                                  \
	if constexpr (scope == ginScopeCta) {                                                      \
		GIN_PTX_SIZE(ASM, ORDER ".cta");                                                   \
	} else if constexpr (scope == ginScopeDevice) {                                            \
		GIN_PTX_SIZE(ASM, ORDER ".gpu");                                                   \
	} else {                                                                                   \
		GIN_PTX_SIZE(ASM, ORDER ".sys");                                                   \
	}
#define GIN_PTX(ASM)                                                                               \
	if constexpr (order == ginAcquire || order == ginFencedAcqRel) {                           \
		GIN_PTX_SCOPE(ASM, "acquire")                                                      \
	} else if constexpr (order == ginRelease) {                                                \
		GIN_PTX_SCOPE(ASM, "release")                                                      \
	} else if constexpr (order == ginAcqRel) {                                                 \
		GIN_PTX_SCOPE(ASM, "acq_rel")                                                      \
	} else {                                                                                   \
		GIN_PTX_SCOPE(ASM, "relaxed")                                                      \
	}

#define GIN_PTX_LOAD(HOW, BITS, R)                                                                 \
	asm volatile("ld." HOW ".global.u" BITS " %0, [%1];"                                       \
		     : "=" R(old) : "l"(word) : "memory")
#define GIN_PTX_STORE(HOW, BITS, R)                                                                \
	asm volatile("st." HOW ".global.u" BITS " [%0], %1;"                                       \
		     :: "l"(word), R(ginRegister(value)) : "memory")
#define GIN_PTX_STORE_PAIR(HOW, BITS, R)                                                           \
	asm volatile("st." HOW ".global.v2.u" BITS " [%0], {%1, %2};"                              \
		     :: "l"(word), R(first), R(second) : "memory")
#define GIN_PTX_STORE_MMIO(HOW, BITS, R)                                                           \
	asm volatile("st.mmio." HOW ".global.u" BITS " [%0], %1;"                                  \
		     :: "l"(word), R(value) : "memory")
#define GIN_PTX_ADD(HOW, BITS, R)                                                                  \
	asm volatile("red." HOW ".global.add.u" BITS " [%0], %1;"                                  \
		     :: "l"(word), R(value) : "memory")
#define GIN_PTX_ADD_IF(HOW, BITS, R)                                                               \
	asm volatile("{ .reg .pred p; setp.ne.u32 p, %0, 0;"                                       \
		     " @p red." HOW ".global.add.u" BITS " [%1], %2; }"                            \
		     :: "r"(static_cast<uint32_t>(mine)), "l"(word), R(value) : "memory")
#define GIN_PTX_MAX(HOW, BITS, R)                                                                  \
	asm volatile("red." HOW ".global.max.u" BITS " [%0], %1;"                                  \
		     :: "l"(word), R(value) : "memory")
#define GIN_PTX_FETCH_ADD(HOW, BITS, R)                                                            \
	asm volatile("atom." HOW ".global.add.u" BITS " %0, [%1], %2;"                             \
		     : "=" R(old) : "l"(word), R(value) : "memory")
#define GIN_PTX_EXCHANGE(HOW, BITS, R)                                                             \
	asm volatile("atom." HOW ".global.exch.b" BITS " %0, [%1], %2;"                            \
		     : "=" R(old) : "l"(word), R(value) : "memory")
#define GIN_PTX_CAS(HOW, BITS, R)                                                                  \
	asm volatile("atom." HOW ".global.cas.b" BITS " %0, [%1], %2, %3;"                         \
		     : "=" R(old) : "l"(word), R(compare), R(value) : "memory")
/* clang-format on */

/* PTX has no register of 8 bits. */
template <class Word> GIN_FN Word ginRegister(Word value)
{
	return value;
}
GIN_FN uint32_t ginRegister(uint8_t value)
{
	return value;
}
#else
/* The __atomic constant of an order, and of a compare and swap that fails. */
template <ginOrder order> constexpr int ginHostOrder =
	order == ginAcquire || order == ginFencedAcquire   ? __ATOMIC_ACQUIRE
	: order == ginRelease || order == ginFencedRelease ? __ATOMIC_RELEASE
	: order == ginAcqRel || order == ginFencedAcqRel   ? __ATOMIC_ACQ_REL
							   : __ATOMIC_RELAXED;
template <ginOrder order> constexpr int ginHostOrderFailed =
	order == ginAcquire || order == ginAcqRel ? __ATOMIC_ACQUIRE : __ATOMIC_RELAXED;
#endif

template <ginOrder order, ginScope scope, class Word> GIN_FN Word ginLoad(const Word *word)
{
#if GIN_ON_GPU
	Word old;
	GIN_PTX(GIN_PTX_LOAD)
	return old;
#else
	return __atomic_load_n(word, ginHostOrder<order>);
#endif
}

/* Of 1, 2, 4 or 8 bytes. */
template <ginOrder order, ginScope scope, class Word> GIN_FN void ginStore(Word *word, Word value)
{
#if GIN_ON_GPU
	GIN_PTX(GIN_PTX_STORE)
#else
	__atomic_store_n(word, value, ginHostOrder<order>);
#endif
}

/* Two words, aligned to 16 bytes: one access of the GPU, two of the host. */
template <ginOrder order, ginScope scope, class Word>
GIN_FN void ginStorePair(Word *word, Word first, Word second)
{
#if GIN_ON_GPU
	GIN_PTX(GIN_PTX_STORE_PAIR)
#else
	__atomic_store_n(word, first, ginHostOrder<order>);
	__atomic_store_n(word + 1, second, ginHostOrder<order>);
#endif
}

/* To a register of a device. */
template <ginOrder order, ginScope scope, class Word>
GIN_FN void ginStoreMmio(Word *word, Word value)
{
#if GIN_ON_GPU
	GIN_PTX(GIN_PTX_STORE_MMIO)
#else
	__atomic_store_n(word, value, ginHostOrder<order>);
#endif
}

template <ginOrder order, ginScope scope, class Word> GIN_FN void ginAdd(Word *word, Word value)
{
#if GIN_ON_GPU
	GIN_PTX(GIN_PTX_ADD)
#else
	__atomic_fetch_add(word, value, ginHostOrder<order>);
#endif
}

/* Adds if `mine`, without a branch on the GPU. */
template <ginOrder order, ginScope scope, class Word>
GIN_FN void ginAddIf(bool mine, Word *word, Word value)
{
#if GIN_ON_GPU
	GIN_PTX(GIN_PTX_ADD_IF)
#else
	if (mine)
		__atomic_fetch_add(word, value, ginHostOrder<order>);
#endif
}

template <ginOrder order, ginScope scope, class Word> GIN_FN void ginMax(Word *word, Word value)
{
#if GIN_ON_GPU
	GIN_PTX(GIN_PTX_MAX)
#else
	Word old = __atomic_load_n(word, __ATOMIC_RELAXED);
	while (old < value && !__atomic_compare_exchange_n(word, &old, value, true,
							   ginHostOrder<order>, __ATOMIC_RELAXED))
		;
#endif
}

/* Returns the old value, as the two below do. */
template <ginOrder order, ginScope scope, class Word>
GIN_FN Word ginFetchAdd(Word *word, Word value)
{
#if GIN_ON_GPU
	Word old;
	GIN_PTX(GIN_PTX_FETCH_ADD)
	return old;
#else
	return __atomic_fetch_add(word, value, ginHostOrder<order>);
#endif
}

template <ginOrder order, ginScope scope, class Word>
GIN_FN Word ginExchange(Word *word, Word value)
{
#if GIN_ON_GPU
	Word old;
	GIN_PTX(GIN_PTX_EXCHANGE)
	return old;
#else
	return __atomic_exchange_n(word, value, ginHostOrder<order>);
#endif
}

/* Sets *word to `value` if it is `compare`. */
template <ginOrder order, ginScope scope, class Word>
GIN_FN Word ginCas(Word *word, Word compare, Word value)
{
#if GIN_ON_GPU
	Word old;
	GIN_PTX(GIN_PTX_CAS)
	return old;
#else
	__atomic_compare_exchange_n(word, &compare, value, false, ginHostOrder<order>,
				    ginHostOrderFailed<order>);
	return compare;
#endif
}

/* Orders the accesses around it on a GPU. On the host the accesses order themselves: see above. */
template <ginScope scope> GIN_FN void ginFence()
{
#if GIN_ON_GPU
	if constexpr (scope == ginScopeDevice)
		asm volatile("fence.acq_rel.gpu;" ::: "memory");
	else
		asm volatile("fence.acq_rel.sys;" ::: "memory");
#endif
}

/*
 * Orders the accesses before it and the stores after it on a GPU. Unlike ginFence() it does not
 * empty the L1 cache, where the GPU and the compiler have such a fence.
 */
template <ginScope scope> GIN_FN void ginReleaseFence()
{
#if GIN_ON_GPU && GIN_HAS_RELEASE_FENCE
	if constexpr (scope == ginScopeDevice)
		asm volatile("fence.release.gpu;" ::: "memory");
	else
		asm volatile("fence.release.sys;" ::: "memory");
#else
	ginFence<scope>();
#endif
}

/*
 * Orders the loads before it and the accesses after it on a GPU. Unlike ginFence() it does not wait
 * for stores, where the GPU and the compiler have such a fence.
 */
template <ginScope scope> GIN_FN void ginAcquireFence()
{
#if GIN_ON_GPU && GIN_HAS_RELEASE_FENCE
	if constexpr (scope == ginScopeDevice)
		asm volatile("fence.acquire.gpu;" ::: "memory");
	else
		asm volatile("fence.acquire.sys;" ::: "memory");
#else
	ginFence<scope>();
#endif
}

/*
 * A plain load of 1, 2, 4, 8 or 16 bytes, which may hit L1; a volatile load would go to L2. Never
 * ld.nc: this kernel may have written the bytes. The compiler moves no earlier store below the
 * load.
 */
template <class Word> GIN_FN Word ginLoadWeak(const char *src)
{
	Word word;
#if GIN_ON_GPU
	static_assert(sizeof(Word) <= 8, "an integer");
	uint64_t wide = 0;
	uint32_t narrow = 0;
	if constexpr (sizeof(Word) == 8)
		asm volatile("ld.u64 %0, [%1];" : "=l"(wide) : "l"(src) : "memory");
	else if constexpr (sizeof(Word) == 4)
		asm volatile("ld.u32 %0, [%1];" : "=r"(narrow) : "l"(src) : "memory");
	else if constexpr (sizeof(Word) == 2)
		asm volatile("ld.u16 %0, [%1];" : "=r"(narrow) : "l"(src) : "memory");
	else
		asm volatile("ld.u8 %0, [%1];" : "=r"(narrow) : "l"(src) : "memory");
	word = static_cast<Word>(sizeof(Word) == 8 ? wide : narrow);
#else
	memcpy(&word, src, sizeof(word));
#endif
	return word;
}

#if GIN_ON_GPU
template <> GIN_FN ginWord16 ginLoadWeak<ginWord16>(const char *src)
{
	ginWord16 word;
	asm volatile("ld.global.v2.u64 {%0, %1}, [%2];"
		     : "=l"(word.half[0]), "=l"(word.half[1])
		     : "l"(src)
		     : "memory");
	return word;
}

/* Of system scope; aligned to 16 bytes. Orders nothing, not even for the compiler. */
GIN_FN ginWord16 ginLoadPairRelaxed(const void *src)
{
	ginWord16 word;
	asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
		     : "=l"(word.half[0]), "=l"(word.half[1])
		     : "l"(src));
	return word;
}

/* The first 12 of the 16 bytes at `src`, and 0: two loads, none of which loads an unused word. */
GIN_FN ginWord16 ginLoad12Relaxed(const void *src)
{
	ginWord16 word;
	uint32_t third;
	asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(word.half[0]) : "l"(src));
	asm volatile("ld.relaxed.sys.global.u32 %0, [%1 + 8];" : "=r"(third) : "l"(src));
	word.half[1] = third;
	return word;
}
#endif

/*
 * Two words, aligned to 16 bytes; each is single-copy atomic. Relaxed, of system scope, for loops.
 */
GIN_FN ginWord16 ginPollPair(const void *src)
{
	ginWord16 word;
#if GIN_ON_GPU
	asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
		     : "=l"(word.half[0]), "=l"(word.half[1])
		     : "l"(src)
		     : "memory");
#else
	const uint64_t *words = static_cast<const uint64_t *>(src);
	word.half[0] = __atomic_load_n(words, __ATOMIC_RELAXED);
	word.half[1] = __atomic_load_n(words + 1, __ATOMIC_RELAXED);
#endif
	return word;
}

#endif
