// SPDX-License-Identifier: BSD-3-Clause
// stream_thread.cu - gin_perf's kernels of streams by a thread
#include "gin_job.cuh"
#include "measure.cuh"

template void Meter<GinJob>::streamOf<GinThread>(const Case &);
