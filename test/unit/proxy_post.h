/* SPDX-License-Identifier: BSD-3-Clause */
/* proxy_post.h - writes descriptors as ginRingWrite() in gin/proxy/ring.cuh does */
#ifndef GIN_TEST_PROXY_POST_H
#define GIN_TEST_PROXY_POST_H

#include "gin/proxy/descriptor.h"

static inline uint64_t word0(uint64_t op, uint64_t raise, uint64_t peer, uint64_t extra)
{
	return op << GIN_D0_OP | raise << GIN_D0_SIGNAL | peer << GIN_D0_PEER |
	       extra << GIN_D0_COUNTER;
}

static inline void writePlace(uint64_t *place, const uint64_t *full, uint64_t phase)
{
	static const int spilled[] = {2, 3, 4, 5, 7};
	uint64_t first = full[0];

	for (int i = 0; i < 5; i++)
		first |= full[spilled[i]] >> 63 << (GIN_D0_SPILL + i);
	for (int i = 0; i < GIN_DESCRIPTOR_WORDS; i++)
		place[i] = ((i ? full[i] : first) & ~GIN_DESCRIPTOR_PHASE) | phase;
}

#endif
