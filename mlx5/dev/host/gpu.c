/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/gpu/cuda.h"
#include "options.h"
#include "violation.h"

#define CU_MEMHOSTALLOC_PORTABLE 1

enum { GPUS = 16, BOUNCE = 1 << 16 };

/* The program is ending: the driver, or the GPU's context, goes before this device does. */
enum { DEINITIALIZED = 4, CONTEXT_IS_DESTROYED = 709 };

/* Errors of kernels, which every later call of the process returns: 700 to 719. */
enum { KERNEL_FAILED = 700, KERNEL_FAILED_LAST = 719 };

#define GPU_CALLS(X)                                                                               \
	X(pointerAttribute, "cuPointerGetAttribute", (void *out, int which, cuPtr ptr))            \
	X(deviceGet, "cuDeviceGet", (cuDevice * out, int ordinal))                                 \
	X(primaryRetain, "cuDevicePrimaryCtxRetain", (cuContext * out, cuDevice device))           \
	X(ctxPush, "cuCtxPushCurrent_v2", (cuContext ctx))                                         \
	X(ctxPop, "cuCtxPopCurrent_v2", (cuContext * out))                                         \
	X(exchangeCaptureMode, "cuThreadExchangeStreamCaptureMode", (int *mode))                   \
	X(streamCreate, "cuStreamCreate", (cuStream * out, unsigned flags))                        \
	X(streamSynchronize, "cuStreamSynchronize", (cuStream stream))                             \
	X(hostAlloc, "cuMemHostAlloc", (void **out, size_t bytes, unsigned flags))                 \
	X(copyToHost, "cuMemcpyDtoHAsync_v2",                                                      \
	  (void *dst, cuPtr src, size_t bytes, cuStream stream))                                   \
	X(copyToDevice, "cuMemcpyHtoDAsync_v2",                                                    \
	  (cuPtr dst, const void *src, size_t bytes, cuStream stream))

static struct {
#define GPU_MEMBER(name, symbol, args) cuResult(*name) args;
	GPU_CALLS(GPU_MEMBER)
#undef GPU_MEMBER
	bool isLoaded;
} driver;

/* Copies go through pinned memory: others may wait for kernels. */
static struct gpu {
	cuContext context;
	cuStream stream;
	char *bounce;
} gpus[GPUS];

struct range {
	uint64_t first, end;
	int ordinal, users;
};

static struct range *ranges;
static size_t rangeCount, rangeRoom;

/* If the program has loaded it. One that has not may do so later. */
static bool load(void)
{
	void *library = driver.isLoaded ? NULL : dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

	if (!library)
		return driver.isLoaded;
	driver.isLoaded = true;
#define GPU_LOAD(name, symbol, args)                                                               \
	*(void **)&driver.name = dlsym(library, symbol);                                           \
	driver.isLoaded &= driver.name != NULL;
	GPU_CALLS(GPU_LOAD)
#undef GPU_LOAD
	return driver.isLoaded;
}

static void expect(cuResult result, const char *what, uint64_t address)
{
	if (!result || result == DEINITIALIZED || result == CONTEXT_IS_DESTROYED)
		return;
	violationAlone("GPU memory at 0x%llx: %s: CUDA error %d; %s", (unsigned long long)address,
		       what, result,
		       result >= KERNEL_FAILED && result <= KERNEL_FAILED_LAST
			       ? "a kernel of this process has failed"
			       : "is it freed, and still registered?");
}

/* On whose GPU that is, or -1. Memory that moves between GPU and host is the host's. */
static int ordinalOf(uint64_t address)
{
	uint64_t managed = 0; /* a bool, of whatever size */
	int type = 0, ordinal = -1;

	if (driver.pointerAttribute(&type, cuPointerMemoryType, address) ||
	    type != cuMemoryIsDevice)
		return -1;
	if (!driver.pointerAttribute(&managed, cuPointerIsManaged, address) && managed)
		return -1;
	if (driver.pointerAttribute(&ordinal, cuPointerOrdinal, address) || ordinal >= GPUS)
		return -1;
	return ordinal;
}

/* A program may be capturing a stream meanwhile: these calls have nothing to do with it. */
static int enter(const struct gpu *gpu)
{
	int mode = cuCaptureRelaxed;

	expect(driver.ctxPush(gpu->context), "cuCtxPushCurrent", 0);
	driver.exchangeCaptureMode(&mode);
	return mode;
}

