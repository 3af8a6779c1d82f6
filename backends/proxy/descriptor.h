/* SPDX-License-Identifier: BSD-3-Clause */
/* descriptor.h - out of the ring, and into addresses: nothing that a GPU wrote is trusted */
#ifndef GIN_PROXY_DESCRIPTOR_H
#define GIN_PROXY_DESCRIPTOR_H

#include "window.h"

/* What a context's descriptors are resolved against. */
struct descriptorScope {
	const struct proxySlots *slots;
	const struct proxyWindow *words; /* signals of class cpu, and barriers behind them */
	uint64_t *counters, *results, *resultTickets; /* this context's, in host memory */
	uint64_t firstSignal, firstBarrier;	      /* their places in `words` */
	uint32_t signals, nCounters, nBarrierWords, nRanks;
};

/*
 * Copies the descriptor at `slot` when all its words are of the lap whose phase that is, top bit or
 * none, and puts their full values together; 0 when some are not there yet.
 */
int descriptorTake(const uint64_t *slot, uint64_t phase, uint64_t words[GIN_DESCRIPTOR_WORDS]);

/* Fills `work`. NULL, or what is wrong with the descriptor, in words. */
const char *descriptorResolve(const struct descriptorScope *scope, const uint64_t *words,
			      struct proxyWork *work);

#endif
