/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send_queue.h - one RC QP's send queue, as the host lays it out and GPU threads use it
 *
 * Plain C11 and C++17, as abi.h. An index counts WQEBBs from the queue's beginning and never wraps;
 * its slot is the index modulo the depth, and the NIC gets its low 16 bits.
 */
#ifndef GIN_SEND_QUEUE_H
#define GIN_SEND_QUEUE_H

#include "../abi.h"
#include "mlx5.h"

/* At most half of what 16 bits count, so that what a CQE says is told from what it said before. */
#define GIN_SEND_MAX_LOG_DEPTH 15

/* In ginSendQueue.done: somebody raises the counters of what is completed next. */
#define GIN_SEND_CREDITING (1ull << 63)

/* In a ticket: the gets before it have a DUMP before it, too. */
#define GIN_SEND_DUMPED (1ull << 63)

/* A turn word: 0; the turn; or a mark: how many WQEBBs from here on are written, and how. */
#define GIN_TURN (1u << 31)
#define GIN_TURN_AGGREGATE (1u << 30) /* no doorbell for these alone */
#define GIN_TURN_COUNT 0xffffu

/*
 * Gets into one kind of memory. A CQE does not say that a READ's bytes are in memory: a DUMP, which waits
 * for the READs before it and reads there, does.
 */
struct ginSendGets {
	uint64_t read;	 /* the end of the last get's READs */
	uint64_t dumped; /* the end of the last DUMP */
	uint64_t into;	 /* the last get's const struct ginWindowTable * */
};

/*
 * What never changes of a queue: a line of its own, that who posts loads once, with what he needs first
 * side by side.
 */
struct ginSendFixed {
	struct ginMlx5Wqebb *wqes; /* [depth]; the NIC reads */
	uint32_t queue;		   /* ginMlx5Queue() */
	uint16_t logDepth;	   /* at least 4 */
	uint8_t gpuMemory; /* 1: all of it but the doorbell is this GPU's memory; 0: or elsewhere */
	uint8_t masked;	   /* 1: both NICs have masked atomics */
	uint32_t *turn;	   /* [depth] */
	struct ginMlx5DoorbellRecord *record; /* the NIC reads */
	uint64_t *doorbell;		      /* the NIC's register */
	/* [depth]: 1 + the counter that is raised when the WQE of the slot is done; 0: none. */
	uint32_t *counter;
	const struct ginMlx5Cqe *cqe; /* of a collapsed CQ; the NIC writes */
	uint32_t sinkKey; /* 8 bytes for old values that nobody wants, at this NIC address */
	uint32_t sink;
};

/*
 * In GPU memory, as all that it points to but the doorbell. Zeros, but what never changes,
 * turn[0] = GIN_TURN, and every CQE's state ginMlx5CqeEmpty().
 */
struct ginSendQueue {
	struct ginSendFixed fixed;

	uint64_t reserved; /* the next index that is nobody's */
	uint64_t pad2[7];

	/* Indexes below it are completed, as far as somebody has looked; and GIN_SEND_CREDITING. */
	uint64_t done;
	uint64_t counted; /* no slot of this index or a higher one names a counter */
	/*
	 * The first error that was seen; 0: none. ginResult_t in the low half, then the WQE's low 16 bits
	 * of its index, the vendor's syndrome and the syndrome; ginMlx5Flushed: the cause was lost.
	 */
	uint64_t latched;
	uint64_t *counters; /* the context's, as ginDevComm.counter; set by who counts */
	uint64_t pushed; /* what is below is in the peer's memory once a barrier's READ is done */
	uint32_t
		looking; /* as in struct ginMirror, of a CQE in host memory: `done` is its mirror */
	uint32_t pad3[5];

	uint64_t handed;	    /* where the turn lies; written by who has it, as is the next */
	uint64_t rung;		    /* the last doorbell */
	struct ginSendGets gets[2]; /* into memory of this GPU; elsewhere */
};

/*
 * Where a context's atomics get their old values. In GPU memory; `result` and the address are the
 * same memory, the NIC's to write.
 */
struct ginSendResults {
	const uint64_t *result; /* [GIN_QUEUE_RESULTS] */
	uint64_t nicAddress;
	uint32_t nicKey;
	uint32_t pad;
	uint64_t freeResults; /* a bit each */
	uint64_t words; /* of those that all contexts share: 1 once something was posted there */
	uint64_t pad2[3];
	/*
	 * Of an atomic whose caller has given up: 1 + which of the context's queues + the end of its post x
	 * the ranks; the place is free once that is done.
	 */
	uint64_t abandoned[GIN_QUEUE_RESULTS];
};

#ifdef __cplusplus
static_assert(sizeof(struct ginSendQueue) == 256, "four lines, by who writes them");
#else
_Static_assert(sizeof(struct ginSendQueue) == 256, "four lines, by who writes them");
#endif

#endif
