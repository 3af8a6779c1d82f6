/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * measure.cuh - calls of an ep in graphs, timed by events
 */
#ifndef GIN_BENCH_EP_MEASURE_CUH
#define GIN_BENCH_EP_MEASURE_CUH

#include <gin.h>
#include <gin_ep.h>

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <vector>

#define GIN(call) need((call) == ginSuccess, #call, ginGetLastError(), __LINE__)
#define EP(call) need((call) == ginSuccess, #call, ginEpGetLastError(), __LINE__)
#define CUDA(call)                                                                                 \
	do {                                                                                       \
		cudaError_t cudaResult = (call);                                                   \
		need(cudaResult == cudaSuccess, #call, cudaGetErrorString(cudaResult), __LINE__);  \
	} while (0)

inline void need(bool ok, const char *what, const char *why, int line)
{
	if (ok)
		return;
	fprintf(stderr, "line %d: %s: %s\n", line, what, why);
	exit(1);
}

enum { CALLS = 20, LAUNCHES = 5 };

inline ginEpTensor_t tensorOf(void *data, int type, std::vector<int64_t> size)
{
	ginEpTensor_t t = GIN_EP_NO_TENSOR;
	int64_t step = 1;
	t.data = data;
	t.type = type;
	t.nDims = (int)size.size();
	for (size_t i = size.size(); i-- > 0; step *= size[i]) {
		t.size[i] = size[i];
		t.stride[i] = step;
	}
	return t;
}

/* A rank, its ep and memory, which it frees. */
struct Measured {
	ginComm_t comm;
	int rank, nRanks, device;
	ginEp_t ep = nullptr;
	cudaStream_t stream;
	std::vector<void *> taken;

	explicit Measured(ginComm_t c) : comm(c)
	{
		GIN(ginCommRank(comm, &rank));
		GIN(ginCommSize(comm, &nRanks));
		GIN(ginCommDevice(comm, &device));
		need(device >= 0, "a GPU", "this measurement needs GPUs", __LINE__);
		CUDA(cudaSetDevice(device));
		CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	}

	~Measured()
	{
		EP(ginEpDestroy(ep));
		for (void *at : taken)
			GIN(ginMemFree(comm, at));
	}

	void *take(size_t bytes)
	{
		void *at = nullptr;
		GIN(ginMemAlloc(comm, bytes, &at));
		CUDA(cudaMemset(at, 0, bytes));
		taken.push_back(at);
		return at;
	}

	/*
	 * Uploaded: the first launch of a rank must not wait for kernels of another rank that
	 * shares the GPU, because they wait for this launch.
	 */
	template <class Body> cudaGraphExec_t capture(Body body)
	{
		cudaGraph_t graph;
		cudaGraphExec_t exec;
		CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
		body();
		CUDA(cudaStreamEndCapture(stream, &graph));
		CUDA(cudaGraphInstantiate(&exec, graph, 0));
		CUDA(cudaGraphDestroy(graph));
		CUDA(cudaGraphUpload(exec, stream));
		CUDA(cudaStreamSynchronize(stream));
		return exec;
	}

	double meanOfRanks(double mine)
	{
		std::vector<double> all(nRanks);
		double sum = 0;
		GIN(ginCommAllgather(comm, &mine, all.data(), sizeof(mine)));
		for (double one : all)
			sum += one;
		return sum / nRanks;
	}

	static double median(std::vector<double> v)
	{
		std::sort(v.begin(), v.end());
		return v[v.size() / 2];
	}

	/* Microseconds of one call of the body, by events around graphs of CALLS calls. */
	template <class Body> double time(Body body)
	{
		cudaGraphExec_t exec = capture([&] {
			for (int i = 0; i < CALLS; i++)
				body();
		});
		cudaEvent_t a, b;
		std::vector<double> times;
		CUDA(cudaEventCreate(&a));
		CUDA(cudaEventCreate(&b));
		for (int i = 0; i < LAUNCHES + 1; i++) {
			float ms = 0;
			GIN(ginCommAllgather(comm, nullptr, nullptr, 0));
			CUDA(cudaGraphLaunch(exec, stream)); /* the ranks come together in it */
			CUDA(cudaEventRecord(a, stream));
			CUDA(cudaGraphLaunch(exec, stream));
			CUDA(cudaEventRecord(b, stream));
			CUDA(cudaStreamSynchronize(stream));
			check();
			CUDA(cudaEventElapsedTime(&ms, a, b));
			if (i)
				times.push_back(ms * 1000 / CALLS);
		}
		const double mean = meanOfRanks(median(times));
		/* The kernels of all ranks have ended. */
		CUDA(cudaGraphExecDestroy(exec));
		CUDA(cudaEventDestroy(a));
		CUDA(cudaEventDestroy(b));
		return mean;
	}

	void check()
	{
		ginEpRecord_t record = GIN_EP_RECORD_INIT;
		EP(ginEpGetAsyncError(ep, &record));
		need(!record.valid, "a kernel", ginEpGetLastError(), __LINE__);
	}
};

#endif
