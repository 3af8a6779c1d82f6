/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu_wqe.cc - a GPU, which turns bytes by instructions of its own, makes the WQEs that the host
 * makes
 *
 * unit_mlx5_wqe.c compares the host's WQEs with bytes that are written down.
 */
#include <stdio.h>

#ifndef __CUDACC__
int main()
{
	printf("built without nvcc\n");
	return 77;
}
#else

#include <stdlib.h>
#include <string.h>

#include "mlx5_encoders.h"

static const char *const names[] = {"NOP",
				    "DUMP",
				    "RDMA_WRITE",
				    "RDMA_WRITE_IMM",
				    "RDMA_READ",
				    "inline, 4 bytes",
				    "inline, 8 bytes",
				    "inline, 28 bytes",
				    "ATOMIC_FA",
				    "ATOMIC_CS",
				    "ATOMIC_MASKED_FA, 4 bytes",
				    "ATOMIC_MASKED_FA, 8 bytes",
				    "ATOMIC_MASKED_CS, 4 bytes",
				    "by four lanes"};
enum { KINDS = sizeof(names) / sizeof(names[0]) };

struct Made {
	ginMlx5Wqebb one[KINDS];
	ginMlx5TwoWqebbs two[2];
	uint64_t doorbell;
	uint32_t words[8];
};

static __host__ __device__ void make(Made *m, uint32_t index)
{
	const ginMlx5Slot slot = {ginMlx5Queue(0x123456), index, ginMlx5Signaled};
	const ginMlx5Memory there = {0x0123456789abcdef, ginMlx5Key(0x55667788)};
	const ginMlx5Memory here = {0xfedcba9876543210, ginMlx5Key(0x99aabbcc)};
	const uint32_t value[8] = {index, 2, 3, 4, 5, 6, 7, 8};
	int i = 0;

	ginMlx5StoreWqebb(&m->one[i++], ginMlx5Nop(slot));
	ginMlx5StoreWqebb(&m->one[i++], ginMlx5Dump(slot, here, 1));
	ginMlx5StoreWqebb(&m->one[i++], ginMlx5Write(slot, there, here, index));
	ginMlx5StoreWqebb(&m->one[i++], ginMlx5WriteImmediate(slot, there, here, 8, index));
	ginMlx5StoreWqebb(&m->one[i++], ginMlx5Read(slot, there, here, 8));
	ginMlx5StoreWqebb(&m->one[i++], ginMlx5WriteInline4(slot, there, index));
	ginMlx5StoreWqebb(&m->one[i++], ginMlx5WriteInline8(slot, there, ~0ull - index));
	ginMlx5StoreWqebb(&m->one[i++], ginMlx5WriteInline(slot, there, value, 28));
	ginMlx5StoreWqebb(&m->one[i++], ginMlx5FetchAdd(slot, there, here, index));
	ginMlx5StoreWqebb(&m->one[i++], ginMlx5CompareSwap(slot, there, here, index, 2));
	ginMlx5StoreWqebb(&m->one[i++], ginMlx5MaskedFetchAdd4(slot, there, here, index, 2));
	ginMlx5StoreWqebb(&m->one[i++], ginMlx5MaskedFetchAdd8(slot, there, here, index, 2));
	ginMlx5StoreWqebb(&m->one[i++],
			  ginMlx5MaskedCompareSwap4(slot, there, here, {index, 2, 3, 4}));
	for (uint32_t lane = 0; lane < 4; lane++)
		ginMlx5Store(&m->one[i].segment[lane],
			     ginMlx5SegmentOf(ginMlx5Write(slot, there, here, index), lane));
	m->two[0] = ginMlx5WriteInline32(slot, there, value);
	m->two[1] = ginMlx5MaskedCompareSwap8(slot, there, here, {index, 2, 3, 4});
	m->doorbell = ginMlx5Doorbell(slot.queue, index);
	m->words[0] = ginMlx5RecordWord(index);
	m->words[1] = ginMlx5CqeCounter(index);
	m->words[2] = ginMlx5CqeOpcode(index);
	m->words[3] = ginMlx5CqeOwner(index);
	m->words[4] = ginMlx5CqeSyndrome(index);
	m->words[5] = ginMlx5CqeQueueNumber(index);
	m->words[6] = ginMlx5CqeWqeOpcode(index);
	m->words[7] = ginMlx5CqeEmpty();
}

static __global__ void makeThere(Made *made, const uint32_t *index)
{
	make(made, *index);
}

static void require(cudaError_t result, const char *call)
{
	if (result == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(result));
	exit(1);
}

#define CUDA(call) require(call, #call)

static int differ(const void *seen, const void *expected, size_t bytes, const char *name)
{
	if (!memcmp(seen, expected, bytes))
		return 0;
	fprintf(stderr, "%s: the GPU makes other bytes than the host\n", name);
	return 1;
}

static int compare(const Made &seen, const Made &expected)
{
	int bad = 0;

	for (int i = 0; i < KINDS; i++)
		bad += differ(&seen.one[i], &expected.one[i], sizeof(seen.one[i]), names[i]);
	bad += differ(&seen.two[0], &expected.two[0], sizeof(seen.two[0]), "inline, 32 bytes");
	bad += differ(&seen.two[1], &expected.two[1], sizeof(seen.two[1]),
		      "ATOMIC_MASKED_CS, 8 bytes");
	bad += differ(&seen.doorbell, &expected.doorbell, 8, "doorbell");
	return bad + differ(seen.words, expected.words, sizeof(seen.words), "words of a CQE");
}

int main()
{
	const uint32_t indices[] = {0, 1, 0x5abcd, 0xffff, 0x89abcdef, ~0u};
	uint32_t *there;
	Made *made, seen, expected;
	int gpus, bad = 0;

	if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
		printf("no GPU\n");
		return 77;
	}
	CUDA(cudaMalloc(&made, sizeof(*made)));
	CUDA(cudaMalloc(&there, sizeof(*there)));
	for (uint32_t index : indices) {
		memset(static_cast<void *>(&expected), 0, sizeof(expected));
		make(&expected, index);
		CUDA(cudaMemset(made, 0, sizeof(*made)));
		CUDA(cudaMemcpy(there, &index, sizeof(index), cudaMemcpyHostToDevice));
		makeThere<<<1, 1>>>(made, there);
		CUDA(cudaMemcpy(&seen, made, sizeof(seen), cudaMemcpyDeviceToHost));
		bad += compare(seen, expected);
	}
	CUDA(cudaFree(there));
	CUDA(cudaFree(made));
	printf("%zu indices, %d kinds of WQE and two of two WQEBBs\n",
	       sizeof(indices) / sizeof(*indices), KINDS);
	return bad != 0;
}
#endif
