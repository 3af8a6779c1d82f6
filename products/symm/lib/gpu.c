/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu.c - GPUs by the CUDA driver: memory, the kernel, and writes by a copy engine */
#include "symm.h"

#include <stdlib.h>

#include "driver.h"

#define DEVICES 64
#define FILL_WORDS 16384u

/* kernels.S: the fatbin; empty in a build without nvcc. */
extern const char symmFatbin[], symmFatbinEnd[];

struct symmGpu {
	const struct symmDriver *driver;
	int ordinal;
	void *context;	    /* the device's primary context */
	void *kernels[2];   /* for direct peers alone, and for others, too */
	void *stream;	    /* of this library */
	uint32_t *fills[2]; /* pinned: FILL_WORDS words that are 0, and 1 */
};

static struct symmGpu *gpus[DEVICES];
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int captureMode; /* of the thread, between enter and leave */

static ginResult_t failed(const struct symmGpu *gpu, const char *what, int result)
{
	const char *words = NULL;

	if (gpu->driver->getErrorString(result, &words) || !words)
		words = "unknown error";
	return symmFail(ginErrorCuda, "%s: %s", what, words);
}

#define DRIVER(gpu, call, ...)                                                                     \
	do {                                                                                       \
		int driverResult = (gpu)->driver->call(__VA_ARGS__);                               \
		if (driverResult)                                                                  \
			return failed(gpu, #call, driverResult);                                   \
	} while (0)

ginResult_t symmGpuEnter(const struct symmGpu *gpu)
{
	DRIVER(gpu, ctxPush, gpu->context);
	captureMode = symmDriverRelaxed;
	gpu->driver->exchangeCaptureMode(&captureMode);
	return ginSuccess;
}

void symmGpuLeave(const struct symmGpu *gpu)
{
	void *own;

	gpu->driver->exchangeCaptureMode(&captureMode);
	gpu->driver->ctxPop(&own);
}

/* Loads the kernels now: at a first launch CUDA would wait for running kernels. */
static ginResult_t loadKernels(struct symmGpu *gpu)
{
	static const char *const names[] = {"ginSymmRun", "ginSymmRunFar"};
	void *library, *function;

	if (&symmFatbinEnd[0] == &symmFatbin[0])
		return symmFail(ginErrorUnsupported,
				"this libgin-symm.so was built without nvcc and has no kernels for "
				"GPUs: build it where nvcc is on the PATH");
	DRIVER(gpu, libraryLoadData, &library, symmFatbin, NULL, NULL, 0, NULL, NULL, 0);
	for (int i = 0; i < 2; i++) {
		DRIVER(gpu, libraryGetKernel, &gpu->kernels[i], library, names[i]);
		DRIVER(gpu, kernelGetFunction, &function, gpu->kernels[i]);
		if (gpu->driver->funcLoad)
			DRIVER(gpu, funcLoad, function);
	}
	return ginSuccess;
}

static ginResult_t makeFills(struct symmGpu *gpu)
{
	for (uint32_t value = 0; value < 2; value++) {
		void *made;
		DRIVER(gpu, hostAlloc, &made, FILL_WORDS * sizeof(uint32_t), 0);
		gpu->fills[value] = made;
		for (uint32_t i = 0; i < FILL_WORDS; i++)
			gpu->fills[value][i] = value;
	}
	return ginSuccess;
}

static ginResult_t setUp(struct symmGpu *gpu, int ordinal)
{
	const char *why = NULL;
	ginResult_t result;
	int device;

	if (!(gpu->driver = symmDriverLoad(&why)))
		return symmFail(ginErrorUnsupported, "%s", why);
	gpu->ordinal = ordinal;
	DRIVER(gpu, deviceGet, &device, ordinal);
	DRIVER(gpu, primaryRetain, &gpu->context, device);
	if ((result = symmGpuEnter(gpu)))
		return result;
	int made = gpu->driver->streamCreate(&gpu->stream, symmDriverNonBlocking);
	result = made ? failed(gpu, "streamCreate", made) : loadKernels(gpu);
	if (!result)
		result = makeFills(gpu);
	symmGpuLeave(gpu);
	return result;
}

/* What a failure leaves in the context stays: the process ends, or runs without the GPU. */
static ginResult_t openNew(int ordinal, struct symmGpu **out)
{
	struct symmGpu *gpu = calloc(1, sizeof(*gpu));

	if (!gpu)
		return symmFail(ginErrorSystem, "no memory");
	ginResult_t result = setUp(gpu, ordinal);
	if (result) {
		free(gpu);
		return result;
	}
	*out = gpu;
	return ginSuccess;
}

ginResult_t symmGpuOpen(int ordinal, struct symmGpu **gpu)
{
	ginResult_t result = ginSuccess;

	if (ordinal < 0 || ordinal >= DEVICES)
		return symmFail(ginErrorInvalidArgument, "there is no GPU %d", ordinal);
	pthread_mutex_lock(&opening);
	if (!gpus[ordinal])
		result = openNew(ordinal, &gpus[ordinal]);
	*gpu = gpus[ordinal];
	pthread_mutex_unlock(&opening);
	return result;
}

ginResult_t symmGpuSync(struct symmGpu *gpu)
{
	ginResult_t result = symmGpuEnter(gpu);

	if (result)
		return result;
	int synced = gpu->driver->ctxSynchronize();
	symmGpuLeave(gpu);
	return synced ? failed(gpu, "cuCtxSynchronize", synced) : ginSuccess;
}

/* Zeros if `src` is NULL. */
static ginResult_t writeNow(struct symmGpu *gpu, void *dst, const void *src, size_t bytes)
{
	const struct symmDriver *driver = gpu->driver;
	symmAddress to = (uintptr_t)dst;
	ginResult_t result = symmGpuEnter(gpu);

	if (result)
		return result;
	int done = src ? driver->copy(to, src, bytes, gpu->stream)
		       : driver->clear(to, 0, bytes, gpu->stream);
	if (!done)
		done = driver->streamSynchronize(gpu->stream);
	symmGpuLeave(gpu);
	return done ? failed(gpu, src ? "copy" : "clear", done) : ginSuccess;
}

ginResult_t symmGpuClear(struct symmGpu *gpu, void *dst, size_t bytes)
{
	return writeNow(gpu, dst, NULL, bytes);
}

ginResult_t symmGpuWrite(struct symmGpu *gpu, void *dst, const void *src, size_t bytes)
{
	return writeNow(gpu, dst, src, bytes);
}

int symmGpuIsCapturing(struct symmGpu *gpu, void *stream)
{
	int status = 0;

	if (symmGpuEnter(gpu))
		return 0;
	int failed = gpu->driver->isCapturing(stream, &status);
	symmGpuLeave(gpu);
	return !failed && status == symmDriverCapturing;
}

static void *(*currentStream)(int device);

void ginSymmUseStreams(void *(*current)(int device))
{
	currentStream = current;
}

int symmIsCapturing(struct symmGpu *gpu)
{
	return gpu && currentStream && symmGpuIsCapturing(gpu, currentStream(gpu->ordinal));
}

ginResult_t symmGpuLaunch(struct symmGpu *gpu, const struct symmCall *call, void *stream,
			  int isWaited)
{
	void *parameters[] = {(void *)(uintptr_t)call};
	unsigned threads = (call->count + 31) / 32 * 32;
	ginResult_t result = symmGpuEnter(gpu);

	if (result)
		return result;
	threads = threads > 1024 ? 1024 : threads;
	int done = gpu->driver->launch(gpu->kernels[call->dc != NULL], 1, 1, 1, threads, 1, 1, 0,
				       stream, parameters, NULL);
	if (!done && isWaited)
		done = gpu->driver->streamSynchronize(stream);
	symmGpuLeave(gpu);
	return done ? failed(gpu, "the kernel of barrier and signals", done) : ginSuccess;
}

/* Pieces of at most FILL_WORDS words. The copy engine reads pinned memory: no kernel takes part. */
void symmGpuFill(struct symmGpu *gpu, void *dst, uint32_t value, size_t pitch, size_t rows)
{
	if (symmGpuEnter(gpu))
		return;
	for (size_t row = 0, some; row < rows; row += some) {
		symmAddress to = (uintptr_t)dst + row * pitch;
		some = rows - row < FILL_WORDS ? rows - row : FILL_WORDS;
		const struct symmCopy copy = {.srcType = symmDriverHost,
					      .srcHost = gpu->fills[value],
					      .srcPitch = sizeof(uint32_t),
					      .dstType = symmDriverDevice,
					      .dstDevice = to,
					      .dstPitch = pitch,
					      .width = sizeof(uint32_t),
					      .height = some};
		if (pitch == sizeof(uint32_t))
			gpu->driver->copy(to, gpu->fills[value], some * pitch, gpu->stream);
		else
			gpu->driver->copyRows(&copy, gpu->stream);
	}
	symmGpuLeave(gpu);
}
