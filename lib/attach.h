/* SPDX-License-Identifier: BSD-3-Clause */
/* attach.h - the end of gin_info --attach in the processes of the ranks: see attach.c */
#ifndef GIN_LIB_ATTACH_H
#define GIN_LIB_ATTACH_H

#include "comm.h"

/* Without a socket for it, gin_info does not find the communicator: no failure. */
void attachOpen(ginComm_t comm);

/* Accepts a connection. By the control plane's thread; never waits. */
void attachTick(ginComm_t comm);

void attachClose(ginComm_t comm);

#endif
