/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send_queue.h - the memory of one RC queue pair's send queue
 *
 * The host lays these structures out (backends/gdaki/contexts.c), GPU threads use them by the
 * functions of queue.cuh, and the NIC reads and writes the fields whose comments say so. Plain C11
 * and C++17, as abi.h.
 *
 * An index counts WQEBBs from the start of the queue and never wraps. Its slot is the index modulo
 * the depth; the NIC gets the low 16 bits of the index.
 */
#ifndef GIN_SEND_QUEUE_H
#define GIN_SEND_QUEUE_H

#include "abi.h"
#include "mlx5.h"

/*
 * Half of what the 16 bits of a CQE count: the index of a CQE is at most one depth above `done`,
 * so 16 bits identify it.
 */

/* In ginSendQueue.done: a thread is raising the counters of the WQEs that it will add to `done`. */
#define GIN_SEND_CREDITING (1ull << 63)

/* In a ticket of ginGetsTicket(): every get below the ticket has a DUMP below the ticket. */
#define GIN_SEND_DUMPED (1ull << 63)

/*
 * A turn word is 0, or the turn (a token, GIN_TURN), or a mark. A mark is the number of WQEBBs
 * that a post has written from this index on, with GIN_TURN_AGGREGATE if the post does not ask for
 * a doorbell.
 */
#define GIN_TURN (1u << 31)
#define GIN_TURN_AGGREGATE (1u << 30)
#define GIN_TURN_COUNT 0xffffu

/*
 * The gets of a queue whose targets are in one kind of memory. The CQE of a READ does not prove
 * that the bytes are in memory. The CQE of a DUMP after it does: the DUMP waits for the READs
 * before it, then reads that memory.
 */
struct ginSendGets {
	uint64_t read;	 /* one above the index of the last READ */
	uint64_t dumped; /* one above the index of the last DUMP */
	uint64_t into;	 /* const struct ginWindowTable * of the last get's target */
};

/*
 * Fields that the host sets once: one cache line, which a posting thread loads once. The fields
 * that the thread needs first are next to each other.
 */
struct ginSendFixed {
	struct ginMlx5Wqebb *wqes; /* [depth]; the NIC reads */
	uint32_t queue;		   /* ginMlx5Queue() */
	uint16_t logDepth;	   /* at least 4 */
	uint8_t gpuMemory;	   /* 1: this GPU's memory has all of the queue but the doorbell */
	uint8_t masked;		   /* 1: both NICs have masked atomics */
	uint32_t *turn;		   /* [depth] */
	struct ginMlx5DoorbellRecord *record; /* the NIC reads */
	uint64_t *doorbell;		      /* the NIC's register */
	/* [depth]: 1 + the counter to raise when the WQE of the slot completes; 0: none. */
	uint32_t *counter;
	const struct ginMlx5Cqe *cqe; /* the one entry of a collapsed CQ; the NIC writes */
	uint32_t sinkKey;	      /* key of 8 bytes for old values that nobody reads */
	uint32_t sink;		      /* their address for the NIC */
};

/*
 * In GPU memory; `fixed` may point to other memory. The host sets `fixed`, turn[0] = GIN_TURN and
 * the state of every CQE to ginMlx5CqeEmpty(); everything else begins as zeros.
 */
struct ginSendQueue {
	struct ginSendFixed fixed;

	uint64_t reserved; /* the next free index: the producer index */
	uint64_t pad2[7];

	/*
	 * Consumer index: the WQEBBs below it are completed and their counters raised, as far as
	 * threads have seen. With GIN_SEND_CREDITING.
	 */
	uint64_t done;
	uint64_t counted; /* no slot at or above this index names a counter */
	/*
	 * The first error that a thread saw; 0: none. ginResult_t in the low half; above it, from
	 * the lowest bit: 16 bits of the failed WQE's index, 8 bits of the vendor's syndrome, 8
	 * bits of the syndrome. Syndrome ginMlx5Flushed: another error CQE has overwritten the
	 * cause.
	 */
	uint64_t latched;
	uint64_t *counters; /* the context's, as ginDevComm.counter; set with `counted` */
	uint64_t pushed;    /* a READ of a barrier follows all WQEs below it */
	/* Of a CQE in host memory: as ginMirror.looking; `done` is the mirror. */
	uint32_t looking;
	uint32_t pad3[5];

	uint64_t handed;	    /* index of the turn; only the ringer writes it */
	uint64_t rung;		    /* index of the last doorbell; only the ringer writes it */
	struct ginSendGets gets[2]; /* targets in this GPU's memory; elsewhere */
};

/*
 * The result slots of one context: where atomics get their old values. In GPU memory. `result` and
 * `nicAddress` name one memory, which the NIC writes. One more entry belongs to the queues that
 * all contexts share.
 */
struct ginSendResults {
	const uint64_t *result; /* [GIN_QUEUE_RESULTS] */
	uint64_t nicAddress;
	uint32_t nicKey;
	uint32_t pad;
	uint64_t freeResults; /* one bit per slot */
	uint64_t words;	      /* in the shared entry: 1 after the first post to a shared queue */
	uint64_t pad2[3];
	/*
	 * Per slot: an atomic whose caller has given up, as 1 + the number of its queue in the
	 * context + the end of its post x nRanks; 0: none. The slot is free once that end is
	 * completed.
	 */
	uint64_t abandoned[GIN_QUEUE_RESULTS];
};

#ifdef __cplusplus
static_assert(sizeof(struct ginSendQueue) == 256,
	      "four cache lines: fixed, producer, consumer, ringer");
#else
_Static_assert(sizeof(struct ginSendQueue) == 256,
	       "four cache lines: fixed, producer, consumer, ringer");
#endif

#endif
