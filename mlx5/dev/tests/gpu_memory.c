/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu_memory [refused] - queues and windows in the memory of a GPU that this CPU cannot load from
 *
 * The CUDA driver is the one of fake/. With `refused` the profile says nopeermem.
 */
#include <infiniband/verbs.h>

#include "mlx5/dev/fake/gpu.h"
#include "expect.h"
#include "queue.h"

enum { WINDOW = 1 << 19, HALF = WINDOW / 2, COUNTER = 64, RESULT = 128 };
enum {
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	      IBV_ACCESS_REMOTE_ATOMIC
};

static struct queue queue, peer;
static uint8_t *gpu; /* the window, where we find it */
static uint8_t host[WINDOW] __attribute__((aligned(4096)));
static struct range gpus, hosts;

static struct range at(struct range window, uint32_t offset)
{
	return (struct range){window.address + offset, window.key};
}

static void *gpuMemory(size_t bytes, int value)
{
	void *memory = fakeGpuMemory(bytes);

	memset(fakeGpuThere(memory), value, bytes);
	return memory;
}

/* As kernels do: from here on the queue is written where it can be. */
static void find(struct queue *queue)
{
	queue->wq = fakeGpuThere(queue->wq);
	queue->cq = fakeGpuThere(queue->cq);
	queue->records = fakeGpuThere(queue->records);
}

static void finish(void)
{
	queueRing(&queue);
	queueAwait(&queue, queue.producer - 1);
}

static void put(struct range to, const uint8_t *there, struct range from, uint8_t *here,
		uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		here[i] = (uint8_t)(i * 7 + bytes);
	queueWrite(&queue, to, from, bytes, SIGNALED);
	finish();
	EXPECT(!memcmp(here, there, bytes));
}

static void get(uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		gpu[HALF + i] = (uint8_t)(i * 11 + bytes);
	queueRead(&queue, at(gpus, HALF), gpus, bytes, 0);
	queueDump(&queue, gpus, SIGNALED | FENCED);
	finish();
	EXPECT(!memcmp(gpu, gpu + HALF, bytes));
}

static uint64_t number(uint32_t offset)
{
	return *(const uint64_t *)(const void *)(gpu + offset);
}

static void count(uint64_t add)
{
	uint64_t before = number(COUNTER);

	queueAtomic(&queue, FETCH_ADD, at(gpus, COUNTER), at(gpus, RESULT), add, 0, SIGNALED);
	finish();
	EXPECT_EQUAL(number(RESULT), before);
	EXPECT_EQUAL(number(COUNTER), before + add);
	queueAtomic(&queue, COMPARE_SWAP, at(gpus, COUNTER), at(gpus, RESULT), 5, before, SIGNALED);
	finish();
	EXPECT_EQUAL(number(RESULT), before + add);
	EXPECT_EQUAL(number(COUNTER), before + add);
}

static void run(void)
{
	memset(gpu, 0, WINDOW);
	for (uint32_t bytes = 1; bytes <= HALF; bytes *= 3) {
		put(at(gpus, HALF), gpu + HALF, gpus, gpu, bytes);
		put(hosts, host, gpus, gpu, bytes);
		put(at(gpus, HALF), gpu + HALF, at(hosts, HALF), host + HALF, bytes);
		get(bytes);
	}
	memset(gpu, 0, WINDOW);
	for (uint32_t i = 1; i <= 100; i++) {
		uint64_t value = i * 0x0101010101010101ull;

		queueInline(&queue, at(gpus, HALF), &value, sizeof(value), SIGNALED);
		finish();
		EXPECT_EQUAL(number(HALF), value);
		count(i);
	}
	/* Memory that only partly is the GPU's, or of a GPU that does not exist. */
	EXPECT_EQUAL(hostRegister((void *)gpus.address, 1ul << 30, 0, ALL), 0);
	printf("%lu copies\n", fakeGpuCopies());
	EXPECT(fakeGpuCopies() > 1000);
}

int main(int argc, char **argv)
{
	void *window = gpuMemory(WINDOW, 0);

	hostOpen();
	gpu = fakeGpuThere(window);
	gpus = (struct range){(uintptr_t)window,
			      hostRegister(window, WINDOW, (uintptr_t)window, ALL)};
	if (argc > 1 && !strcmp(argv[1], "refused")) {
		EXPECT(!gpus.key && !hostUmem(window, WINDOW));
		return 0;
	}
	EXPECT(gpus.key);
	hosts = (struct range){(uintptr_t)host, hostRegister(host, WINDOW, (uintptr_t)host, ALL)};
	queueMemory = gpuMemory;
	queuePair(&queue, &peer);
	find(&queue);
	find(&peer);
	run();
	return 0;
}
