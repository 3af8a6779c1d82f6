/* SPDX-License-Identifier: BSD-3-Clause */
/* load.h - libgin-rdma.so, opened when it is first asked for */
#ifndef GIN_GDAKI_LOAD_H
#define GIN_GDAKI_LOAD_H

#include "rdma.h"

/* Its calls; or NULL, and in words why there are none. Any thread. */
const struct rdma *rdmaLoad(char *why, size_t room);

#endif
