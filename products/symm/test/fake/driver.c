/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * driver.c - a CUDA driver for libgin-symm alone, beside which libgin has none
 *
 * The memory of its two GPUs is that of the host, and a call does its work at once. A call without
 * a context, or one that would break a capture, ends the process.
 */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#include "products/symm/lib/driver.h"

static int retained; /* its address is the context */
static int syncs, capturing;
static _Thread_local int depth, captureMode, refuses;

#pragma GCC visibility push(default)

void (*fakeKernel)(const struct symmCall *call);

int fakeSyncs(void)
{
	return __atomic_load_n(&syncs, __ATOMIC_RELAXED);
}

void fakeCapture(int is)
{
	__atomic_store_n(&capturing, is, __ATOMIC_RELAXED);
}

void fakeRefuse(int is)
{
	refuses = is;
}

static int checked(void)
{
	if (depth != 1 || captureMode != symmDriverRelaxed)
		abort();
	return 0;
}

static int sync(void)
{
	__atomic_fetch_add(&syncs, 1, __ATOMIC_RELAXED);
	return checked();
}

int cuInit(unsigned flags)
{
	return (int)flags;
}

int cuGetErrorString(int result, const char **out)
{
	*out = result ? "the driver of this test refuses" : "no error";
	return 0;
}

int cuDeviceGet(int *out, int ordinal)
{
	*out = ordinal;
	return ordinal > 1 ? 101 : 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
	(void)device;
	*context = &retained;
	return 0;
}

int cuCtxPushCurrent_v2(void *context)
{
	depth++;
	return context != &retained;
}

int cuCtxPopCurrent_v2(void **context)
{
	*context = &retained;
	return --depth;
}

int cuCtxSynchronize(void)
{
	return sync();
}

int cuThreadExchangeStreamCaptureMode(int *mode)
{
	int before = captureMode;

	captureMode = *mode;
	*mode = before;
	return 0;
}

int cuStreamIsCapturing(void *stream, int *status)
{
	(void)stream;
	*status = __atomic_load_n(&capturing, __ATOMIC_RELAXED);
	return checked();
}

int cuStreamCreate(void **stream, unsigned flags)
{
	*stream = &retained;
	return flags == symmDriverNonBlocking ? checked() : 1;
}

int cuStreamSynchronize(void *stream)
{
	(void)stream;
	return sync();
}

int cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
	*out = malloc(bytes);
	return flags ? 1 : checked();
}

/* Word by word, as kernels see it. */
static void store(symmAddress dst, const void *src)
{
	__atomic_store_n((uint32_t *)(uintptr_t)dst, *(const uint32_t *)src, __ATOMIC_RELAXED);
}

int cuMemcpyHtoDAsync_v2(symmAddress dst, const void *src, size_t bytes, void *stream)
{
	(void)stream;
	for (size_t i = 0; i < bytes; i += sizeof(uint32_t))
		store(dst + i, (const char *)src + i);
	return checked();
}

int cuMemcpy2DAsync_v2(const struct symmCopy *c, void *stream)
{
	(void)stream;
	if (c->srcType != symmDriverHost || c->dstType != symmDriverDevice || c->width != 4)
		abort();
	for (size_t row = 0; row < c->height; row++)
		store(c->dstDevice + row * c->dstPitch,
		      (const char *)c->srcHost + row * c->srcPitch);
	return checked();
}

int cuMemsetD8Async(symmAddress dst, unsigned char value, size_t bytes, void *stream)
{
	(void)stream;
	memset((void *)(uintptr_t)dst, value, bytes);
	return refuses ? 1 : checked();
}

int cuLibraryLoadData(void **out, const void *code, int *jitOptions, void **jitValues,
		      unsigned jitCount, int *options, void **values, unsigned count)
{
	(void)code, (void)jitOptions, (void)jitValues, (void)options, (void)values;
	*out = &retained;
	return jitCount || count ? 1 : checked();
}

static char nearKernel, farKernel;

int cuLibraryGetKernel(void **out, void *library, const char *name)
{
	(void)library;
	*out = strcmp(name, "ginSymmRunFar") ? &nearKernel : &farKernel;
	return strncmp(name, "ginSymmRun", 10) ? 500 : checked();
}

int cuKernelGetFunction(void **out, void *kernel)
{
	*out = kernel;
	return checked();
}

int cuLaunchKernel(void *function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,
		   unsigned blockY, unsigned blockZ, unsigned sharedBytes, void *stream,
		   void **parameters, void **extra)
{
	const struct symmCall *call = parameters[0];

	(void)stream;
	if ((function == &farKernel) != (call->dc != NULL))
		return 1;
	if (gridX * gridY * gridZ != 1 || blockX % 32 || blockY * blockZ != 1 || sharedBytes ||
	    extra)
		return 1;
	fakeKernel(call);
	return checked();
}
