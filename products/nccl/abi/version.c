/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * version.c - ncclGetVersion() of the library with NCCL's own symbols
 *
 * All other symbols are second names of libgin-nccl's functions (products/nccl/nccl.mk). In nccl.h
 * this one is an inline function, which answers with the version that the program was compiled for.
 */
#include "gin/compat/nccl.h"

#pragma GCC visibility push(default)
ncclResult_t version(int *out) __asm__("ncclGetVersion");
ncclResult_t versionToo(int *out) __asm__("pncclGetVersion");
#pragma GCC visibility pop

ncclResult_t version(int *out)
{
	return ncclGetVersion(out);
}

ncclResult_t versionToo(int *out)
{
	return ncclGetVersion(out);
}
