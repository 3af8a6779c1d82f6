// SPDX-License-Identifier: BSD-3-Clause
// coop_cta.cu - gin_perf's kernels whose calls are made by a block
#include "gin_job.cuh"
#include "measure.cuh"

template void Meter<GinJob>::latencyOf<GinCta>(const Case &, uint32_t, uint32_t);
template void Meter<GinJob>::streamOf<GinCta>(const Case &);
