/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * places.cuh - the places of a context into which atomics get their old values: a bit each
 */
#ifndef GIN_PLACES_CUH
#define GIN_PLACES_CUH

#include "ordering.cuh"

/* A free one, which is the caller's now; GIN_QUEUE_RESULTS when there is none. */
GIN_FN uint32_t ginPlaceTake(uint64_t *bits)
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

GIN_FN void ginPlaceGive(uint64_t *bits, uint32_t place)
{
	uint64_t free = ginLocalLoad(bits);
	while (!ginLocalCas(bits, free, free | 1ull << place))
		free = ginLocalLoad(bits);
}

#endif
