/* SPDX-License-Identifier: BSD-3-Clause */
/* pinning.h - a GPU whose driver can only pin host memory */
#ifndef GIN_TEST_PINNING_H
#define GIN_TEST_PINNING_H

#include "lib/gpu/device.h"
#include "expect.h"

#define MOST_PINNED 256

static struct pinned {
	char *at;
	size_t span;
} pinnedNow[MOST_PINNED];
static int pinnedCount;	    /* pinned ranges */
static int pinnedEver;	    /* pinned ranges, ever */
static int pinningRefuses;  /* its answer */
static size_t pinningMoves; /* the GPU's address minus the CPU's */

/* The pinned range around `at`, or a free entry for NULL. */
static inline struct pinned *pinnedAround(const char *at)
{
	for (int i = 0; i < MOST_PINNED; i++)
		if (at ? at >= pinnedNow[i].at && at < pinnedNow[i].at + pinnedNow[i].span
		       : !pinnedNow[i].span)
			return &pinnedNow[i];
	return NULL;
}

/* Bytes that are pinned from `at` on as one, or 0. */
static inline size_t pinnedSpan(void *at)
{
	const struct pinned *found = pinnedAround(at);

	return found && found->at == at ? found->span : 0;
}

static inline cuResult pinningRegister(void *at, size_t span, unsigned flags)
{
	struct pinned *place = pinnedAround(NULL);

	if (pinningRefuses)
		return pinningRefuses;
	EXPECT_EQUAL(flags, cuRegisterPortable | cuRegisterMapped);
	EXPECT(place != NULL && !pinnedAround(at) && !pinnedAround((char *)at + span - 1));
	*place = (struct pinned){at, span};
	pinnedCount++;
	pinnedEver++;
	return 0;
}

static inline cuResult pinningUnregister(void *at)
{
	EXPECT(pinnedSpan(at) != 0);
	*pinnedAround(at) = (struct pinned){NULL, 0};
	pinnedCount--;
	return 0;
}

static inline cuResult pinningDevicePointer(cuPtr *out, void *at, unsigned flags)
{
	EXPECT_EQUAL(flags, 0);
	*out = (uintptr_t)at + pinningMoves;
	return !pinnedAround(at);
}

static inline cuResult pinningAttribute(void *out, int which, cuPtr at)
{
	cuPtr kernels = at + pinningMoves;

	if (!pinnedAround((char *)(uintptr_t)at))
		return 1;
	if (which == cuPointerMemoryType)
		*(unsigned *)out = cuMemoryIsHost;
	else if (which == cuPointerDevicePointer)
		memcpy(out, &kernels, sizeof(kernels));
	else
		return 1;
	return 0;
}

/* No memory is mapped by cuMemMap(). */
static inline cuResult pinningRetain(cuAllocation *out, void *at)
{
	(void)out;
	(void)at;
	return 1;
}

static inline cuResult pinningDeviceAttribute(int *out, int which, cuDevice device)
{
	(void)which;
	(void)device;
	*out = 0;
	return 0;
}

static inline cuResult pinningString(cuResult result, const char **out)
{
	*out = "made up";
	return result < 0;
}

static const struct cuda pinningDriver = {.hostRegister = pinningRegister,
					  .hostUnregister = pinningUnregister,
					  .hostDevicePointer = pinningDevicePointer,
					  .pointerAttribute = pinningAttribute,
					  .allocationRetain = pinningRetain,
					  .deviceGetAttribute = pinningDeviceAttribute,
					  .getErrorString = pinningString};
static const struct device pinningGpu = {.cuda = &pinningDriver, .ordinal = 0};
static const struct device hostThreads = {.ordinal = GIN_DEVICE_NONE};

#endif
