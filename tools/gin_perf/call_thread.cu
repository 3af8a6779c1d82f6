// SPDX-License-Identifier: BSD-3-Clause
// call_thread.cu - gin_perf's kernels of latencies of calls by a thread
#include "gin_job.cuh"
#include "measure.cuh"

template void Meter<GinJob>::callOf<GinThread>(const Case &, uint32_t, uint32_t);
