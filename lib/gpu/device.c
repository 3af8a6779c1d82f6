/* SPDX-License-Identifier: BSD-3-Clause */
/* device.c - the GPU of a communicator, or none */
#include "device.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"

/* The device of the calling thread's current context, or -1. */
static int currentOrdinal(const struct cuda *cuda)
{
	cuContext context = NULL;
	cuDevice device;

	if (cuda->ctxGetCurrent(&context) || !context || cuda->ctxGetDevice(&device))
		return -1;
	return device; /* a device's handle is its ordinal */
}

static ginResult_t chooseOrdinal(const struct cuda *cuda, int wanted, int localRank, int *ordinal)
{
	int count = 0;
	cuResult result = cuda->deviceGetCount(&count);

	if (result || !count)
		return cudaFail(cuda, "cuDeviceGetCount", result);
	if (wanted >= count)
		return fail(ginErrorInvalidArgument, "config.device is %d, but there are %d GPUs",
			    wanted, count);
	*ordinal = wanted >= 0 ? wanted : currentOrdinal(cuda);
	if (*ordinal < 0)
		*ordinal = localRank % count;
	return ginSuccess;
}

const char *deviceUnusable(const struct cuda *cuda, cuDevice id)
{
	int vmm = 0, fd = 0, mode = 0;

	cuda->deviceGetAttribute(&vmm, cuHasVmm, id);
	cuda->deviceGetAttribute(&fd, cuHasPosixFd, id);
	cuda->deviceGetAttribute(&mode, cuComputeMode, id);
	if (!vmm || !fd)
		return "it has no virtual memory management that exports file descriptors";
	if (mode == cuComputeProhibited)
		return "its compute mode is prohibited: nvidia-smi --compute-mode=DEFAULT";
	return NULL;
}

static ginResult_t checkUsable(const struct device *d)
{
	const char *why = deviceUnusable(d->cuda, d->id);

	if (!why)
		return ginSuccess;
	return fail(ginErrorUnsupported, "GPU %d (%s): %s", d->ordinal, d->name, why);
}

/* Fills in the members that are useful but not required. */
static void locate(struct device *d)
{
	if (d->cuda->deviceGetAttribute(&d->numaNode, cuHostNuma, d->id))
		d->numaNode = -1;
	if (d->cuda->deviceGetPciBusId(d->pciBusId, sizeof(d->pciBusId), d->id))
		d->pciBusId[0] = '\0';
}

static ginResult_t openGpu(struct device *d, int wanted, int localRank)
{
	const struct cuda *cuda = d->cuda;
	ginResult_t result = chooseOrdinal(cuda, wanted, localRank, &d->ordinal);

	if (result != ginSuccess)
		return result;
	cuResult error = cuda->deviceGet(&d->id, d->ordinal);
	if (!error)
		error = cuda->deviceGetUuid(&d->uuid, d->id);
	if (!error)
		error = cuda->deviceGetName(d->name, sizeof(d->name), d->id);
	if (error)
		return cudaFail(cuda, "cuDeviceGet", error);
	result = checkUsable(d);
	if (result != ginSuccess)
		return result;
	locate(d);
	/* Never released: the memory that pinned.c keeps is pinned in this context. */
	error = cuda->primaryRetain(&d->context, d->id);
	return error ? cudaFail(cuda, "cuDevicePrimaryCtxRetain", error) : ginSuccess;
}

ginResult_t deviceOpen(struct device *d, int wanted, int localRank)
{
	const char *why = "";
	const struct cuda *cuda = wanted == GIN_DEVICE_NONE ? NULL : cudaLoad(&why);

	*d = (struct device){.cuda = cuda, .ordinal = GIN_DEVICE_NONE, .numaNode = -1};
	if (wanted < GIN_DEVICE_NONE)
		return fail(ginErrorInvalidArgument,
			    "config.device is %d: must be a CUDA ordinal, GIN_DEVICE_AUTO or "
			    "GIN_DEVICE_NONE",
			    wanted);
	if (cuda)
		return openGpu(d, wanted, localRank);
	if (wanted >= 0)
		return fail(ginErrorInvalidArgument, "config.device is %d: %s", wanted, why);
	snprintf(d->name, sizeof(d->name), "host threads");
	return ginSuccess;
}

