// SPDX-License-Identifier: BSD-3-Clause
// coop_thread.cu - gin_perf's kernels whose calls are made by a thread
#include "gin_job.cuh"
#include "measure.cuh"

template void Meter<GinJob>::latencyOf<GinThread>(const Case &, uint32_t, uint32_t);
template void Meter<GinJob>::streamOf<GinThread>(const Case &);
