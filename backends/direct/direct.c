/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * direct.c - the direct backend: kernels load, store and do atomics in the peer's memory
 *
 * For GPUs of one host with peer access and native atomics, and for host threads over shared
 * memory. The host side only maps memory (backends/peermem); the device side is
 * include/gin/direct/route.cuh.
 */
#include <string.h>

#include "backends/peermem/peermem.h"

static int directProbe(const struct backendHost *host, void *blob, char *why)
{
	struct peermemBlob mine;

	peermemDescribe(host->device, &mine);
	memcpy(blob, &mine, sizeof(mine));
	why[0] = '\0';
	return 1;
}

static int directReach(const struct backendHost *host, int peer, const void *mine,
		       const void *theirs, char *why)
{
	struct peermemBlob blob;
	struct peermemLink link;

	(void)mine;
	memcpy(&blob, theirs, sizeof(blob));
	return peermemReach(host, peer, &blob, &link, why) && link.nativeAtomics;
}

static int isDirect(const void *host, int rank)
{
	return ((const struct backendHost *)host)->routes[rank] == ginRouteDirect;
}

static ginResult_t directOpen(const struct backendHost *host, void **state)
{
	const struct peermemPeers peers = {isDirect, host};
	struct peermem *peermem = NULL;
	ginResult_t result = peermemOpen(host, "direct", &peers, &peermem);

	if (result == ginSuccess)
		*state = peermem;
	return result;
}

static void directClose(void *state)
{
	peermemClose(state);
}

static ginResult_t directWindowOffer(void *state, const struct memory *memory, void *offer,
				     void **window)
{
	struct peermemWindow *w = NULL;
	ginResult_t result = peermemOffer(state, memory, offer, &w);

	if (result == ginSuccess)
		*window = w;
	return result;
}

static ginResult_t directWindowRegister(void *state, const char *call, ginResult_t mine,
					const uint8_t *offers, size_t stride, void *window)
{
	(void)call;
	return peermemRegister(state, mine, offers, stride, window);
}

static void directWindowDeregister(void *state, void *window)
{
	peermemDeregister(state, window);
}

static char *directAddress(void *window, int peer)
{
	return peermemAddress(window, peer);
}

const struct backendOps backendDirect = {
	.name = "direct",
	.route = ginRouteDirect,
	.writer = ginWriterGpu,
	.network = 0,
	.probe = directProbe,
	.reach = directReach,
	.open = directOpen,
	.close = directClose,
	.windowOffer = directWindowOffer,
	.windowRegister = directWindowRegister,
	.windowDeregister = directWindowDeregister,
	.windowAddress = directAddress,
	.plan = peermemPlan,
};
