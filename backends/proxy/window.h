/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window.h - windows as the workers find them, by the slot number in a descriptor
 *
 * Each rank numbers its slots by itself: a window may have different numbers on different ranks.
 */
#ifndef GIN_PROXY_WINDOW_H
#define GIN_PROXY_WINDOW_H

#include <pthread.h>

#include "backends/peermem/peermem.h"
#include "work.h"

/* A rank's part of a window. */
struct proxyPart {
	struct proxyOperand base; /* its first byte; NULL: the part is empty or not reachable */
	uint64_t bytes;
};

struct proxyWindow {
	struct peermemWindow *mapped; /* NULL: GIN_WINDOW_LOCAL */
	int hasSlot;
	uint32_t slot, rank, nRanks;
	uint32_t fence; /* enum ginScope */
	int copiesOnly; /* the proxy changes no words of the window: see struct backendHost */
	struct proxyPart part[];
};

struct proxySlots {
	pthread_mutex_t lock;	 /* held by slotsTake() and slotsGive() */
	struct proxyWindow **at; /* [GIN_DESCRIPTOR_SLOTS]; workers read it without the lock */
	uint32_t used;		 /* slots from here on were never taken */
};

ginResult_t slotsOpen(struct proxySlots *slots);
void slotsClose(struct proxySlots *slots);

/* Assigns a slot to the window. Workers find it from then on. */
ginResult_t slotsTake(struct proxySlots *slots, struct proxyWindow *window);

/* Frees the window's slot. A worker may still use the window: see workersQuiesce(). */
void slotsGive(struct proxySlots *slots, struct proxyWindow *window);

static inline struct proxyWindow *slotsFind(const struct proxySlots *slots, uint32_t slot)
{
	/* Acquire: pairs with the release in slotsTake(). */
	return __atomic_load_n(&slots->at[slot], __ATOMIC_ACQUIRE);
}

/* The window of this rank that contains [address, address + bytes); NULL: none. */
const struct proxyWindow *slotsSearch(const struct proxySlots *slots, const void *address,
				      uint64_t bytes);

/* As backendOps.windowOffer. `offer` NULL: GIN_WINDOW_LOCAL. */
ginResult_t proxyWindowMake(struct peermem *peermem, const struct backendHost *host,
			    const struct memory *memory, void *offer, struct proxyWindow **out);

/* As backendOps.windowRegister: maps the parts of the peers. */
ginResult_t proxyWindowReach(struct peermem *peermem, const struct backendHost *host,
			     ginResult_t mine, const uint8_t *offers, size_t stride,
			     struct proxyWindow *window);
void proxyWindowFree(struct peermem *peermem, struct proxyWindow *window);

/*
 * enum ginAgent for atomics at offsets: the GPUs if all pairs are direct, the proxy if CPUs reach
 * every part, else none.
 */
uint32_t proxyWindowAgent(const struct proxyWindow *window);

#endif
