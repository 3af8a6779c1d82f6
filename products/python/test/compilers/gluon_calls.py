# SPDX-License-Identifier: BSD-3-Clause
"""gluon_calls.py ARCH...: compiles put, wait and peer pointer by Gluon, without a GPU."""

import sys

import triton
from cubin import report
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton_calls import SIGNATURE, compile

import libgin.triton as gin


@gluon.jit
def calls(dc, inbox, outbox, words, right, n):
    status = gin.put(dc, right, inbox, 0, outbox, 0, n * 4, signal=0)
    status |= gin.wait_signal(dc, 0, 1)
    there = gin.peer_pointer(inbox, right, gl.int32)
    gl.store(words, status)
    gl.store(there, n)


def main():
    for architecture in sys.argv[1:]:
        with report("gluon", triton.__version__, architecture) as check:
            source = GluonASTSource(fn=calls, signature=SIGNATURE, constexprs={})
            made = compile(source, architecture, num_warps=8)
            check(made.asm["cubin"], "calls", made.asm["ptx"])


if __name__ == "__main__":
    main()
