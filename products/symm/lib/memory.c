/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.c - memory of devices and of the host, and when it is freed */
#include "symm.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

pthread_mutex_t symmLock = PTHREAD_MUTEX_INITIALIZER;

static struct symmMemory *unused; /* to be freed */
static ginComm_t host;		  /* of one rank, which allocates host memory */
static pthread_mutex_t hostLock = PTHREAD_MUTEX_INITIALIZER;
static pid_t user; /* the process that uses the library; 0: none yet */

int symmIsChild(void)
{
	pid_t none = 0;

	return !__atomic_compare_exchange_n(&user, &none, getpid(), 0, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED) &&
	       none != getpid();
}

static int alone(void *arg, const void *in, void *out, size_t bytes)
{
	(void)arg;
	memcpy(out, in, bytes);
	return 0;
}

/* ginMemAlloc() without a communicator would take a GPU, if there is one. */
static ginResult_t openHost(void)
{
	ginConfig_t config = GIN_CONFIG_INIT;
	ginResult_t result = ginSuccess;

	config.device = GIN_DEVICE_NONE;
	config.allgather = alone;
	pthread_mutex_lock(&hostLock);
	if (!host && (result = ginCommInit(&config, &host)))
		symmFailGin(result, "a communicator of host threads");
	pthread_mutex_unlock(&hostLock);
	return result;
}

static ginResult_t makeOnHost(size_t bytes, void **base)
{
	ginResult_t result = openHost();

	if (result)
		return result;
	result = ginMemAlloc(host, bytes, base);
	return result ? symmFailGin(result, "memory of the host") : ginSuccess;
}

static ginResult_t makeOnGpu(struct symmGpu *gpu, size_t bytes, void **base)
{
	ginResult_t result = symmGpuEnter(gpu);
	void *made;

	if (result)
		return result;
	if ((result = ginMemAlloc(NULL, bytes, &made)))
		symmFailGin(result, "memory of a GPU");
	symmGpuLeave(gpu);
	if (result)
		return result;
	if ((result = symmGpuClear(gpu, made, bytes))) {
		ginMemFree(NULL, made);
		return result;
	}
	*base = made;
	return ginSuccess;
}

ginResult_t symmMemoryMake(struct symmGpu *gpu, size_t bytes, struct symmMemory *memory)
{
	memory->gpu = gpu;
	return gpu ? makeOnGpu(gpu, bytes, &memory->base) : makeOnHost(bytes, &memory->base);
}

void symmMemoryLater(struct symmMemory *memory)
{
	memory->next = unused;
	unused = memory;
}

/* Kernels may still use the memory of a GPU. */
static void freeOne(struct symmMemory *memory)
{
	if (symmIsCapturing(memory->gpu)) {
		pthread_mutex_lock(&symmLock);
		symmMemoryLater(memory);
		pthread_mutex_unlock(&symmLock);
		return;
	}
	if (!memory->gpu || !symmGpuSync(memory->gpu))
		ginMemFree(NULL, memory->base);
	free(memory);
}

void symmSweep(void)
{
	struct symmMemory *next;

	pthread_mutex_lock(&symmLock);
	struct symmMemory *memory = unused;
	unused = NULL;
	pthread_mutex_unlock(&symmLock);
	for (; memory; memory = next) {
		next = memory->next;
		freeOne(memory);
	}
}
