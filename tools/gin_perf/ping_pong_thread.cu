// SPDX-License-Identifier: BSD-3-Clause
// ping_pong_thread.cu - gin_perf's kernels of ping-pongs by a thread
#include "gin_job.cuh"
#include "measure.cuh"

template void Meter<GinJob>::pingPongOf<GinThread>(const Case &, uint32_t, uint32_t);
