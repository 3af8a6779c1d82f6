# SPDX-License-Identifier: BSD-3-Clause
"""cute_ring.py - a ring in CuTe DSL, of processes on GPUs: rings.py. Needs torch.

CUBIN names a cubin of the kernel, for a machine without CuTe DSL: test/compilers/cute_calls.py
writes it.
"""

import ctypes
import os
import re

from programs import rings

CUBIN = os.environ.get("CUBIN")

if not CUBIN:
    import cutlass.cute as cute
    from cutlass import Int32, Int64

    import libgin.cute as gin

    def words(address, n):
        pointer = cute.make_ptr(Int32, address, cute.AddressSpace.gmem, assumed_align=4)
        return cute.make_tensor(pointer, cute.make_layout(n))

    @cute.kernel
    def ring(
        dc: Int64,
        inbox: Int64,
        outbox: Int64,
        target: Int64,
        source: Int64,
        copy: Int64,
        status: Int64,
        n: Int32,
        rank: Int32,
        right: Int32,
        round: Int32,
    ):
        thread, _, _ = cute.arch.thread_idx()
        threads, _, _ = cute.arch.block_dim()
        filled, got, copied = words(source, n), words(target, n), words(copy, n)
        for at in range(thread, n, threads):
            filled[at] = at * 3 + rank * 1000003 + round * 7
        result = gin.put(dc, right, inbox, 0, outbox, 0, n * 4, signal=0, timeout=rings.LIMIT)
        result = result | gin.wait_signal(dc, 0, round, timeout=rings.LIMIT)
        for at in range(thread, n, threads):
            copied[at] = got[at] + 1
        result = result | gin.flush(dc, timeout=rings.LIMIT)
        if thread == 0:
            words(status, 1)[0] = result

    @cute.jit
    def launch_ring(
        dc,
        inbox,
        outbox,
        target: Int64,
        source: Int64,
        copy: Int64,
        status: Int64,
        n: Int32,
        rank: Int32,
        right: Int32,
        round: Int32,
    ):
        kernel = ring(dc, inbox, outbox, target, source, copy, status, n, rank, right, round)
        kernel.launch(grid=[1, 1, 1], block=[256, 1, 1])

    def compiled():
        numbers = [Int64(0)] * 7 + [Int32(1)] * 4
        return cute.compile(launch_ring, *numbers)


def by_cubin():
    """The kernel as a function of 7 handles and addresses, and 4 numbers."""
    from programs.kernels import Kernel

    with open(CUBIN, "rb") as file:
        cubin = file.read()
    name = re.search(rb"kernel_\w*ring\w*", cubin)[0].decode()
    kernel = Kernel(cubin, name)

    def launch(*arguments):
        handles = [ctypes.c_uint64(int(argument)) for argument in arguments[:7]]
        kernel(1, 256, None, *handles, *map(ctypes.c_int32, arguments[7:]))

    return launch


def make(comm, n):
    import torch

    import libgin.torch

    torch.cuda.set_device(comm.device_index)
    torch.zeros(1, device="cuda")
    kernel = by_cubin() if CUBIN else compiled()
    empty = libgin.torch.empty
    outbox, inbox = (empty(n, dtype=torch.int32, device=comm.device_index) for _ in range(2))
    copy = torch.zeros(n, dtype=torch.int32, device="cuda")
    status = torch.full((1,), -1, dtype=torch.int32, device="cuda")
    torch.cuda.synchronize()

    def launch(dc, to, source, right, round):
        tensors = (tensor.data_ptr() for tensor in (inbox, outbox, copy, status))
        kernel(dc, to, source, *tensors, n, comm.rank, right, round)

    def done():
        torch.cuda.synchronize()
        return copy.cpu().numpy(), int(status.item())

    return inbox, outbox, launch, done


if __name__ == "__main__":
    rings.run("cute", make)
