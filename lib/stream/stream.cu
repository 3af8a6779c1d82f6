// SPDX-License-Identifier: BSD-3-Clause
// stream.cu - the device calls that a host puts on a stream
//
// A failure is in the error record of the device communicator; the stream goes on.
#include "stream.h"

#define GIN_CALLS 1 // compiles in a third of the time
#include <gin_device.cuh>

// The source may change when the stream goes on.
GIN_FN ginResult_t putAndFlush(const Gin &gin, const streamJob &job)
{
	const auto put = [&](auto remote) {
		return gin.put(job.peer, job.dst, job.dstOff, job.src, job.srcOff, job.bytes,
			       remote);
	};
	ginResult_t result = job.value ? put(GinSignalAdd{job.signal, job.value}) : put(GinNone{});

	return result == ginSuccess ? gin.wait(gin.flushAsync(job.peer)) : result;
}

// Each wait has its own value, also where waits of several streams meet.
GIN_FN ginResult_t takeSignals(const Gin &gin, const streamJob &job)
{
	const uint64_t before = ginTicketAdd(gin.signalShadow(job.signal), job.value);

	return gin.waitSignal(job.signal, before + job.value);
}

GIN_FN void runJob(const streamJob &job)
{
	const Gin gin(*job.dc, job.context);

	if (job.step == streamPut)
		putAndFlush(gin, job);
	else if (job.step == streamSignal)
		gin.signal(job.peer, GinSignalAdd{job.signal, job.value});
	else
		takeSignals(gin, job);
}

#ifdef __CUDACC__
static __global__ void jobKernel(const __grid_constant__ streamJob job)
{
	runJob(job);
}

// The host reads `now` when it has seen the answer.
static __global__ void clockKernel(streamClock *clock)
{
	const uint64_t begin = ginNow();

	for (uint32_t i = 1; i <= STREAM_CLOCK_ROUNDS; i++) {
		while (ginLoad<ginAcquire, ginScopeSystem>(&clock->asked) != i)
			if (ginNow() - begin > 1000000000)
				return;
		clock->now = ginNow();
		ginStore<ginRelease, ginScopeSystem>(&clock->answered, i);
	}
}

static const char *reason(cudaError_t error)
{
	return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

static const int kernels = 1;

static const char *load()
{
	cudaFuncAttributes attributes;

	return reason(cudaFuncGetAttributes(&attributes, jobKernel));
}

static const char *launch(const struct streamJob *job, void *stream)
{
	jobKernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(*job);
	return reason(cudaGetLastError());
}

static const char *readClock(struct streamClock *clock, void *stream)
{
	clockKernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(clock);
	return reason(cudaGetLastError());
}
#else
static const int kernels = 0;

static const char *load()
{
	return "it has no kernels: build libgin with nvcc";
}

static const char *launch(const struct streamJob *, void *)
{
	return load();
}

static const char *readClock(struct streamClock *, void *)
{
	return load();
}
#endif

static void run(const struct streamJob *job)
{
	runJob(*job);
}

extern "C" __attribute__((visibility("default"))) const struct streamCalls ginStreamCalls = {
	sizeof(struct streamCalls), kernels, load, launch, readClock, run};
