/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * direct.c - the direct backend: peers whose memory this rank's threads load, store and add to
 *
 * GPUs of one host with peer access and native atomics, or host threads over shared memory. All it
 * does on the host is to map memory; the device side is include/gin/direct.cuh.
 */
#include "direct.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a rank tells of itself. */
struct directBlob {
	uint32_t hasGpu;
	cuUuid uuid;
};

static int directProbe(const struct backendHost *host, void *blob, char *why)
{
	struct directBlob mine = {host->device->cuda != NULL, host->device->uuid};

	memcpy(blob, &mine, sizeof(mine));
	why[0] = '\0';
	return 1;
}

/* The ordinal of a GPU in this process, or -1 when CUDA_VISIBLE_DEVICES hides it. */
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

static int reachGpu(const struct backendHost *host, const cuUuid *theirs, char *why)
{
	const struct device *d = host->device;
	int access = 0, atomics = 0, ordinal = ordinalOf(d->cuda, theirs);
	cuDevice peer;

	if (ordinal == d->ordinal)
		return snprintf(why, BACKEND_WHY, "the same GPU") > 0;
	if (ordinal < 0 || d->cuda->deviceGet(&peer, ordinal)) {
		snprintf(
			why, BACKEND_WHY,
			"its GPU is not visible to this process: let CUDA_VISIBLE_DEVICES name it");
		return 0;
	}
	d->cuda->deviceGetP2pAttribute(&access, cuP2pAccess, d->id, peer);
	d->cuda->deviceGetP2pAttribute(&atomics, cuP2pNativeAtomics, d->id, peer);
	if (access && atomics)
		return snprintf(why, BACKEND_WHY, "peer access with native atomics (NVLink)") > 0;
	snprintf(why, BACKEND_WHY, "GPU %d and GPU %d have %s", d->ordinal, ordinal,
		 access ? "peer access, but no native atomics" : "no peer access");
	return 0;
}

static int directReach(const struct backendHost *host, int peer, const void *mine,
		       const void *theirs, char *why)
{
	const struct identity *me = &host->ranks[host->rank], *other = &host->ranks[peer];
	struct directBlob a, b;

	memcpy(&a, mine, sizeof(a));
	memcpy(&b, theirs, sizeof(b));
	if (!identitySameHost(me, other)) {
		snprintf(why, BACKEND_WHY, "another host (%s)", other->host);
		return 0;
	}
	if (a.hasGpu != b.hasGpu) {
		snprintf(why, BACKEND_WHY, "one of the two has a GPU, the other has not");
		return 0;
	}
	if (a.hasGpu)
		return reachGpu(host, &b.uuid, why);
	snprintf(why, BACKEND_WHY, "%s",
		 peer == host->rank		  ? "the same memory"
		 : identitySameProcess(me, other) ? "threads of one process"
						  : "shared memory of one host");
	return 1;
}

static void directClose(void *state)
{
	struct direct *direct = state;

	free(direct->to);
	free(direct->from);
	free(direct->fds);
	free(direct);
}

static ginResult_t directOpen(const struct backendHost *host, void **state)
{
	size_t n = (size_t)host->nRanks;
	struct direct *direct = calloc(1, sizeof(*direct));

	if (direct) {
		direct->host = host;
		direct->to = calloc(n, 1);
		direct->from = calloc(n, 1);
		direct->fds = calloc(n, sizeof(*direct->fds));
	}
	if (!direct || !direct->to || !direct->from || !direct->fds) {
		if (direct)
			directClose(direct);
		return fail(ginErrorSystem, "no memory");
	}
	*state = direct;
	return ginSuccess;
}

static void directWindowDeregister(void *state, void *window)
{
	struct direct *direct = state;
	struct directWindow *w = window;

	for (int r = 0; r < direct->host->nRanks; r++)
		directUnreach(direct->host->device, &w->peer[r]);
	directUnoffer(direct, w);
	free(w);
}

static ginResult_t directWindowOffer(void *state, const struct memory *memory, void *blob,
				     void **window)
{
	struct direct *direct = state;
	struct directOffer offer;
	struct directWindow *w =
		calloc(1, sizeof(*w) + (size_t)direct->host->nRanks * sizeof(w->peer[0]));

	if (!w)
		return fail(ginErrorSystem, "no memory");
	w->fd = -1;
	ginResult_t result = directOffer(direct, memory, &offer, w);
	if (result != ginSuccess) {
		directWindowDeregister(state, w);
		return result;
	}
	memcpy(blob, &offer, sizeof(offer));
	*window = w;
	return ginSuccess;
}

static ginResult_t directWindowRegister(void *state, const char *call, ginResult_t mine,
					const uint8_t *offers, size_t stride, void *window)
{
	(void)call;
	return directShare(state, mine, offers, stride, window);
}

static char *directAddress(void *window, int peer)
{
	return ((struct directWindow *)window)->peer[peer].address;
}

const struct backendOps backendDirect = {
	.name = "direct",
	.route = ginRouteDirect,
	.network = 0,
	.probe = directProbe,
	.reach = directReach,
	.open = directOpen,
	.close = directClose,
	.windowOffer = directWindowOffer,
	.windowRegister = directWindowRegister,
	.windowDeregister = directWindowDeregister,
	.windowAddress = directAddress,
	.contextsOpen = NULL, /* stores need no queue */
	.contextsClose = NULL,
};
