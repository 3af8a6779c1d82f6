/* SPDX-License-Identifier: BSD-3-Clause */
/* export.c - makes a rank's offer from its memory */
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

struct exportKey {
	uint64_t kind, base, span, id, cpuOnly;
};

struct peermemExport {
	struct exportKey key; /* first: the tree compares keys */
	int windows;
	cuIpcHandle ipc;
};

static int compareKeys(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct exportKey));
}

static struct peermemExport *addExport(struct peermem *peermem, const struct exportKey *key)
{
	struct peermemExport *own = calloc(1, sizeof(*own));

	if (!own)
		return NULL;
	own->key = *key;
	if (tsearch(own, &peermem->exports, compareKeys))
		return own;
	free(own);
	return NULL;
}

static struct peermemExport *holdExport(struct peermem *peermem, const struct memory *memory)
{
	struct exportKey key = {memory->kind, (uintptr_t)memory->base, memory->span, memory->id,
				memory->cpuOnly != 0};
	struct peermemExport *const *found = tfind(&key, &peermem->exports, compareKeys);
	struct peermemExport *own = found ? *found : addExport(peermem, &key);

	if (own)
		own->windows++;
	return own;
}

static void dropExport(struct peermem *peermem, struct peermemExport *own)
{
	if (!own || --own->windows)
		return;
	tdelete(own, &peermem->exports, compareKeys);
	free(own);
}

/* The first peer in another process, or -1. */
static int firstOtherProcess(const struct peermem *peermem)
{
	const struct backendHost *host = peermem->host;

	for (int r = 0; r < host->nRanks; r++)
		if (peermemIsPeer(peermem, r) && !peermemSameProcess(host, r))
			return r;
	return -1;
}

static int hasPeers(const struct peermem *peermem)
{
	const struct backendHost *host = peermem->host;

	for (int r = 0; r < host->nRanks; r++)
		if (r != host->rank && peermemIsPeer(peermem, r))
			return 1;
	return 0;
}

/* Memory that no other process can map is an error if a peer is in another process. */
static ginResult_t checkPrivate(const struct peermem *peermem, const struct memory *memory)
{
	int other = firstOtherProcess(peermem);

	if (other < 0)
		return ginSuccess;
	return fail(ginErrorInvalidArgument,
		    "ptr %p is %s, which rank %d, on the %s route, does not reach: use %s, or "
		    "GIN_WINDOW_LOCAL for a source",
		    (void *)memory->address, memory->what, other, peermem->name,
		    peermem->host->device->cuda ? "ginMemAlloc() or cudaMalloc()"
						: "ginMemAlloc()");
}

static ginResult_t getIpc(const struct peermem *peermem, const struct memory *memory,
			  cuIpcHandle *ipc)
{
	if (firstOtherProcess(peermem) < 0)
		return ginSuccess;
	cuResult result = peermem->host->device->cuda->ipcGet(ipc, (cuPtr)(uintptr_t)memory->base);
	if (!result)
		return ginSuccess;
	return fail(ginErrorInvalidArgument,
		    "ptr %p is GPU memory that the driver does not share between processes: use "
		    "ginMemAlloc() or cudaMalloc(), or GIN_WINDOW_LOCAL for a source",
		    (void *)memory->address);
}

static ginResult_t getHandle(const struct device *d, const char *at, struct peermemWindow *window)
{
	cuAllocation allocation;
	cuResult result = d->cuda->allocationRetain(&allocation, (void *)(uintptr_t)at);

	if (result)
		return cudaFail(d->cuda, "cuMemRetainAllocationHandle", result);
	result = d->cuda->exportHandle(&window->fd, allocation, cuPosixFd, 0);
	d->cuda->allocationRelease(allocation);
	window->ownsFd = !result;
	return result ? cudaFail(d->cuda, "cuMemExportToShareableHandle", result) : ginSuccess;
}

ginResult_t peermemExportPiece(const struct peermem *peermem, const struct peermemOffer *offer,
			       uint64_t i, struct peermemWindow *window)
{
	uint64_t at;

	if (!hasPeers(peermem))
		return ginSuccess;
	devicePieceAt(offer->run, i, &at);
	return getHandle(peermem->host->device, window->base + at, window);
}

/* Makes the handle of an allocation, or of its first piece, with its first window. */
static ginResult_t export(const struct peermem *peermem, const struct memory *memory,
			  struct peermemWindow *window)
{
	if (!hasPeers(peermem))
		return ginSuccess;
	if (memory->kind == memoryShared)
		window->fd = memory->fd;
	if (memory->kind == memoryVmm)
		return getHandle(peermem->host->device, memory->base, window);
	if (memory->kind == memoryIpc)
		return getIpc(peermem, memory, &window->own->ipc);
	return ginSuccess;
}

ginResult_t peermemExport(struct peermem *peermem, const struct memory *memory,
			  struct peermemOffer *offer, struct peermemWindow *window)
{
	ginResult_t result = ginSuccess;

	*offer = (struct peermemOffer){.kind = memory->kind,
				       .ordinal = peermem->host->device->ordinal,
				       .base = (uintptr_t)memory->base,
				       .span = memory->span,
				       .id = memory->id,
				       .cpuOnly = memory->cpuOnly != 0};
	if (memory->kind == memoryNone)
		return ginSuccess;
	offer->offset = (uint64_t)(memory->address - memory->base);
	if (memory->kind == memoryPrivate)
		return checkPrivate(peermem, memory);
	window->own = holdExport(peermem, memory);
	if (!window->own)
		return fail(ginErrorSystem, "no memory");
	offer->isFirst = window->own->windows == 1;
	if (offer->isFirst)
		result = export(peermem, memory, window);
	if (memory->kind == memoryVmm)
		memcpy(offer->run, memory->run, sizeof(offer->run));
	else
		offer->ipc = window->own->ipc;
	window->base = memory->base;
	return result;
}

void peermemUnexport(struct peermem *peermem, struct peermemWindow *window)
{
	if (window->ownsFd)
		close(window->fd);
	dropExport(peermem, window->own);
}
