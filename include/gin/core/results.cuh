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

#endif
