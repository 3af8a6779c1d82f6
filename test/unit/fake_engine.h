/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_engine.h - a CUDA driver for the proxy's streams: each stream makes its copies in order,
 * late, when engineStep() lets it
 *
 * "GPU memory" is this process's memory. A copy reads its source when it is made; a copy from
 * memory that is not pinned reads it at the call, as with a driver.
 */
#ifndef GIN_TEST_FAKE_ENGINE_H
#define GIN_TEST_FAKE_ENGINE_H

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/gpu/cuda.h"

#include "expect.h"

#define ENGINE_STREAMS 16
#ifndef ENGINE_ROOM
#define ENGINE_ROOM 4096u
#endif

struct engineOp {
	char *to;
	const char *from; /* NULL: `value` */
	size_t bytes;
	char value[32];
};

struct engineStream {
	uint64_t made, sent;
	struct engineOp op[ENGINE_ROOM];
};

static struct {
	struct engineStream *stream[ENGINE_STREAMS];
	int streams, pins, pinsFail;
	uint64_t copies, random;
	int fail;	      /* copies are refused */
	int isFull, noDmabuf; /* of the GPU's memory */
	int allocations;
} fakeEngine;

static inline uint32_t engineChance(uint32_t below)
{
	fakeEngine.random = fakeEngine.random * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(fakeEngine.random >> 33) % below;
}

static inline cuResult engineStreamCreate(cuStream *out, unsigned flags)
{
	EXPECT(fakeEngine.streams < ENGINE_STREAMS && flags == cuNonBlocking);
	fakeEngine.stream[fakeEngine.streams] = calloc(1, sizeof(struct engineStream));
	*out = fakeEngine.stream[fakeEngine.streams++];
	return 0;
}

static inline cuResult engineAdd(cuStream stream, const struct engineOp *op)
{
	struct engineStream *s = stream;

	if (fakeEngine.fail)
		return 719;
	EXPECT(s->sent - s->made < ENGINE_ROOM);
	s->op[s->sent++ % ENGINE_ROOM] = *op;
	return 0;
}

static inline void engineDo(struct engineStream *s)
{
	const struct engineOp *op = &s->op[s->made++ % ENGINE_ROOM];

	memcpy(op->to, op->from ? op->from : op->value, op->bytes);
}

static inline cuResult engineSynchronize(cuStream stream)
{
	struct engineStream *s = stream;

	while (s->made != s->sent)
		engineDo(s);
	return 0;
}

static inline cuResult engineCopy(cuPtr to, cuPtr from, size_t bytes, cuStream stream)
{
	const struct engineOp op = {(char *)(uintptr_t)to, (char *)(uintptr_t)from, bytes, ""};

	fakeEngine.copies++;
	return engineAdd(stream, &op);
}

static inline cuResult engineValue(cuPtr to, const void *value, size_t bytes, cuStream stream)
{
	struct engineOp op = {(char *)(uintptr_t)to, NULL, bytes, ""};

	memcpy(op.value, value, bytes);
	return engineAdd(stream, &op);
}

static inline cuResult engineWrite32(cuStream stream, cuPtr to, uint32_t value, unsigned flags)
{
	EXPECT(to % 4 == 0 && !flags);
	return engineValue(to, &value, 4, stream);
}

static inline cuResult engineWrite64(cuStream stream, cuPtr to, uint64_t value, unsigned flags)
{
	EXPECT(to % 8 == 0 && !flags);
	return engineValue(to, &value, 8, stream);
}

static inline cuResult engineStreamDestroy(cuStream stream)
{
	(void)stream; /* its number is not used again */
	return 0;
}

static inline cuResult enginePin(void *ptr, size_t bytes, unsigned flags)
{
	(void)ptr, (void)bytes, (void)flags;
	return ++fakeEngine.pins > fakeEngine.pinsFail && fakeEngine.pinsFail ? cuOutOfMemory : 0;
}

