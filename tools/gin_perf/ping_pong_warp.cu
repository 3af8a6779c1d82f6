// SPDX-License-Identifier: BSD-3-Clause
// ping_pong_warp.cu - gin_perf's kernels of ping-pongs by a warp
#include "gin_job.cuh"
#include "measure.cuh"

template void Meter<GinJob>::pingPongOf<GinWarp>(const Case &, uint32_t, uint32_t);
