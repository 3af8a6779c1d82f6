/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.cuh - words that blocks of one kernel, or kernels of one rank, share
 *
 * Between ranks calls of class Gin order accesses: signals (rows, credits) and waits; and L, at
 * system scope. The edges within a rank are at device scope.
 *
 *   label  carries                            released by        acquired by
 *   T      what a block did before its end    epTicketSum()      epTicketSum(), the last block
 *   G      staged rows of a chunk             epTicketSum()      epTicketSum(), the block that
 *                                                                completes the chunk
 *   V      the fate of a source               epVerdictStore()   epTaggedLoad(), Gin::readValue(),
 *                                                                Gin::waitValue()
 *   L      rows of another rank               epTagStore()       epTaggedLoad()
 *   Y      a row of x that a GEMM writes      the caller's GEMM  epReadyLoad()
 *   J      what a signal covers, from the     epSeenStore()      epSeenLoad()
 *          thread that saw it
 */
#ifndef GIN_EP_MEMORY_CUH
#define GIN_EP_MEMORY_CUH

#include "gin_device.cuh"

/* A ticket counts in its low bits; the bits above are flags that add up. */
#define EP_TICKET_FLAG (1u << 20)

/*
 * T and G, both ends: `more` have come. The last caller zeroes the word and gets the sum; others
 * get 0. Callers of one block need no wider scope, and no fence that waits for the SM's stores.
 */
template <ginScope scope = ginScopeDevice>
GIN_FN uint32_t epTicketSum(uint32_t *word, uint32_t more, uint32_t count)
{
	const uint32_t sum = ginFetchAdd<ginAcqRel, scope>(word, more) + more;
	if (sum % EP_TICKET_FLAG != count)
		return 0;
	ginStore<ginRelaxed, ginScopeDevice>(word, 0u);
	return sum;
}

/* True for the last. */
GIN_FN bool epTicketTake(uint32_t *word, uint32_t more, uint32_t count)
{
	return epTicketSum(word, more, count) != 0;
}

/* V, release end. */
GIN_FN void epVerdictStore(char *word, uint64_t value)
{
	ginStore<ginRelease, ginScopeDevice>(reinterpret_cast<uint64_t *>(word), value);
}

/* No edge: the last block reads verdicts after T. */
GIN_FN uint64_t epVerdictLoad(const char *word)
{
	return ginLoad<ginRelaxed, ginScopeDevice>(reinterpret_cast<const uint64_t *>(word));
}

/* No edge: 16 bytes, in one store on a GPU. Another rank may look for the tag in them. */
GIN_FN void epPairStore(char *dst, uint64_t first, uint64_t second)
{
	ginStorePair<ginRelaxed, ginScopeSystem>(reinterpret_cast<uint64_t *>(dst), first, second);
}

/* L, release end: the writer of the whole row. On a GPU a fence to the system precedes. */
GIN_FN void epTagStore(char *word, uint64_t value)
{
	ginStore<ginFencedRelease, ginScopeSystem>(reinterpret_cast<uint64_t *>(word), value);
}

/* V and L, acquire end, as Gin::readValue(), but without a load of the slab's window first. */
GIN_FN uint64_t epTaggedLoad(const char *word)
{
	return ginLoad<ginAcquire, ginScopeSystem>(reinterpret_cast<const uint64_t *>(word));
}

/* Y, acquire end. The GEMM's release is the caller's: ginEpCombineArgs_t.ready. */
GIN_FN uint32_t epReadyLoad(const char *word)
{
	return ginLoad<ginAcquire, ginScopeDevice>(reinterpret_cast<const uint32_t *>(word));
}

/* J, release end: the value that a signal has reached. */
GIN_FN void epSeenStore(uint64_t *word, uint64_t value)
{
	ginStore<ginRelease, ginScopeDevice>(word, value);
}

/* J, acquire end. */
GIN_FN uint64_t epSeenLoad(const uint64_t *word)
{
	return ginLoad<ginAcquire, ginScopeDevice>(word);
}

/* No edge: words that publish nothing but themselves, or that a kernel's start and end order. */
GIN_FN uint32_t epWordLoad(const uint32_t *word)
{
	return ginLoad<ginRelaxed, ginScopeDevice>(word);
}

/* No edge: the first 16 bytes of the state. */
GIN_FN ginWord16 epStateLoad(const void *state)
{
#if GIN_ON_GPU
	return ginLoadPairRelaxed(state);
#else
	const uint64_t *words = static_cast<const uint64_t *>(state);
	return {{ginLoad<ginRelaxed, ginScopeDevice>(words),
		 ginLoad<ginRelaxed, ginScopeDevice>(words + 1)}};
#endif
}

GIN_FN void epWordStore(uint32_t *word, uint32_t value)
{
	ginStore<ginRelaxed, ginScopeDevice>(word, value);
}

/* No edge: sets the word to 0; true if it was not 0. */
GIN_FN bool epWordTake(uint32_t *word)
{
	return ginExchange<ginRelaxed, ginScopeDevice>(word, 0u) != 0;
}

/* No edge: sets the word if it is 0; true for the first caller. */
GIN_FN bool epWordSetOnce(uint32_t *word, uint32_t value)
{
	return ginCas<ginRelaxed, ginScopeDevice>(word, 0u, value) == 0;
}

GIN_FN bool epWordClaim(uint32_t *word)
{
	return epWordSetOnce(word, 1);
}

/*
 * Words of the host's page: `valid` is released after the record, ginEpGetAsyncError() acquires; a
 * ticket after its counts, ginEpHtCounts() acquires.
 */
GIN_FN void epPageStore(uint32_t *word, uint32_t value)
{
	ginStore<ginRelaxed, ginScopeSystem>(word, value);
}

GIN_FN void epPagePublish(uint32_t *valid, uint32_t value = 1)
{
	ginStore<ginRelease, ginScopeSystem>(valid, value);
}

/*
 * No edge: 16 bytes of a row. Signals order them. Never ld.nc: peers write rows while kernels run.
 */
GIN_FN ginWord16 epPieceLoad(const char *src)
{
	return ginLoadWeak<ginWord16>(src);
}

GIN_FN void epPieceStore(char *dst, ginWord16 piece)
{
#if GIN_ON_GPU
	*reinterpret_cast<ginWord16 *>(dst) = piece;
#else
	memcpy(dst, &piece, sizeof(piece));
#endif
}

#endif
