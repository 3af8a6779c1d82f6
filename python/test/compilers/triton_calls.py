# SPDX-License-Identifier: BSD-3-Clause
"""triton_calls.py ARCH...: compiles put, wait and peer pointer by Triton, without a GPU."""

import sys

import triton
import triton.language as tl
from cubin import report
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import libgin
import libgin.triton as gin

SIGNATURE = {
    "dc": "*u8",
    "inbox": "*u8",
    "outbox": "*u8",
    "words": "*i32",
    "right": "i32",
    "n": "i32",
}


@triton.jit
def calls(dc, inbox, outbox, words, right, n):
    status = gin.put(dc, right, inbox, 0, outbox, 0, n * 4, signal=0)
    status |= gin.wait_signal(dc, 0, 1)
    there = gin.peer_pointer(inbox, right, tl.int32)
    tl.store(words, status)
    tl.store(there, n)


def compile(source, architecture, **options):
    """Compiles a kernel that is linked with libgin_device.bc, for "90" and the like."""
    options["extern_libs"] = {gin.LIBRARY: libgin.bitcode()}
    target = GPUTarget("cuda", int(architecture), 32)
    return triton.compile(source, target=target, options=options)


def main():
    for architecture in sys.argv[1:]:
        with report("triton", triton.__version__, architecture) as check:
            source = ASTSource(fn=calls, signature=SIGNATURE, constexprs={})
            made = compile(source, architecture, num_warps=8)
            check(made.asm["cubin"], "calls", made.asm["ptx"])


if __name__ == "__main__":
    main()
