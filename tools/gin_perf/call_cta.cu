// SPDX-License-Identifier: BSD-3-Clause
// call_cta.cu - gin_perf's kernels of latencies of calls by a block
#include "gin_job.cuh"
#include "measure.cuh"

template void Meter<GinJob>::callOf<GinCta>(const Case &, uint32_t, uint32_t);
