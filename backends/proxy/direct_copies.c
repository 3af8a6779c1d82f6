/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * direct_copies.c - whether copy engines make long puts and gets between direct peers
 *
 * The device side is include/gin/calls/copy_engine.cuh.
 */
#include "direct_copies.h"

#include "backends/peermem/peermem.h"
#include "network/choice/choice.h"

int proxyOnThisGpu(const struct backendHost *host, int peer)
{
	struct peermemLink link;
	char why[BACKEND_WHY];

	if (!host->device->cuda)
		return 0;
	const struct proxyBlob theirs = proxyBlobOf(host, peer);
	return peermemReach(host, peer, &theirs.memory, &link, why) &&
	       link.ordinal == host->device->ordinal;
}

/*
 * A program that drives the proxy itself (GIN_PROXY_THREADS=0) may not drive it for a rank that has
 * only direct peers, unless the program asked for copy engines.
 */
int directCopiesMay(const struct backendHost *host)
{
	if (paramChoice(paramCopyEngine) == copyEngineOff)
		return 0;
	return host->copiesOnly || paramNumber(paramProxyThreads);
}

/*
 * Copy engines belong to the transport ipc: a network would be slower than threads. For another
 * rank on this GPU, threads with scratch memory copy faster than the stage of ipc.c.
 */
static int hasEngine(const struct proxyTransports *t, int peer)
{
	return transportServes(t, TRANSPORT_IPC, peer) &&
	       (peer == t->host->rank || !proxyOnThisGpu(t->host, peer));
}

uint32_t directCopiesFrom(const struct proxyTransports *t)
{
	const struct backendHost *host = t->host;
	uint32_t peers = 0;

	for (int r = 0; r < host->nRanks; r++) {
		if (host->routes[r] != ginRouteDirect)
			continue;
		if (!hasEngine(t, r))
			return 0;
		peers++;
	}
	return peers && directCopiesMay(host) ? paramNumber(paramCopyEngineBytes) : 0;
}
