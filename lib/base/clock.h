/* SPDX-License-Identifier: BSD-3-Clause */
/* clock.h - deadlines on the monotonic clock */
#ifndef GIN_LIB_CLOCK_H
#define GIN_LIB_CLOCK_H

#include <stdint.h>
#include <time.h>

#define SECOND UINT64_C(1000000000)

/* Nanoseconds. */
static inline uint64_t clockNow(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

/* The time until `deadline`, for poll(2): milliseconds, rounded up, at most `most`. */
static inline int clockLeftMs(uint64_t deadline, int most)
{
	uint64_t now = clockNow();
	uint64_t left = deadline > now ? (deadline - now + 999999) / 1000000 : 0;
	return left < (uint64_t)most ? (int)left : most;
}

#endif
