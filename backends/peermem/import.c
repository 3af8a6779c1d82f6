/* SPDX-License-Identifier: BSD-3-Clause */
/* import.c - maps the memory that a peer offers */
#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* No padding: keys are compared by their bytes. */
struct importKey {
	uint64_t process[2]; /* the owner */
	uint64_t base, span, id;
	uint32_t kind;
	int32_t ordinal; /* the GPU that it is mapped for; GIN_DEVICE_NONE: for CPUs only */
};

/* One mapping of the process, shared by its communicators and by ranks that are threads. */
struct peermemImport {
	struct importKey key; /* first: the tree compares keys */
	char *at;
	int windows;
	struct deviceRun run[DEVICE_RUNS]; /* of memory of several pieces */
};

static void *imports; /* tsearch() of struct peermemImport */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int compareKeys(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct importKey));
}

static struct importKey keyOf(const struct backendHost *host, int peer,
			      const struct peermemOffer *offer)
{
	const uint64_t *process = host->ranks[peer].processId;

	return (struct importKey){{process[0], process[1]},
				  offer->base,
				  offer->span,
				  offer->id,
				  offer->kind,
				  offer->cpuOnly ? GIN_DEVICE_NONE : host->device->ordinal};
}

/* Takes a reference to an existing mapping, or returns NULL. The caller holds the lock. */
static struct peermemImport *holdImport(const struct importKey *key)
{
	struct peermemImport *const *found = tfind(key, &imports, compareKeys);

	if (!found)
		return NULL;
	(*found)->windows++;
	return *found;
}

static struct peermemImport *findImport(const struct importKey *key)
{
	pthread_mutex_lock(&lock);
	struct peermemImport *found = holdImport(key);
	pthread_mutex_unlock(&lock);
	return found;
}

static void unmap(const struct device *d, const struct peermemImport *import)
{
	if (import->key.kind == memoryShared)
		memoryHostUnmap(import->key.ordinal < 0 ? NULL : d, import->at, import->key.span);
	else if (import->key.kind == memoryVmm && devicePieces(import->run) > 1)
		deviceUnmapPieces(d, import->at, import->run);
	else if (import->key.kind == memoryVmm)
		deviceUnmap(d, import->at, import->key.span);
	else
		d->cuda->ipcClose((cuPtr)(uintptr_t)import->at);
}

/*
 * Adds a mapping, or returns an equal one that another thread has added: mappings are made without
 * the lock.
 */
static struct peermemImport *addImport(struct peermemImport *mine)
{
	pthread_mutex_lock(&lock);
	struct peermemImport *first = holdImport(&mine->key);
	if (!first && tsearch(mine, &imports, compareKeys))
		first = mine;
	pthread_mutex_unlock(&lock);
	return first;
}

static ginResult_t openIpc(const struct device *d, const cuIpcHandle *ipc,
			   struct peermemImport *import)
{
	cuPtr at = 0;
	cuResult result = d->cuda->ipcOpen(&at, *ipc, cuIpcLazyPeerAccess);

	if (result)
		return cudaFail(d->cuda, "cuIpcOpenMemHandle", result);
	import->at = (char *)(uintptr_t)at;
	return ginSuccess;
}

static ginResult_t mapPieces(const struct device *d, int peer, const struct peermemOffer *offer,
			     const struct peermemArrival *arrival, void **at)
{
	if (arrival->count != devicePieces(offer->run))
		return fail(ginErrorSystem,
			    "rank %d has sent %llu pieces of its memory, and announced %llu", peer,
			    (unsigned long long)arrival->count,
			    (unsigned long long)devicePieces(offer->run));
	return deviceMapPieces(d, offer->run, arrival->piece, at);
}

static ginResult_t map(const struct device *d, int peer, const struct peermemOffer *offer, int fd,
		       const struct peermemArrival *arrival, struct peermemImport *import)
{
	void *at = NULL;
	ginResult_t result;

	if (offer->kind == memoryIpc)
		return openIpc(d, &offer->ipc, import);
	if (offer->kind == memoryShared)
		result = memoryHostImport(offer->cpuOnly ? NULL : d, fd, offer->span, peer, &at);
	else if (peermemPieces(offer) > 1)
		result = mapPieces(d, peer, offer, arrival, &at);
	else
		result = deviceImport(d, fd, offer->span, &at);
	import->at = at;
	return result;
}