ginResult_t deviceEnter(const struct device *d, struct deviceScope *scope)
{
	if (!d->cuda)
		return ginSuccess;
	cuResult result = d->cuda->ctxPush(d->context);
	if (result)
		return cudaFail(d->cuda, "cuCtxPushCurrent", result);
	scope->captureMode = cuCaptureRelaxed;
	d->cuda->exchangeCaptureMode(&scope->captureMode);
	return ginSuccess;
}

void deviceLeave(const struct device *d, const struct deviceScope *scope)
{
	cuContext popped;
	int mode = scope->captureMode;

	if (!d->cuda)
		return;
	d->cuda->exchangeCaptureMode(&mode);
	d->cuda->ctxPop(&popped);
}

/* libgin's own stream of a device. Creating one takes many milliseconds: it is kept forever. */
struct deviceStream {
	cuContext context;
	cuStream stream;
	struct deviceStream *next;
};

static struct deviceStream *streams;
static pthread_mutex_t streamsLock = PTHREAD_MUTEX_INITIALIZER;

static cuResult addStream(const struct device *d, struct deviceStream **out)
{
	struct deviceStream *made = malloc(sizeof(*made));
	cuResult result =
		made ? d->cuda->streamCreate(&made->stream, cuNonBlocking) : cuOutOfMemory;

	if (result) {
		free(made);
		return result;
	}
	made->context = d->context;
	made->next = streams;
	*out = streams = made;
	return 0;
}

static cuResult streamOf(const struct device *d, cuStream *stream)
{
	cuResult result = 0;

	pthread_mutex_lock(&streamsLock);
	struct deviceStream *own = streams;
	while (own && own->context != d->context)
		own = own->next;
	if (!own)
		result = addStream(d, &own);
	pthread_mutex_unlock(&streamsLock);
	if (!result)
		*stream = own->stream;
	return result;
}

static ginResult_t copyAndWait(const struct device *d, char *dst, const void *src, size_t bytes)
{
	cuStream stream;
	cuResult result = streamOf(d, &stream);

	if (result)
		return cudaFail(d->cuda, "cuStreamCreate", result);
	result = d->cuda->copyToDevice((cuPtr)(uintptr_t)dst, src, bytes, stream);
	if (!result)
		result = d->cuda->streamSynchronize(stream);
	return result ? cudaFail(d->cuda, "cuMemcpyHtoDAsync", result) : ginSuccess;
}

/*
 * The driver copies pieces of this size without an SM; waiting kernels may hold all SMs. Zeros are
 * copied too, because a fill of 64 KiB is a kernel.
 */
static ginResult_t writeInPieces(const struct device *d, char *dst, const char *src, size_t bytes)
{
	static const char zeros[65536];
	ginResult_t result = ginSuccess;

	for (size_t at = 0; at < bytes && result == ginSuccess; at += sizeof(zeros)) {
		size_t left = bytes - at;
		result = copyAndWait(d, dst + at, src ? src + at : zeros,
				     left < sizeof(zeros) ? left : sizeof(zeros));
	}
	return result;
}

ginResult_t deviceWrite(const struct device *d, void *dst, const void *src, size_t bytes)
{
	if (d->cuda)
		return writeInPieces(d, dst, src, bytes);
	if (src)
		memcpy(dst, src, bytes);
	else
		memset(dst, 0, bytes);
	return ginSuccess;
}

static ginResult_t readAndWait(const struct device *d, void *dst, const void *src, size_t bytes)
{
	cuStream stream;
	cuResult result = streamOf(d, &stream);

	if (result)
		return cudaFail(d->cuda, "cuStreamCreate", result);
	result = d->cuda->copy((cuPtr)(uintptr_t)dst, (cuPtr)(uintptr_t)src, bytes, stream);
	if (!result)
		result = d->cuda->streamSynchronize(stream);
	return result ? cudaFail(d->cuda, "cuMemcpyAsync", result) : ginSuccess;
}

ginResult_t deviceRead(const struct device *d, void *dst, const void *src, size_t bytes)
{
	if (d->cuda)
		return readAndWait(d, dst, src, bytes);
	memcpy(dst, src, bytes);
	return ginSuccess;
}
