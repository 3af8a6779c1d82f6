// SPDX-License-Identifier: BSD-3-Clause
// call_warp.cu - gin_perf's kernels of latencies of calls by a warp
#include "gin_job.cuh"
#include "measure.cuh"

template void Meter<GinJob>::callOf<GinWarp>(const Case &, uint32_t, uint32_t);
