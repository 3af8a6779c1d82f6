/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu.h - makes a CUDA context before the measurement, so that the start of the CUDA driver is not
 * measured as part of libgin's
 */
#ifndef GIN_BENCH_GPU_H
#define GIN_BENCH_GPU_H

#include <dlfcn.h>
#include <stddef.h>

#include "stage.h"

/* Makes the primary context of GPU `local` % number of GPUs current. Does nothing without GPUs. */
static inline void gpuOpen(int local)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *context = NULL;
	int count = 0, device;

	if (!cuda)
		return;
	int (*init)(unsigned) = (int (*)(unsigned))dlsym(cuda, "cuInit");
	int (*getCount)(int *) = (int (*)(int *))dlsym(cuda, "cuDeviceGetCount");
	int (*get)(int *, int) = (int (*)(int *, int))dlsym(cuda, "cuDeviceGet");
	int (*retain)(void **, int) =
		(int (*)(void **, int))dlsym(cuda, "cuDevicePrimaryCtxRetain");
	int (*enter)(void *) = (int (*)(void *))dlsym(cuda, "cuCtxSetCurrent");

	if (!init || !getCount || !get || !retain || !enter || init(0) || getCount(&count) ||
	    !count)
		return;
	if (get(&device, local % count) || retain(&context, device) || enter(context))
		stageDie("CUDA", "no context");
}

#endif
