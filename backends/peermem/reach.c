/* SPDX-License-Identifier: BSD-3-Clause */
/* reach.c - can two ranks map each other's memory: host threads, or GPUs with peer access */
#include <stdio.h>
#include <string.h>

#include "internal.h"

void peermemDescribe(const struct device *device, struct peermemBlob *out)
{
	*out = (struct peermemBlob){device->cuda != NULL, device->uuid};
}

/* The ordinal of a GPU in this process, or -1 if CUDA_VISIBLE_DEVICES hides it. */
static int ordinalOf(const struct cuda *cuda, const cuUuid *uuid)
{
	int count = 0;
	cuDevice device;
	cuUuid each;

	cuda->deviceGetCount(&count);
	for (int i = 0; i < count; i++)
		if (!cuda->deviceGet(&device, i) && !cuda->deviceGetUuid(&each, device) &&
		    !memcmp(&each, uuid, sizeof(each)))
			return i;
	return -1;
}

static int reachOtherGpu(const struct device *d, cuDevice peer, struct peermemLink *link, char *why)
{
	int access = 0, atomics = 0;

	d->cuda->deviceGetP2pAttribute(&access, cuP2pAccess, d->id, peer);
	d->cuda->deviceGetP2pAttribute(&atomics, cuP2pNativeAtomics, d->id, peer);
	link->nativeAtomics = access && atomics;
	if (link->nativeAtomics)
		return snprintf(why, BACKEND_WHY, "peer access with native atomics (NVLink)") > 0;
	snprintf(why, BACKEND_WHY, "GPU %d and GPU %d have %s", d->ordinal, link->ordinal,
		 access ? "peer access, but no native atomics" : "no peer access");
	return access;
}

static int reachGpu(const struct device *d, const cuUuid *theirs, struct peermemLink *link,
		    char *why)
{
	cuDevice peer;

	link->ordinal = ordinalOf(d->cuda, theirs);
	if (link->ordinal == d->ordinal) {
		link->nativeAtomics = 1;
		return snprintf(why, BACKEND_WHY, "the same GPU") > 0;
	}
	if (link->ordinal >= 0 && !d->cuda->deviceGet(&peer, link->ordinal))
		return reachOtherGpu(d, peer, link, why);
	snprintf(why, BACKEND_WHY,
		 "its GPU is not visible to this process: let CUDA_VISIBLE_DEVICES name it");
	return 0;
}

int peermemReach(const struct backendHost *host, int peer, const struct peermemBlob *theirs,
		 struct peermemLink *link, char *why)
{
	const struct identity *me = &host->ranks[host->rank], *other = &host->ranks[peer];
	int hasGpu = host->device->cuda != NULL;

	*link = (struct peermemLink){GIN_DEVICE_NONE, !hasGpu};
	if (!identitySameHost(me, other)) {
		snprintf(why, BACKEND_WHY, "another host (%s)", other->host);
		return 0;
	}
	if (hasGpu != (theirs->hasGpu != 0)) {
		snprintf(why, BACKEND_WHY, "one of the two has a GPU, the other has not");
		return 0;
	}
	if (hasGpu)
		return reachGpu(host->device, &theirs->uuid, link, why);
	snprintf(why, BACKEND_WHY, "%s",
		 peer == host->rank		  ? "the same memory"
		 : identitySameProcess(me, other) ? "threads of one process"
						  : "shared memory of one host");
	return 1;
}
