/* SPDX-License-Identifier: BSD-3-Clause */
/* words.h - changes a word in memory that CPUs of this process reach */
#ifndef GIN_PROXY_WORDS_H
#define GIN_PROXY_WORDS_H

#include <stdint.h>

/*
 * `op`, of enum ginOp: ginOpBarrier stores the operand, an atomic changes the word of 4 or 8
 * `bytes`, every other operation adds to the word. Returns an atomic's old value, or 0. `at` is
 * aligned.
 */
uint64_t wordChange(uint8_t op, void *at, uint64_t bytes, uint64_t operand, uint64_t compare);

#endif
