// SPDX-License-Identifier: BSD-3-Clause
// limit - a copy of 16 MiB to another GPU that a kernel asks for and waits for, without a library
//
// Two GPUs of one process. A kernel stores a word in host memory, a CPU thread that polls the word
// submits a copy to a copy engine, and the kernel polls a word that says that the copy is done. One
// line for each way to submit and to tell: microseconds from the kernel's store to its last load,
// as median, smallest and largest.
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define EXPECT(condition)                                                                          \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)
#define CUDA(call) EXPECT((call) == cudaSuccess)
#define DRIVER(call) EXPECT((call) == CUDA_SUCCESS)

constexpr size_t MOST = 16u << 20;
enum { TIMES = 60, WARM_UP = 10, STREAMS = 4 };

// The kernel asks `times` times, and waits each time.
__global__ void ask(volatile uint64_t *go, const uint64_t *done, uint64_t *ns)
{
	for (uint64_t i = 1; i <= TIMES; i++) {
		uint64_t start, end, seen;
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
		*go = i;
		do
			asm volatile("ld.acquire.sys.global.u64 %0, [%1];"
				     : "=l"(seen)
				     : "l"(done)
				     : "memory");
		while (seen < i);
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(end));
		ns[i - 1] = end - start;
	}
}

enum Told {
	toldByCpu,  // the stream writes a word that the CPU polls; the CPU stores the kernel's word
	toldInHost, // the stream writes the kernel's word, in host memory
	toldInGpu   // the stream writes the kernel's word, in GPU memory
};

struct EngineLimit {
	char *from, *to;
	uint64_t *words; // host memory, a line each: go, done for the kernel, done of each stream
	uint64_t *inGpu, *ns;
	CUstream streams[STREAMS];
	cudaStream_t kernels;

	EngineLimit()
	{
		CUDA(cudaSetDevice(1));
		CUDA(cudaMalloc(&to, MOST));
		CUDA(cudaDeviceEnablePeerAccess(0, 0));
		CUDA(cudaSetDevice(0));
		CUDA(cudaDeviceEnablePeerAccess(1, 0));
		CUDA(cudaMalloc(&from, MOST));
		CUDA(cudaMalloc(&inGpu, 8));
		CUDA(cudaHostAlloc(&words, 64 * (2 + STREAMS), cudaHostAllocMapped));
		CUDA(cudaHostAlloc(&ns, TIMES * 8, cudaHostAllocMapped));
		CUDA(cudaStreamCreateWithFlags(&kernels, cudaStreamNonBlocking));
		for (CUstream &stream : streams)
			DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	}

	uint64_t *word(uint32_t i) const { return words + 8 * i; }

	void submit(CUstream stream, size_t at, size_t bytes, uint64_t *told, uint64_t value) const
	{
		DRIVER(cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to + at),
				     reinterpret_cast<CUdeviceptr>(from + at), bytes, stream));
		DRIVER(cuStreamWriteValue64(stream, reinterpret_cast<CUdeviceptr>(told), value, 0));
	}

	void serve(uint64_t i, size_t bytes, uint32_t parts, Told told) const
	{
		const uint64_t *go = word(0);
		while (__atomic_load_n(go, __ATOMIC_ACQUIRE) < i)
			;
		if (!bytes)
			return __atomic_store_n(word(1), i, __ATOMIC_RELEASE);
		if (told != toldByCpu)
			return submit(streams[0], 0, bytes, told == toldInGpu ? inGpu : word(1), i);
		for (uint32_t p = 0; p < parts; p++)
			submit(streams[p], bytes / parts * p, bytes / parts, word(2 + p), i);
		for (uint32_t p = 0; p < parts; p++)
			while (__atomic_load_n(word(2 + p), __ATOMIC_ACQUIRE) < i)
				;
		__atomic_store_n(word(1), i, __ATOMIC_RELEASE);
	}

	void row(const char *what, size_t bytes, uint32_t parts, Told told) const
	{
		memset(words, 0, 64 * (2 + STREAMS));
		CUDA(cudaMemset(inGpu, 0, 8));
		CUDA(cudaDeviceSynchronize());
		ask<<<1, 1, 0, kernels>>>(word(0), told == toldInGpu ? inGpu : word(1), ns);
		for (uint64_t i = 1; i <= TIMES; i++)
			serve(i, bytes, parts, told);
		CUDA(cudaStreamSynchronize(kernels));
		std::vector<uint64_t> each(ns + WARM_UP, ns + TIMES);
		std::sort(each.begin(), each.end());
		printf("%-66s %8.2f us (%.2f to %.2f)\n", what,
		       static_cast<double>(each[each.size() / 2]) / 1e3,
		       static_cast<double>(each.front()) / 1e3,
		       static_cast<double>(each.back()) / 1e3);
		fflush(stdout);
	}

	// The time of a copy among many in one stream.
	void rate(size_t bytes) const
	{
		float ms;
		cudaEvent_t start, end;
		CUDA(cudaEventCreate(&start));
		CUDA(cudaEventCreate(&end));
		CUDA(cudaEventRecord(start, streams[0]));
		for (int i = 0; i < TIMES; i++)
			CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, streams[0]));
		CUDA(cudaEventRecord(end, streams[0]));
		CUDA(cudaEventSynchronize(end));
		CUDA(cudaEventElapsedTime(&ms, start, end));
		printf("%-66s %8.2f us\n", "16 MiB, each of many copies in one stream",
		       static_cast<double>(ms) * 1e3 / TIMES);
	}
};

int main()
{
	int count = 0;

	if (cudaGetDeviceCount(&count) != cudaSuccess || count < 2) {
		printf("two GPUs are needed, but there are %d\n", count);
		return 77;
	}
	EngineLimit limit;
	limit.rate(MOST);
	limit.row("no copy: the CPU answers", 0, 1, toldByCpu);
	limit.row("8 B, the CPU sees the stream's write and tells the kernel", 8, 1, toldByCpu);
	limit.row("8 B, the stream writes the kernel's word in host memory", 8, 1, toldInHost);
	limit.row("8 B, the stream writes the kernel's word in GPU memory", 8, 1, toldInGpu);
	limit.row("16 MiB, the CPU sees the stream's write and tells the kernel", MOST, 1,
		  toldByCpu);
	limit.row("16 MiB, the stream writes the kernel's word in host memory", MOST, 1,
		  toldInHost);
	limit.row("16 MiB, the stream writes the kernel's word in GPU memory", MOST, 1, toldInGpu);
	limit.row("16 MiB by 2 streams, the CPU sees both and tells the kernel", MOST, 2,
		  toldByCpu);
	limit.row("16 MiB by 4 streams, the CPU sees all and tells the kernel", MOST, 4, toldByCpu);
	return 0;
}
