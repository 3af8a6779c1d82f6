# SPDX-License-Identifier: BSD-3-Clause
"""launches.py [ROUNDS] - rows of a table: what a launch costs the host in each compiler of kernels.

An empty kernel with a device communicator, a window and an integer, by libgin's front end, beside
the compiler's own launch with three integers. A round is 1,000 launches of each, one after the
other. One GPU; compilers that are not installed are left out.
"""

import statistics
import sys
import time

import torch

import libgin

LAUNCHES = 1000
ADDRESS = 0x7F0000001000  # an integer as wide as a handle
COLUMNS = "compiler", "own, three integers", "libgin's objects", "ratio", "libgin's launches/s"


def triton(dc, window):
    import triton

    import libgin.triton as gin

    def empty(dc, window, n):
        pass

    own, linked = triton.jit(empty), gin.jit(empty)
    return (
        f"Triton {triton.__version__}",
        lambda: own[(1,)](ADDRESS, ADDRESS, 5),
        lambda: linked[(1,)](dc, window, 5),
    )


def numba(dc, window):
    import numba_cuda
    from numba import cuda

    import libgin.numba as gin

    def empty(dc, window, n):
        pass

    own, taking = cuda.jit(empty), gin.jit(empty)
    return (
        f"numba-cuda {numba_cuda.__version__}",
        lambda: own[1, 32](ADDRESS, ADDRESS, 5),
        lambda: taking[1, 32](dc, window, 5),
    )


def cute(dc, window):
    import cutlass
    import cutlass.cute as dsl
    from cutlass import Int32, Int64

    import libgin.cute  # noqa: F401 - the objects become arguments

    @dsl.kernel
    def empty(dc: Int64, window: Int64, n: Int32):
        pass

    @dsl.jit
    def numbers(dc: Int64, window: Int64, n: Int32):
        empty(dc, window, n).launch(grid=[1, 1, 1], block=[32, 1, 1])

    @dsl.jit
    def objects(dc, window, n: Int32):
        empty(dc, window, n).launch(grid=[1, 1, 1], block=[32, 1, 1])

    own = dsl.compile(numbers, Int64(ADDRESS), Int64(ADDRESS), Int32(5))
    taking = dsl.compile(objects, dc, window, Int32(5))
    return (
        f"CuTe DSL {cutlass.__version__}",
        lambda: own(ADDRESS, ADDRESS, 5),
        lambda: taking(dc, window, 5),
    )


def cupy(dc, window):
    import cupy

    import libgin.cupy as gin

    head = '#include <gin_device.cuh>\nextern "C" __global__ void '
    numbers = cupy.RawKernel('extern "C" __global__ void own(long a, long b, long n) {}', "own")
    code = head + "taking(ginDevComm dc, ginWindow_t window, long n) {}"
    objects = gin.RawModule(code=code).get_function("taking")
    return (
        f"CuPy {cupy.__version__}",
        lambda: numbers((1,), (32,), (ADDRESS, ADDRESS, 5)),
        lambda: objects((1,), (32,), (dc, window, 5)),
    )


def microseconds(launch):
    """Of one launch. The GPU has ended all when the next ones start."""
    start = time.perf_counter()
    for _ in range(LAUNCHES):
        launch()
    ended = time.perf_counter()
    torch.cuda.synchronize()
    return (ended - start) / LAUNCHES * 1e6


def row(name, launches, rounds):
    for launch in launches:
        microseconds(launch)
    times = [[microseconds(launch) for launch in launches] for _ in range(rounds)]
    own, objects = (statistics.median(column) for column in zip(*times, strict=True))
    spreads = [f"{min(c):.1f} to {max(c):.1f}" for c in zip(*times, strict=True)]
    cells = f"{own:.1f} ({spreads[0]})", f"{objects:.1f} ({spreads[1]})"
    return " | ".join((name, *cells, f"{objects / own:.2f}", f"{1e6 / objects:,.0f}"))


def main(rounds="9"):
    torch.cuda.set_device(0)
    with libgin.Communicator(allgather=lambda data: [data], rank=0, size=1, device=0) as comm:
        with comm.register(comm.alloc(64)) as window, comm.device() as dc:
            print(f"- {torch.cuda.get_device_name()}; torch {torch.__version__}; microseconds\n")
            print(f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|", flush=True)
            for compiler in (triton, numba, cute, cupy):
                try:
                    name, *launches = compiler(dc, window)
                    print(f"| {row(name, launches, int(rounds))} |", flush=True)
                except Exception as error:
                    print(f"left out: {compiler.__name__}: {error}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
