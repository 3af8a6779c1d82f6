/* SPDX-License-Identifier: BSD-3-Clause */
/* room.h - how much memory there is left */
#ifndef GIN_LIB_ROOM_H
#define GIN_LIB_ROOM_H

#include <stdint.h>

/*
 * Bytes that can be had without the kernel ending a process for them, UINT64_MAX when it does not
 * say; `what` names whose they are.
 */
uint64_t roomLeft(const char **what);

#endif
