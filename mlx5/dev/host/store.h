/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * store.h - a store instruction, done at another address
 */
#ifndef MLX5DEV_STORE_H
#define MLX5DEV_STORE_H

#include <stddef.h>
#include <stdint.h>

/*
 * The instruction at which the thread of `context` (a ucontext_t) stands, with `to` for its
 * destination; the thread goes on after it. The bytes stored; 0: it is none that we know.
 */
size_t storeEmulate(void *context, uint8_t *to);

#endif
