/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu_memory.cc - windows in every kind of memory, and a host API that leaves streams alone
 */
#include "suite.h"

#ifndef __CUDACC__
int main()
{
	printf("built without nvcc\n");
	return 77;
}
#else
#include <cuda.h>
#include <dlfcn.h>

/* Byte i of every rank goes to the right neighbour. */
struct PutRight {
	ginDevComm dc;
	ginWindow_t target, source;
	size_t bytes;
	uint64_t *results;
	size_t to, from;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		int right = static_cast<int>((dc.rank + 1) % dc.nRanks);
		ginResult_t result = gin.put(right, target, to, source, from, bytes,
					     GinSignalInc{0}, GinNone{}, GinCta{});
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
		launch(r, 1, 128, PutRight{device.dc, target, source, bytes, results.words, 0, 0});
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

/* A call of the driver, with which no test is linked. */
template <class Call> static Call *driverCall(const char *name)
{
	static void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	void *call = dlsym(driver, name);
	EXPECT(call);
	return reinterpret_cast<Call *>(call);
}

#define DRIVER(name) driverCall<decltype(name)>(#name)

/* Allocations mapped side by side, as a program with expandable memory does it. */
struct Pieces {
	static const size_t gap = 2 << 20; /* else other pieces may begin at the end */
	const std::vector<size_t> sizes;
	CUdeviceptr at = 0;
	size_t total = 0;

	Pieces(Rank &r, std::vector<size_t> bytes) : sizes(bytes)
	{
		CUmemAllocationProp prop = {};
		CUmemAccessDesc access = {};
		prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
		prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
		prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
		prop.location.id = r.device;
		access.location = prop.location;
		access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
		for (size_t size : sizes)
			total += size;
		EXPECT(!DRIVER(cuMemAddressReserve)(&at, total + gap, 0, 0, 0));
		size_t offset = 0;
		for (size_t size : sizes) {
			CUmemGenericAllocationHandle handle;
			EXPECT(!DRIVER(cuMemCreate)(&handle, size, &prop, 0));
			EXPECT(!DRIVER(cuMemMap)(at + offset, size, 0, handle, 0));
			EXPECT(!DRIVER(cuMemRelease)(handle));
			offset += size;
		}
		EXPECT(!DRIVER(cuMemSetAccess)(at, total, &access, 1));
	}

	~Pieces()
	{
		size_t offset = 0;
		for (size_t size : sizes) {
			DRIVER(cuMemUnmap)(at + offset, size);
			offset += size;
		}
		DRIVER(cuMemAddressFree)(at, total + gap);
	}

