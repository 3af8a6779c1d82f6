/* SPDX-License-Identifier: BSD-3-Clause */
/* info.h - structs that start with their size and grow from version to version */
#ifndef GIN_LIB_INFO_H
#define GIN_LIB_INFO_H

#include "gin.h"

/*
 * Copies `info`, of `bytes` bytes, to the caller's `out`, as far as the size in `out` allows. Then
 * sets the size in `out` to the number of bytes written. Fails when `out` is NULL or its size is
 * not plausible; the sentence names the initializer.
 */
ginResult_t infoGive(const void *info, size_t bytes, const char *initializer, void *out);

/*
 * The opposite direction: copies a struct of the caller, of at least `least` bytes, over `bytes`
 * bytes of defaults. Members that the caller's older header lacks keep their default. 0: the size
 * of `given` is not plausible, and `out` is unchanged.
 */
int infoTake(const void *given, size_t least, void *out, size_t bytes);

#endif
