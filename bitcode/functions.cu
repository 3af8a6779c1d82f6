/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * functions.cu - the functions of gin_functions(3) as symbols of libgin_device.bc
 *
 * Compiled by clang without a CUDA toolkit: bitcode/build. The functions share every context with
 * the whole GPU, so a post has no shape for fewer threads.
 */
#define GIN_C_FN extern "C" __device__
#define GIN_SHAPES (GIN_SHAPE_RAISES | GIN_SHAPE_AT | GIN_SHAPE_COUNTS)
#include <gin_device.cuh>
