/* SPDX-License-Identifier: BSD-3-Clause */
/* direct_copies.h - whether copy engines make long puts and gets between direct peers */
#ifndef GIN_PROXY_DIRECT_COPIES_H
#define GIN_PROXY_DIRECT_COPIES_H

#include "transports.h"

/* Is the memory of `peer`, which may be this rank, in this rank's GPU? */
int proxyOnThisGpu(const struct backendHost *host, int peer);

/* May copy engines make copies of direct peers, this rank included? */
int directCopiesMay(const struct backendHost *host);

/* As ginDevComm.engineBytes. */
uint32_t directCopiesFrom(const struct proxyTransports *transports);

#endif
