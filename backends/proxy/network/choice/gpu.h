/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu.h - GPU memory that the network reaches without slots
 *
 * A rank finds out once, when it looks for a network: it registers a page of its GPU's memory, as
 * it later registers windows. If that fails, all of the rank's GPU memory goes through slots
 * (bounce.h).
 */
#ifndef GIN_PROXY_GPU_H
#define GIN_PROXY_GPU_H

#include "lib/gpu/memory.h"
#include "backends/proxy/network/fabric.h"

/* A page of GPU memory that is registered with the fabric: see fabricCalls.gpuMemoryAdd. */
struct networkGpu {
	void *page; /* NULL: none */
	struct fabricRegion *region;
	const char *how; /* "dma-buf" */
};

/*
 * Opens the fabric, registers a page of GPU memory, and closes both. Does the network reach GPU
 * memory? `how`, of FABRIC_WHY bytes: how, or why not. The device's scope is entered.
 */
int networkGpuTry(const struct device *device, const struct fabricCalls *calls,
		  const struct fabricWanted *want, char *how);

/* Returns 0, or -1 and why, of FABRIC_WHY bytes. The device's scope is entered. */
int networkGpuOpen(const struct device *device, const struct fabricCalls *calls,
		   struct fabric *fabric, struct networkGpu *gpu, char *why);

/* The endpoints of the fabric are closed. */
void networkGpuClose(const struct device *device, const struct fabricCalls *calls,
		     struct networkGpu *gpu);

/* Registers GPU memory of a window. Returns fabricOk, or fabricFailed and why. */
int networkGpuAdd(const struct device *device, const struct fabricCalls *calls,
		  struct fabric *fabric, const struct memory *memory, struct fabricRegion **region,
		  struct fabricKey *key, char *why);

#endif
