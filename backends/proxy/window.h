/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window.h - windows as the workers find them, by the slot number in a descriptor
 *
 * Each rank numbers its slots by itself: a window may have different numbers on different ranks.
 */
#ifndef GIN_PROXY_WINDOW_H
#define GIN_PROXY_WINDOW_H

#include <pthread.h>

#include "work.h"

/* Transports that a window can be registered with: see TRANSPORTS in transport.h. */
#define WINDOW_LINKS 2

/* A rank's part of a window. */
struct proxyPart {
	char *at; /* its first byte in this process; NULL: empty, or not reached by an address */
	uint64_t bytes;
	uint32_t slot;	      /* the rank's number of the window */
	uint8_t isReached;    /* by the transport that serves the rank */
	uint8_t byCpu;	      /* the CPUs that change words for this transport reach it */
	uint8_t isChangeable; /* CPUs change its words, or streams do: device_word.h */
	uint8_t skew;	      /* address of its first byte modulo 8 */
};

/*
 * Any thread reads it: it does not change from slotsPublish() until workersQuiesce() has returned.
 */
struct proxyWindow {
	void *link[WINDOW_LINKS]; /* of each transport; NULL: not registered there */
	uint8_t hasSlot, isPublished;
	uint8_t isLocal; /* a source of this rank only: no peer may name it */
	uint32_t slot, rank, nRanks;
	uint32_t fence; /* enum ginScope */
	int copiesOnly; /* the proxy changes no words of the window: see struct backendHost */
	struct proxyPart part[];
};

struct proxySlots {
	pthread_mutex_t lock;	 /* slotsTake() and slotsGive() hold it */
	struct proxyWindow **at; /* [GIN_DESCRIPTOR_SLOTS]; workers read it without the lock */
	uint8_t *taken;		 /* [GIN_DESCRIPTOR_SLOTS]; under the lock */
	uint32_t used;		 /* atomic: slots from here on were never taken */
};

ginResult_t slotsOpen(struct proxySlots *slots);
void slotsClose(struct proxySlots *slots);

/* Assigns a slot to the window. Workers do not find the window yet. */
ginResult_t slotsTake(struct proxySlots *slots, struct proxyWindow *window);

/* Workers find the window, which must be complete, from now on. */
void slotsPublish(struct proxySlots *slots, struct proxyWindow *window);

/* Frees the window's slot. A worker may still use the window: see workersQuiesce(). */
void slotsGive(struct proxySlots *slots, struct proxyWindow *window);

static inline struct proxyWindow *slotsFind(const struct proxySlots *slots, uint32_t slot)
{
	/* Acquire: pairs with the release in slotsPublish(). */
	return __atomic_load_n(&slots->at[slot], __ATOMIC_ACQUIRE);
}

/* Has the slot ever been a window's? Slots are taken in the order of their numbers. */
static inline int slotsHad(const struct proxySlots *slots, uint32_t slot)
{
	/* Acquire: pairs with the release in slotsTake(). */
	return slot < __atomic_load_n(&slots->used, __ATOMIC_ACQUIRE);
}

/* The window of this rank that contains [address, address + bytes); NULL: none. */
const struct proxyWindow *slotsSearch(const struct proxySlots *slots, const void *address,
				      uint64_t bytes);

/*
 * A window of `memory` without transports and without a slot: its part at this rank is filled in.
 */
ginResult_t proxyWindowMake(const struct backendHost *host, const struct memory *memory,
			    struct proxyWindow **out);

/* Adds the slots of a communicator, and a window. */
void proxyWindowPlan(struct plan *plan);

/*
 * A rank's offer of its part: of each transport, then numbers of struct proxyPart. Every rank has
 * this layout.
 */
struct proxyOffer {
	uint8_t ipc[120];
	uint8_t network[24]; /* struct networkKeys */
	uint64_t bytes;
	uint32_t slot;
	uint8_t byCpu, skew;
	uint8_t bounces; /* the network does not reach the part: see network/bounce.h */
	uint8_t isChangeable;
};

_Static_assert(sizeof(struct proxyOffer) <= BACKEND_OFFER, "it is sent as a backend's offer");

void proxyWindowOwn(const struct proxyWindow *window, struct proxyOffer *offer);
void proxyWindowPeer(struct proxyWindow *window, int rank, const struct proxyOffer *offer);

/* Do CPUs of this process load and store memory of this kind? */
int proxyReachedByCpu(const struct device *d, enum memoryKind kind);

/*
 * enum ginAgent for atomics at offsets: the GPUs if all pairs are direct, the proxy if the words of
 * every part are changeable, otherwise none.
 */
uint32_t proxyWindowAgent(const struct proxyWindow *window);

/* How the rank `peer` names a spot in its part: its slot of the window, and the offset. */
static inline uint64_t spotNamed(const struct proxySpot *spot, uint32_t peer)
{
	return (uint64_t)spot->window->part[peer].slot << GIN_DESCRIPTOR_OFFSET_BITS | spot->offset;
}

/* The address of a spot at `peer`, whose part is mapped in this process. */
static inline char *spotAddress(const struct proxySpot *spot, uint32_t peer)
{
	return spot->window->part[peer].at + spot->offset;
}

#endif
