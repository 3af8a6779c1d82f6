/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs.c - the proxy's network by ibverbs, GIN_TRANSPORT=verbs: opening
 *
 * It works with every device that has reliable connections: queue pairs, writes with an immediate,
 * reads and messages. A port is opened by backends/rdma/nic, as gdaki's ports are.
 */
#include "verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_PRIORITY 7 /* on Ethernet */

int verbsFail(char *why, const char *reason)
{
	snprintf(why, FABRIC_WHY, "%.*s", FABRIC_WHY - 1, reason);
	return fabricFailed;
}

int verbsFailErrno(char *why, const char *what, int error)
{
	snprintf(why, FABRIC_WHY, "%.90s: %.60s", what, strerror(error));
	return fabricFailed;
}

static void verbsClose(struct fabric *f)
{
	if (f->port)
		portClose(f->port);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

static int openPort(struct fabric *f, const struct fabricWanted *want, char *why)
{
	struct rdmaFeatures features;
	char reason[RDMA_WHY];

	if (!want->nic || !want->path)
		return verbsFail(why, "no NIC is named");
	f->path = *want->path;
	if (portOpen(want->nic, &f->port, reason))
		return verbsFail(why, reason);
	portDescribe(f->port, &f->address, &features);
	if (f->address.ethernet && f->path.serviceLevel > MOST_PRIORITY)
		return verbsFail(why, "GIN_NIC_SL: must be 0 to 7 on Ethernet");
	return fabricOk;
}

static int verbsOpen(const struct fabricWanted *want, struct fabric **out, char *why)
{
	struct fabric *f = calloc(1, sizeof(*f));

	if (!f)
		return verbsFail(why, "no memory");
	pthread_mutex_init(&f->lock, NULL);
	f->peers = want->peers ? want->peers : 1;
	f->hasGpu = want->hasGpu;
	f->isRail = want->isRail;
	if (openPort(f, want, why)) {
		verbsClose(f);
		return fabricFailed;
	}
	*out = f;
	return fabricOk;
}

/* In Mb/s; 0: not known. */
static uint32_t speedOf(const struct ibv_port_attr *attr)
{
	static const struct {
		uint8_t code;
		uint32_t speed;
	} lanes[] = {{1, 2500},	  {2, 5000},   {4, 10000},  {8, 10000},
		     {16, 14000}, {32, 25000}, {64, 50000}, {128, 100000}};
	static const uint8_t widths[] = {[1] = 1, [2] = 4, [4] = 8, [8] = 12, [16] = 2};

	for (size_t i = 0; i < sizeof(lanes) / sizeof(lanes[0]); i++)
		if (lanes[i].code == attr->active_speed && attr->active_width < sizeof(widths))
			return lanes[i].speed * widths[attr->active_width];
	return 0;
}

/* Ports with equal kinds can talk: the hash, FNV-1a, of their network. */
static uint64_t kindOf(const char *network)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (; *network; network++)
		hash = (hash ^ (unsigned char)*network) * 0x100000001b3ull;
	return hash;
}

/* Most bytes of one write or read. */
static uint64_t pieceOf(const struct rdmaPort *port)
{
	uint64_t most = port->mostMessage;

	return most && most < VERBS_PIECE ? most : VERBS_PIECE;
}

static void describe(const struct fabric *f, struct fabricAbout *about)
{
	const struct rdmaPort *port = f->port;
	char network[PORT_NETWORK];

	portNetwork(port, network);
	*about = (struct fabricAbout){.speed = speedOf(&port->attr),
				      .kind = kindOf(network),
				      .mostBytes = pieceOf(port),
				      .ordered = 1,
				      .immediates = 1,
				      .pairBytes = sizeof(struct rdmaEnd),
				      .registersSources = 1};
	snprintf(about->name, sizeof(about->name), "verbs, %.24s", network);
	snprintf(about->interface, sizeof(about->interface), "%.11s:%d",
		 ibv_get_device_name(port->context->device), port->number);
}

/* Tries to make a queue pair; ranks connect queue pairs later. */
static int tryPair(struct fabric *f, char *why)
{
	unsigned char address[FABRIC_ADDRESS], pair[sizeof(struct rdmaEnd)];
	struct fabricEnd *end;
	uint64_t peer;

	if (verbsEndOpen(f, &end, address, why))
		return fabricFailed;
	int result = verbsPairOpen(end, pair, &peer, why);
	verbsEndClose(end);
	return result;
}

static int verbsProbe(const struct fabricWanted *want, struct fabricAbout *about, char *why)
{
	struct fabric *f;

	if (verbsOpen(want, &f, why))
		return fabricFailed;
	int result = tryPair(f, why);
	if (result == fabricOk)
		describe(f, about);
	verbsClose(f);
	return result;
}

/* Without connect(): see fabricCalls.pairConnect. */
__attribute__((visibility("default"))) const struct fabricCalls ginFabric = {
	.size = sizeof(ginFabric),
	.probe = verbsProbe,
	.open = verbsOpen,
	.close = verbsClose,
	.endOpen = verbsEndOpen,
	.endClose = verbsEndClose,
	.pairOpen = verbsPairOpen,
	.pairConnect = verbsPairConnect,
	.memoryAdd = verbsMemoryAdd,
	.memoryRemove = verbsMemoryRemove,
	.gpuMemoryAdd = verbsGpuMemoryAdd,
	.write = verbsPostWrite,
	.read = verbsPostRead,
	.send = verbsPostMessage,
	.submit = verbsSubmit,
	.poll = verbsPoll,
	.arm = verbsArm,
};