	char *memory() const { return reinterpret_cast<char *>(at); }
};

static void memoryOfPieces(Rank &r)
{
	const size_t one = 2 << 20;

	Pieces equal(r, {one, one, one}), unequal(r, {one, 2 * one, one});
	putWithin(r, equal.memory() + one - 800000); /* the target crosses, then the source */
	putWithin(r, unequal.memory() + 3 * one - 200000);
	putWithin(r, equal.memory() + one - 4097); /* the source begins a piece */
	ginWindow_t window;
	for (int flags : {0, GIN_WINDOW_LOCAL}) {
		EXPECT(ginWindowRegister(r.comm, equal.memory() + 1, equal.total, flags, &window) ==
		       ginErrorInvalidArgument);
		EXPECT(strstr(ginGetLastError(), "more than the one allocation"));
	}
	Pieces many(r, {one, 2 * one, one, 2 * one, one});
	EXPECT(ginWindowRegister(r.comm, many.memory(), many.total, 0, &window) ==
	       ginErrorInvalidArgument);
	EXPECT(strstr(ginGetLastError(), "pieces whose size changes more than 3 times"));
	meet(r);
}

static void cudaMallocMemory(Rank &r)
{
	char *memory;
	CUDA(cudaMalloc(&memory, 1 << 20));
	putWithin(r, memory);
	CUDA(cudaFree(memory));
}

/* Refused on all ranks with reason and remedy, whichever rank it was. */
static void refuse(Rank &r, void *memory, const char *words)
{
	ginWindow_t window;
	void *good;
	bool mine = r.rank == r.nRanks - 1;

	CHECK(ginMemAlloc(r.comm, 4096, &good));
	ginResult_t result = ginWindowRegister(r.comm, mine ? memory : good, 4096, 0, &window);
	EXPECT(result == ginErrorInvalidArgument && strstr(ginGetLastError(), words));
	EXPECT(strstr(ginGetLastError(), "ginMemAlloc()"));
	EXPECT(strstr(ginGetLastError(), "GIN_WINDOW_LOCAL"));
	CHECK(ginMemFree(r.comm, good));
}

/* The memory works as a window that is only a source: its bytes arrive at the right neighbour. */
static void putFromLocal(Rank &r, void *memory, size_t bytes)
{
	const size_t at = 3, some = bytes - 10;
	std::vector<unsigned char> data(bytes), expected(bytes, 0x5a);
	Buffer target(r, bytes);
	Results results(r, 128);
	ginWindow_t source;
	void *ptr = nullptr;

	for (size_t i = 0; i < bytes; i++)
		data[i] = pattern(r.rank, i);
	copyBytes(r, memory, data.data(), bytes);
	target.poison();
	CHECK(ginWindowRegister(r.comm, static_cast<char *>(memory) + 1, bytes - 1,
				GIN_WINDOW_LOCAL, &source));
	CHECK(ginWindowPointer(r.comm, source, &ptr));
	EXPECT(ptr == static_cast<char *>(memory) + 1);
	{
		Device device(r, 1, 1);
		launch(r, 1, 128,
		       PutRight{device.dc, target.window, source, some, results.words, at, 2});
	}
	EXPECT(results.all(ginSuccess));
	CHECK(ginWindowDeregister(r.comm, source));
	for (size_t i = 0; i < some; i++)
		expected[at + i] = pattern((r.rank + r.nRanks - 1) % r.nRanks, i + 3);
	EXPECT(target.read() == expected);
	meet(r);
}

static const size_t BYTES = 100003;

static bool isPinned(const void *at)
{
	cudaPointerAttributes seen;
	CUDA(cudaPointerGetAttributes(&seen, at));
	return seen.type == cudaMemoryTypeHost;
}

static void ownHostMemory(Rank &r)
{
	void *memory;
	ginWindow_t window;
	CHECK(ginMemAllocHost(r.comm, 1 << 20, &memory));
	putWithin(r, static_cast<char *>(memory));
	putFromLocal(r, memory, BYTES);
	EXPECT(ginWindowRegister(r.comm, memory, (1 << 20) + 1, 0, &window) ==
	       ginErrorInvalidArgument);
	/* The byte after the memory may be pinned, too, by another rank that is a thread. */
	if (isPinned(static_cast<char *>(memory) + (1 << 20)))
		printf("the memory after %p is pinned as well\n", memory);
	else
		EXPECT(ginWindowRegister(r.comm, memory, (1 << 20) + 1, GIN_WINDOW_LOCAL,
					 &window) == ginErrorInvalidArgument);
	EXPECT(ginWindowRegister(r.comm, memory, 1ull << 40, GIN_WINDOW_LOCAL, &window) ==
	       ginErrorInvalidArgument);
	CHECK(ginMemFree(r.comm, memory));
}

static void pinnedMemory(Rank &r)
{
	void *memory;
	CUDA(cudaHostAlloc(&memory, BYTES, cudaHostAllocDefault));
	refuse(r, memory, "host memory");
	putFromLocal(r, memory, BYTES);
	CUDA(cudaFreeHost(memory));
}

/* Some GPUs load any memory of the host. */
static bool loadsAnyMemory(Rank &r)
{
	int pageable = 0;
	CUDA(cudaDeviceGetAttribute(&pageable, cudaDevAttrPageableMemoryAccess, r.device));
	return pageable != 0;
}

/* Memory that is not pinned up to its end is refused as a source. */
static void registeredMemory(Rank &r)
{
	const size_t page = 4096, span = 32 * page;
	void *memory = aligned_alloc(page, 2 * span);
	ginWindow_t window;

	EXPECT(memory != nullptr);
	memset(memory, 0, 2 * span);
	CUDA(cudaHostRegister(memory, span, cudaHostRegisterDefault));
	refuse(r, memory, "host memory");
	putFromLocal(r, memory, BYTES);
	if (!loadsAnyMemory(r)) {
		EXPECT(ginWindowRegister(r.comm, memory, 2 * span, GIN_WINDOW_LOCAL, &window) ==
		       ginErrorInvalidArgument);
		EXPECT(strstr(ginGetLastError(), "cudaHostRegister()"));
	}
	CUDA(cudaHostUnregister(memory));
	free(memory);
}

/* A GPU that does not load it refuses, with the remedy. */
static void plainMemory(Rank &r)
{
	void *memory = malloc(BYTES);
	ginWindow_t window;

	EXPECT(memory != nullptr);
	if (r.rank == 0)
		printf("plain host memory: the GPU %s\n",
		       loadsAnyMemory(r) ? "loads it" : "does not reach it");
	refuse(r, memory, "host memory");
	if (loadsAnyMemory(r)) {
		putFromLocal(r, memory, BYTES);
	} else {
		EXPECT(ginWindowRegister(r.comm, memory, BYTES, GIN_WINDOW_LOCAL, &window) ==
		       ginErrorInvalidArgument);
		EXPECT(strstr(ginGetLastError(), "cudaHostRegister()"));
	}
	free(memory);
}

static void managedMemory(Rank &r)
{
	void *memory;
	CUDA(cudaMallocManaged(&memory, BYTES));
	refuse(r, memory, "managed memory");
	putFromLocal(r, memory, BYTES);
	CUDA(cudaFree(memory));
}

/*
 * Are all ranks threads of this process, on this GPU? Then they reach the process's private memory.
 */
static bool ranksShareTheGpu(Rank &r)
{
	bool share = true;
	for (int peer = 0; peer < r.nRanks; peer++) {
		ginPeerInfo_t info = GIN_PEER_INFO_INIT;
		CHECK(ginCommQueryPeer(r.comm, peer, &info));
		share = share && info.sameProcess && strstr(info.why, "the same GPU");
	}
	return share;
}

/* A pool's memory has one allocation after the other; the windows are in the second. */
static void poolMemory(Rank &r)
{
	void *first, *memory;
	CUDA(cudaMallocAsync(&first, 4096, r.stream));
	CUDA(cudaMallocAsync(&memory, 1 << 20, r.stream));
	CUDA(cudaStreamSynchronize(r.stream));
	if (ranksShareTheGpu(r))
		putWithin(r, static_cast<char *>(memory));
	else
		refuse(r, memory, "does not reach");
	putFromLocal(r, memory, BYTES);
	CUDA(cudaFreeAsync(memory, r.stream));
	CUDA(cudaFreeAsync(first, r.stream));
	CUDA(cudaStreamSynchronize(r.stream));
}

/* Memory of a GPU that is not the communicator's is neither. */
static void memoryOfAnotherGpu(Rank &r)
{
	int count = 0;
	void *memory;
	ginWindow_t window;

	CUDA(cudaGetDeviceCount(&count));
	if (count < 2)
		return;
	CUDA(cudaSetDevice((r.device + 1) % count));
	CUDA(cudaMalloc(&memory, 4096));
	for (int flags : {0, GIN_WINDOW_LOCAL}) {
		EXPECT(ginWindowRegister(r.comm, memory, 4096, flags, &window) ==
		       ginErrorInvalidArgument);
		EXPECT(strstr(ginGetLastError(), "is memory of GPU "));
	}
	CUDA(cudaFree(memory));
	CUDA(cudaSetDevice(r.device));
}

/* More than the allocation has, by a byte. */
static void beyondTheEnd(Rank &r)
{
	char *memory;
	ginWindow_t window;

	CUDA(cudaMalloc(&memory, 4096));
	for (int flags : {0, GIN_WINDOW_LOCAL}) {
		EXPECT(ginWindowRegister(r.comm, memory + 7, 4090, flags, &window) ==
		       ginErrorInvalidArgument);
		EXPECT(strstr(ginGetLastError(), "more than the one allocation"));
	}
	CUDA(cudaFree(memory));
}

/* Handles of windows where kernels read them. */
struct HostWindows {
	ginWindow_t *at;

