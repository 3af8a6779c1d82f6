/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gdaki.c - whether GPU threads can post to each port, and what the NVIDIA driver is set to
 *
 * Ports are libgin's answer. Of the GPU's part the driver's files are read: what works is known only
 * once queues are made, which ginCommInit() does when a pair of ranks needs them.
 */
#include "gin_info.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COPY(to, from) snprintf(to, sizeof(to), "%s", from)

static struct nic *findPort(struct nics *nics, const ginNicInfo_t *info)
{
	for (int i = 0; i < nics->count; i++)
		if (nics->nic[i].rdma && nics->nic[i].port == info->port &&
		    !strcmp(nics->nic[i].name, info->name))
			return &nics->nic[i];
	return NULL;
}

static void fillPorts(struct nics *nics)
{
	ginNicInfo_t info = GIN_NIC_INFO_INIT;

	for (int i = 0; i == 0 || i < info.count; i++) {
		if (ginNicQuery(i, &info) != ginSuccess) {
			COPY(nics->gdakiWhy, ginGetLastError());
			return;
		}
		if (!info.count) {
			COPY(nics->gdakiWhy, info.why);
			continue;
		}
		struct nic *n = findPort(nics, &info);
		if (!n)
			continue;
		n->gdaki = info.usable;
		COPY(n->gdakiWhy, info.why);
	}
}

/* Does a line of the driver's file have the words? */
static int driverSays(const char *file, const char *words)
{
	char path[300], line[512];
	int found = 0;

	snprintf(path, sizeof(path), "%s/proc/driver/nvidia/%s", factsRoot(), file);
	FILE *in = fopen(path, "re");
	while (in && !found && fgets(line, sizeof(line), in))
		found = strstr(line, words) != NULL;
	if (in)
		fclose(in);
	return found;
}

static int hasPeermem(void)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/sys/module/nvidia_peermem", factsRoot());
	return !access(path, F_OK);
}

static void fillDriver(struct nics *nics)
{
	if (driverSays("version", "Open Kernel Module"))
		COPY(nics->gpuMemory, "by dma-buf: the driver's kernel modules are the open ones");
	else if (hasPeermem())
		COPY(nics->gpuMemory, "by nvidia-peermem, which is loaded");
	else
		COPY(nics->gpuMemory, "load nvidia-peermem, or install the driver's open kernel "
				      "modules (for dma-buf): NICs reach it by one of them");
	if (driverSays("params", "PeerMappingOverride=1"))
		COPY(nics->doorbell, "GPUs may write them: PeerMappingOverride=1 is set");
	else
		COPY(nics->doorbell, "if ginCommInit() warns that a CPU thread rings: load the "
				     "driver with NVreg_RegistryDwords=\"PeerMappingOverride=1;\"");
}

void factsGdaki(struct facts *f)
{
	fillPorts(&f->nics);
	if (f->nics.rdma && f->gpus.count)
		fillDriver(&f->nics);
}
