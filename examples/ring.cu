// SPDX-License-Identifier: BSD-3-Clause
// ring - every rank puts bytes to its right neighbour and waits for those of its left one
//
// One source, kernel and host function: on GPUs when there are any, else on host threads.
//   nvcc -std=c++17 -arch=native ring.cu -o ring -lgin     (or g++ -std=c++17 -x c++ ring.cu ...)
//   mpirun -n 4 ./ring
#include <gin.h>
#include <gin_device.cuh>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vector>

static const size_t sizes[] = {0, 1, 8, 1000, 4096, 65536, 1 << 20};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), ROUNDS = 100, LEAD = 16 };

#define CHECK(call)                                                                                \
	do {                                                                                       \
		if ((call) != ginSuccess) {                                                        \
			fprintf(stderr, "%s\n", ginGetLastError());                                \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

// What every thread of the kernel, or every host thread, runs: a block of one warp or more.
struct Ring {
	ginDevComm dc;
	ginWindow_t inbox, outbox;
	size_t offset, bytes;
	uint64_t arrived; // puts that the left neighbour has made before
	uint64_t *nanoseconds;
	ginResult_t *result;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		int right = static_cast<int>((dc.rank + 1) % dc.nRanks);
		ginResult_t status = ginSuccess;
		uint64_t start = ginNow();

		for (uint64_t round = 1; round <= ROUNDS && status == ginSuccess; round++) {
			status = gin.put(right, inbox, offset, outbox, offset, bytes,
					 GinSignalInc{0}, GinNone{}, GinCta{});
			if (status == ginSuccess)
				status = gin.waitSignal(0, arrived + round, GinCta{});
		}
		if (ginThreadIndex() == 0) {
			*nanoseconds = ginNow() - start;
			*result = status;
		}
	}
};

#ifdef __CUDACC__
__global__ void ringKernel(Ring ring)
{
	ring();
}
#endif

static void ringHost(void *ring)
{
	(*static_cast<Ring *>(ring))();
}

// Memory for results that both the host and the kernel reach.
static void *resultMemory(int device, size_t bytes)
{
	void *ptr = calloc(1, bytes);
#ifdef __CUDACC__
	if (device >= 0 && cudaHostAlloc(&ptr, bytes, cudaHostAllocDefault) != cudaSuccess)
		exit(1);
#endif
	(void)device;
	return ptr;
}

static void launch(int device, Ring ring)
{
	if (device < 0) {
		CHECK(ginHostLaunch(1, GIN_HOST_WARP, ringHost, &ring));
		return;
	}
#ifdef __CUDACC__
	ringKernel<<<1, 256>>>(ring);
	if (cudaDeviceSynchronize() != cudaSuccess) {
		fprintf(stderr, "the kernel failed: %s\n", cudaGetErrorString(cudaGetLastError()));
		exit(1);
	}
#endif
}

static void copy(int device, void *dst, const void *src, size_t bytes)
{
#ifdef __CUDACC__
	if (device >= 0) {
		if (cudaMemcpy(dst, src, bytes, cudaMemcpyDefault) != cudaSuccess)
			exit(1);
		return;
	}
#endif
	(void)device;
	memcpy(dst, src, bytes);
}

// Byte i of what a rank sends; 0x5a stands where nothing should arrive.
static unsigned char pattern(int rank, size_t i)
{
	return static_cast<unsigned char>(i * 7 + i / 251 + static_cast<size_t>(rank) * 31 + 1);
}

// Aligned, with at least LEAD bytes between two.
static size_t offsetOf(int index)
{
	size_t offset = LEAD;
	for (int i = 0; i < index; i++)
		offset += (sizes[i] + 2 * LEAD - 1) / LEAD * LEAD;
	return offset;
}

static size_t countWrong(const std::vector<unsigned char> &inbox, int left)
{
	size_t wrong = 0, at = 0;
	for (int s = 0; s <= SIZES; s++) {
		for (size_t end = s < SIZES ? offsetOf(s) : inbox.size(); at < end; at++)
			wrong += inbox[at] != 0x5a;
		for (size_t i = 0; s < SIZES && i < sizes[s]; i++, at++)
			wrong += inbox[at] != pattern(left, at);
	}
	return wrong;
}

struct Ranks {
	ginComm_t comm;
	int rank, nRanks, device;
};

static Ranks openRanks()
{
	Ranks r;
	CHECK(ginCommInit(nullptr, &r.comm));
	CHECK(ginCommRank(r.comm, &r.rank));
	CHECK(ginCommSize(r.comm, &r.nRanks));
	CHECK(ginCommDevice(r.comm, &r.device));
#ifdef __CUDACC__
	if (r.device >= 0 && cudaSetDevice(r.device) != cudaSuccess)
		exit(1);
#else
	if (r.device >= 0) {
		fprintf(stderr, "ring was built without nvcc: it runs on host threads only, "
				"try CUDA_VISIBLE_DEVICES= ./ring\n");
		exit(1);
	}
#endif
	return r;
}

static void printRoutes(const Ranks &r)
{
	for (int peer = 0; peer < r.nRanks; peer++) {
		ginPeerInfo_t info = GIN_PEER_INFO_INIT;
		CHECK(ginCommQueryPeer(r.comm, peer, &info));
		printf("rank %d -> rank %d (host %s, %s): %s: %s\n", r.rank, peer, info.host,
		       info.device, info.backend, info.why);
	}
	fflush(stdout);
}

// Memory that holds `bytes`, registered by all ranks together.
static void *registerCopy(const Ranks &r, const std::vector<unsigned char> &bytes,
			  ginWindow_t *window)
{
	void *ptr;
	CHECK(ginMemAlloc(r.comm, bytes.size(), &ptr));
	copy(r.device, ptr, bytes.data(), bytes.size());
	CHECK(ginWindowRegister(r.comm, ptr, bytes.size(), 0, window));
	return ptr;
}

// Every size has its own place in the windows, so that no round has to wait for a reader.
static void runSizes(const Ranks &r, const ginDevComm &dc, ginWindow_t inbox, ginWindow_t outbox)
{
	uint64_t *nanoseconds = static_cast<uint64_t *>(resultMemory(r.device, sizeof(uint64_t)));
	ginResult_t *result = static_cast<ginResult_t *>(resultMemory(r.device, sizeof(*result)));

	if (r.rank == 0)
		printf("%10s %14s\n", "bytes", "us per put");
	for (int s = 0; s < SIZES; s++) {
		launch(r.device, {dc, inbox, outbox, offsetOf(s), sizes[s],
				  static_cast<uint64_t>(s) * ROUNDS, nanoseconds, result});
		if (*result != ginSuccess) {
			fprintf(stderr, "rank %d: %s\n", r.rank, ginGetErrorString(*result));
			exit(1);
		}
		double us = static_cast<double>(*nanoseconds) / 1e3 / ROUNDS;
		if (r.rank == 0)
			printf("%10zu %14.2f\n", sizes[s], us);
	}
}

int main()
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginWindow_t inbox, outbox;
	ginDevComm dc;
	Ranks r = openRanks();
	printRoutes(r);

	std::vector<unsigned char> bytes(offsetOf(SIZES), 0x5a);
	void *in = registerCopy(r, bytes, &inbox);
	for (size_t i = 0; i < bytes.size(); i++)
		bytes[i] = pattern(r.rank, i);
	void *out = registerCopy(r, bytes, &outbox);
	CHECK(ginDevCommCreate(r.comm, &want, &dc));
	runSizes(r, dc, inbox, outbox);

	copy(r.device, bytes.data(), in, bytes.size());
	size_t wrong = countWrong(bytes, (r.rank + r.nRanks - 1) % r.nRanks);
	printf("rank %d of %d on %s: %s\n", r.rank, r.nRanks,
	       r.device < 0 ? "host threads" : "a GPU",
	       wrong ? "WRONG BYTES" : "all bytes verified");
	CHECK(ginDevCommDestroy(r.comm, &dc));
	CHECK(ginWindowDeregister(r.comm, inbox));
	CHECK(ginWindowDeregister(r.comm, outbox));
	CHECK(ginMemFree(r.comm, in));
	CHECK(ginMemFree(r.comm, out));
	CHECK(ginCommDestroy(r.comm));
	return wrong != 0;
}
