/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy.cuh - bytes from one window to another, by all threads of a coop
 *
 * Any size and alignment. Every store is as wide as the target's alignment allows, up to the word
 * below, so that an aligned value of 4 or 8 bytes arrives in one piece whatever the source's
 * alignment; a source that is not aligned alike is put together from narrower loads.
 */
#ifndef GIN_COPY_CUH
#define GIN_COPY_CUH

#include "memory.cuh"

#if GIN_ON_GPU
typedef ginWord16 ginCopyWord;
#else
typedef uint64_t ginCopyWord;
#endif

GIN_FN uintptr_t ginMisalignment(const void *p, size_t size)
{
	return reinterpret_cast<uintptr_t>(p) & (size - 1);
}

/* The unsigned integer of so many bytes. */
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

/* A word from anywhere: whole when it is aligned, else byte by byte (little-endian). */
template <class Word> GIN_FN Word ginDataGather(const char *src)
{
	if (!ginMisalignment(src, sizeof(Word)))
		return ginDataLoad<Word>(src);
	uint64_t word = 0;
	GIN_NO_UNROLL
	for (size_t i = 0; i < sizeof(Word); i++)
		word |= static_cast<uint64_t>(ginDataLoad<uint8_t>(src + i)) << (8 * i);
	return static_cast<Word>(word);
}

template <class Word> GIN_FN void ginCopyOne(char *&dst, const char *&src, size_t &bytes)
{
	ginDataStore<Word>(dst, ginDataGather<Word>(src));
	dst += sizeof(Word);
	src += sizeof(Word);
	bytes -= sizeof(Word);
}

/* A few bytes, by one thread: what stands before the first and after the last whole word. */
GIN_FN void ginCopyFew(char *dst, const char *src, size_t bytes)
{
	GIN_NO_UNROLL
	while (bytes) {
		if (bytes >= 8 && !ginMisalignment(dst, 8))
			ginCopyOne<uint64_t>(dst, src, bytes);
		else if (bytes >= 4 && !ginMisalignment(dst, 4))
			ginCopyOne<uint32_t>(dst, src, bytes);
		else if (bytes >= 2 && !ginMisalignment(dst, 2))
			ginCopyOne<uint16_t>(dst, src, bytes);
		else
			ginCopyOne<uint8_t>(dst, src, bytes);
	}
}

/* Source and target aligned to a word: four accesses of each thread are in flight at a time. */
template <class Word>
GIN_FN void ginCopyAligned(char *dst, const char *src, size_t words, uint32_t rank, uint32_t size)
{
	constexpr size_t inFlight = 4, width = sizeof(Word);
	size_t i = rank, step = size;

	GIN_NO_UNROLL
	for (; i + (inFlight - 1) * step < words; i += inFlight * step) {
		Word word[inFlight];
		for (size_t u = 0; u < inFlight; u++)
			word[u] = ginDataLoad<Word>(src + (i + u * step) * width);
		for (size_t u = 0; u < inFlight; u++)
			ginDataStore<Word>(dst + (i + u * step) * width, word[u]);
	}
	GIN_NO_UNROLL
	for (; i < words; i += step)
		ginDataStore<Word>(dst + i * width, ginDataLoad<Word>(src + i * width));
}

/* Target aligned to 8 bytes, source to none. */
GIN_FN void ginCopyUnaligned(char *dst, const char *src, size_t words, uint32_t rank, uint32_t size)
{
	GIN_NO_UNROLL
	for (size_t i = rank; i < words; i += size)
		ginDataStore<uint64_t>(dst + i * 8, ginDataGather<uint64_t>(src + i * 8));
}

/* Thread `rank` of `size` copies its share. No thread may count on another's being done. */
GIN_FN void ginCopy(char *dst, const char *src, size_t bytes, uint32_t rank, uint32_t size)
{
	constexpr size_t width = sizeof(ginCopyWord);
	size_t head = (width - ginMisalignment(dst, width)) % width;
	if (head > bytes)
		head = bytes;
	size_t body = (bytes - head) / width * width;
	size_t tail = bytes - head - body;

	if (rank == 0)
		ginCopyFew(dst, src, head);
	if (rank == size - 1)
		ginCopyFew(dst + head + body, src + head + body, tail);
	if (!ginMisalignment(src + head, width))
		ginCopyAligned<ginCopyWord>(dst + head, src + head, body / width, rank, size);
	else if (!ginMisalignment(src + head, 8))
		ginCopyAligned<uint64_t>(dst + head, src + head, body / 8, rank, size);
	else
		ginCopyUnaligned(dst + head, src + head, body / 8, rank, size);
}

#endif
