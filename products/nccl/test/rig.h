/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rig.h - shared code of the tests of libgin-nccl. They use NCCL's words alone.
 *
 *	test --threads N	a thread for each rank makes its communicator
 *	test --group N		one thread makes all communicators in a group, then destroys them
 *	test --forks N		ranks are processes; HOSTS=2 divides them among two hosts
 *
 * One source for kernels and host threads. A kernel is a functor that every thread of a launch
 * runs.
 */
#ifndef GIN_NCCL_TEST_RIG_H
#define GIN_NCCL_TEST_RIG_H

#include <nccl.h>
#include <nccl_device.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

struct Rank {
	ncclComm_t comm;
	int rank, nRanks;
	bool gpu;
};

/* A failure ends the process: the other ranks see a dead rank. */
[[noreturn]] inline void stop(const char *file, int line, const char *what, const char *why)
{
	fprintf(stderr, "%s:%d: %s: %s\n", file, line, what, why);
	fflush(nullptr);
	_exit(1);
}

#define EXPECT(ok)                                                                                 \
	do {                                                                                       \
		if (!(ok))                                                                         \
			stop(__FILE__, __LINE__, #ok, "false");                                    \
	} while (0)

#define CHECK(call)                                                                                \
	do {                                                                                       \
		ncclResult_t checked = (call);                                                     \
		if (checked != ncclSuccess)                                                        \
			stop(__FILE__, __LINE__, #call, ncclGetLastError(nullptr));                \
	} while (0)

/* The call fails with this result, and the sentence contains `words`. */
#define EXPECT_FAILS(call, result, words)                                                          \
	do {                                                                                       \
		ncclResult_t failed = (call);                                                      \
		if (failed != (result) || !strstr(ncclGetLastError(nullptr), words))               \
			stop(__FILE__, __LINE__, ncclGetErrorString(failed),                       \
			     ncclGetLastError(nullptr));                                           \
	} while (0)

/* The arguments of all test kernels. */
struct Kernel {
	ncclDevComm dc;
	uint32_t *failedLine;
};

/* In a kernel: the line of a failure goes to the host. */
#define KERNEL_EXPECT(ok)                                                                          \
	do {                                                                                       \
		if (!(ok))                                                                         \
			*failedLine = __LINE__;                                                    \
	} while (0)

inline int gpuCount()
{
	int count = 0;
#ifdef __CUDACC__
	if (cudaGetDeviceCount(&count) != cudaSuccess)
		count = 0;
#endif
	return count;
}

inline void useGpuOf(int rank)
{
#ifdef __CUDACC__
	if (gpuCount())
		cudaSetDevice(rank % gpuCount());
#endif
	(void)rank;
}

/*
 * cudaMemcpy() may return before the copy has ended; streams that do not block do not wait for it.
 */
inline void copyBytes(void *to, const void *from, size_t bytes)
{
#ifdef __CUDACC__
	if (gpuCount()) {
		EXPECT(cudaMemcpy(to, from, bytes, cudaMemcpyDefault) == cudaSuccess);
		EXPECT(cudaStreamSynchronize(nullptr) == cudaSuccess);
		return;
	}
#endif
	memcpy(to, from, bytes);
}

#ifdef __CUDACC__
template <class Kernel> __global__ void runKernel(Kernel kernel)
{
	kernel();
}
#endif

template <class Kernel> void runOnHost(void *kernel)
{
	(*static_cast<Kernel *>(kernel))();
}

/* A word that kernels of this rank write and the host reads. */
inline uint32_t *newWord()
{
	uint32_t *word = nullptr;
#ifdef __CUDACC__
	if (gpuCount())
		EXPECT(cudaHostAlloc(reinterpret_cast<void **>(&word), 4, 0) == cudaSuccess);
#endif
	if (!word)
		word = static_cast<uint32_t *>(malloc(4));
	*word = 0;
	return word;
}

/* Runs the kernel on grid x block threads and waits; every KERNEL_EXPECT of it holds. */
template <class Kernel> void launch(const Rank &r, uint32_t grid, uint32_t block, Kernel kernel)
{
	static thread_local uint32_t *line = newWord();

	kernel.failedLine = line;
#ifdef __CUDACC__
	if (r.gpu) {
		cudaStream_t stream;
		EXPECT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
		runKernel<<<grid, block, 0, stream>>>(kernel);
		cudaError_t error = cudaGetLastError();
		if (error == cudaSuccess)
			error = cudaStreamSynchronize(stream);
		if (error != cudaSuccess)
			stop(__FILE__, __LINE__, "kernel", cudaGetErrorString(error));
		cudaStreamDestroy(stream);
	}
#endif
	if (!r.gpu)
		EXPECT(ginHostLaunch(grid, block, runOnHost<Kernel>, &kernel) == ginSuccess);
	if (*line) {
		char text[64];
		snprintf(text, sizeof(text), "line %u of rank %d", *line, r.rank);
		stop(__FILE__, __LINE__, "a kernel's expectation", text);
	}
}

/* Memory and its window. */
struct Buffer {
	const Rank &r;
	void *ptr;
	size_t bytes;
	ncclWindow_t window;

	Buffer(const Rank &rank, size_t size) : r(rank), bytes(size)
	{
		std::vector<char> zeros(size);
		CHECK(ncclMemAlloc(&ptr, bytes));
		copyBytes(ptr, zeros.data(), bytes);
		CHECK(ncclCommWindowRegister(r.comm, ptr, bytes, &window, NCCL_WIN_COLL_SYMMETRIC));
	}
	~Buffer()
	{
		CHECK(ncclCommWindowDeregister(r.comm, window));
		CHECK(ncclMemFree(ptr));
	}
	Buffer(const Buffer &) = delete;
};

struct Device {
	const Rank &r;
	ncclDevComm dc;

	Device(const Rank &rank, const ncclDevCommRequirements &want) : r(rank)
	{
		CHECK(ncclDevCommCreate(r.comm, &want, &dc));
	}
	~Device() { CHECK(ncclDevCommDestroy(r.comm, &dc)); }
	Device(const Device &) = delete;
};

/*
 * A stream for each rank: ranks that share a GPU share its null stream, on which one would wait for
 * the other.
 */
inline cudaStream_t streamOf(const Rank &r)
{
	static thread_local cudaStream_t stream = nullptr;
#ifdef __CUDACC__
	if (r.gpu && !stream)
		EXPECT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
#endif
	(void)r;
	return stream;
}

/* All ranks: by a small collective. */
inline void meet(const Rank &r)
{
	Buffer word(r, 64);
}

typedef void (*RankMain)(const Rank &);

inline Rank rankOf(ncclComm_t comm)
{
	Rank r = {comm, 0, 0, gpuCount() > 0};
	CHECK(ncclCommUserRank(comm, &r.rank));
	CHECK(ncclCommCount(comm, &r.nRanks));
	return r;
}

/* One rank from its start to its end. */
inline void liveAlone(const ncclUniqueId &id, int rank, int nRanks, RankMain run)
{
	ncclComm_t comm;
	useGpuOf(rank);
	CHECK(ncclCommInitRank(&comm, nRanks, id, rank));
	run(rankOf(comm));
	CHECK(ncclCommFinalize(comm));
	CHECK(ncclCommDestroy(comm));
}

inline void byThreads(int n, RankMain run)
{
	ncclUniqueId id;
	std::vector<std::thread> threads;
	CHECK(ncclGetUniqueId(&id));
	for (int r = 0; r < n; r++)
		threads.emplace_back([=] { liveAlone(id, r, n, run); });
	for (std::thread &thread : threads)
		thread.join();
}

inline void byGroup(int n, RankMain run)
{
	ncclUniqueId id;
	std::vector<ncclComm_t> comms(static_cast<size_t>(n));
	std::vector<std::thread> threads;
	CHECK(ncclGetUniqueId(&id));
	CHECK(ncclGroupStart());
	for (int r = 0; r < n; r++) {
		useGpuOf(r);
		CHECK(ncclCommInitRank(&comms[static_cast<size_t>(r)], n, id, r));
	}
	CHECK(ncclGroupEnd());
	for (int r = 0; r < n; r++)
		threads.emplace_back([=] {
			useGpuOf(r);
			run(rankOf(comms[static_cast<size_t>(r)]));
		});
	for (std::thread &thread : threads)
		thread.join();
	for (ncclComm_t comm : comms)
		CHECK(ncclCommDestroy(comm));
}

/* Consecutive ranks are on one host, as far as libgin knows. */
inline void moveToHost(int rank, int nRanks)
{
	const char *hosts = getenv("HOSTS");
	char name[2] = {'a', 0};

	if (!hosts)
		return;
	name[0] = static_cast<char>('a' + rank / (nRanks / atoi(hosts)));
	setenv("GIN_HOSTID", name, 1);
}

/* Rank 0 makes the id: libgin reads GIN_HOSTID once, so the parent calls nothing of it. */
inline void liveInChild(const int pipe[2], int rank, int nRanks, RankMain run)
{
	ncclUniqueId id;

	moveToHost(rank, nRanks);
	if (rank == 0) {
		CHECK(ncclGetUniqueId(&id));
		for (int r = 1; r < nRanks; r++)
			EXPECT(write(pipe[1], &id, sizeof(id)) == sizeof(id));
	}
	close(pipe[1]);
	if (rank)
		EXPECT(read(pipe[0], &id, sizeof(id)) == sizeof(id));
	liveAlone(id, rank, nRanks, run);
	exit(0);
}

inline void byForks(int n, RankMain run)
{
	std::vector<pid_t> children;
	int pipe[2], status;

	EXPECT(::pipe(pipe) == 0);
	for (int r = 0; r < n; r++) {
		children.push_back(fork());
		if (children.back() == 0)
			liveInChild(pipe, r, n, run);
	}
	close(pipe[1]);
	for (pid_t child : children) {
		waitpid(child, &status, 0);
		EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
}

inline int rigMain(int argc, char **argv, const char *name, RankMain run)
{
	const char *how = argc == 3 ? argv[1] : "--threads";
	const int n = argc == 3 ? atoi(argv[2]) : 2;

	if (!strcmp(how, "--group"))
		byGroup(n, run);
	else if (!strcmp(how, "--forks"))
		byForks(n, run);
	else
		byThreads(n, run);
	printf("%s: %d ranks on %s, %s\n", name, n, gpuCount() ? "GPUs" : "host threads", how + 2);
	return 0;
}

#endif
