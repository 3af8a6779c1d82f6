/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host.cc - the kernels as functions of host threads
 *
 * They write records for GIN_TRACE: without a trace that costs them a load for each record.
 */
#ifndef GIN_TRACE
#define GIN_TRACE
#endif
#include "kernels.cuh"

namespace
{

template <class Kernel> void runHost(void *args)
{
	const epArgs &of = *static_cast<const epArgs *>(args);
	epRun<Kernel>(of, of.plan.scratch + size_t{ginBlockIndex()} * of.plan.scratchBytes);
}

struct HostVariant {
	void (*run)(void *args);
	size_t (*scratch)(const epPlan &plan);
};

#define HOST_VARIANT(name, function, ...) {runHost<__VA_ARGS__>, __VA_ARGS__::scratchBytes},
const HostVariant variants[] = {EP_VARIANTS(HOST_VARIANT)};
#undef HOST_VARIANT

} // namespace

ginResult_t epHostRun(uint32_t variant, uint32_t grid, uint32_t block, const struct epArgs *args)
{
	return ginHostLaunch(grid, block, variants[variant].run, const_cast<epArgs *>(args));
}

size_t epScratchBytes(uint32_t variant, const struct epPlan *plan)
{
	return variants[variant].scratch(*plan);
}
