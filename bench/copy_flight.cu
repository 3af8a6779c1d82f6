// SPDX-License-Identifier: BSD-3-Clause
// copy_flight - long copies to and from another GPU by few threads: how many accesses to keep in flight
//
// Two GPUs of one process, without a library. One line for a copy by a thread, a warp and a block of 512, each
// direction: GB/s with 4, 8 and 16 loads of 16 bytes in flight; then with 4 in flight and, 1 KiB ahead, a prefetch to
// L1, a prefetch to L2, and a load of 4 bytes of each sector.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#define CUDA(call)                                                                                 \
	do {                                                                                       \
		cudaError_t error = call;                                                          \
		if (error != cudaSuccess) {                                                        \
			fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));             \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

enum How { PLAIN, TO_L1, TO_L2, TOUCH };
enum { AHEAD = 1024, TIMES = 3, MOST = 64 << 20 };

struct Word {
	uint64_t half[2];
};

__device__ inline Word load(const char *from)
{
	Word word;
	asm volatile("ld.global.v2.u64 {%0, %1}, [%2];"
		     : "=l"(word.half[0]), "=l"(word.half[1])
		     : "l"(from)
		     : "memory");
	return word;
}

__device__ inline void store(char *to, Word word)
{
	asm volatile("st.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(word.half[0]),
		     "l"(word.half[1])
		     : "memory");
}

template <How how> __device__ inline void announce(const char *at)
{
	uint32_t unused;

	if (how == TO_L1)
		asm volatile("prefetch.global.L1 [%0];" ::"l"(at));
	else if (how == TO_L2)
		asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
	else if (how == TOUCH)
		asm volatile("ld.global.u32 %0, [%1];" : "=r"(unused) : "l"(at) : "memory");
}

// The length is a multiple of what all threads have in flight.
template <int flight, How how> __global__ void copy(char *to, const char *from, size_t bytes)
{
	const uint32_t step = blockDim.x * 16;
	Word word[flight];

	for (int times = 0; times < TIMES; times++) {
#pragma unroll 1
		for (size_t at = threadIdx.x * 16; at < bytes; at += flight * step) {
			for (int i = 0; i < flight; i += 2)
				if (at + AHEAD + i * step < bytes)
					announce<how>(from + at + AHEAD + i * step);
			for (int i = 0; i < flight; i++)
				word[i] = load(from + at + i * step);
			for (int i = 0; i < flight; i++)
				store(to + at + i * step, word[i]);
		}
	}
}

template <int flight, How how>
static double rate(char *to, const char *from, size_t bytes, int threads)
{
	cudaEvent_t start, end;
	float ms = 0;

	CUDA(cudaEventCreate(&start));
	CUDA(cudaEventCreate(&end));
	copy<flight, how><<<1, threads>>>(to, from, bytes);
	CUDA(cudaEventRecord(start));
	copy<flight, how><<<1, threads>>>(to, from, bytes);
	CUDA(cudaEventRecord(end));
	CUDA(cudaEventSynchronize(end));
	CUDA(cudaEventElapsedTime(&ms, start, end));
	return TIMES * static_cast<double>(bytes) / ms / 1e6;
}

static void row(const char *what, char *to, const char *from, size_t bytes, int threads)
{
	printf("%s by %3d: %6.2f %6.2f %6.2f | %6.2f %6.2f %6.2f\n", what, threads,
	       rate<4, PLAIN>(to, from, bytes, threads), rate<8, PLAIN>(to, from, bytes, threads),
	       rate<16, PLAIN>(to, from, bytes, threads), rate<4, TO_L1>(to, from, bytes, threads),
	       rate<4, TO_L2>(to, from, bytes, threads), rate<4, TOUCH>(to, from, bytes, threads));
}

int main()
{
	char *here, *there;

	CUDA(cudaSetDevice(1));
	CUDA(cudaMalloc(&there, MOST));
	CUDA(cudaSetDevice(0));
	CUDA(cudaMalloc(&here, MOST));
	CUDA(cudaDeviceEnablePeerAccess(1, 0));
	for (int threads : {1, 32, 512}) {
		const size_t bytes = threads == 1 ? 512u << 10 : threads == 32 ? 8u << 20 : MOST;
		row("put", there, here, bytes, threads);
		row("get", here, there, bytes / 4, threads);
	}
	return 0;
}
