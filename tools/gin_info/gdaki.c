/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gdaki.c - whether GPU threads can post to each NIC port, and how the NVIDIA driver is configured
 *
 * ginNicQuery() answers for each port. For the GPU, this file reads the NVIDIA driver's files in
 * /proc and /sys. They are hints: ginCommInit() tries the GPU for real, and only when a pair of
 * ranks needs gdaki.
 */
#include "gin_info.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COPY(to, from) snprintf(to, sizeof(to), "%s", from)

static struct nicFacts *findPort(struct nicList *nics, const ginNicInfo_t *info)
{
	for (int i = 0; i < nics->count; i++)
		if (nics->nic[i].rdma && nics->nic[i].port == info->port &&
		    !strcmp(nics->nic[i].name, info->name))
			return &nics->nic[i];
	return NULL;
}

static void fillPorts(struct nicList *nics)
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
		struct nicFacts *n = findPort(nics, &info);
		if (!n)
			continue;
		n->gdaki = info.usable;
		COPY(n->gdakiWhy, info.why);
	}
}

/* Returns 1 when a line of the file contains the words. */
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

static void fillDriver(struct nicList *nics)
{
	if (driverSays("version", "Open Kernel Module"))
		COPY(nics->gpuMemory, "by dma-buf: the driver has open kernel modules");
	else if (hasPeermem())
		COPY(nics->gpuMemory, "by nvidia-peermem, which is loaded");
	else
		COPY(nics->gpuMemory, "load nvidia-peermem, or install the driver's open kernel "
				      "modules (for dma-buf): NICs need one of the two");
	if (driverSays("params", "PeerMappingOverride=1"))
		COPY(nics->doorbell, "GPUs may write them: PeerMappingOverride=1 is set");
	else
		COPY(nics->doorbell,
		     "if ginCommInit() warns that a CPU thread rings them: load "
		     "the driver with NVreg_RegistryDwords=\"PeerMappingOverride=1;\"");
}

void factsGdaki(struct facts *f)
{
	fillPorts(&f->nics);
	if (f->nics.rdma && f->gpus.count)
		fillDriver(&f->nics);
}
