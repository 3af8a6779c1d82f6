/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * adversary.h - decisions of a device that keeps to the rules and to nothing more
 *
 * Without MLX5DEV_ADVERSARY nothing is ever decided against the program.
 */
#ifndef MLX5DEV_ADVERSARY_H
#define MLX5DEV_ADVERSARY_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the adversary acts this time: once in that many times. */
bool adversaryOnce(uint32_t in);

/* 0 to most - 1. */
uint32_t adversaryNumber(uint32_t most);

/* Gives other threads the time to look. */
void adversaryPause(void);

#endif
