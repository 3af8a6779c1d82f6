/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_part.h - a rank on route gdaki, and work requests posted by hand through the host's
 * structures
 */
#ifndef GIN_TEST_NIC_PART_H
#define GIN_TEST_NIC_PART_H

#include "test/arguments/arguments.h"

#include <gin/core/send_queue.h>
#include <time.h>

enum {
	CONTEXTS = 2,
	SIGNALS = 3,
	WINDOW = 8192,
	BYTES = 1000,
	PATIENCE_S = 20,
	WRONG = 1,
	AMOUNT = 1000003
};

static inline void barrier(ginComm_t comm)
{
	EXPECT_SUCCESS(ginCommAllgather(comm, NULL, NULL, 0));
}

static inline ginPeerInfo_t peerInfo(ginComm_t comm, int peer)
{
	ginPeerInfo_t info = GIN_PEER_INFO_INIT;

	EXPECT_SUCCESS(ginCommQueryPeer(comm, peer, &info));
	return info;
}

/* The queue of a context for a peer; dc->contexts: that of all, for a direct peer. */
static inline struct ginSendQueue *queueOf(const ginDevComm *dc, uint32_t context, int peer)
{
	EXPECT(context == dc->contexts || dc->peers[peer].sendQueue < dc->nSendQueues);
	EXPECT(dc->route != ginRouteGdaki || dc->peers[peer].sendQueue == (uint32_t)peer);
	return &dc->sendQueues[context * dc->nSendQueues + dc->peers[peer].sendQueue];
}

static inline struct ginMlx5Slot slotOf(const struct ginSendQueue *q)
{
	return (struct ginMlx5Slot){q->fixed.queue, (uint32_t)q->handed, ginMlx5Signaled};
}

static inline void store(struct ginSendQueue *q, struct ginMlx5Wqebb wqebb)
{
	ginMlx5StoreWqebb(&q->fixed.wqes[q->handed % (1ull << q->fixed.logDepth)], wqebb);
	__atomic_store_n(&q->handed, q->handed + 1, __ATOMIC_RELEASE);
	q->reserved = q->handed;
}

static inline void ring(struct ginSendQueue *q)
{
	__atomic_store_n(&q->fixed.record->send, ginMlx5RecordWord((uint32_t)q->handed),
			 __ATOMIC_RELEASE);
	__atomic_store_n(q->fixed.doorbell, ginMlx5Doorbell(q->fixed.queue, (uint32_t)q->handed),
			 __ATOMIC_RELEASE);
}

/* The opcode of the completion of all posts, or of an error. */
static inline uint32_t await(const struct ginSendQueue *q)
{
	time_t end = time(NULL) + PATIENCE_S;

	for (;;) {
		uint32_t state = __atomic_load_n(&q->fixed.cqe->state, __ATOMIC_ACQUIRE);
		uint32_t opcode = ginMlx5CqeOpcode(state);
		if (opcode != ginMlx5CqeInvalid &&
		    (opcode != ginMlx5CqeRequest ||
		     ginMlx5CqeCounter(state) == ((q->handed - 1) & 0xffff)))
			return opcode;
		expectThat(time(NULL) < end, __FILE__, __LINE__, "not done in %d s", PATIENCE_S);
	}
}

static inline void run(struct ginSendQueue *q, struct ginMlx5Wqebb wqebb)
{
	store(q, wqebb);
	ring(q);
	EXPECT_EQUAL(await(q), ginMlx5CqeRequest);
}

static inline const struct ginWindowPeer *partOf(ginWindow_t window, int peer)
{
	return (const struct ginWindowPeer *)(window.table + 1) + peer;
}

static inline struct ginMlx5Memory ownAt(ginWindow_t window, uint64_t offset)
{
	return (struct ginMlx5Memory){window.table->nicAddress + offset, window.table->nicKey};
}

static inline struct ginMlx5Memory dataAt(ginWindow_t window, int peer, uint64_t offset)
{
	const struct ginWindowPeer *part = partOf(window, peer);

	return (struct ginMlx5Memory){part->nicAddress + offset, part->nicKey};
}

/* Every byte encodes rank, peer, context and its place. */
static inline uint8_t pattern(int from, int to, uint32_t context, uint32_t i)
{
	return (uint8_t)(from * 101 + to * 31 + (int)context * 7 + (int)i);
}

/* One rank's part of a test. */
struct part {
	ginComm_t comm;
	int me, n;
	ginDevComm dc;
	ginWindow_t in, out; /* in: a slot of BYTES for each rank and context */
	uint8_t *inbox, *outbox;
	size_t inBytes;
};

static inline uint64_t slotAt(int from, uint32_t context)
{
	return ((uint64_t)from * CONTEXTS + context) * BYTES;
}

/*
 * From a source that is in no window of all ranks, into memory that begins in the middle of a page.
 */
static inline void openPart(struct part *p, const ginConfig_t *config)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;

	*p = (struct part){.comm = openComm(config)};
	p->me = rankOf(p->comm);
	p->n = sizeOf(p->comm);
	p->inBytes = slotAt(p->n, 0);
	p->inbox = calloc(1, p->inBytes + 100);
	p->outbox = malloc(WINDOW);
	want.contexts = CONTEXTS;
	want.signals = SIGNALS;
	want.barriers = 1;
	EXPECT_SUCCESS(ginWindowRegister(p->comm, p->inbox + 100, p->inBytes, 0, &p->in));
	EXPECT_SUCCESS(ginDevCommCreate(p->comm, &want, &p->dc));
	EXPECT_SUCCESS(ginWindowRegister(p->comm, p->outbox, WINDOW, GIN_WINDOW_LOCAL, &p->out));
}

static inline int closePart(struct part *p)
{
	EXPECT_SUCCESS(ginDevCommDestroy(p->comm, &p->dc));
	EXPECT_SUCCESS(ginWindowDeregister(p->comm, p->out));
	EXPECT_SUCCESS(ginWindowDeregister(p->comm, p->in));
	EXPECT_SUCCESS(ginCommDestroy(p->comm));
	free(p->inbox);
	free(p->outbox);
	return 0;
}

#endif
