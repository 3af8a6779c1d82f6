/* SPDX-License-Identifier: BSD-3-Clause */
/* path.h - how packets get to a peer, as fields of INIT2RTR_QP */
#ifndef GIN_NIC_PATH_H
#define GIN_NIC_PATH_H

#include "queues.h"

/* To the peer's port; `spread` differs among connections, so that they may take different ways. */
int pathSet(const struct rdmaPort *port, const struct rdmaAddress *peer,
	    const struct rdmaPath *path, uint32_t spread, uint8_t *in, char *why);

/* Can the two ports talk at all? 0, or -1 and why not. */
int pathCheck(const struct rdmaPort *port, const struct rdmaAddress *peer, char *why);

#endif
