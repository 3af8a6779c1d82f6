/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * edges.h - the values at which a check of a bound goes wrong
 *
 * A field of `bits` bits says where `length` things begin, of which there are `end`: an index has
 * length 1, a size that may be `end` has length 0. A value is in bounds if value <= end - length.
 */
#ifndef GIN_TEST_EDGES_H
#define GIN_TEST_EDGES_H

#include <stdint.h>

/* Moves `value` to the next larger edge; 0: there is none. */
static inline int edgeNext(uint64_t *value, uint64_t end, uint64_t length, int bits)
{
	const uint64_t last = end - length, field = UINT64_MAX >> (64 - bits);
	const uint64_t all[] = {
		1,
		last - 1,
		last,
		last + 1,
		end - 1,
		end,
		end + 1,
		2 * end,	    /* a power of two: one bit beyond */
		1ull << 32,	    /* 0 in 32 bits */
		(field >> 1) + 1,   /* the smallest number, if it had a sign */
		field - length + 1, /* with its length it is 0 */
		field - length + 2,
		field,
	};
	uint64_t next = 0;

	for (uint64_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		uint64_t edge = all[i] & field;
		if (edge > *value && (!next || edge < next))
			next = edge;
	}
	*value = next;
	return next != 0;
}

/* A loop over the edges, from 0 on. */
#define FOR_EDGES(value, end, length, bits)                                                        \
	for (uint64_t value = 0, more_ = 1; more_;                                                 \
	     more_ = (uint64_t)edgeNext(&value, end, length, bits))

#endif
