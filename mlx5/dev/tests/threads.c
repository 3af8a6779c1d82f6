/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * threads - several threads ring concurrently, each for its own queue pair
 *
 * All raise one counter: each old value comes back once. The doorbells may be in one page.
 */
#include <infiniband/verbs.h>
#include <pthread.h>

#include "expect.h"
#include "queue.h"

enum { THREADS = 4, EACH = 4000, BUFFER = 1 << 14, COUNTER = 0, RESULTS = 4096, BATCH = 8 };
enum {
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	      IBV_ACCESS_REMOTE_ATOMIC
};

static uint8_t memory[BUFFER] __attribute__((aligned(4096)));
static struct queue queues[THREADS], peers[THREADS];
static uint8_t seen[THREADS * EACH];
static uint32_t key;

static uint64_t resultAt(int thread, uint32_t request)
{
	return (uint64_t)(RESULTS + (thread * BATCH + (int)request) * 8);
}

static void take(uint64_t number)
{
	EXPECT(number < THREADS * EACH);
	EXPECT_EQUAL(__atomic_fetch_add(&seen[number], 1, __ATOMIC_RELAXED), 0);
}

static void *count(void *argument)
{
	int thread = (int)(intptr_t)argument;
	struct queue *queue = &queues[thread];

	while (queue->producer < EACH) {
		for (uint32_t i = 0; i < BATCH; i++)
			queueAtomic(queue, FETCH_ADD, (struct range){COUNTER, key},
				    (struct range){resultAt(thread, i), key}, 1, 0,
				    i + 1 == BATCH ? SIGNALED : 0);
		queueRing(queue);
		queueAwait(queue, queue->producer - 1);
		for (uint32_t i = 0; i < BATCH; i++)
			take(*(uint64_t *)(void *)(memory + resultAt(thread, i)));
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];

	hostOpen();
	key = hostRegister(memory, sizeof(memory), 0, ALL);
	EXPECT(key);
	for (int i = 0; i < THREADS; i++)
		queuePair(&queues[i], &peers[i]);
	for (int i = 0; i < THREADS; i++)
		EXPECT(!pthread_create(&threads[i], NULL, count, (void *)(intptr_t)i));
	for (int i = 0; i < THREADS; i++)
		EXPECT(!pthread_join(threads[i], NULL));
	EXPECT_EQUAL(*(uint64_t *)(void *)(memory + COUNTER), THREADS * EACH);
	printf("%d threads, %d numbers each, each number once\n", THREADS, EACH);
	return 0;
}
