/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_refused.c - every call of the driver that cuda.c does not have */
#include "lib/gpu/cuda.h"

__attribute__((used, visibility("default"))) cuResult fakeRefuse(void)
{
	return 801; /* CUDA_ERROR_NOT_SUPPORTED */
}

#define REFUSE(name, symbol, args) __asm__(".weak " symbol "\n.set " symbol ", fakeRefuse");
CUDA_CALLS(REFUSE)
