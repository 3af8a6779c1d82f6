/* SPDX-License-Identifier: BSD-3-Clause */
/* peers.c - ranks meet over their blocks: windows, pads and addresses */
#include "symm.h"

#include <stdlib.h>
#include <string.h>

#define ALIGN(bytes, to) (((bytes) + (to)-1) / (to) * (to))

/* What a rank tells the others before they make windows. */
struct offer {
	uint64_t bytes, padBytes;
	int64_t result; /* of its preparations */
};

#define FAR_CHANNELS 1024

long symmChannels(const struct ginSymmGroup *group, size_t padBytes)
{
	long channels = (long)(padBytes / sizeof(uint32_t) / (size_t)group->nRanks);

	return group->devComm.self && channels > FAR_CHANNELS ? FAR_CHANNELS : channels;
}

size_t symmCountsAt(size_t padBytes)
{
	return ALIGN(padBytes, sizeof(uint64_t));
}

static size_t arraysAt(const struct ginSymmGroup *group, size_t padBytes)
{
	size_t counts = (size_t)(symmChannels(group, padBytes) * group->nRanks);

	return symmCountsAt(padBytes) +
	       (group->devComm.self ? counts * sizeof(struct symmCount) : 0);
}

static size_t doneAt(const struct ginSymmGroup *group, size_t padBytes)
{
	return arraysAt(group, padBytes) + 2 * (size_t)group->nRanks * sizeof(void *);
}

static size_t padMemory(const struct ginSymmGroup *group, size_t padBytes)
{
	return doneAt(group, padBytes) + padBytes / sizeof(uint32_t);
}

static ginResult_t makePad(struct ginSymmGroup *group, size_t padBytes, struct symmPad **out)
{
	struct symmPad *pad = calloc(1, sizeof(*pad));

	if (!pad)
		return symmFail(ginErrorSystem, "no memory");
	ginResult_t result = symmMemoryMake(group->gpu, padMemory(group, padBytes), &pad->memory);
	if (result) {
		free(pad);
		return result;
	}
	char *base = pad->memory.base;
	pad->counts = (struct symmCount *)(base + symmCountsAt(padBytes));
	pad->buffersDev = (void **)(base + arraysAt(group, padBytes));
	pad->padsDev = pad->buffersDev + group->nRanks;
	pad->done = (uint8_t *)base + doneAt(group, padBytes);
	*out = pad;
	return ginSuccess;
}

/* Memory that no window has met. */
static void discard(struct ginSymmPeers *p)
{
	pthread_mutex_lock(&symmLock);
	if (p->pad)
		symmMemoryLater(&p->pad->memory);
	symmBlockDrop(p->block);
	symmGroupDrop(p->group);
	pthread_mutex_unlock(&symmLock);
	free(p->buffers);
	free(p);
}

/* All ranks have retired one of the two windows of `arg`, or the communicator has ended. */
static void released(void *arg)
{
	struct ginSymmPeers *p = arg;

	pthread_mutex_lock(&symmLock);
	int isUnused = !--p->windows && !p->refs;
	pthread_mutex_unlock(&symmLock);
	if (isUnused)
		discard(p);
}

void symmPeersRetire(struct ginSymmPeers *p, ginComm_t comm)
{
	ginWindowRetire(comm, p->padWindow, released, p);
	ginWindowRetire(comm, p->window, released, p);
}

static void unlinkFrom(struct ginSymmGroup *group, const struct ginSymmPeers *p)
{
	struct ginSymmPeers **at = &group->peers;

	while (*at && *at != p)
		at = &(*at)->nextOfGroup;
	if (*at)
		*at = p->nextOfGroup;
}

/* While the communicator ends, released() discards them. */
void symmPeersDrop(struct ginSymmPeers *p)
{
	struct ginSymmGroup *group = p->group;

	pthread_mutex_lock(&symmLock);
	int isLast = !--p->refs, isUnused = isLast && !p->windows;
	if (isLast && p->windows && group->comm) {
		unlinkFrom(group, p);
		group->hasRetired = 1;
		symmPeersRetire(p, group->comm);
	}
	pthread_mutex_unlock(&symmLock);
	if (isUnused)
		discard(p);
}

