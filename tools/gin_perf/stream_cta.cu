// SPDX-License-Identifier: BSD-3-Clause
// stream_cta.cu - gin_perf's kernels of streams by a block
#include "gin_job.cuh"
#include "measure.cuh"

template void Meter<GinJob>::streamOf<GinCta>(const Case &);
