// SPDX-License-Identifier: BSD-3-Clause
// ping_pong_cta.cu - gin_perf's kernels of ping-pongs by a block
#include "gin_job.cuh"
#include "measure.cuh"

template void Meter<GinJob>::pingPongOf<GinCta>(const Case &, uint32_t, uint32_t);
