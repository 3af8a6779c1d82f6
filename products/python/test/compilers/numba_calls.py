# SPDX-License-Identifier: BSD-3-Clause
"""numba_calls.py [every] ARCH...: compiles a ring in Numba, and every call, without a GPU."""

import sys
from types import SimpleNamespace

import numba_cuda
from cubin import report
from cuda.bindings import nvjitlink
from numba import cuda, types
from numba.cuda import dispatcher
from programs.numba_ring import ring
from standin import asked_at_launch, stand_ins

import libgin.numba as gin


@gin.jit
def every(dc, window, peer, words):
    """Each call once."""
    result = gin.put(dc, peer, window, 0, window, 64, 8)
    result |= gin.put(dc, peer, window, 0, window, 64, 8, 8, signal_window=window, weak=True)
    result |= gin.put_value(dc, peer, window, 0, 7, nbytes=4, signal=1)
    result |= gin.get(dc, peer, window, 0, window, 64, 8)
    result |= gin.signal(dc, peer, 1, add=2)
    result |= gin.wait_value(dc, window, 0, 1) | gin.wait_counter(dc, 0, 1)
    result |= gin.flush(dc, coop=gin.WARP)
    result |= gin.wait_ticket(dc, peer, gin.flush_ticket(dc, peer))
    result |= gin.barrier(dc, 2, 0)
    gin.reset_signal(dc, 0)
    gin.reset_counter(dc, 0)
    result |= gin.wait_signal(dc, 0, 1, timeout=5_000_000_000)
    words[0] = result
    words[1] = gin.read_signal(dc, 0)
    words[2] = gin.read_value(dc, window, 0)
    words[3] = gin.read_counter(dc, 0)
    words[4] = gin.fetch_add(dc, peer, window, 0, 1)
    words[5] = gin.compare_swap(dc, peer, window, 0, 1, 2)
    words[6] = gin.swap(dc, peer, window, 0, 1)
    words[7] = gin.peer_pointer(window, peer)


HANDLE = types.uint64
WORDS = types.int32[::1]
RING = types.void(HANDLE, HANDLE, HANDLE, WORDS, WORDS, WORDS, WORDS, *[types.int64] * 3)
EVERY = types.void(HANDLE, HANDLE, types.int64, types.int64[::1])


def link(codes, architecture):
    linker = nvjitlink.create(2, [f"-arch=sm_{architecture}", "-lto"])
    for code in codes:
        data = code if isinstance(code, bytes) else code.code
        nvjitlink.add_data(linker, nvjitlink.InputType.LTOIR, data, len(data), "code")
    nvjitlink.complete(linker)
    cubin = bytearray(nvjitlink.get_linked_cubin_size(linker))
    nvjitlink.get_linked_cubin(linker, cubin)
    nvjitlink.destroy(linker)
    return cubin


def compile(kernel, signature, architecture):
    # Numba compiles device functions for the current GPU. A stand-in has the architecture.
    capability = int(architecture) // 10, int(architecture) % 10
    device = SimpleNamespace(compute_capability=capability)
    dispatcher.get_current_device = lambda: device
    codes, _ = cuda.compile_all(
        kernel.py_func,
        signature,
        device=False,
        abi="numba",
        cc=capability,
        output="ltoir",
    )
    return link(codes, architecture)


def check_launch():
    """libgin's objects as arguments of a launch."""
    dc, window = stand_ins()
    kernel = object.__new__(dispatcher._Kernel)
    kernel.extensions, arguments = ring.extensions, []

    def launch():
        arguments.clear()
        for resource in (dc, window):
            kind = ring.typeof_pyval(resource)
            assert kind == HANDLE, kind
            kernel._prepare_args(kind, resource, 0, [], arguments)

    assert asked_at_launch(launch) == {"prepare_args", "data_ptr"}
    assert [argument.value for argument in arguments] == [77, 1234], arguments


def main():
    check_launch()
    kernels = [(ring, RING, "ring")]
    if "every" in sys.argv:
        kernels.append((every, EVERY, "every"))
    for architecture in sys.argv[len(kernels) :]:
        for kernel, signature, name in kernels:
            with report("numba-cuda", numba_cuda.__version__, architecture) as check:
                check(compile(kernel, signature, architecture), name)


if __name__ == "__main__":
    main()