void ginSymmRelease(ginSymmPeers_t peers)
{
	if (!peers || symmIsChild())
		return;
	symmPeersDrop(peers);
	symmSweep();
}

static ginResult_t differ(struct ginSymmGroup *group, const struct offer *all, int rank)
{
	const struct offer *own = &all[group->rank], *other = &all[rank];

	return symmFail(ginErrorInvalidUsage,
			"rendezvous: rank %d has a tensor of %llu bytes and a pad of %llu, rank %d "
			"of %llu and %llu: give equal sizes, in one order on all ranks",
			group->rank, (unsigned long long)own->bytes,
			(unsigned long long)own->padBytes, rank, (unsigned long long)other->bytes,
			(unsigned long long)other->padBytes);
}

static ginResult_t compareOffers(struct ginSymmGroup *group, const struct offer *all)
{
	const struct offer *own = &all[group->rank];

	for (int r = 0; r < group->nRanks; r++)
		if (all[r].bytes != own->bytes || all[r].padBytes != own->padBytes)
			return differ(group, all, r);
	for (int r = 0; r < group->nRanks; r++)
		if (all[r].result && r != group->rank)
			return symmFail((ginResult_t)all[r].result,
					"rendezvous: rank %d could not make its pad: %s", r,
					ginGetErrorString((ginResult_t)all[r].result));
	return own->result ? (ginResult_t)own->result : ginSuccess; /* with makePad()'s sentence */
}

/* Collective. All ranks get one result. */
static ginResult_t agree(struct ginSymmGroup *group, const struct ginSymmPeers *p,
			 ginResult_t prepared)
{
	const struct offer own = {p->block->bytes, p->padBytes, prepared};
	struct offer *all = calloc((size_t)group->nRanks, sizeof(*all));
	ginResult_t result;

	if (!all) /* the other ranks wait for this one */
		abort();
	if ((result = ginCommAllgather(group->comm, &own, all, sizeof(own))))
		symmFailGin(result, "rendezvous");
	else
		result = compareOffers(group, all);
	free(all);
	return result;
}

static ginResult_t registerOne(struct ginSymmGroup *group, void *base, size_t bytes,
			       ginWindow_t *window)
{
	ginResult_t result = ginWindowRegister(group->comm, base, bytes, 0, window);

	return result ? symmFailGin(result, "rendezvous") : ginSuccess;
}

/* Collective. */
static ginResult_t registerBoth(struct ginSymmGroup *group, struct ginSymmPeers *p)
{
	size_t bytes = p->block->bytes ? p->block->bytes : 1;
	ginResult_t result = registerOne(group, p->block->memory.base, bytes, &p->window);

	if (result)
		return result;
	result = registerOne(group, p->pad->memory.base, arraysAt(group, p->padBytes),
			     &p->padWindow);
	if (result)
		ginWindowDeregister(group->comm, p->window);
	return result;
}

/* Addresses of windows that are registered: the calls do not fail. */
static void findPeers(struct ginSymmGroup *group, struct ginSymmPeers *p)
{
	p->isDirect = 1;
	for (int r = 0; r < group->nRanks; r++) {
		ginPeerPointer(group->comm, p->window, r, &p->buffers[r]);
		ginPeerPointer(group->comm, p->padWindow, r, &p->pads[r]);
		p->isDirect = p->isDirect && p->pads[r];
	}
}

static ginResult_t upload(struct ginSymmGroup *group, struct ginSymmPeers *p)
{
	size_t bytes = 2 * (size_t)group->nRanks * sizeof(void *);

	if (group->gpu)
		return symmGpuWrite(group->gpu, p->pad->buffersDev, p->buffers, bytes);
	memcpy(p->pad->buffersDev, p->buffers, bytes);
	return ginSuccess;
}

