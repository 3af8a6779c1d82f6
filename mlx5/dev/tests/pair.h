/* SPDX-License-Identifier: BSD-3-Clause */
/* pair.h - two queue pairs that are connected, and memory that both use */
#ifndef GIN_TEST_MLX5DEV_PAIR_H
#define GIN_TEST_MLX5DEV_PAIR_H

#include <infiniband/verbs.h>

#include "child.h"
#include "queue.h"

enum { BUFFER = 1 << 14 };
enum {
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	      IBV_ACCESS_REMOTE_ATOMIC
};

static uint8_t memory[BUFFER] __attribute__((aligned(4096)));
static struct queue queue, peer;
static uint32_t key;

static inline struct range at(uint32_t offset)
{
	return (struct range){offset, key};
}

static inline void begin(void)
{
	hostOpen();
	key = hostRegister(memory, sizeof(memory), 0, ALL);
	EXPECT(key);
	queuePair(&queue, &peer);
}

#endif
