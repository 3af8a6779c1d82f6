/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/gpu/cuda.h"

enum { INVALID_VALUE = 1, INVALID_CONTEXT = 201, ROOM = 1 << 24, PAGE = 4096 };

static char *forGpu, *forCpu;
static size_t used;
static __thread int depth; /* of this thread's contexts */
static struct {
	void *to;
	const void *from;
	size_t bytes;
} waiting;
static unsigned long copies;
static char context, stream;

#pragma GCC visibility push(default)

static void makeMemory(void)
{
	int fd = memfd_create("fake GPU", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, ROOM))
		abort();
	forGpu = mmap(NULL, ROOM, PROT_NONE, MAP_SHARED, fd, 0);
	forCpu = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (forGpu == MAP_FAILED || forCpu == MAP_FAILED)
		abort();
}

void *fakeGpuMemory(size_t bytes)
{
	if (!forGpu)
		makeMemory();
	char *at = forGpu + used;
	used += (bytes + PAGE - 1) / PAGE * PAGE;
	if (used > ROOM)
		abort();
	return at;
}

void *fakeGpuThere(const void *address)
{
	return forCpu + ((const char *)address - forGpu);
}

unsigned long fakeGpuCopies(void)
{
	return copies;
}

static int isGpus(cuPtr at, size_t bytes)
{
	cuPtr first = (cuPtr)(uintptr_t)forGpu;

	return forGpu && at >= first && at - first < used && bytes <= used - (at - first);
}

cuResult cuPointerGetAttribute(void *out, int which, cuPtr ptr)
{
	const int values[] = {[cuPointerMemoryType] = cuMemoryIsDevice,
			      [cuPointerIsManaged] = 0,
			      [cuPointerOrdinal] = 0};

	if (!isGpus(ptr, 1) || (size_t)which >= sizeof(values) / sizeof(*values))
		return INVALID_VALUE;
	memcpy(out, &values[which], sizeof(values[which]));
	return 0;
}

cuResult cuDeviceGet(cuDevice *out, int ordinal)
{
	*out = ordinal;
	return ordinal ? INVALID_VALUE : 0;
}

cuResult cuDevicePrimaryCtxRetain(cuContext *out, cuDevice device)
{
	*out = &context;
	return device ? INVALID_VALUE : 0;
}

cuResult cuCtxPushCurrent_v2(cuContext ctx)
{
	depth++;
	return ctx == &context ? 0 : INVALID_CONTEXT;
}

cuResult cuCtxPopCurrent_v2(cuContext *out)
{
	*out = &context;
	return depth-- > 0 ? 0 : INVALID_CONTEXT;
}

cuResult cuThreadExchangeStreamCaptureMode(int *mode)
{
	static __thread int now;
	int before = now;

	now = *mode;
	*mode = before;
	return 0;
}

cuResult cuStreamCreate(cuStream *out, unsigned flags)
{
	*out = &stream;
	return flags == cuNonBlocking && depth ? 0 : INVALID_VALUE;
}

cuResult cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
	(void)flags;
	*out = malloc(bytes);
	return *out && depth ? 0 : INVALID_VALUE;
}

static cuResult begin(void *to, const void *from, size_t bytes, cuPtr gpus, const void *on)
{
	if (!depth || on != &stream)
		return INVALID_CONTEXT;
	if (!isGpus(gpus, bytes) || waiting.bytes)
		return INVALID_VALUE;
	waiting.to = to;
	waiting.from = from;
	waiting.bytes = bytes;
	return 0;
}

cuResult cuMemcpyDtoHAsync_v2(void *dst, cuPtr src, size_t bytes, cuStream on)
{
	return begin(dst, fakeGpuThere((const void *)(uintptr_t)src), bytes, src, on);
}

cuResult cuMemcpyHtoDAsync_v2(cuPtr dst, const void *src, size_t bytes, cuStream on)
{
	return begin(fakeGpuThere((const void *)(uintptr_t)dst), src, bytes, dst, on);
}

cuResult cuStreamSynchronize(cuStream on)
{
	if (!depth || on != &stream)
		return INVALID_CONTEXT;
	memcpy(waiting.to, waiting.from, waiting.bytes);
	waiting.bytes = 0;
	copies++;
	return 0;
}
