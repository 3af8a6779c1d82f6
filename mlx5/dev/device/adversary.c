/* SPDX-License-Identifier: BSD-3-Clause */
#include "adversary.h"

#include <stddef.h>
#include <time.h>

#include "mlx5/dev/host/options.h"

/* xorshift64* */
static uint64_t state;

static uint32_t next(void)
{
	if (!state)
		state = options.seed * 2 + 0x9e3779b97f4a7c15ull;
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (uint32_t)(state * 0x2545f4914f6cdd1dull >> 32);
}

uint32_t adversaryNumber(uint32_t most)
{
	return options.adversary && most ? next() % most : 0;
}

bool adversaryOnce(uint32_t in)
{
	return options.adversary && next() % in == 0;
}

void adversaryPause(void)
{
	const struct timespec moment = {0, 1000};

	/* Not sched_yield(): on a busy machine that lasts until all others had their turns. */
	if (adversaryOnce(4))
		nanosleep(&moment, NULL);
}
