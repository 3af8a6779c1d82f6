/* SPDX-License-Identifier: BSD-3-Clause */
/* export.c - from a rank's memory to its offer */
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "direct.h"

struct exportKey {
	uint64_t kind, base, span, id;
};

struct directExport {
	struct exportKey key; /* first: the tree compares keys */
	int windows;
	cuIpcHandle ipc;
};

static int compareKeys(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct exportKey));
}

static struct directExport *addExport(struct direct *direct, const struct exportKey *key)
{
	struct directExport *own = calloc(1, sizeof(*own));

	if (!own)
		return NULL;
	own->key = *key;
	if (tsearch(own, &direct->exports, compareKeys))
		return own;
	free(own);
	return NULL;
}

static struct directExport *holdExport(struct direct *direct, const struct memory *memory)
{
	struct exportKey key = {memory->kind, (uintptr_t)memory->base, memory->span, memory->id};
	struct directExport *const *found = tfind(&key, &direct->exports, compareKeys);
	struct directExport *own = found ? *found : addExport(direct, &key);

	if (own)
		own->windows++;
	return own;
}

static void dropExport(struct direct *direct, struct directExport *own)
{
	if (!own || --own->windows)
		return;
	tdelete(own, &direct->exports, compareKeys);
	free(own);
}

/* The first direct peer in another process, or -1. */
static int firstStranger(const struct backendHost *host)
{
	for (int r = 0; r < host->nRanks; r++)
		if (directIsPeer(host, r) && !directSameProcess(host, r))
			return r;
	return -1;
}

static int hasPeers(const struct backendHost *host)
{
	for (int r = 0; r < host->nRanks; r++)
		if (r != host->rank && directIsPeer(host, r))
			return 1;
	return 0;
}

/* Memory that this process alone has is of no use to a direct peer in another. */
static ginResult_t checkPrivate(const struct backendHost *host, const struct memory *memory)
{
	int stranger = firstStranger(host);

	if (stranger < 0)
		return ginSuccess;
	return fail(ginErrorInvalidArgument,
		    "ptr %p is %s, which rank %d, on the direct route, does not reach: use %s, or "
		    "GIN_WINDOW_LOCAL for a source",
		    (void *)memory->address, memory->what, stranger,
		    host->device->cuda ? "ginMemAlloc() or cudaMalloc()" : "ginMemAlloc()");
}

static ginResult_t getIpc(const struct backendHost *host, const struct memory *memory,
			  cuIpcHandle *ipc)
{
	if (firstStranger(host) < 0)
		return ginSuccess;
	cuResult result = host->device->cuda->ipcGet(ipc, (cuPtr)(uintptr_t)memory->base);
	if (!result)
		return ginSuccess;
	return fail(ginErrorInvalidArgument,
		    "ptr %p is GPU memory that the driver does not share between processes: use "
		    "ginMemAlloc() or cudaMalloc(), or GIN_WINDOW_LOCAL for a source",
		    (void *)memory->address);
}

static ginResult_t getHandle(const struct device *d, const struct memory *memory,
			     struct directWindow *window)
{
	cuAllocation allocation;
	cuResult result = d->cuda->allocationRetain(&allocation, memory->base);

	if (result)
		return cudaFail(d->cuda, "cuMemRetainAllocationHandle", result);
	result = d->cuda->exportHandle(&window->fd, allocation, cuPosixFd, 0);
	d->cuda->allocationRelease(allocation);
	window->ownsFd = !result;
	return result ? cudaFail(d->cuda, "cuMemExportToShareableHandle", result) : ginSuccess;
}

/* What the first window in an allocation takes along for the peers. */
static ginResult_t export(const struct backendHost *host, const struct memory *memory,
			  struct directWindow *window)
{
	if (!hasPeers(host))
		return ginSuccess;
	if (memory->kind == memoryShared)
		window->fd = memory->fd;
	if (memory->kind == memoryVmm)
		return getHandle(host->device, memory, window);
	if (memory->kind == memoryIpc)
		return getIpc(host, memory, &window->own->ipc);
	return ginSuccess;
}

ginResult_t directOffer(struct direct *direct, const struct memory *memory,
			struct directOffer *offer, struct directWindow *window)
{
	ginResult_t result = ginSuccess;

	*offer = (struct directOffer){.kind = memory->kind,
				      .ordinal = direct->host->device->ordinal,
				      .base = (uintptr_t)memory->base,
				      .span = memory->span,
				      .id = memory->id};
	if (memory->kind == memoryNone)
		return ginSuccess;
	offer->offset = (uint64_t)(memory->address - memory->base);
	if (memory->kind == memoryPrivate)
		return checkPrivate(direct->host, memory);
	window->own = holdExport(direct, memory);
	if (!window->own)
		return fail(ginErrorSystem, "no memory");
	offer->isFirst = window->own->windows == 1;
	if (offer->isFirst)
		result = export(direct->host, memory, window);
	offer->ipc = window->own->ipc;
	return result;
}

void directUnoffer(struct direct *direct, struct directWindow *window)
{
	if (window->ownsFd)
		close(window->fd);
	dropExport(direct, window->own);
}
