/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * atomic.h - atomic operations on memory, plain and masked, of 4 and 8 bytes
 */
#ifndef MLX5DEV_ATOMIC_H
#define MLX5DEV_ATOMIC_H

#include <stdint.h>

/*
 * operands: add or swap, compare or field boundary, swap mask, compare mask. What was there before.
 */
uint64_t atomicExecute(uint8_t opcode, uint64_t at, uint32_t bytes, const uint64_t operands[4]);

#endif
