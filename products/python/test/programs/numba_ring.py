# SPDX-License-Identifier: BSD-3-Clause
"""numba_ring.py - a ring in Numba, of processes on GPUs: rings.py."""

import numpy as np
from numba import cuda
from programs import rings

import libgin.numba as gin

LIMIT = rings.LIMIT


@gin.jit
def ring(dc, inbox, outbox, target, source, copy, status, rank, right, round):
    n, threads = len(copy), cuda.blockDim.x
    for at in range(cuda.threadIdx.x, n, threads):
        source[at] = at * 3 + rank * 1000003 + round * 7
    result = gin.put(dc, right, inbox, 0, outbox, 0, n * 4, signal=0, timeout=LIMIT)
    result |= gin.wait_signal(dc, 0, round, timeout=LIMIT)
    for at in range(cuda.threadIdx.x, n, threads):
        copy[at] = target[at] + 1
    result |= gin.flush(dc, timeout=LIMIT)
    if cuda.threadIdx.x == 0:
        status[0] = result


def make(comm, n):
    cuda.select_device(comm.device_index)
    inbox, outbox = comm.alloc(4 * n), comm.alloc(4 * n)
    target, source = (cuda.as_cuda_array(memory).view(np.int32) for memory in (inbox, outbox))
    copy = cuda.device_array(n, np.int32)
    status = cuda.to_device(np.full(1, -1, np.int32))

    def launch(dc, to, source_window, right, round):
        arguments = target, source, copy, status, comm.rank, right, round
        ring[1, 256](dc, to, source_window, *arguments)

    def done():
        cuda.synchronize()
        return copy.copy_to_host(), int(status.copy_to_host()[0])

    return inbox, outbox, launch, done


if __name__ == "__main__":
    rings.run("numba", make)
