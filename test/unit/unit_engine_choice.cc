/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_engine_choice.cc - which copies of direct peers go to a copy engine by themselves
 */
#include <gin_device.cuh>

#include <initializer_list>

#include "expect.h"

enum { LEAST = 4096 };

/*
 * Bulk copies (`leastBulk`) are faster than an engine within a GPU, and up to a length beyond it.
 */
template <class Coop>
static void choiceOf(const ginDevComm &dc, Coop coop, size_t least, size_t leastBulk)
{
	for (bool own : {false, true}) {
		EXPECT(!ginEngineIsFaster(dc, own, false, least - 1, coop));
		EXPECT(ginEngineIsFaster(dc, own, false, least, coop));
		EXPECT(!ginEngineIsFaster(dc, own, true, leastBulk - 1, coop));
	}
	EXPECT(ginEngineIsFaster(dc, false, true, leastBulk, coop));
	EXPECT(!ginEngineIsFaster(dc, true, true, leastBulk, coop));
	EXPECT(!ginEngineIsFaster(dc, true, true, size_t{1} << 40, coop));
}

int main()
{
	ginDevComm dc = {};

	dc.engineBytes = LEAST;
	choiceOf(dc, GinThread{}, LEAST, LEAST * 32);
	choiceOf(dc, GinTile<4>{}, LEAST * 4, LEAST * 32);
	return 0;
}
