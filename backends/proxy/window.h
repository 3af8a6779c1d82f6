/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window.h - windows as the proxy's threads find them, by the number in a descriptor
 *
 * Slots are this rank's own: no two ranks need the same number for a window.
 */
#ifndef GIN_PROXY_WINDOW_H
#define GIN_PROXY_WINDOW_H

#include <pthread.h>

#include "backends/peermem/peermem.h"
#include "work.h"

/* A rank's part of a window. */
struct proxyPart {
	struct proxyOperand base; /* its first byte; NULL: empty, or not reached */
	uint64_t bytes;
};

struct proxyWindow {
	struct peermemWindow *mapped; /* NULL: a source of this rank alone */
	int hasSlot;
	uint32_t slot, rank, nRanks;
	uint32_t fence; /* enum ginScope */
	struct proxyPart part[];
};

struct proxySlots {
	pthread_mutex_t lock;	 /* of those who take and give */
	struct proxyWindow **at; /* [GIN_DESCRIPTOR_SLOTS], read by the threads */
	uint32_t used;		 /* those from here on have never been taken */
};

ginResult_t slotsOpen(struct proxySlots *slots);
void slotsClose(struct proxySlots *slots);

/* Gives the window a number. The threads find it from now on. */
ginResult_t slotsTake(struct proxySlots *slots, struct proxyWindow *window);

/* A thread that is looking may have found it still: see workersQuiesce(). */
void slotsGive(struct proxySlots *slots, struct proxyWindow *window);

static inline struct proxyWindow *slotsFind(const struct proxySlots *slots, uint32_t slot)
{
	/* Acquire: pairs with the release in slotsTake(). */
	return __atomic_load_n(&slots->at[slot], __ATOMIC_ACQUIRE);
}

/* [address, address + bytes) in some window of this rank's, for a source; NULL: nowhere. */
const struct proxyWindow *slotsSearch(const struct proxySlots *slots, const void *address,
				      uint64_t bytes);

/* What this rank offers of its part; `offer` NULL: nothing, it is a source alone. */
ginResult_t proxyWindowMake(struct peermem *peermem, const struct backendHost *host,
			    const struct memory *memory, void *offer, struct proxyWindow **out);
ginResult_t proxyWindowReach(struct peermem *peermem, const struct backendHost *host,
			     ginResult_t mine, const uint8_t *offers, size_t stride,
			     struct proxyWindow *window);
void proxyWindowFree(struct peermem *peermem, struct proxyWindow *window);

/* Who may do atomics at offsets of it, by enum ginAgent: CPUs, if they reach all parts. */
uint32_t proxyWindowAgent(const struct proxyWindow *window);

#endif
