/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_rig.h - a port, a window and a slab of queues of libgin-rdma.so, driven by gin/core/mlx5.h
 *
 * One thread does the work of a GPU.
 */
#ifndef GIN_TEST_NIC_RIG_H
#define GIN_TEST_NIC_RIG_H

#include <gin/core/mlx5.h>

#include "nic.h"

#include <time.h>

enum { RIG_WINDOW = 1 << 16, RIG_PATIENCE_S = 20 };

struct rig {
	struct rdmaPort *port;
	struct rdmaAddress address;
	struct rdmaFeatures features;
	uint8_t *window; /* [RIG_WINDOW] */
	struct rdmaRegion *region;
	struct rdmaKeys keys;
	struct rdmaSlab slab;
	struct rdmaQueues *queues;
};

static const struct rdmaPath rigPath = {.timeout = 14, .retries = 7, .hopLimit = 64};

/* Pages, which the queues and a region with keys of their own need. */
static inline void *rigPages(size_t bytes)
{
	void *pages = aligned_alloc(RDMA_PAGE, (bytes + RDMA_PAGE - 1) / RDMA_PAGE * RDMA_PAGE);

	EXPECT(pages);
	return memset(pages, 0, bytes);
}

/* Filled as libgin.so does before queues are made. */
static inline void rigSlab(struct rig *r, uint32_t count, uint32_t depth)
{
	size_t bytes = rdmaSlabBytes(count, depth);
	char *memory = rigPages(bytes);

	for (uint32_t i = 0; i < count; i++) {
		struct ginMlx5Cqe *cqe = (void *)(memory + rdmaLayoutOf(i, depth).cqe);
		cqe->state = ginMlx5CqeEmpty();
	}
	r->slab = (struct rdmaSlab){{memory, bytes, -1, 0}, count, depth, 2};
}

static inline void rigMemory(struct rig *r, uint32_t count, uint32_t depth)
{
	*r = (struct rig){.window = rigPages(RIG_WINDOW)};
	rigSlab(r, count, depth);
}

/*
 * Makes everything up to the queues. On failure returns -1 and nicWhy; objects that are open stay
 * open.
 */
static inline int rigOpen(struct rig *r)
{
	const struct rdmaWanted wanted = {.device = "mlx5_0", .gid = -1};
	const struct rdmaMemory memory = {r->window, RIG_WINDOW, -1, 0};

	if (nic->portOpen(&wanted, &r->port, nicWhy))
		return -1;
	nic->portDescribe(r->port, &r->address, &r->features);
	if (nic->regionOpen(r->port, &memory, rdmaRemote, &r->region, &r->keys, nicWhy))
		return -1;
	return nic->queuesOpen(r->port, &r->slab, &r->queues, nicWhy);
}

static inline void rigClose(struct rig *r)
{
	if (r->queues)
		nic->queuesClose(r->queues);
	if (r->region)
		nic->regionClose(r->region);
	if (r->port)
		nic->portClose(r->port);
	free(r->slab.memory.address);
	free(r->window);
}

/* A queue of a rig, as a kernel has it. */
struct rigQueue {
	uint8_t *memory;
	struct rdmaLayout place;
	uint32_t depth, number, posted;
	uint64_t *doorbell;
};

static inline struct rigQueue rigQueue(const struct rig *r, uint32_t i, const struct rdmaEnd *end)
{
	struct rdmaRegister where;

	nic->queueRegister(r->queues, i, &where);
	EXPECT_EQUAL((uintptr_t)where.page % RDMA_PAGE, 0);
	EXPECT((uintptr_t)where.at - (uintptr_t)where.page < RDMA_PAGE);
	return (struct rigQueue){.memory = r->slab.memory.address,
				 .place = rdmaLayoutOf(i, r->slab.depth),
				 .depth = r->slab.depth,
				 .number = end->number,
				 .doorbell = where.at};
}

static inline struct ginMlx5Slot rigSlot(const struct rigQueue *q)
{
	return (struct ginMlx5Slot){ginMlx5Queue(q->number), q->posted, ginMlx5Signaled};
}

static inline void rigStore(struct rigQueue *q, struct ginMlx5Wqebb wqebb)
{
	struct ginMlx5Wqebb *wqes = (void *)(q->memory + q->place.wqes);

	ginMlx5StoreWqebb(&wqes[q->posted++ % q->depth], wqebb);
}

static inline void rigRing(struct rigQueue *q)
{
	struct ginMlx5DoorbellRecord *record = (void *)(q->memory + q->place.record);
	uint64_t doorbell = ginMlx5Doorbell(ginMlx5Queue(q->number), q->posted);

	__atomic_store_n(&record->send, ginMlx5RecordWord(q->posted), __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(q->doorbell, doorbell, __ATOMIC_RELAXED);
}

static inline const struct ginMlx5Cqe *rigCqe(const struct rigQueue *q)
{
	return (const void *)(q->memory + q->place.cqe);
}

/* The opcode of the last post's completion, or of an earlier error. */
static inline uint32_t rigAwait(const struct rigQueue *q)
{
	time_t end = time(NULL) + RIG_PATIENCE_S;

	for (;;) {
		uint32_t state = __atomic_load_n(&rigCqe(q)->state, __ATOMIC_ACQUIRE);
		uint32_t opcode = ginMlx5CqeOpcode(state);
		if (opcode != ginMlx5CqeInvalid &&
		    (opcode != ginMlx5CqeRequest ||
		     (int16_t)(ginMlx5CqeCounter(state) - (q->posted - 1)) >= 0))
			return opcode;
		expectThat(time(NULL) < end, __FILE__, __LINE__, "queue 0x%x is not done in %d s",
			   q->number, RIG_PATIENCE_S);
	}
}

static inline uint32_t rigSyndrome(const struct rigQueue *q)
{
	return ginMlx5CqeSyndrome(rigCqe(q)->timestampLow);
}

static inline uint32_t rigRun(struct rigQueue *q, struct ginMlx5Wqebb wqebb)
{
	rigStore(q, wqebb);
	rigRing(q);
	return rigAwait(q);
}

#endif
