/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu.c - registers GPU memory with the network */
#include "gpu.h"

#include <stdio.h>

#include "backends/rdma/memory.h"

#define PAGE 4096u

/* Is there GPU memory, and may the network be tried? `why`: why not. */
static int isTried(const struct device *d, const struct fabricCalls *calls, char *why)
{
	const char *reason = !d || !d->cuda	    ? "there is no GPU"
			     : !calls->gpuMemoryAdd ? "the network reaches host memory only"
			     : paramChoice(paramBounce) == bounceAlways ? "GIN_BOUNCE=always"
									: "";

	snprintf(why, FABRIC_WHY, "%s", reason);
	return !*reason;
}

static int addMemory(const struct device *d, const struct fabricCalls *calls, struct fabric *fabric,
		     void *at, size_t bytes, struct fabricRegion **region, struct fabricKey *key,
		     const char **how, char *why)
{
	struct rdmaMemory memory = dmabufOf(d, at, bytes);
	char reason[FABRIC_WHY] = "";
	int result = calls->gpuMemoryAdd(fabric, &memory, region, key, how, reason);

	if (result != fabricOk)
		snprintf(why, FABRIC_WHY, "%s, no nvidia-peermem: %.110s",
			 memory.dmabuf < 0 ? "no dma-buf" : "dma-buf refused", reason);
	dmabufClose(&memory);
	return result;
}

int networkGpuAdd(const struct device *d, const struct fabricCalls *calls, struct fabric *fabric,
		  const struct memory *memory, struct fabricRegion **region, struct fabricKey *key,
		  char *why)
{
	const char *how;

	return addMemory(d, calls, fabric, memory->address, memory->bytes, region, key, &how, why);
}

int networkGpuOpen(const struct device *d, const struct fabricCalls *calls, struct fabric *fabric,
		   struct networkGpu *gpu, char *why)
{
	struct fabricKey key;
	void *page = NULL;

	*gpu = (struct networkGpu){.page = NULL};
	if (memoryAlloc(d, PAGE, &page) != ginSuccess) {
		snprintf(why, FABRIC_WHY, "%.150s", ginGetLastError());
		return -1;
	}
	if (addMemory(d, calls, fabric, page, PAGE, &gpu->region, &key, &gpu->how, why)) {
		memoryFree(d, page);
		return -1;
	}
	gpu->page = page;
	return 0;
}

void networkGpuClose(const struct device *d, const struct fabricCalls *calls,
		     struct networkGpu *gpu)
{
	if (!gpu->page)
		return;
	calls->memoryRemove(gpu->region);
	memoryFree(d, gpu->page);
	gpu->page = NULL;
}

int networkGpuTry(const struct device *d, const struct fabricCalls *calls,
		  const struct fabricWanted *want, char *how)
{
	struct fabric *fabric;
	struct networkGpu gpu;

	if (!isTried(d, calls, how) || calls->open(want, &fabric, how))
		return 0;
	int quiet = errorQuiet(1);
	int reaches = !networkGpuOpen(d, calls, fabric, &gpu, how);
	errorQuiet(quiet);
	if (reaches)
		snprintf(how, FABRIC_WHY, "%s", gpu.how);
	networkGpuClose(d, calls, &gpu);
	calls->close(fabric);
	return reaches;
}
