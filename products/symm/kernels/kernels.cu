/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels.cu - the entry point of the fatbin; products/symm/lib/gpu.c finds it by its name */
#include "pad.cuh"

extern "C" __global__ void ginSymmRun(const __grid_constant__ symmCall call)
{
	symmRun(call);
}
