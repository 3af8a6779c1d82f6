/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu_memory.cc - windows in every kind of GPU memory, and a host API that leaves streams alone
 */
#include "harness.h"

#ifndef __CUDACC__
int main()
{
	printf("built without nvcc\n");
	return 77;
}
#else

/* Byte i of every rank goes to the right neighbour. */
struct PutRight {
	ginDevComm dc;
	ginWindow_t target, source;
	size_t bytes;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		int right = static_cast<int>((dc.rank + 1) % dc.nRanks);
		ginResult_t result = gin.put(right, target, 0, source, 0, bytes, GinSignalInc{0},
					     GinNone{}, GinCta{});
		if (result == ginSuccess)
			result = gin.waitSignal(0, 1, GinCta{});
		results[ginThreadIndex()] = result;
	}
};

static unsigned char pattern(int rank, size_t i)
{
	return static_cast<unsigned char>(i * 13 + i / 256 + static_cast<size_t>(rank) * 101 + 7);
}

/* Source and target are parts of one allocation, at odd offsets. */
static void putWithin(Rank &r, char *memory)
{
	const size_t bytes = 300001, from = 4097, to = 700003;
	std::vector<unsigned char> data(1 << 20, 0x5a);
	ginWindow_t source, target;
	Results results(r, 128);

	for (size_t i = 0; i < bytes; i++)
		data[from + i] = pattern(r.rank, i);
	copyBytes(r, memory, data.data(), data.size());
	CHECK(ginWindowRegister(r.comm, memory + from, bytes, 0, &source));
	CHECK(ginWindowRegister(r.comm, memory + to, bytes, 0, &target));
	{
		Device device(r, 1, 1);
		launch(r, 1, 128, PutRight{device.dc, target, source, bytes, results.words});
	}
	EXPECT(results.all(ginSuccess));
	for (size_t i = 0; i < bytes; i++)
		data[to + i] = pattern((r.rank + r.nRanks - 1) % r.nRanks, i);
	std::vector<unsigned char> got(data.size());
	copyBytes(r, got.data(), memory, got.size());
	EXPECT(got == data);
	CHECK(ginWindowDeregister(r.comm, source));
	CHECK(ginWindowDeregister(r.comm, target));
}

static void ownMemory(Rank &r)
{
	void *memory;
	CHECK(ginMemAlloc(r.comm, 1 << 20, &memory));
	putWithin(r, static_cast<char *>(memory));
	CHECK(ginMemFree(r.comm, memory));
}

static void cudaMallocMemory(Rank &r)
{
	char *memory;
	CUDA(cudaMalloc(&memory, 1 << 20));
	putWithin(r, memory);
	CUDA(cudaFree(memory));
}

/* Refused on all ranks with the remedy, whichever rank it was. */
static void refuse(Rank &r, void *memory, const char *words)
{
	ginWindow_t window;
	void *good;
	bool mine = r.rank == r.nRanks - 1;

	CHECK(ginMemAlloc(r.comm, 4096, &good));
	ginResult_t result = ginWindowRegister(r.comm, mine ? memory : good, 4096, 0, &window);
	EXPECT(result == ginErrorInvalidArgument && strstr(ginGetLastError(), words));
	EXPECT(strstr(ginGetLastError(), "ginMemAlloc()"));
	CHECK(ginMemFree(r.comm, good));
}

static void hostMemoryIsRefused(Rank &r)
{
	void *pinned, *plain = malloc(4096);
	CUDA(cudaHostAlloc(&pinned, 4096, cudaHostAllocDefault));
	refuse(r, pinned, "host memory");
	refuse(r, plain, "host memory");
	CUDA(cudaFreeHost(pinned));
	free(plain);
}

static void poolMemoryIsRefused(Rank &r)
{
	void *memory;
	CUDA(cudaMallocAsync(&memory, 4096, r.stream));
	CUDA(cudaStreamSynchronize(r.stream));
	refuse(r, memory, "ptr ");
	CUDA(cudaFreeAsync(memory, r.stream));
	CUDA(cudaStreamSynchronize(r.stream));
}

__global__ void spinUntil(volatile uint64_t *flag)
{
	while (!*flag)
		;
}

/* No call waits for a kernel that runs: this one ends only afterwards. */
static void callsDoNotSynchronise(Rank &r)
{
	Results flag(r, 1);
	flag.words[0] = 0;
	spinUntil<<<1, 1, 0, r.stream>>>(flag.words);
	CUDA(cudaGetLastError());
	{
		Buffer buffer(r, 5000);
		Device device(r, 4, 4);
		ginErrorRecord_t record;
		CHECK(ginDevCommGetError(r.comm, &device.dc, &record));
		EXPECT(cudaStreamQuery(r.stream) == cudaErrorNotReady);
	}
	flag.words[0] = 1;
	CUDA(cudaStreamSynchronize(r.stream));
}

/* No call breaks a capture, not even one that watches all streams. */
static void callsLeaveCapturesAlone(Rank &r)
{
	cudaGraph_t graph;
	CUDA(cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeGlobal));
	{
		void *memory;
		ginWindow_t window;
		CHECK(ginMemAlloc(r.comm, 10000, &memory));
		CHECK(ginWindowRegister(r.comm, memory, 10000, 0, &window));
		Device device(r, 2, 2);
		CHECK(ginWindowDeregister(r.comm, window));
		CHECK(ginMemFree(r.comm, memory));
	}
	CUDA(cudaStreamEndCapture(r.stream, &graph));
	CUDA(cudaGraphDestroy(graph));
}

static int run(const ginConfig_t *config)
{
	Rank r;
	rankOpen(r, config);
	if (r.device < 0) {
		printf("no GPU\n");
		return 77;
	}
	ownMemory(r);
	cudaMallocMemory(r);
	hostMemoryIsRefused(r);
	poolMemoryIsRefused(r);
	callsDoNotSynchronise(r);
	meet(r); /* as threads: nobody captures while another frees */
	callsLeaveCapturesAlone(r);
	meet(r);
	rankClose(r);
	return 0;
}

int main(int argc, char **argv)
{
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	setenv("GIN_LOG", "none", 0); /* errors are expected */
	return ranksMain(argc, argv, run);
}
#endif
