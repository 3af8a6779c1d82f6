/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forkguard.h - what children of this process must not use or keep open
 *
 * The peers of a rank learn of its death by the end of its connections. A child that the rank has
 * forked, to load data for example, would hold them open. So the child closes them after fork().
 */
#ifndef GIN_LIB_FORKGUARD_H
#define GIN_LIB_FORKGUARD_H

/* When there is no memory for the record, `fd` is not guarded. */
void forkGuard(int fd);

/* Closes `fd`, guarded or not. */
void forkGuardClose(int fd);

#endif