	explicit HostWindows(uint32_t count) : at(nullptr)
	{
		CUDA(cudaHostAlloc(&at, count * sizeof(*at), cudaHostAllocPortable));
	}

	~HostWindows() { cudaFreeHost(at); }

	HostWindows(const HostWindows &) = delete;
	HostWindows &operator=(const HostWindows &) = delete;
};

/* Each thread puts one word to the right through a window of its own. */
struct PutEach {
	ginDevComm dc;
	const ginWindow_t *windows;
	uint64_t *failures;
	uint32_t count;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		int right = static_cast<int>((dc.rank + 1) % dc.nRanks);
		uint32_t i = ginBlockIndex() * ginBlockSize() + ginThreadIndex();
		ginResult_t result = ginSuccess;
		if (i < count)
			result = gin.putValue(right, windows[i], 8,
					      (static_cast<uint64_t>(dc.rank) + 1) << 32 | i,
					      GinSignalInc{0});
		if (result == ginSuccess)
			result = gin.waitSignal(0, count);
		failures[i] = result;
	}
};

static const uint32_t MANY = 10000;
static const size_t PART = 24;

/* Windows side by side in one allocation, and some of them again. */
static void manyWindowsIn(Rank &r, char *memory)
{
	const uint32_t block = 128, grid = (MANY + block - 1) / block;
	HostWindows windows(MANY);
	Results results(r, grid * block);
	std::vector<uint64_t> words(MANY * PART / 8, 0x5a5a5a5a5a5a5a5aull);

	copyBytes(r, memory, words.data(), MANY * PART);
	for (int round = 0; round < 2; round++)
		for (uint32_t i = round; i < MANY; i += 1 + round) {
			if (round)
				CHECK(ginWindowDeregister(r.comm, windows.at[i]));
			CHECK(ginWindowRegister(r.comm, memory + i * PART, PART, 0,
						&windows.at[i]));
		}
	{
		Device device(r, 1, 1);
		launch(r, grid, block, PutEach{device.dc, windows.at, results.words, MANY});
		EXPECT(results.all(ginSuccess));
	}
	uint64_t left = static_cast<uint64_t>((r.rank + r.nRanks - 1) % r.nRanks);
	for (uint32_t i = 0; i < MANY; i++)
		words[i * PART / 8 + 1] = (left + 1) << 32 | i;
	std::vector<uint64_t> got(words.size());
	copyBytes(r, got.data(), memory, MANY * PART);
	EXPECT(got == words);
	for (uint32_t i = 0; i < MANY; i++)
		CHECK(ginWindowDeregister(r.comm, windows.at[MANY - 1 - i]));
}