static ginResult_t newImport(const struct device *d, int peer, const struct importKey *key,
			     const struct peermemOffer *offer, int fd,
			     const struct peermemArrival *arrival, struct peermemImport **out)
{
	struct peermemImport *mine = malloc(sizeof(*mine));

	if (!mine)
		return fail(ginErrorSystem, "no memory");
	*mine = (struct peermemImport){.key = *key, .windows = 1};
	if (offer->kind == memoryVmm)
		memcpy(mine->run, offer->run, sizeof(mine->run));
	ginResult_t result = map(d, peer, offer, fd, arrival, mine);
	if (result == ginSuccess) {
		*out = addImport(mine);
		if (*out == mine)
			return ginSuccess;
		unmap(d, mine);
		result = *out ? ginSuccess : fail(ginErrorSystem, "no memory");
	}
	free(mine);
	return result;
}

static ginResult_t import(const struct backendHost *host, int peer,
			  const struct peermemOffer *offer, int fd,
			  const struct peermemArrival *arrival, struct peermemPeer *out)
{
	const struct importKey key = keyOf(host, peer, offer);
	ginResult_t result = ginSuccess;

	out->import = findImport(&key);
	if (!out->import)
		result = newImport(host->device, peer, &key, offer, fd, arrival, &out->import);
	if (result == ginSuccess)
		out->address = out->import->at + offer->offset;
	return result;
}

/* Lets this GPU access cudaMalloc memory of another GPU of this process. */
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

/* The memory is in this process already, at the owner's address. */
static ginResult_t useInPlace(const struct device *d, int peer, const struct peermemOffer *offer,
			      struct peermemPeer *out)
{
	if (offer->kind == memoryPrivate && offer->ordinal != d->ordinal)
		return fail(ginErrorInvalidArgument,
			    "ptr of rank %d is memory of GPU %d (of a pool, say), which this rank "
			    "on GPU %d does not reach: use ginMemAlloc() or cudaMalloc(), or "
			    "GIN_WINDOW_LOCAL for a source",
			    peer, offer->ordinal, d->ordinal);
	out->address = (char *)(uintptr_t)(offer->base + offer->offset);
	if (offer->kind == memoryIpc && offer->isFirst)
		return enablePeer(d, offer->ordinal);
	if (offer->kind == memoryShared && d->cuda && !offer->cpuOnly)
		return deviceCheckPinned(d, out->address);
	return ginSuccess;
}

static ginResult_t useCounted(const struct backendHost *host, int peer,
			      const struct peermemOffer *offer, struct peermemPeer *out)
{
	ginResult_t result = useInPlace(host->device, peer, offer, out);

	if (result == ginSuccess && peer != host->rank && offer->kind == memoryShared)
		out->inPlace = offer->id;
	if (out->inPlace)
		memoryUse(out->address, out->inPlace, 1);
	return result;
}

ginResult_t peermemImport(const struct backendHost *host, int peer,
			  const struct peermemOffer *offer, int fd,
			  const struct peermemArrival *arrival, struct peermemPeer *out)
{
	int same = peermemSameProcess(host, peer);

	if (offer->kind == memoryNone)
		return ginSuccess;
	out->kind = offer->kind;
	if (peer == host->rank || (same && !peermemNeedsHandle(offer->kind, same)))
		return useCounted(host, peer, offer, out);
	return import(host, peer, offer, fd, arrival, out);
}

void peermemUnimport(const struct device *d, struct peermemPeer *peer)
{
	struct peermemImport *import = peer->import;

	if (peer->inPlace)
		memoryUse(peer->address, peer->inPlace, -1);
	if (!import)
		return;
	pthread_mutex_lock(&lock);
	int left = --import->windows;
	if (!left)
		tdelete(import, &imports, compareKeys);
	pthread_mutex_unlock(&lock);
	if (left)
		return;
	unmap(d, import);
	free(import);
}
