/* SPDX-License-Identifier: BSD-3-Clause */
/* room.h - how much host memory is free */
#ifndef GIN_LIB_ROOM_H
#define GIN_LIB_ROOM_H

#include "gin.h"

/*
 * Bytes that can be allocated before the kernel kills a process for lack of memory; UINT64_MAX when
 * it is not known, or `wanted` is too little to ask. Exact if it is less than `wanted`. *what names
 * the source of the limit: this host or this container.
 */
uint64_t roomLeft(uint64_t wanted, const char **what);

/*
 * Fails when there is no room for `bytes` bytes of memory `kind`, "shared memory" for example. More
 * bytes than there is room for would end this process, or another one, by a signal.
 */
ginResult_t roomCheck(size_t bytes, const char *kind);

/*
 * The rest of a container's limit: the least of its control group and of the groups that contain
 * it. `groups` lists the control groups as /proc/self/cgroup does; `root` is /sys/fs/cgroup.
 * UINT64_MAX when no group has a limit. Exact if it is less than `wanted`.
 */
uint64_t roomOfContainer(const char *groups, const char *root, uint64_t wanted);

#endif
