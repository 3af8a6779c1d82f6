/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_bounce.c - fuzz_network.c, with all data through slots of pinned memory */
#define FUZZ_BOUNCE "always"
#define FUZZ_ORDERED "0"
#include "fuzz_network.c"
