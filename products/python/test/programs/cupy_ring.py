# SPDX-License-Identifier: BSD-3-Clause
"""cupy_ring.py - a ring in CUDA C++ by CuPy, of processes on GPUs: rings.py."""

import cupy
from programs import rings

import libgin.cupy as gin

SOURCE = r"""
#include <gin_device.cuh>

extern "C" __global__ void ring(ginDevComm dc, ginWindow_t inbox, ginWindow_t outbox,
                                const int *target, int *source, int *copy, int *status, int n,
                                int right, int round, unsigned long long limit)
{
    Gin gin(dc, 0);
    unsigned long long bytes = n * 4ull;
    for (int at = threadIdx.x; at < n; at += blockDim.x)
        source[at] = at * 3 + dc.rank * 1000003 + round * 7;
    ginResult_t result = gin.put(right, inbox, 0, outbox, 0, bytes, GinSignalInc{0}, GinNone{},
                                 GinCta{});
    if (result == ginSuccess)
        result = gin.waitSignal(0, round, GinCta{}, ginTimeout(limit));
    for (int at = threadIdx.x; at < n; at += blockDim.x)
        copy[at] = target[at] + 1;
    ginResult_t flushed = gin.flush(GinCta{}, ginTimeout(limit));
    if (threadIdx.x == 0)
        *status = result ? result : flushed;
}
"""


def make(comm, n):
    cupy.cuda.Device(comm.device_index).use()
    kernel = gin.RawModule(code=SOURCE).get_function("ring")
    inbox, outbox = comm.alloc(4 * n), comm.alloc(4 * n)
    target, source = (cupy.asarray(memory).view(cupy.int32) for memory in (inbox, outbox))
    copy, status = cupy.zeros(n, cupy.int32), cupy.full(1, -1, cupy.int32)

    def launch(dc, to, source_window, right, round):
        numbers = map(cupy.int32, (n, right, round))
        arrays = target, source, copy, status
        kernel((1,), (256,), (dc, to, source_window, *arrays, *numbers, cupy.uint64(rings.LIMIT)))

    def done():
        cupy.cuda.Device().synchronize()
        return cupy.asnumpy(copy), int(status[0])

    return inbox, outbox, launch, done


if __name__ == "__main__":
    rings.run("cupy", make)
