/* SPDX-License-Identifier: BSD-3-Clause */
/* host.cc - the kernel as a function of the calling thread, for ranks without a GPU */
#include "pad.cuh"

extern "C" __attribute__((visibility("hidden"))) void symmHostRun(const struct symmCall *call)
{
	if (call->dc)
		symmRun<true>(*call);
	else
		symmRun<false>(*call);
}
