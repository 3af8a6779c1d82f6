/* SPDX-License-Identifier: BSD-3-Clause */
/* gdaki_late.h - posts of the gdaki route whose first try finds no room */
#ifndef GIN_TEST_GDAKI_LATE_H
#define GIN_TEST_GDAKI_LATE_H

#include "gdaki_rig.h"

/*
 * Fills the queue and completes all of it. Only a call without room notices: the next call posts
 * late.
 */
static Rig &fill(Rig &r, ginSharing sharing)
{
	Gin gin(r.dc, 0, sharing);

	while (r.q->reserved - r.q->done < DEPTH)
		EXPECT(gin.signal(PEER, GinSignalInc{0}) == ginSuccess);
	r.m->complete(r.q->reserved - 1);
	return r;
}

/* Operations whose first try finds no room. */
static void late(ginSharing sharing)
{
	Rig r;
	Gin gin(r.dc, 0, sharing);
	Expected put(fill(r, sharing));
	EXPECT(gin.put(PEER, r.window, 64, r.window, 8, 5, GinSignalAdd{3, 9}) == ginSuccess);
	put.one(ginMlx5Write(put.slot(), there, here, 5));
	put.one(ginMlx5FetchAdd(put.slot(CQE), word(3), sink, 9));
	put.end();
	Expected signal(fill(r, sharing));
	EXPECT(gin.signal(PEER, GinSignalIncAt{r.window, 64}) == ginSuccess);
	signal.one(ginMlx5FetchAdd(signal.slot(CQE), strict, sink, 1));
	signal.end();
	Expected swap(fill(r, sharing));
	EXPECT(gin.atomicSwap(PEER, r.window, 64, uint64_t{9}) == ginSuccess);
	struct ginMlx5TwoWqebbs two =
		ginMlx5MaskedCompareSwap8(swap.slot(), strict, sink, {0, 0, 9, UINT64_MAX});
	swap.one(two.wqebb[0]);
	swap.one(two.wqebb[1]);
	swap.one(ginMlx5Nop(swap.slot(CQE)));
	swap.end();
	Expected get(fill(r, sharing));
	EXPECT(gin.get(PEER, r.window, 64, r.window, 8, 5) == ginSuccess);
	get.one(ginMlx5Read(get.slot(CQE), there, here, 5));
	EXPECT(r.q->gets[0].read + r.q->gets[1].read == r.q->reserved);
}

#endif
