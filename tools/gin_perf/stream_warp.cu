// SPDX-License-Identifier: BSD-3-Clause
// stream_warp.cu - gin_perf's kernels of streams by a warp
#include "gin_job.cuh"
#include "measure.cuh"

template void Meter<GinJob>::streamOf<GinWarp>(const Case &);
