/* SPDX-License-Identifier: BSD-3-Clause */
/* driver.c - the CUDA driver, by dlopen */
#include "driver.h"

#include <pthread.h>
#include <string.h>

#include "gin.h"
#include "lib/gpu/driver_calls.h"

static struct ncclDriver calls;
static int isLoaded;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
	static const struct driverCall table[] = {NCCL_DRIVER_CALLS(DRIVER_CALL)};

	isLoaded = !driverCallsLoad("libgin-nccl", table, sizeof(table) / sizeof(table[0])) &&
		   !calls.init(0);
}

const struct ncclDriver *ncclDriverLoad(void)
{
	pthread_once(&once, load);
	return isLoaded ? &calls : NULL;
}

int ncclDriverCurrent(void)
{
	const struct ncclDriver *cuda = ncclDriverLoad();
	void *context = NULL;
	int ordinal = GIN_DEVICE_AUTO;

	if (!cuda || cuda->ctxGetCurrent(&context) || !context || cuda->ctxGetDevice(&ordinal))
		return GIN_DEVICE_AUTO;
	return ordinal;
}

/* Fills with zeros if `from` is NULL. The context is current. */
static int writeNow(const struct ncclDriver *cuda, void *memory, const void *from, size_t bytes)
{
	const cuAddress to = (cuAddress)(uintptr_t)memory;
	void *stream;

	if (cuda->streamCreate(&stream, ncclDriverNonBlocking))
		return -1;
	int failed = from ? cuda->copy(to, (cuAddress)(uintptr_t)from, bytes, stream)
			  : cuda->fill(to, 0, bytes, stream);
	failed |= cuda->streamSynchronize(stream);
	cuda->streamDestroy(stream);
	return failed ? -1 : 0;
}

/*
 * The calls of this thread must not break a capture of a stream, which another thread may have
 * begun.
 */
static int writeOn(int device, void *memory, const void *from, size_t bytes)
{
	const struct ncclDriver *cuda = ncclDriverLoad();
	int mode = ncclDriverRelaxed, result = -1;
	void *context;

	if (!cuda || cuda->primaryRetain(&context, device))
		return -1;
	if (!cuda->ctxPush(context)) {
		cuda->exchangeCaptureMode(&mode);
		result = writeNow(cuda, memory, from, bytes);
		cuda->exchangeCaptureMode(&mode);
		cuda->ctxPop(&context);
	}
	cuda->primaryRelease(device);
	return result;
}

int ncclDriverClear(int device, void *memory, size_t bytes)
{
	if (device >= 0)
		return writeOn(device, memory, NULL, bytes);
	memset(memory, 0, bytes);
	return 0;
}

int ncclDriverWrite(int device, void *memory, const void *from, size_t bytes)
{
	if (device >= 0)
		return writeOn(device, memory, from, bytes);
	memcpy(memory, from, bytes);
	return 0;
}
