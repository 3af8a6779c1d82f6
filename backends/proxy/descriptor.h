/* SPDX-License-Identifier: BSD-3-Clause */
/* descriptor.h - reads descriptors from the ring and checks them: a kernel may write anything */
#ifndef GIN_PROXY_DESCRIPTOR_H
#define GIN_PROXY_DESCRIPTOR_H

#include "window.h"

/* The objects that the descriptors of one context may name. */
struct descriptorScope {
	const struct proxySlots *slots;
	/*
	 * Signal words that CPUs write, then barrier words; NULL: `signals` and `nBarrierWords`
	 * are 0.
	 */
	const struct proxyWindow *words;
	uint64_t *counters, *results, *resultTickets; /* of this context, in host memory */
	uint64_t firstSignal, firstBarrier;	      /* indexes in `words` */
	uint32_t signals, nCounters, nBarrierWords, rank, nRanks;
};

/* Has its first word been written in this lap? Relaxed: descriptorTake() loads it again. */
static inline int descriptorIsBegun(const uint64_t *slot, uint64_t phase)
{
	return !((__atomic_load_n(slot, __ATOMIC_RELAXED) ^ phase) & GIN_DESCRIPTOR_PHASE);
}

/*
 * Reads the descriptor in `slot`. `phase`: the top bit that every word has in this lap,
 * GIN_DESCRIPTOR_PHASE or 0. Returns 1 and the full words, with their spilled top bits restored; or
 * 0 if a word has not been written yet.
 */
int descriptorTake(const uint64_t *slot, uint64_t phase, uint64_t words[GIN_DESCRIPTOR_WORDS]);

/* Fills in `work`. Returns NULL, or a sentence about what is wrong with the descriptor. */
const char *descriptorResolve(const struct descriptorScope *scope, const uint64_t *words,
			      struct proxyWork *work);

#endif
