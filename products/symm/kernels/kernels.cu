/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels.cu - the entry points of the fatbin; products/symm/lib/gpu.c finds them by name */
#include "pad.cuh"

extern "C" __global__ void ginSymmRun(const __grid_constant__ symmCall call)
{
	symmRun<false>(call);
}

extern "C" __global__ void ginSymmRunFar(const __grid_constant__ symmCall call)
{
	symmRun<true>(call);
}
