/* SPDX-License-Identifier: BSD-3-Clause */
/* numbers.h - a number of the environment, and the time */
#ifndef GIN_TEST_NUMBERS_H
#define GIN_TEST_NUMBERS_H

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

/* Of the variable, where it is set. */
static inline uint64_t numberOr(const char *name, uint64_t usual)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 0) : usual;
}

static inline uint64_t nowNs(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
