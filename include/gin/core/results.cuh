/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * results.cuh - the result slots of a context, into which atomics get their old values
 *
 * A word has one bit for each of GIN_QUEUE_RESULTS slots; a set bit is a free slot. Any thread of
 * the GPU.
 */
#ifndef GIN_RESULTS_CUH
#define GIN_RESULTS_CUH

#include "ordering.cuh"

/* Takes a free slot; GIN_QUEUE_RESULTS: no slot is free. */
GIN_FN uint32_t ginSlotTake(uint64_t *bits)
{
	for (;;) {
		uint64_t free = ginLocalLoad(bits);
		if (!free)
			return GIN_QUEUE_RESULTS;
		uint32_t lowest = 0;
		while (!(free >> lowest & 1))
			lowest++;
		if (ginLocalCas(bits, free, free & (free - 1)))
			return lowest;
	}
}

/* Frees a slot that the caller has taken and read. */
GIN_FN void ginSlotFree(uint64_t *bits, uint32_t slot)
{
	uint64_t free = ginLocalLoad(bits);
	while (!ginLocalCas(bits, free, free | 1ull << slot))
		free = ginLocalLoad(bits);
}

/*
 * Takes a slot whose caller has given up, if its atomic writes it no more; otherwise returns
 * GIN_QUEUE_RESULTS. `abandoned`: a word for each slot, not 0 if its caller has given up;
 * written(slot, word) says whether the atomic has come to its end.
 */
template <class Written> GIN_FN uint32_t ginSlotReclaim(uint64_t *abandoned, const Written &written)
{
	uint32_t slot;

	GIN_NO_UNROLL
	for (slot = 0; slot < GIN_QUEUE_RESULTS; slot++) {
		uint64_t word = ginLocalLoad(&abandoned[slot]);
		if (word && written(slot, word) && ginLocalCas(&abandoned[slot], word, 0))
			break;
	}
	return slot;
}

/*
 * Takes a slot, waiting for one by step(). GIN_QUEUE_RESULTS: *result is the error that ended the
 * wait.
 */
template <class Written, class Step>
GIN_FN uint32_t ginSlotWait(uint64_t *bits, uint64_t *abandoned, const Written &written,
			    const Step &step, ginResult_t *result)
{
	uint32_t slot;

	do {
		slot = ginSlotTake(bits);
		if (slot == GIN_QUEUE_RESULTS)
			slot = ginSlotReclaim(abandoned, written);
		if (slot != GIN_QUEUE_RESULTS)
			break;
		*result = step();
	} while (*result == ginSuccess);
	return slot;
}

#endif
