# SPDX-License-Identifier: BSD-3-Clause
"""cupy_calls.py ARCH...: compiles the ring of CuPy with libgin.cupy's options, without a GPU."""

import sys

import cupy
from cubin import report
from cupy.cuda import compiler
from programs.cupy_ring import SOURCE
from standin import asked_at_launch, stand_ins

import libgin.cupy as gin


def check_launch():
    """libgin's objects as arguments: arrays of one element, which CuPy passes by value."""
    for resource in stand_ins():
        assert asked_at_launch(lambda: gin.value(resource)) == {"value", "data_ptr"}
        array = gin.value(resource)
        assert array.size == 1 and array.tobytes() == bytes(resource.struct), array
    assert gin.value(3) == 3


def main():
    check_launch()
    for architecture in sys.argv[1:]:
        with report("cupy", cupy.__version__, architecture) as check:
            # CuPy asks the runtime what kind of code the current GPU takes: here there is none.
            compiler._get_arch_for_options_for_nvrtc = lambda arch: (f"-arch=sm_{arch}", "cubin")
            options = gin.compile_options()
            made, _ = compiler.compile_using_nvrtc(SOURCE, options, arch=architecture)
            check(made, "ring")


if __name__ == "__main__":
    main()
