/* SPDX-License-Identifier: BSD-3-Clause */
/* cpu_copy.h - copies bytes that others read during the copy */
#ifndef GIN_PROXY_CPU_COPY_H
#define GIN_PROXY_CPU_COPY_H

#include <stddef.h>

/*
 * A reader at the target sees each aligned word of 4 or 8 bytes whole. memcpy() may store a word in
 * pieces.
 */
void copyByCpu(char *to, const char *from, size_t bytes);

#endif
