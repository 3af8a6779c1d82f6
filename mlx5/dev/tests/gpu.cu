/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu [memory] - a kernel posts to a queue pair, rings its doorbell and polls for completions
 *
 * Queues and data are the host's, which the GPU maps; with `memory` they are the GPU's, which the
 * device reaches by the CUDA driver.
 */
#include <cuda_runtime.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "mlx5/dev/engine/doorbell.h"
#include "queue.h"
}

enum { BYTES = 1 << 16, REQUESTS = 1000, COUNTER = 4096, FLAG = 8192 };
enum {
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	      IBV_ACCESS_REMOTE_ATOMIC
};

static void check(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
	exit(1);
}

static void *hostMemory(size_t bytes, int value)
{
	void *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);

	check(cudaHostRegister(memory, (bytes + 4095) / 4096 * 4096, cudaHostRegisterMapped),
	      "cudaHostRegister");
	return memset(memory, value, bytes);
}

static void *gpuMemory(size_t bytes, int value)
{
	void *memory;

	check(cudaMalloc(&memory, bytes < 65536 ? 65536 : bytes), "cudaMalloc");
	check(cudaMemset(memory, value, bytes), "cudaMemset");
	return memory;
}

/* The fields of a queue that a kernel needs. */
struct ring {
	uint8_t *wq;
	volatile uint8_t *cq;
	volatile uint32_t *record;
	uint64_t *doorbell;
	uint32_t qpn, wqebbs, key;
};

static __device__ uint32_t swapped(uint32_t value)
{
	return __byte_perm(value, 0, 0x0123);
}

static __device__ void putWords(uint32_t *at, uint64_t value)
{
	at[0] = swapped((uint32_t)(value >> 32));
	at[1] = swapped((uint32_t)value);
}

static __device__ uint32_t *slot(const ring &ring, uint32_t index, uint32_t opcode,
				 uint32_t segments)
{
	uint32_t *wqe = (uint32_t *)(ring.wq + (size_t)(index % ring.wqebbs) * 64);

	for (int i = 0; i < 16; i++)
		wqe[i] = 0;
	wqe[0] = swapped((index & 0xffff) << 8 | opcode);
	wqe[1] = swapped(ring.qpn << 8 | segments);
	wqe[2] = swapped(SIGNALED);
	return wqe;
}

static __device__ void ringDoorbell(const ring &ring, uint32_t next)
{
	uint64_t value = (uint64_t)swapped(ring.qpn << 8) << 32 | swapped((next & 0xffff) << 8);

	__threadfence_system();
	*ring.record = swapped(next & 0xffff);
	__threadfence_system();
	asm volatile("st.mmio.relaxed.sys.global.b64 [%0], %1;" ::"l"(ring.doorbell), "l"(value)
		     : "memory");
}

/* Its opcode, once the entry of that index is there. */
static __device__ uint32_t await(const ring &ring, uint32_t index)
{
	volatile uint8_t *entry = ring.cq + (size_t)(index % ring.wqebbs) * 64;
	uint8_t owner = index & ring.wqebbs ? 1 : 0, own;

	do {
		own = entry[63];
	} while (own >> 4 == 15 || (own & 1) != owner);
	__threadfence_system();
	return own >> 4;
}

/* By turns: a number written inline, and a counter counted up. */
static __global__ void post(ring ring, uint32_t *failed)
{
	for (uint32_t index = 0; index < REQUESTS; index++) {
		bool counts = index % 2;
		uint32_t *wqe = slot(ring, index, counts ? FETCH_ADD : WRITE, counts ? 4 : 3);

		putWords(wqe + 4, counts ? COUNTER : FLAG);
		wqe[6] = swapped(ring.key);
		if (counts) {
			putWords(wqe + 8, 1);
			wqe[12] = swapped(8);
			wqe[13] = swapped(ring.key);
			putWords(wqe + 14, FLAG + 64);
		} else {
			wqe[8] = swapped(0x80000008);
			wqe[9] = index;
			wqe[10] = ~index;
		}
		ringDoorbell(ring, index + 1);
		if (await(ring, index))
			++*failed;
	}
}

template <typename Type> static Type *forGpu(Type *pointer, bool isGpu)
{
	void *mapped;

	if (isGpu)
		return pointer;
	check(cudaHostGetDevicePointer(&mapped, (void *)pointer, 0), "cudaHostGetDevicePointer");
	return (Type *)mapped;
}

static bool expectNumber(const char *what, uint64_t seen, uint64_t expected)
{
	if (seen != expected)
		fprintf(stderr, "%s is %llu, expected %llu\n", what, (unsigned long long)seen,
			(unsigned long long)expected);
	return seen == expected;
}

/* The result, in the host's words. */
static bool verify(uint8_t *window, const uint32_t *failed)
{
	uint64_t counter, before;
	uint32_t flag[2];

	check(cudaMemcpy(&counter, window + COUNTER, 8, cudaMemcpyDefault), "cudaMemcpy");
	check(cudaMemcpy(&before, window + FLAG + 64, 8, cudaMemcpyDefault), "cudaMemcpy");
	check(cudaMemcpy(flag, window + FLAG, 8, cudaMemcpyDefault), "cudaMemcpy");
	return expectNumber("failed", *failed, 0) &&
	       expectNumber("the counter", counter, REQUESTS / 2) &&
	       expectNumber("the last result", before, REQUESTS / 2 - 1) &&
	       expectNumber("the flag", flag[0], REQUESTS - 2) &&
	       expectNumber("the flag's rest", flag[1], ~(uint32_t)(REQUESTS - 2));
}

int main(int argc, char **argv)
{
	bool isGpu = argc > 1 && !strcmp(argv[1], "memory");
	struct queue queue, peer;
	uint32_t *failed;
	int gpus = 0;

	if (cudaGetDeviceCount(&gpus) != cudaSuccess || !gpus) {
		printf("there is no GPU\n");
		return 77;
	}
	queueMemory = isGpu ? gpuMemory : hostMemory;
	hostOpen();
	uint8_t *window = (uint8_t *)queueMemory(BYTES, 0);
	uint32_t key = hostRegister(window, BYTES, 0, ALL);
	queuePair(&queue, &peer);
	uint8_t *page = (uint8_t *)queue.uar.doorbell - DOORBELL_REGISTER;
	check(cudaHostRegister(page, DOORBELL_PAGE_BYTES, cudaHostRegisterMapped), "doorbell page");
	check(cudaMallocManaged(&failed, sizeof(*failed)), "cudaMallocManaged");
	*failed = 0;
	ring ring = {forGpu(queue.wq, isGpu),
		     forGpu(queue.cq, isGpu),
		     forGpu(queue.records, isGpu) + 1,
		     forGpu(queue.uar.doorbell, false),
		     queue.qpn,
		     queue.wqebbs,
		     key};
	post<<<1, 1>>>(ring, failed);
	check(cudaDeviceSynchronize(), "the kernel");
	if (!verify(window, failed))
		return 1;
	printf("%d work requests by a kernel, queues in %s memory\n", REQUESTS,
	       isGpu ? "the GPU's" : "the host's");
	return 0;
}