static void manyWindows(Rank &r)
{
	char *memory;
	void *own;
	CUDA(cudaMalloc(&memory, MANY * PART));
	manyWindowsIn(r, memory);
	CUDA(cudaFree(memory));
	CHECK(ginMemAlloc(r.comm, MANY * PART, &own));
	manyWindowsIn(r, static_cast<char *>(own));
	CHECK(ginMemFree(r.comm, own));
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
	void *host;
	ginWindow_t window;
	flag.words[0] = 0;
	meet(r); /* as threads on one GPU: cudaFree() waits for the kernels of all ranks */
	spinUntil<<<1, 1, 0, r.stream>>>(flag.words);
	CUDA(cudaGetLastError());
	{
		Buffer buffer(r, 5000);
		Device device(r, 4, 4);
		ginErrorRecord_t record;
		CHECK(ginDevCommGetError(r.comm, &device.dc, &record));
		CHECK(ginMemAllocHost(r.comm, 10000, &host));
		CHECK(ginWindowRegister(r.comm, host, 10000, 0, &window));
		EXPECT(cudaStreamQuery(r.stream) == cudaErrorNotReady);
	}
	flag.words[0] = 1;
	CUDA(cudaStreamSynchronize(r.stream));
	meet(r); /* to unpin may wait */
	CHECK(ginWindowDeregister(r.comm, window));
	CHECK(ginMemFree(r.comm, host));
}

/* No call breaks a capture, not even one that watches all streams. */
static void callsLeaveCapturesAlone(Rank &r)
{
	cudaGraph_t graph;
	meet(r); /* as threads: no rank captures while another frees */
	CUDA(cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeGlobal));
	{
		Buffer buffer(r, 10000), host(r, 10000, ginMemAllocHost);
		Device device(r, 2, 2);
	}
	CUDA(cudaStreamEndCapture(r.stream, &graph));
	CUDA(cudaGraphDestroy(graph));
	meet(r);
}

static const Test tests[] = {
	{"memory of ginMemAlloc", ownMemory},
	{"memory of ginMemAllocHost", ownHostMemory},
	{"memory of cudaMalloc", cudaMallocMemory},
	{"memory of several pieces", memoryOfPieces},
	{"pinned memory", pinnedMemory},
	{"registered memory", registeredMemory},
	{"plain memory", plainMemory},
	{"managed memory", managedMemory},
	{"memory of a pool", poolMemory},
	{"memory of another GPU", memoryOfAnotherGpu},
	{"more than an allocation", beyondTheEnd},
	{"many windows", manyWindows},
	{"calls do not synchronise", callsDoNotSynchronise},
	{"calls leave captures alone", callsLeaveCapturesAlone},
};

static int run(const ginConfig_t *config)
{
	Rank r;
	rankOpen(r, config);
	if (r.device < 0) {
		printf("no GPU\n");
		return 77;
	}
	runTests(r, "gpu_memory", tests);
	rankClose(r);
	return 0;
}

int main(int argc, char **argv)
{
	setenv("GIN_LOG", "none", 0); /* errors are expected */
	return suiteMain(argc, argv, run);
}
#endif
