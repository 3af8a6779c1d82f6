/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy.cuh - copies from one window to another, by all threads of a coop
 *
 * Any size and alignment. Every store is as wide as the target's alignment allows, up to
 * ginCopyWord, so that an aligned value of 4 or 8 bytes arrives in one piece for every alignment of
 * the source. If the source is aligned differently, a word is assembled from narrower loads.
 */
#ifndef GIN_COPY_CUH
#define GIN_COPY_CUH

#include "../core/ordering.cuh"

#if GIN_ON_GPU
typedef ginWord16 ginCopyWord;
#else
typedef uint64_t ginCopyWord;
#endif

GIN_FN uintptr_t ginMisalignment(const void *p, size_t size)
{
	return reinterpret_cast<uintptr_t>(p) & (size - 1);
}

/* The unsigned integer of `bytes` bytes. */
template <size_t bytes> struct ginUint;
template <> struct ginUint<8> {
	typedef uint64_t type;
};
template <> struct ginUint<4> {
	typedef uint32_t type;
};
template <> struct ginUint<2> {
	typedef uint16_t type;
};
template <> struct ginUint<1> {
	typedef uint8_t type;
};

/* Loads a word at any address: in one load if aligned, otherwise byte by byte (little-endian). */
template <class Word> GIN_FN Word ginDataGather(const char *src)
{
	if (!ginMisalignment(src, sizeof(Word)))
		return ginDataLoad<Word>(src);
	Word word = 0;
	GIN_NO_UNROLL
	for (uint32_t i = sizeof(Word); i--;)
		word = static_cast<Word>(static_cast<uint64_t>(word) << 8 |
					 ginDataLoad<uint8_t>(src + i));
	return word;
}

template <class Word> GIN_FN uint32_t ginCopyOne(char *dst, const char *src)
{
	ginDataStore<Word>(dst, ginDataGather<Word>(src));
	return sizeof(Word);
}

/* Copies a few bytes, and moves the pointers past them. */
GIN_FN void ginCopyFew(char *&dst, const char *&src, uint32_t bytes)
{
	GIN_NO_UNROLL
	for (uint32_t done; bytes; dst += done, src += done, bytes -= done) {
		if (bytes >= 8 && !ginMisalignment(dst, 8))
			done = ginCopyOne<uint64_t>(dst, src);
		else if (bytes >= 4 && !ginMisalignment(dst, 4))
			done = ginCopyOne<uint32_t>(dst, src);
		else if (bytes >= 2 && !ginMisalignment(dst, 2))
			done = ginCopyOne<uint16_t>(dst, src);
		else
			done = ginCopyOne<uint8_t>(dst, src);
	}
}

/* The bytes before the first whole word of the target. */
GIN_FN uint32_t ginCopyHead(const char *dst, size_t bytes)
{
	constexpr uint32_t width = sizeof(ginCopyWord);
	const uint32_t head = static_cast<uint32_t>(width - ginMisalignment(dst, width)) % width;

	return head < bytes ? head : static_cast<uint32_t>(bytes);
}

/* By one thread: the bytes before the first and after the last whole word of the target. */
GIN_FN_CALLED void ginCopyEdges(char *dst, const char *src, size_t bytes)
{
	uint32_t few = ginCopyHead(dst, bytes);

	GIN_NO_UNROLL
	for (uint32_t i = 0; i < 2; i++) {
		ginCopyFew(dst, src, few);
		bytes -= few;
		few = bytes % sizeof(ginCopyWord);
		bytes -= few;
		dst += bytes;
		src += bytes;
		bytes = few;
	}
}

/* Words that are loaded, or some of them; the others are 0. */
template <class Word, uint32_t count> struct ginWords {
	Word word[count] = {};
};

/* `p` + `bytes`, by an addition that is not merged with others. */
template <class Pointer> GIN_FN Pointer ginStepped(Pointer p, uint32_t bytes)
{
#if GIN_ON_GPU
	uint64_t at = reinterpret_cast<uint64_t>(p);
	asm("{ .reg .u64 wide; cvt.u64.u32 wide, %1; add.u64 %0, %0, wide; }"
	    : "+l"(at)
	    : "r"(bytes));
	return reinterpret_cast<Pointer>(at);
#else
	return p + bytes;
#endif
}

/*
 * Source, target and length are multiples of a word. Each thread has up to `inFlight` accesses in
 * flight, also at the end. As long as every thread has `inFlight` words left, the loop tests only
 * the length, which is equal in all threads. `fixed`: `size` if it is a constant, otherwise 0.
 */
