/* SPDX-License-Identifier: BSD-3-Clause */
/* map.c - from memory to an offer, and from a peer's offer to an address here */
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "direct.h"

/* Memory that this process alone has is of no use to a direct peer in another. */
static ginResult_t checkPrivate(const struct backendHost *host, const struct memory *memory)
{
	const struct identity *me = &host->ranks[host->rank];

	for (int r = 0; r < host->nRanks; r++)
		if (host->routes[r] == ginRouteDirect && !identitySameProcess(me, &host->ranks[r]))
			return fail(ginErrorInvalidArgument,
				    "ptr %p is private memory of this process, which rank %d, on "
				    "the direct route, does not reach: use ginMemAlloc()",
				    (void *)memory->address, r);
	return ginSuccess;
}

static ginResult_t getIpc(const struct device *d, const struct memory *memory,
			  struct directOffer *offer)
{
	cuResult result = d->cuda->ipcGet(&offer->ipc, (cuPtr)(uintptr_t)memory->base);

	if (!result)
		return ginSuccess;
	return fail(ginErrorInvalidArgument,
		    "ptr %p is GPU memory that cannot be shared between processes "
		    "(cudaMallocAsync's or managed memory, say): use ginMemAlloc() or cudaMalloc()",
		    (void *)memory->address);
}

ginResult_t directMakeOffer(const struct backendHost *host, const struct memory *memory,
			    struct directOffer *offer)
{
	*offer = (struct directOffer){.kind = memory->kind,
				      .ordinal = host->device->ordinal,
				      .address = (uintptr_t)memory->address,
				      .span = memory->span};
	if (memory->kind != memoryNone)
		offer->offset = (uint64_t)(memory->address - memory->base);
	if (memory->kind == memoryPrivate)
		return checkPrivate(host, memory);
	if (memory->kind == memoryIpc)
		return getIpc(host->device, memory, offer);
	return ginSuccess;
}

/* The caller closes it, unless it is memory->fd. */
ginResult_t directExport(const struct device *d, const struct memory *memory, int *fd)
{
	cuAllocation allocation;

	*fd = memory->fd;
	if (memory->kind != memoryVmm)
		return ginSuccess;
	cuResult result = d->cuda->allocationRetain(&allocation, memory->base);
	if (result)
		return cudaFail(d->cuda, "cuMemRetainAllocationHandle", result);
	result = d->cuda->exportHandle(fd, allocation, cuPosixFd, 0);
	d->cuda->allocationRelease(allocation);
	return result ? cudaFail(d->cuda, "cuMemExportToShareableHandle", result) : ginSuccess;
}

static ginResult_t mapShared(int peer, const struct directOffer *offer, int fd,
			     struct directPeer *out)
{
	struct stat file;

	if (fstat(fd, &file) || (uint64_t)file.st_size < offer->span)
		return fail(ginErrorSystem, "the memory of rank %d is smaller than it said", peer);
	void *at = mmap(NULL, offer->span, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return fail(ginErrorSystem, "cannot map the window of rank %d: %m", peer);
	out->mapped = at;
	return ginSuccess;
}

static ginResult_t openIpc(const struct device *d, const struct directOffer *offer,
			   struct directPeer *out)
{
	cuPtr at = 0;
	cuResult result = d->cuda->ipcOpen(&at, offer->ipc, cuIpcLazyPeerAccess);

	if (result)
		return cudaFail(d->cuda, "cuIpcOpenMemHandle", result);
	out->mapped = (char *)(uintptr_t)at;
	return ginSuccess;
}

static ginResult_t importVmm(const struct device *d, const struct directOffer *offer, int fd,
			     struct directPeer *out)
{
	void *at = NULL;
	ginResult_t result = deviceImport(d, fd, offer->span, &at);

	out->mapped = at;
	return result;
}

/* cudaMalloc memory of another GPU, of a rank that is a thread of this process. */
static ginResult_t enablePeer(const struct device *d, int ordinal)
{
	cuContext context;

	if (ordinal == d->ordinal)
		return ginSuccess;
	cuResult result = d->cuda->primaryRetain(&context, ordinal);
	if (!result) {
		result = d->cuda->ctxEnablePeerAccess(context, 0);
		d->cuda->primaryRelease(ordinal);
	}
	if (!result || result == cuPeerAccessAlreadyEnabled)
		return ginSuccess;
	return cudaFail(d->cuda, "cuCtxEnablePeerAccess", result);
}

/* Memory that this process has already, at the owner's address. */
static ginResult_t useInPlace(const struct device *d, const struct directOffer *offer,
			      struct directPeer *out)
{
	out->address = (char *)(uintptr_t)offer->address;
	return offer->kind == memoryIpc ? enablePeer(d, offer->ordinal) : ginSuccess;
}

ginResult_t directMap(const struct backendHost *host, int peer, const struct directOffer *offer,
		      int fd, struct directPeer *out)
{
	const struct device *d = host->device;
	int same = identitySameProcess(&host->ranks[host->rank], &host->ranks[peer]);
	ginResult_t result;

	out->kind = offer->kind;
	out->span = offer->span;
	if (offer->kind == memoryNone)
		return ginSuccess;
	if (peer == host->rank || (same && !directNeedsHandle(offer->kind, same)))
		return useInPlace(d, offer, out);
	if (offer->kind == memoryShared)
		result = mapShared(peer, offer, fd, out);
	else if (offer->kind == memoryVmm)
		result = importVmm(d, offer, fd, out);
	else
		result = openIpc(d, offer, out);
	if (result == ginSuccess)
		out->address = out->mapped + offer->offset;
	return result;
}

void directUnmap(const struct device *d, struct directPeer *peer)
{
	if (!peer->mapped)
		return;
	if (peer->kind == memoryShared)
		munmap(peer->mapped, peer->span);
	else if (peer->kind == memoryVmm)
		deviceUnmap(d, peer->mapped, peer->span);
	else
		d->cuda->ipcClose((cuPtr)(uintptr_t)peer->mapped);
	peer->mapped = NULL;
}
