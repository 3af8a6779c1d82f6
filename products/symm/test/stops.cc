/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stops.cc - a wait ends by the page's word, before the host releases pads; on a page, and pads,
 * that the test fills by hand
 */
#include "products/symm/kernels/pad.cuh"

#include "expect.h"

#include <new>

enum { RANKS = 3, PEER = 1 };

static ginResult_t expectEnd(ginResult_t stop, uint32_t word)
{
	alignas(symmPage) char memory[sizeof(symmPage) + SYMM_RECORDS * RANKS] = {};
	uint32_t pad[RANKS] = {0, word, 0}, *pads[RANKS] = {pad, pad, pad};
	symmPage *page = new (memory) symmPage;
	struct symmCall call = {};

	page->stop = stop;
	call.pads = pads;
	call.page = page;
	call.nRanks = RANKS;
	call.first = PEER;
	call.count = 1;
	call.steps = SYMM_TAKE;
	call.record = 1;
	symmRun<false>(call);
	EXPECT_EQUAL(pad[PEER], 0);
	EXPECT_EQUAL(page->missing[RANKS + PEER], word ? 0 : SYMM_TAKE);
	return static_cast<ginResult_t>(page->record[1].result);
}

int main()
{
	EXPECT_EQUAL(expectEnd(ginErrorPeer, 0), ginErrorPeer);
	EXPECT_EQUAL(expectEnd(ginErrorAborted, 0), ginErrorAborted);
	EXPECT_EQUAL(expectEnd(ginErrorPeer, 1), ginSuccess); /* it has signalled, and left */
	printf("stops: 3 waits\n");
	return 0;
}
