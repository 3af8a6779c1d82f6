// SPDX-License-Identifier: BSD-3-Clause
// host_loads - how GPU threads that poll host memory slow down copy engines and stream writes
//
// Warps of one GPU load a word of host memory again and again. All warps load one word, or each
// warp its own word at a given stride. Meanwhile the program starts copies of 8 bytes and stream
// writes. Columns: number of warps; stride in bytes; microseconds per copy, and per stream write,
// of many in a row; microseconds of a copy and a stream write until the CPU sees their end; million
// loads per second.
#include <cuda.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <chrono>

#define CHECK(call)                                                                                \
	do {                                                                                       \
		int error = static_cast<int>(call);                                                \
		if (error) {                                                                       \
			fprintf(stderr, "%s: error %d\n", #call, error);                           \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

enum { BYTES = 8 << 20, MANY = 200, FEW = 20 };

struct HostWords {
	uint64_t *words, *done;
	int *stop;
};

__device__ uint64_t look(const uint64_t *word)
{
	uint64_t value;
	asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
	return value;
}

// Each block is one thread. It issues a load when the load before has returned. It rarely checks
// the stop flag, which is in host memory too. The words stay 0.
__global__ void lookAgain(HostWords host, uint32_t stride, unsigned long long *loads)
{
	const uint64_t *word = host.words + blockIdx.x * stride / 8;
	unsigned long long count = 0;
	int stop = 0;

	while (!stop) {
		for (int i = 0; i < 1024 && !look(word); i++)
			count++;
		stop = *const_cast<volatile int *>(host.stop);
	}
	atomicAdd(loads, count);
}

static double now()
{
	using namespace std::chrono;
	return duration<double>(steady_clock::now().time_since_epoch()).count();
}

struct LoadJob {
	HostWords host;
	char *gpu;
	cudaStream_t stream;

	void copy(int i) const
	{
		CUdeviceptr at = reinterpret_cast<CUdeviceptr>(gpu) + i * 8;
		CHECK(cuMemcpyAsync(at, at + BYTES / 2, 8, stream));
	}

	void write(void *to, uint64_t value) const
	{
		CHECK(cuStreamWriteValue64(stream, reinterpret_cast<CUdeviceptr>(to), value, 0));
	}

	double copies() const
	{
		double begin = now();
		for (int i = 0; i < MANY; i++)
			copy(i);
		CHECK(cudaStreamSynchronize(stream));
		return (now() - begin) / MANY * 1e6;
	}

	double writes() const
	{
		double begin = now();
		for (int i = 0; i < MANY; i++)
			write(gpu + i * 8, 1);
		CHECK(cudaStreamSynchronize(stream));
		return (now() - begin) / MANY * 1e6;
	}

	double trips() const
	{
		double begin = now();
		*host.done = 0;
		for (uint64_t i = 1; i <= FEW; i++) {
			copy(static_cast<int>(i));
			write(host.done, i);
			while (*const_cast<volatile uint64_t *>(host.done) != i)
				;
		}
		return (now() - begin) / FEW * 1e6;
	}
};

static void measure(const LoadJob &job, cudaStream_t looking, uint32_t warps, uint32_t stride)
{
	unsigned long long *loads, count = 0;

	CHECK(cudaMalloc(&loads, sizeof(*loads)));
	CHECK(cudaMemset(loads, 0, sizeof(*loads)));
	CHECK(cudaDeviceSynchronize());
	*job.host.stop = 0;
	double begin = now();
	if (warps)
		lookAgain<<<warps, 1, 0, looking>>>(job.host, stride, loads);
	CHECK(cudaGetLastError());
	double copies = job.copies(), writes = job.writes(), trips = job.trips();
	*const_cast<volatile int *>(job.host.stop) = 1;
	CHECK(cudaStreamSynchronize(looking));
	double took = now() - begin;
	CHECK(cudaMemcpy(&count, loads, sizeof(count), cudaMemcpyDeviceToHost));
	CHECK(cudaFree(loads));
	printf("%5u %6u %9.2f %9.2f %9.2f %9.1f\n", warps, stride, copies, writes, trips,
	       static_cast<double>(count) / took / 1e6);
}

int main()
{
	LoadJob job = {};
	cudaStream_t looking;

	CHECK(cudaSetDevice(0));
	CHECK(cudaHostAlloc(&job.host.words, BYTES, cudaHostAllocMapped));
	CHECK(cudaHostAlloc(&job.host.done, 4096, cudaHostAllocMapped));
	CHECK(cudaHostAlloc(&job.host.stop, 4096, cudaHostAllocMapped));
	memset(job.host.words, 0, BYTES);
	CHECK(cudaMalloc(&job.gpu, BYTES));
	CHECK(cudaStreamCreateWithFlags(&job.stream, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&looking, cudaStreamNonBlocking));
	printf("warps stride   copy us  write us   both us   M loads\n");
	for (uint32_t warps : {0u, 1u, 16u, 132u, 528u})
		measure(job, looking, warps, 0);
	for (uint32_t stride : {8u, 32u, 64u, 128u, 4096u})
		measure(job, looking, 132, stride);
	return 0;
}
