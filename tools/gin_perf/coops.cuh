// SPDX-License-Identifier: BSD-3-Clause
// coops.cuh - kernels of gin_perf that sources of their own have, because compiling them takes long
#ifndef GIN_PERF_COOPS_CUH
#define GIN_PERF_COOPS_CUH

#include "gin_job.cuh"
#include "measure.cuh"

extern template void Meter<GinJob>::pingPongOf<GinThread>(const Case &, uint32_t, uint32_t);
extern template void Meter<GinJob>::pingPongOf<GinWarp>(const Case &, uint32_t, uint32_t);
extern template void Meter<GinJob>::pingPongOf<GinCta>(const Case &, uint32_t, uint32_t);
extern template void Meter<GinJob>::callOf<GinThread>(const Case &, uint32_t, uint32_t);
extern template void Meter<GinJob>::callOf<GinWarp>(const Case &, uint32_t, uint32_t);
extern template void Meter<GinJob>::callOf<GinCta>(const Case &, uint32_t, uint32_t);
extern template void Meter<GinJob>::streamOf<GinThread>(const Case &);
extern template void Meter<GinJob>::streamOf<GinWarp>(const Case &);
extern template void Meter<GinJob>::streamOf<GinCta>(const Case &);

#endif
