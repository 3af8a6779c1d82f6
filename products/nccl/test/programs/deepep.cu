/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deepep.cu - runs kernels of DeepEP V2, unchanged, between two ranks
 *
 * Stands in for DeepEP's Python side: two threads are two ranks, on devices 0 and 1, with window,
 * workspace and device communicator as DeepEP makes them.
 *
 *	barrier_impl	over NVLink pointers and over ncclGin: no rank leaves before the other is in
 *	pp_send_impl, pp_recv_impl	tensors in both directions at once; every byte is compared
 *
 * DeepEP polls signals by _ginHandle, so it needs the route direct or gdaki. The barrier over
 * NVLink pointers is left out on gdaki.
 */
#include <deep_ep/impls/barrier.cuh>
#include <deep_ep/impls/pp_send_recv.cuh>

#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

#define CUDA(call)                                                                                 \
	do {                                                                                       \
		cudaError_t error_ = (call);                                                       \
		if (error_ != cudaSuccess) {                                                       \
			printf("FAILED: %s: %s\n", #call, cudaGetErrorString(error_));             \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)
#define NCCL(call)                                                                                 \
	do {                                                                                       \
		if ((call) != ncclSuccess) {                                                       \
			printf("FAILED: %s: %s\n", #call, ncclGetLastError(nullptr));              \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

using namespace deep_ep::elastic;

static constexpr int nRanks = 2, sms = 2, threads = 512, senders = 8, sharedBytes = 200000;
static constexpr int64_t timeout = 10000000000;
static constexpr int64_t tensorBytes = 1 << 20;
static constexpr int inFlight = 2, tensors = 8;

static pthread_barrier_t met;
static ncclUniqueId id;

struct Rank {
	int rank;
	ncclComm_t comm;
	ncclWindow_t window;
	ncclDevComm_t dc;
	cudaStream_t stream;
	char *memory, *buffer, *x, *host; /* x: on the device; host: pinned; one tensor each */
	int peer() const { return !rank; }
};

static void open(Rank &r)
{
	ncclDevCommRequirements_t want = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
	const size_t workspace = (layout::WorkspaceLayout::get_num_bytes() + 4095) / 4096 * 4096;
	const size_t bytes = workspace + 4 * inFlight * tensorBytes;

	CUDA(cudaSetDevice(r.rank));
	NCCL(ncclCommInitRank(&r.comm, nRanks, id, r.rank));
	NCCL(ncclMemAlloc(reinterpret_cast<void **>(&r.memory), bytes));
	CUDA(cudaMemset(r.memory, 0, bytes));
	CUDA(cudaMalloc(&r.x, tensorBytes));
	CUDA(cudaMallocHost(&r.host, tensorBytes));
	CUDA(cudaStreamCreateWithFlags(&r.stream, cudaStreamNonBlocking));
	CUDA(cudaDeviceSynchronize());
	NCCL(ncclCommWindowRegister(r.comm, r.memory, bytes, &r.window, NCCL_WIN_STRICT_ORDERING));
	r.buffer = r.memory + workspace;
	want.ginContextCount = 4;
	want.ginExclusiveContexts = true;
	want.ginQueueDepth = deep_ep::kGinQPDepth;
	want.ginSignalCount = nRanks + 2 * 2;
	want.ginConnectionType = NCCL_GIN_CONNECTION_FULL;
	NCCL(ncclDevCommCreate(r.comm, &want, &r.dc));
}

/* All blocks of a grid run at once: the kernels synchronise the grid. */
template <class... Args> static void launch(const Rank &r, void (*kernel)(Args...), int blocks,
					    int width, int shared,
					    std::type_identity_t<Args>... args)
{
	void *all[] = {&args...};

	CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
	CUDA(cudaLaunchCooperativeKernel(reinterpret_cast<void *>(kernel), blocks, width, all,
					 static_cast<size_t>(shared), r.stream));
}

/* In turn, one rank is 20 ms late: the other must not leave before it is in. */
template <bool isNvlink> static bool barriers(Rank &r)
{
	bool waited = true;

	for (int i = 0; i < 10; i++) {
		pthread_barrier_wait(&met);
		if (i % nRanks == r.rank)
			usleep(20000);
		auto start = std::chrono::steady_clock::now();
		launch(r, barrier_impl<isNvlink, sms, threads, 1, nRanks, timeout, false>, sms,
		       threads, 0, r.dc, r.window, r.memory, 0, r.rank);
		CUDA(cudaStreamSynchronize(r.stream));
		auto took = std::chrono::steady_clock::now() - start;
		waited &= i % nRanks == r.rank || took > std::chrono::milliseconds(15);
	}
	return waited;
}

static char byteOf(int rank, int tensor, int64_t at)
{
	return static_cast<char>(rank * 89 + tensor * 37 + at * 7 + at / 251);
}

static void fill(Rank &r, int tensor)
{
	for (int64_t i = 0; i < tensorBytes; i++)
		r.host[i] = byteOf(r.rank, tensor, i);
	CUDA(cudaMemcpyAsync(r.x, r.host, tensorBytes, cudaMemcpyHostToDevice, r.stream));
}

static bool isOf(Rank &r, int rank, int tensor)
{
	CUDA(cudaMemcpyAsync(r.host, r.x, tensorBytes, cudaMemcpyDeviceToHost, r.stream));
	CUDA(cudaStreamSynchronize(r.stream));
	for (int64_t i = 0; i < tensorBytes; i++)
		if (r.host[i] != byteOf(rank, tensor, i))
			return false;
	return true;
}

static bool tensorsPass(Rank &r)
{
	bool right = true;

	for (int i = 0; i < tensors; i++) {
		pthread_barrier_wait(&met);
		fill(r, i);
		launch(r, pp_send_impl<senders, nRanks, sharedBytes, timeout>, senders, 32,
		       sharedBytes, r.dc, r.window, r.x, tensorBytes, r.buffer, r.memory, r.rank,
		       r.peer(), tensorBytes, inFlight);
		CUDA(cudaStreamSynchronize(r.stream));
		CUDA(cudaMemsetAsync(r.x, 0, tensorBytes, r.stream));
		launch(r, pp_recv_impl<senders, nRanks, sharedBytes, timeout>, senders, 32,
		       sharedBytes, r.dc, r.window, r.x, tensorBytes, r.buffer, r.memory, r.rank,
		       r.peer(), tensorBytes, inFlight);
		right &= isOf(r, r.peer(), i);
	}
	return right;
}

/* Do both ranks have NVLink pointers to each other? */
static bool isOneDomain(const Rank &r)
{
	ncclCommProperties_t properties = NCCL_COMM_PROPERTIES_INITIALIZER;

	NCCL(ncclCommQueryProperties(r.comm, &properties));
	return properties.nLsaTeams == 1;
}

static void report(const Rank &r, const char *what, bool good)
{
	printf("rank %d: %s: %s\n", r.rank, what, good ? "PASSED" : "FAILED");
	fflush(stdout);
}

static void *body(void *arg)
{
	Rank &r = *static_cast<Rank *>(arg);

	open(r);
	if (isOneDomain(r))
		report(r, "barrier_impl, NVLink", barriers<true>(r));
	report(r, "barrier_impl, ncclGin", barriers<false>(r));
	report(r, "pp_send_impl and pp_recv_impl", tensorsPass(r));
	pthread_barrier_wait(&met);
	NCCL(ncclDevCommDestroy(r.comm, &r.dc));
	NCCL(ncclCommWindowDeregister(r.comm, r.window));
	NCCL(ncclCommDestroy(r.comm));
	return nullptr;
}

int main()
{
	Rank rank[nRanks] = {};
	pthread_t thread[nRanks];

	NCCL(ncclGetUniqueId(&id));
	pthread_barrier_init(&met, nullptr, nRanks);
	for (int i = 0; i < nRanks; i++) {
		rank[i].rank = i;
		pthread_create(&thread[i], nullptr, body, &rank[i]);
	}
	for (pthread_t &t : thread)
		pthread_join(t, nullptr);
	return 0;
}