template <class Word, uint32_t inFlight, uint32_t fixed>
GIN_FN void ginCopyAligned(char *dst, const char *src, size_t bytes, uint32_t rank, uint32_t size)
{
	const uint32_t step = (fixed ? fixed : size) * sizeof(Word), first = rank * sizeof(Word);

	src = ginStepped(src, first);
	dst = ginStepped(dst, first);
	GIN_NO_UNROLL
	for (; bytes >= inFlight * step; bytes -= inFlight * step) {
		Word word[inFlight];
		for (uint32_t u = 0; u < inFlight; u++, src = ginStepped(src, step))
			word[u] = ginDataLoad<Word>(src);
		for (uint32_t u = 0; u < inFlight; u++, dst = ginStepped(dst, step))
			ginDataStore<Word>(dst, word[u]);
	}
	const uint32_t left = static_cast<uint32_t>(bytes);
	const uint32_t mine = left > first ? left - first : 0;
	ginWords<Word, inFlight> w;
	for (uint32_t u = 0; u < inFlight; u++)
		if (mine > u * step)
			w.word[u] = ginDataLoad<Word>(src + u * step);
	for (uint32_t u = 0; u < inFlight; u++)
		if (mine > u * step)
			ginDataStore<Word>(dst + u * step, w.word[u]);
}

/* The target is aligned to 8 bytes, the source is not aligned. */
GIN_FN void ginCopyUnaligned(char *dst, const char *src, size_t bytes, uint32_t rank, uint32_t size)
{
	const uint32_t step = size * 8, first = rank * 8;
	size_t left = bytes > first ? bytes - first : 0;

	src += first;
	dst += first;
	GIN_NO_UNROLL
	for (; left; left = left > step ? left - step : 0) {
		ginDataStore<uint64_t>(dst, ginDataGather<uint64_t>(src));
		src += step;
		dst += step;
	}
}

/*
 * Thread `rank` of `size` copies its share of the whole words of the target; ginCopyEdges() copies
 * the other bytes.
 */
template <uint32_t inFlight, uint32_t fixed>
GIN_FN_COLD void ginCopyLong(char *dst, const char *src, size_t bytes, uint32_t rank, uint32_t size)
{
	constexpr uint32_t width = sizeof(ginCopyWord);
	const uint32_t head = ginCopyHead(dst, bytes);

	dst += head;
	src += head;
	bytes -= head;
	bytes -= bytes % width;
	if (!ginMisalignment(src, width))
		ginCopyAligned<ginCopyWord, inFlight, fixed>(dst, src, bytes, rank, size);
	else if (!ginMisalignment(src, 8))
		ginCopyAligned<uint64_t, inFlight, fixed>(dst, src, bytes, rank, size);
	else
		ginCopyUnaligned(dst, src, bytes, rank, size);
}

/* Are both addresses and the length multiples of `width`? */
GIN_FN bool ginCopyFits(const char *dst, const char *src, size_t bytes, size_t width)
{
	return !((reinterpret_cast<uintptr_t>(dst) | reinterpret_cast<uintptr_t>(src) | bytes) &
		 (width - 1));
}

/* A copy of at most `each` words per thread. */
template <class Word, uint32_t each, class Ready> GIN_FN bool
ginCopyOnce(char *dst, const char *src, uint32_t bytes, uint32_t rank, uint32_t size, Ready ready)
{
	const uint32_t first = rank * sizeof(Word), step = size * sizeof(Word);
	ginWords<Word, each> w;

	for (uint32_t u = 0; u < each; u++)
		if (first + u * step < bytes)
			w.word[u] = ginDataLoad<Word>(src + first + u * step);
	bool go = ready();
	for (uint32_t u = 0; u < each; u++)
		if (go && first + u * step < bytes)
			ginDataStore<Word>(dst + first + u * step, w.word[u]);
	return go;
}

/*
 * Thread `rank` of `size` copies its share if ready() is true, and returns that. A short copy calls
 * ready() after its first loads, so that the loads of ready() overlap with them. The shares are not
 * ordered. The tests use the length, so that a constant length leaves only the code that it needs.
 */
template <uint32_t inFlight, uint32_t fixed, class Ready> GIN_FN bool
ginCopy(char *dst, const char *src, size_t bytes, uint32_t rank, uint32_t size, Ready ready)
{
	constexpr uint32_t width = sizeof(ginCopyWord);
	bool whole = ginCopyFits(dst, src, bytes, width);

	if (fixed == 1 && !bytes)
		return ready();
	if (whole && bytes <= 2 * size * width)
		return ginCopyOnce<ginCopyWord, 2>(dst, src, static_cast<uint32_t>(bytes), rank,
						   size, ready);
	if (!whole && bytes <= size * 8 && ginCopyFits(dst, src, bytes, 8))
		return ginCopyOnce<uint64_t, 1>(dst, src, static_cast<uint32_t>(bytes), rank, size,
						ready);
	if (!ready())
		return false;
	if (!whole && rank == 0)
		ginCopyEdges(dst, src, bytes);
	ginCopyLong<inFlight, fixed>(dst, src, bytes, rank, size);
	return true;
}

#endif
