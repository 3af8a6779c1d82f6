/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rail_places.cuh - the places of a dispatch or a combine between domains
 *
 * A kernel of one block, which runs before the call's own: that one may wait for its SMs, and the
 * ranks of this domain need not wait with it.
 */
#ifndef GIN_EP_HT_RAIL_PLACES_CUH
#define GIN_EP_HT_RAIL_PLACES_CUH

#include "common.cuh"

class EpHtRailPlaces : public EpHt
{
public:
	GIN_FN EpHtRailPlaces(const epArgs &a, char *shared)
	    : EpHt(a, shared, a.ht.call.number, true)
	{
	}

	GIN_FN void run()
	{
		if (begin())
			postPlaces();
	}
};

#endif
