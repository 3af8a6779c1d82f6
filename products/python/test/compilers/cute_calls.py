# SPDX-License-Identifier: BSD-3-Clause
"""cute_calls.py [every] [FILE] ARCH: compiles a ring and calls of libgin.cute without a GPU.

FILE gets the ring's cubin. One architecture for each process: CuTe DSL reads CUTE_DSL_ARCH when it
is imported.
"""

import ctypes
import os
import sys
import tempfile

ARCHITECTURE = sys.argv[-1]
os.environ["CUTE_DSL_ARCH"] = f"sm_{ARCHITECTURE}" + ("" if ARCHITECTURE == "80" else "a")
os.environ["CUTE_DSL_KEEP"] = "ptx,cubin"
os.environ["CUTE_DSL_DUMP_DIR"] = tempfile.mkdtemp()

import cutlass  # noqa: E402
import cutlass.cute as cute  # noqa: E402
from cubin import report  # noqa: E402
from cutlass import Int32, Int64  # noqa: E402
from programs import cute_ring  # noqa: E402
from standin import asked_at_launch, stand_ins  # noqa: E402

import libgin.cute as gin  # noqa: E402

# Two kernels, `messages` and `values`: for sm_80 the compiler of CuTe DSL 4.8.1 crashes on one
# kernel with all calls.


@cute.kernel
def messages(dc: Int64, window: Int64, peer: Int32, out: cute.Pointer):
    words = cute.make_tensor(out, cute.make_layout(8))
    result = gin.put(dc, peer, window, 0, window, 64, 8)
    result |= gin.put(dc, peer, window, 0, window, 64, 8, 8, signal_window=window, weak=True)
    result |= gin.put_value(dc, peer, window, 0, 7, nbytes=4, signal=1)
    result |= gin.get(dc, peer, window, 0, window, 64, 8)
    result |= gin.signal(dc, peer, 1, add=2)
    result |= gin.wait_counter(dc, 0, 1)
    result |= gin.flush(dc, coop=gin.WARP)
    result |= gin.wait_ticket(dc, peer, gin.flush_ticket(dc, peer))
    words[0] = Int64(result)


@cute.kernel
def values(dc: Int64, window: Int64, peer: Int32, out: cute.Pointer):
    words = cute.make_tensor(out, cute.make_layout(8))
    result = gin.wait_signal(dc, 0, 1, timeout=5_000_000_000)
    result |= gin.wait_value(dc, window, 0, 1) | gin.barrier(dc, 2, 0)
    gin.reset_signal(dc, 0)
    gin.reset_counter(dc, 0)
    words[0] = Int64(result)
    words[1] = gin.read_signal(dc, 0)
    words[2] = gin.read_value(dc, window, 0)
    words[3] = gin.read_counter(dc, 0)
    words[4] = gin.fetch_add(dc, peer, window, 0, 1)
    words[5] = gin.compare_swap(dc, peer, window, 0, 1, 2)
    words[6] = gin.swap(dc, peer, window, 0, 1)


@cute.kernel
def pointers(dc: Int64, window: Int64, peer: Int32, out: cute.Pointer):
    there = cute.make_tensor(gin.peer_pointer(window, peer, Int32), cute.make_layout(4))
    there[0] = peer


def compiled(kernel):
    @cute.jit
    def launch(dc: Int64, window: Int64, peer: Int32, words: cute.Pointer):
        kernel(dc, window, peer, words).launch(grid=[1, 1, 1], block=[128, 1, 1])

    number = Int64(0)
    words = cute.runtime.make_ptr(Int64, 0, cute.AddressSpace.gmem, assumed_align=8)
    return cute.compile(launch, number, number, Int32(1), words)


def check_launch():
    """libgin's objects as arguments, when CuTe DSL compiles for them and when it launches."""
    dc, window = stand_ins()
    numbers = [Int64(0)] * 4 + [Int32(1)] * 4
    made = cute.compile(cute_ring.launch_ring, dc, window, window, *numbers)
    given = dc, window, window, *range(8)
    names = asked_at_launch(lambda: made.generate_execution_args(*given))
    assert names == {"_c_pointers", "data_ptr"}, names
    pointers, _ = made.generate_execution_args(*given)
    words = [ctypes.cast(pointer, ctypes.POINTER(ctypes.c_int64))[0] for pointer in pointers[:7]]
    assert words == [77, 1234, 1234, 0, 1, 2, 3], words


def main():
    check_launch()
    with report("cute", cutlass.__version__, ARCHITECTURE) as check:
        ring = cute_ring.compiled()
        check(ring.__cubin__, "ring", ring.__ptx__)
    kernels = {"pointers": pointers}
    if "every" in sys.argv:
        kernels |= {"messages": messages, "values": values}
    elif len(sys.argv) > 2:
        with open(sys.argv[1], "wb") as file:
            file.write(ring.__cubin__)
    for name, kernel in kernels.items():
        with report("cute", cutlass.__version__, ARCHITECTURE) as check:
            made = compiled(kernel)
            check(made.__cubin__, name, made.__ptx__)


if __name__ == "__main__":
    main()