static inline cuResult engineUnpin(void *ptr)
{
	(void)ptr;
	return 0;
}

static inline cuResult enginePointer(cuPtr *out, void *ptr, unsigned flags)
{
	(void)flags;
	*out = (cuPtr)(uintptr_t)ptr;
	return 0;
}

static inline cuResult engineWords(cuResult result, const char **out)
{
	*out = result == cuOutOfMemory ? "out of memory" : "the test refuses";
	return 0;
}

static inline cuResult engineAttribute(int *out, int which, cuDevice device)
{
	(void)which, (void)device;
	*out = 1;
	return 0;
}

static inline cuResult engineGranularity(size_t *out, const cuAllocationProp *prop, int which)
{
	(void)prop, (void)which;
	*out = 4096;
	return 0;
}

static inline cuResult engineAllocate(cuAllocation *out, size_t bytes, const cuAllocationProp *prop,
				      unsigned long long flags)
{
	(void)bytes, (void)prop, (void)flags;
	*out = 0;
	return fakeEngine.isFull ? cuOutOfMemory : 0;
}

static inline cuResult engineRelease(cuAllocation allocation)
{
	(void)allocation;
	return 0;
}

static inline cuResult engineReserve(cuPtr *out, size_t bytes, size_t align, cuPtr at,
				     unsigned long long flags)
{
	(void)align, (void)at, (void)flags;
	*out = (cuPtr)(uintptr_t)aligned_alloc(4096, bytes);
	fakeEngine.allocations++;
	return 0;
}

static inline cuResult engineUnreserve(cuPtr at, size_t bytes)
{
	(void)bytes;
	free((void *)(uintptr_t)at);
	fakeEngine.allocations--;
	return 0;
}

static inline cuResult engineMap(cuPtr at, size_t bytes, size_t offset, cuAllocation allocation,
				 unsigned long long flags)
{
	(void)at, (void)bytes, (void)offset, (void)allocation, (void)flags;
	return 0;
}

static inline cuResult engineUnmap(cuPtr at, size_t bytes)
{
	(void)at, (void)bytes;
	return 0;
}

static inline cuResult engineAccess(cuPtr at, size_t bytes, const cuAccess *access, size_t count)
{
	(void)at, (void)bytes, (void)access, (void)count;
	return 0;
}

/* A descriptor that stands for a dma-buf. */
static inline cuResult engineHandle(void *out, cuPtr at, size_t bytes, int type,
				    unsigned long long flags)
{
	(void)at, (void)bytes, (void)type, (void)flags;
	*(int *)out = fakeEngine.noDmabuf ? -1 : open("/dev/null", O_RDONLY | O_CLOEXEC);
	return fakeEngine.noDmabuf ? 801 : 0;
}

static const struct cuda fakeCuda = {.deviceGetAttribute = engineAttribute,
				     .granularity = engineGranularity,
				     .allocationCreate = engineAllocate,
				     .allocationRelease = engineRelease,
				     .reserve = engineReserve,
				     .unreserve = engineUnreserve,
				     .map = engineMap,
				     .unmap = engineUnmap,
				     .setAccess = engineAccess,
				     .addressHandle = engineHandle,
				     .getErrorString = engineWords,
				     .streamCreate = engineStreamCreate,
				     .streamSynchronize = engineSynchronize,
				     .streamDestroy = engineStreamDestroy,
				     .copyToDevice = engineValue,
				     .copy = engineCopy,
				     .streamWrite32 = engineWrite32,
				     .streamWrite64 = engineWrite64,
				     .hostRegister = enginePin,
				     .hostUnregister = engineUnpin,
				     .hostDevicePointer = enginePointer};

/* Each stream makes some of its copies. */
static inline void engineStep(void)
{
	for (int i = 0; i < fakeEngine.streams; i++) {
		struct engineStream *s = fakeEngine.stream[i];
		for (uint32_t n = engineChance(6); n && s->made != s->sent; n--)
			engineDo(s);
	}
}

#endif
