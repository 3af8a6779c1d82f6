// SPDX-License-Identifier: BSD-3-Clause
// coop_warp.cu - gin_perf's kernels whose calls are made by a warp
#include "gin_job.cuh"
#include "measure.cuh"

template void Meter<GinJob>::latencyOf<GinWarp>(const Case &, uint32_t, uint32_t);
template void Meter<GinJob>::streamOf<GinWarp>(const Case &);