static void link(struct ginSymmGroup *group, struct ginSymmPeers *p)
{
	pthread_mutex_lock(&symmLock);
	p->refs = 2; /* the block's and the caller's */
	p->windows = 2;
	p->nextOfBlock = p->block->peers;
	p->block->peers = p;
	p->nextOfGroup = group->peers;
	group->peers = p;
	pthread_mutex_unlock(&symmLock);
}

static struct ginSymmPeers *newPeers(struct ginSymmGroup *group, struct symmBlock *block,
				     size_t padBytes)
{
	struct ginSymmPeers *p = calloc(1, sizeof(*p));
	void **arrays = calloc(2 * (size_t)group->nRanks, sizeof(void *));

	if (!p || !arrays) /* the other ranks wait for this one */
		abort();
	p->group = group;
	p->block = block;
	p->padBytes = padBytes;
	p->buffers = arrays;
	p->pads = arrays + group->nRanks;
	pthread_mutex_lock(&symmLock);
	block->refs++;
	group->refs++;
	pthread_mutex_unlock(&symmLock);
	return p;
}

/* Collective; the caller holds the group's `meeting`. */
static ginResult_t meet(struct ginSymmGroup *group, struct symmBlock *block, size_t padBytes,
			struct ginSymmPeers **out)
{
	struct ginSymmPeers *p = newPeers(group, block, padBytes);
	ginResult_t result = symmSettle(group);

	if (!result)
		result = makePad(group, padBytes, &p->pad);
	if ((result = agree(group, p, result)) || (result = registerBoth(group, p))) {
		discard(p);
		return result;
	}
	findPeers(group, p);
	link(group, p);
	if ((result = upload(group, p))) {
		symmPeersDrop(p); /* the block keeps it: no rank makes it again alone */
		return result;
	}
	*out = p;
	return ginSuccess;
}

/* A further reference of the peers that `block` has in the group or a branch, or NULL. */
static struct ginSymmPeers *known(struct ginSymmGroup *group, struct symmBlock *block)
{
	pthread_mutex_lock(&symmLock);
	struct ginSymmPeers *p = block->peers;
	while (p && p->group != group && p->group->of != group)
		p = p->nextOfBlock;
	if (p)
		p->refs++;
	pthread_mutex_unlock(&symmLock);
	return p;
}

ginResult_t ginSymmRendezvous(ginSymmGroup_t group, void *base, size_t padBytes,
			      ginSymmPeers_t *peers)
{
	ginResult_t result = symmGroupStopped(group);
	struct ginSymmGroup *branch;

	if (result)
		return result;
	pthread_mutex_lock(&symmLock);
	struct symmBlock *block = symmBlockAround(base);
	pthread_mutex_unlock(&symmLock);
	if (!block || block->memory.base != base)
		return symmFail(ginErrorInvalidArgument, "ptr %p is not from ginSymmAlloc()", base);
	if (!block->memory.gpu != !group->gpu)
		return symmFail(ginErrorInvalidArgument,
				"the tensor is of device %d, the group of device %d", block->device,
				group->device);
	if ((*peers = known(group, block)))
		return ginSuccess;
	pthread_mutex_lock(&group->meeting);
	if (!(*peers = known(group, block)) && !(result = symmBranchFor(group, block, &branch)))
		result = meet(branch, block, padBytes, peers);
	pthread_mutex_unlock(&group->meeting);
	symmSweep();
	return result;
}

ginResult_t ginSymmQuery(ginSymmPeers_t p, ginSymmInfo_t *info)
{
	*info = (ginSymmInfo_t){
		.rank = p->group->rank,
		.nRanks = p->group->nRanks,
		.device = p->group->device,
		.bytes = p->block->bytes,
		.padBytes = p->padBytes,
		.buffers = p->buffers,
		.pads = p->pads,
		.buffersDev = p->pad->buffersDev,
		.padsDev = p->pad->padsDev,
		.isDirect = p->isDirect,
		.window = p->window,
		.comm = p->group->comm,
	};
	return ginSuccess;
}
