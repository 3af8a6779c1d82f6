# SPDX-License-Identifier: BSD-3-Clause
"""triton_calls.py ARCH...: compiles put, wait and peer pointer by Triton, without a GPU."""

import re
import runpy
import sys
import tempfile
import types
from pathlib import Path

import triton
import triton.language as tl
from cubin import report
from programs import triton_ring
from standin import StandInGpu, asked_at_launch, stand_ins
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime import driver

import libgin
import libgin.triton as gin

ROOT = Path(__file__).resolve().parents[4]
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


def variants(kernel):
    """How often Triton compiles a kernel of triton_ring.py in 20 rounds of two ranks."""
    _, window = stand_ins()
    handles, pointers = [1 << 40] * 3, [window] * 4
    *_, binder = kernel.device_caches[0]
    numbers = [(5000, rank, 2, round) for rank in (0, 1) for round in range(1, 21)]
    return len({str(binder(*handles, *pointers, *four)[1]) for four in numbers})


def check_variants():
    driver.set_active(StandInGpu("90"))
    for kernel in (triton_ring.puts, triton_ring.gets, triton_ring.stores):
        count = variants(kernel)
        assert count == 1, f"{kernel.__name__} is compiled {count} times: a peer's kernel waits"


class Words:
    """A tensor, as far as Triton looks at it."""

    dtype = "int64"

    def data_ptr(self):
        return 64


def check_launch():
    """A launch passes the handles, and asks for nothing that was known when it was compiled."""
    gpu = StandInGpu("90")
    driver.set_active(gpu)
    dc, window = stand_ins()

    def launch():
        return triton_ring.count[(1,)](dc, window, Words(), Words(), right=5)

    assert "ginFetchAdd64" in launch().asm["ptx"], "libgin_device.bc is not linked"
    names = asked_at_launch(launch)
    names -= {"<lambda>", "<listcomp>"}
    assert names == {"__getitem__", "_numbers", "data_ptr"}, names
    assert gpu.launched == [77, 1234, 64, 64, 5], gpu.launched
    window.is_open = False
    try:
        launch()
    except ValueError as error:
        assert str(error) == "the window is closed", error
    else:
        raise AssertionError("a closed window was launched")


@triton.jit
def half_offset(dc, window, words):
    tl.store(words, gin.put(dc, 1, window, 0.5, window, 0, 4))


@triton.jit
def two_signals(dc, window, words):
    tl.store(words, tl.max(gin.wait_signal(dc, tl.arange(0, 2), 1), axis=0))


@triton.jit
def two_words(dc, window, words):
    tl.store(words + tl.arange(0, 2), gin.put(dc, 1, window, tl.arange(0, 2), window, 0, 4))


def check_page():
    """The example of libgin-python(7)."""
    page = (ROOT / "products/python/man/man7/libgin-python.7").read_text()
    example = re.search(r"\.Bd [^\n]*\n(import libgin\nimport libgin.torch.*?)\.Ed", page, re.S)[1]
    for module in "torch", "libgin.torch":
        sys.modules.setdefault(module, types.ModuleType(module))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "page.py").write_text(example)
        names = runpy.run_path(str(Path(folder, "page.py")), run_name="page")
        kernel = names["shift"].kernel
        signature = dict(zip(kernel.arg_names, ["*u8"] * 3 + ["*i32"] + ["i32"] * 3, strict=True))
        made = compile(ASTSource(fn=kernel, signature=signature, constexprs={}), "90")
    assert "ginWaitSignal" in made.asm["ptx"]


WRONG = {
    half_offset: "dstOff is fp32: give an integer or a pointer",
    two_signals: "where is a block: give a scalar",
    two_words: "dstOff is a block: give a scalar",
}


def check_wrong():
    """A number that C would get without its fraction, and threads that would make other calls."""
    signature = {"dc": "*u8", "window": "*u8", "words": "*i32"}
    for kernel, words in WRONG.items():
        try:
            compile(ASTSource(fn=kernel, signature=signature, constexprs={}), "90")
        except triton.CompilationError as error:
            text = str(error) + str(error.__cause__)
            assert words in text, text
        else:
            raise AssertionError(f"{kernel.__name__} was compiled")


def main():
    check_variants()
    check_launch()
    check_page()
    check_wrong()
    for architecture in sys.argv[1:]:
        with report("triton", triton.__version__, architecture) as check:
            source = ASTSource(fn=calls, signature=SIGNATURE, constexprs={})
            made = compile(source, architecture, num_warps=8)
            check(made.asm["cubin"], "calls", made.asm["ptx"])


if __name__ == "__main__":
    main()
