/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels.cuh - all kernels and their variants
 *
 * EP_VARIANTS names each variant: X(name, kernel, class). epVariantOf() chooses by the arguments.
 */
#ifndef GIN_EP_KERNELS_CUH
#define GIN_EP_KERNELS_CUH

#include "combine_recv.cuh"
#include "combine_send.cuh"
#include "control.cuh"
#include "dispatch_recv.cuh"
#include "dispatch_send.cuh"

template <class Kernel> GIN_FN void epRun(const epArgs &args, char *shared)
{
	Kernel kernel(args, shared);
	kernel.run();
}

#endif
