/* SPDX-License-Identifier: BSD-3-Clause */
/* info.h - output structs that start with their size, and grow from version to version */
#ifndef GIN_LIB_INFO_H
#define GIN_LIB_INFO_H

#include "gin.h"

/*
 * Copies `info`, of `bytes` bytes, to the caller's `out`: no more of it than the caller's size says
 * there is room for. Afterwards that size says what was written. Fails when `out` is NULL or its
 * size has no meaning, and then names the initializer.
 */
ginResult_t infoGive(const void *info, size_t bytes, const char *initializer, void *out);

#endif
