/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_bounce.c - fuzz_network.c, with all data through slots of pinned memory, and with GPU memory
 */
/* NEEDS: libgin-weak.so */
#define FUZZ_BOUNCE "always"
#define FUZZ_ORDERED "0"
#define FUZZ_CUDA &fakeCuda
#include "fuzz_network.c"
