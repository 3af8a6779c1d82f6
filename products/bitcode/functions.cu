/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * functions.cu - the functions of gin_functions(3) as symbols of libgin_device.bc
 *
 * Compiled by clang without a CUDA toolkit: products/bitcode/build.
 */
#define GIN_C_FN extern "C" __device__
#define GIN_SHAPES 0 /* posts are compiled once */
#include <gin_device.cuh>
