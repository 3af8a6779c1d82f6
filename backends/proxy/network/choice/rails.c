/* SPDX-License-Identifier: BSD-3-Clause */
/* rails.c - the ports by which the lanes of a rank use a network: NICs, or one interface */
#include "rails.h"

#include <stdio.h>
#include <string.h>

#include "gpu.h"

/* Shortens a sentence about a NIC. */
static int failNic(char *why, const char *reason)
{
	snprintf(why, BACKEND_WHY, "%.*s", BACKEND_WHY - 1, reason);
	return 0;
}

static int wantNic(const struct backendHost *host, struct rdmaRail rail, struct networkWanted *out,
		   char *why)
{
	char reason[RDMA_WHY];
	const struct rdma *rdma = rdmaRailFind(host, rail, &out->nic, reason);

	if (!rdma)
		return failNic(why, reason);
	out->fabric.isRail = rail.count > 1;
	snprintf(out->interface.name, sizeof(out->interface.name), "%.11s:%d",
		 out->nic.found.device, out->nic.found.port);
	out->fabric.nic = &out->nic.wanted;
	out->fabric.path = &out->path;
	return rdmaPathOf(0, &out->path) == ginSuccess || failNic(why, ginGetLastError());
}

int networkWant(const struct backendHost *host, const char *name, struct rdmaRail rail,
		struct networkWanted *out, char *why)
{
	*out = (struct networkWanted){.fabric = {.provider = "",
						 .interface = out->interface.name,
						 .address = out->interface.address,
						 .peers = (uint32_t)host->nRanks}};
	out->fabric.hasGpu =
		host->device && host->device->cuda && paramChoice(paramBounce) != bounceAlways;
	if (!strcmp(name, NETWORK_VERBS))
		return wantNic(host, rail, out, why);
	return networkInterfaceFind(host, &out->interface, why);
}

/* IPv6, or IPv4 in its form. */
static void keepAddress(const char *text, uint8_t out[16])
{
	memset(out, 0, 16);
	if (inet_pton(AF_INET, text, out + 12) == 1)
		memset(out + 10, 0xff, 2);
	else
		inet_pton(AF_INET6, text, out);
}

static int tryRail(const struct backendHost *host, const char *name, struct rdmaRail rail,
		   struct networkFound *out, char *why)
{
	struct networkWanted want;
	const struct fabricCalls *calls = NULL;

	if (networkWant(host, name, rail, &want, why))
		calls = networkPlugin(name, why);
	if (!calls)
		return 0;
	want.fabric.provider = paramText(paramOfiProvider);
	if (calls->probe(&want.fabric, &out->about, why))
		return 0;
	want.fabric.provider = out->about.provider;
	keepAddress(want.fabric.address, out->address);
	out->reachesGpu = (uint8_t)networkGpuTry(host->device, calls, &want.fabric, out->gpu);
	return 1;
}

/* Do both ports work alike? */
static int isAlike(const struct networkFound *first, const struct networkFound *other)
{
	return first->about.kind == other->about.kind &&
	       strcmp(first->about.interface, other->about.interface) &&
	       first->reachesGpu == other->reachesGpu;
}

/* Adds the speed of the other rails. */
static int tryRails(const struct backendHost *host, const char *name, uint32_t rails,
		    struct networkFound *out, char *why)
{
	struct networkFound other;

	if (!tryRail(host, name, (struct rdmaRail){0, rails}, out, why))
		return 0;
	for (uint32_t i = 1; i < rails; i++) {
		if (!tryRail(host, name, (struct rdmaRail){i, rails}, &other, why) ||
		    !isAlike(out, &other))
			return 0;
		out->about.speed += other.about.speed;
		if (other.about.mostBytes < out->about.mostBytes)
			out->about.mostBytes = other.about.mostBytes;
	}
	out->rails = (uint8_t)rails;
	return 1;
}

/* Rails that the user and the lanes allow. */
static uint32_t mostRails(const char *name, uint32_t lanes)
{
	uint32_t rails = strcmp(name, NETWORK_VERBS) ? 1 : paramNumber(paramNicRails);

	return lanes && lanes < rails ? lanes : rails;
}

int networkRailsFind(const struct backendHost *host, const char *name, uint32_t lanes,
		     struct networkFound *out, char *why)
{
	for (uint32_t rails = mostRails(name, lanes); rails; rails--)
		if (tryRails(host, name, rails, out, why))
			return 1;
	return 0;
}
