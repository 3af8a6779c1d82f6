/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * range.h - shows calls and threads to profilers, by NVTX
 *
 * Without a tool in the process a call is two loads and two branches. Without NVTX's headers at the
 * time of the build nothing is shown.
 */
#ifndef GIN_LIB_RANGE_H
#define GIN_LIB_RANGE_H

/* A range of the calling thread, in the domain "libgin". The text is copied. */
void rangeBegin(const char *name);
void rangeEnd(void);

/* Names the calling thread. */
void rangeThread(const char *name);

#endif
