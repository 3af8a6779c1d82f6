// SPDX-License-Identifier: BSD-3-Clause exchange.h - what both sources of the program share;
// test/install/check compiles it where libgin is installed
#ifndef GIN_TEST_EXCHANGE_H
#define GIN_TEST_EXCHANGE_H

#include "launch.h"

enum { BYTES = 1000 };

// Bytes go to `right` ranks further on, at `place` of both windows, and raise that signal.
struct Exchange {
	ginDevComm dc;
	ginWindow_t inbox, outbox;
	int right;
	uint32_t place;
	ginResult_t *result;
};

GIN_FN ginResult_t exchangeHere(const Exchange &e)
{
	Gin gin(e.dc, 0);
	int nRanks = static_cast<int>(e.dc.nRanks);
	int to = (static_cast<int>(e.dc.rank) + e.right + nRanks) % nRanks;
	size_t at = static_cast<size_t>(e.place) * BYTES;

	ginResult_t status = gin.put(to, e.inbox, at, e.outbox, at, BYTES, GinSignalInc{e.place},
				     GinNone{}, GinCta{});
	return status == ginSuccess ? gin.waitSignal(e.place, 1, GinCta{}) : status;
}

#ifdef __CUDACC__
#define ON_BOTH __host__ __device__
#else
#define ON_BOTH
#endif

// The same in other.cu: kernels get there with -rdc=true, host threads always.
ON_BOTH ginResult_t exchangeInOther(const Exchange &e);

// Launches a kernel of other.cu.
void launchOther(const Rank &r, const Exchange &e);

#endif