static void leave(int mode)
{
	cuContext context;

	driver.exchangeCaptureMode(&mode);
	driver.ctxPop(&context);
}

static bool gpuOpen(int ordinal)
{
	struct gpu *gpu = &gpus[ordinal];
	void *bounce = NULL;
	cuDevice device;

	if (gpu->bounce)
		return true;
	if (driver.deviceGet(&device, ordinal) || driver.primaryRetain(&gpu->context, device))
		return false;
	int mode = enter(gpu);
	if (!driver.streamCreate(&gpu->stream, cuNonBlocking) &&
	    !driver.hostAlloc(&bounce, BOUNCE, CU_MEMHOSTALLOC_PORTABLE))
		gpu->bounce = bounce;
	leave(mode);
	return gpu->bounce != NULL;
}

static struct range *find(uint64_t address)
{
	for (size_t i = 0; i < rangeCount; i++)
		if (address >= ranges[i].first && address < ranges[i].end)
			return &ranges[i];
	return NULL;
}

static struct range *findSame(uint64_t first, uint64_t end)
{
	for (size_t i = 0; i < rangeCount; i++)
		if (ranges[i].first == first && ranges[i].end == end)
			return &ranges[i];
	return NULL;
}

static void add(struct range range)
{
	struct range *same = findSame(range.first, range.end);

	if (same) {
		same->users++;
		return;
	}
	if (rangeCount == rangeRoom) {
		rangeRoom = rangeRoom ? 2 * rangeRoom : 64;
		ranges = realloc(ranges, rangeRoom * sizeof(*ranges));
		if (!ranges)
			noMemory("a list of GPU memory");
	}
	ranges[rangeCount++] = range;
}

enum gpu_range gpuTake(uint64_t address, uint64_t bytes)
{
	int ordinal;

	if (!bytes || !load())
		return GPU_NO_MEMORY;
	ordinal = ordinalOf(address);
	if (ordinal < 0)
		return GPU_NO_MEMORY;
	if (!options.peermem) {
		trace("memory of GPU %d at 0x%llx is refused: there is no nvidia-peermem "
		      "(nopeermem)",
		      ordinal, (unsigned long long)address);
		return GPU_REFUSED;
	}
	if (ordinalOf(address + bytes - 1) != ordinal || !gpuOpen(ordinal)) {
		trace("%llu bytes at 0x%llx are not all GPU %d's, or its driver refuses",
		      (unsigned long long)bytes, (unsigned long long)address, ordinal);
		return GPU_REFUSED;
	}
	add((struct range){address, address + bytes, ordinal, 1});
	return GPU_MEMORY;
}

void gpuForget(uint64_t address, uint64_t bytes)
{
	struct range *range = findSame(address, address + bytes);

	if (range && --range->users == 0)
		*range = ranges[--rangeCount];
}

bool gpuHas(uint64_t address)
{
	return rangeCount && find(address);
}

void gpuRead(void *to, uint64_t from, size_t bytes)
{
	struct gpu *gpu = &gpus[find(from)->ordinal];
	int mode = enter(gpu);

	for (size_t done = 0; done < bytes; done += BOUNCE) {
		size_t now = bytes - done < BOUNCE ? bytes - done : BOUNCE;

		expect(driver.copyToHost(gpu->bounce, from + done, now, gpu->stream),
		       "cuMemcpyDtoHAsync", from);
		expect(driver.streamSynchronize(gpu->stream), "cuStreamSynchronize", from);
		memcpy((char *)to + done, gpu->bounce, now);
	}
	leave(mode);
}

void gpuWrite(uint64_t to, const void *from, size_t bytes)
{
	struct gpu *gpu = &gpus[find(to)->ordinal];
	int mode = enter(gpu);

	for (size_t done = 0; done < bytes; done += BOUNCE) {
		size_t now = bytes - done < BOUNCE ? bytes - done : BOUNCE;

		memcpy(gpu->bounce, (const char *)from + done, now);
		expect(driver.copyToDevice(to + done, gpu->bounce, now, gpu->stream),
		       "cuMemcpyHtoDAsync", to);
		expect(driver.streamSynchronize(gpu->stream), "cuStreamSynchronize", to);
	}
	leave(mode);
}

bool gpuExchange(uint64_t at, size_t bytes, uint64_t *seen, uint64_t value)
{
	uint64_t now = 0;

	gpuRead(&now, at, bytes);
	if (now != *seen) {
		*seen = now;
		return false;
	}
	gpuWrite(at, &value, bytes);
	return true;
}
