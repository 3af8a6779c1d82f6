/* SPDX-License-Identifier: BSD-3-Clause */
/* room.h - how much host memory is free */
#ifndef GIN_LIB_ROOM_H
#define GIN_LIB_ROOM_H

#include <stdint.h>

/*
 * Bytes that can be allocated before the kernel kills a process for lack of memory; UINT64_MAX when
 * it is not known. *what says what sets the limit: this host or this container.
 */
uint64_t roomLeft(const char **what);

#endif
