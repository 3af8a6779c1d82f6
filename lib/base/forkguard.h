/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forkguard.h - connections that children of this process must not keep open
 *
 * That a rank has died shows by the end of its connections. A child that it forked, for loading data
 * say, would hold them open: it closes them right after the fork.
 */
#ifndef GIN_LIB_FORKGUARD_H
#define GIN_LIB_FORKGUARD_H

/* Without memory for its record `fd` is just not guarded. */
void forkGuard(int fd);

/* Closes it, guarded or not. */
void forkGuardClose(int fd);

#endif
