// SPDX-License-Identifier: BSD-3-Clause
// other.cu - the second source of the program: a device function that is linked, and a kernel
#include "exchange.h"

ON_BOTH ginResult_t exchangeInOther(const Exchange &e)
{
	return exchangeHere(e);
}

struct InOther {
	Exchange e;

	GIN_FN void operator()() const
	{
		ginResult_t status = exchangeHere(e);
		if (ginThreadIndex() == 0)
			*e.result = status;
	}
};

void launchOther(const Rank &r, const Exchange &e)
{
	launch(r, 1, r.device < 0 ? GIN_HOST_WARP : 64, InOther{e});
}
