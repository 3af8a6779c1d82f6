# SPDX-License-Identifier: BSD-3-Clause
"""The device calls of libgin.triton, libgin.cute and libgin.numba: a row for each.

A row is a function without a body. It has the name, the parameters and the text of the call in
every front end, and names the C function of gin_functions(3) that a kernel calls. Types come from
the C function. A front end makes functions of the rows by define().
"""

# To add a device call:
#   1. Write the C function in include/gin/functions.cuh. Name it in man/man3/gin_functions.3: in
#      NAME, by .Fo and .Fc in SYNOPSIS, and in the list of pages.
#   2. Add a row to this file, below the row of a similar call.
#   3. `make abi` writes the C prototypes for ctypes and the page, and the stubs (.pyi).
#   4. Call the C function in test/semantics/semantics_functions.cc.
#   5. Call the row in products/python/test: programs/words.py, programs/triton_words.py,
#      compilers/numba_calls.py and compilers/cute_calls.py.

import inspect
import linecache

from . import _abi

CTA, NO_COUNTER = _abi.ginCoopCta, 0xFFFFFFFF
ROWS = {}


def _calls(function):
    """Makes a function a row that calls a C function."""

    def add(row):
        row.function = function
        ROWS[row.__name__] = row
        return row

    return add


@_calls("ginPut")
def put(
    dc,
    peer,
    dst,
    dst_off,
    src,
    src_off,
    nbytes,
    signal=None,
    add=1,
    weak: bool = False,
    signal_window=None,
    counter=NO_COUNTER,
    context=0,
    coop=CTA,
    timeout=0,
):
    """gin_put(3): writes nbytes bytes into the peer's part of dst, then adds `add` to the signal.

    signal is the number of a signal, or with signal_window an offset in that window. Returns a
    status.
    """


@_calls("ginPutValue")
def put_value(
    dc,
    peer,
    dst,
    dst_off,
    value,
    nbytes=8,
    signal=None,
    add=1,
    weak: bool = False,
    signal_window=None,
    context=0,
    coop=CTA,
    timeout=0,
):
    """gin_putValue(3): writes the low 1, 2, 4 or 8 bytes of an integer. Returns a status."""


@_calls("ginGet")
def get(dc, peer, src, src_off, dst, dst_off, nbytes, context=0, coop=CTA, timeout=0):
    """gin_get(3): the bytes are there after flush(). Returns a status."""


@_calls("ginSignal")
def signal(
    dc, peer, signal, add=1, weak: bool = False, signal_window=None, context=0, coop=CTA, timeout=0
):
    """gin_signal(3). Returns a status."""


@_calls("ginWaitSignal")
def wait_signal(dc, signal, least, signal_window=None, context=0, coop=CTA, timeout=0):
    """gin_waitSignal(3): waits until this rank's signal is at least `least`. Returns a status.

    In Triton, loads of what the signal covers must depend on the status: see libgin.triton.after().
    """


@_calls("ginReadSignal")
def read_signal(dc, signal, signal_window=None, context=0, coop=CTA):
    """gin_readSignal(3): the value of this rank's signal."""


@_calls("ginResetSignal")
def reset_signal(dc, signal, signal_window=None, context=0, coop=CTA):
    """gin_resetSignal(3)."""


@_calls("ginReadValue")
def read_value(dc, window, offset, nbytes=8, context=0, coop=CTA):
    """gin_readValue(3): a word of 4 or 8 bytes of this rank's part of a window."""


@_calls("ginWaitValue")
def wait_value(dc, window, offset, least, nbytes=8, context=0, coop=CTA, timeout=0):
    """gin_waitValue(3). Returns a status."""


@_calls("ginReadCounter")
def read_counter(dc, counter, context=0, coop=CTA):
    """gin_readCounter(3)."""


@_calls("ginResetCounter")
def reset_counter(dc, counter, context=0, coop=CTA):
    """gin_resetCounter(3)."""


@_calls("ginWaitCounter")
def wait_counter(dc, counter, least, context=0, coop=CTA, timeout=0):
    """gin_waitCounter(3). Returns a status."""


@_calls("ginFlush")
def flush(dc, context=0, coop=CTA, timeout=0):
    """gin_flush(3). Returns a status."""


@_calls("ginFlushTicket")
def flush_ticket(dc, peer, context=0, coop=CTA):
    """gin_flushAsync(3): a ticket for wait_ticket()."""


@_calls("ginWaitTicket")
def wait_ticket(dc, peer, ticket, context=0, coop=CTA, timeout=0):
    """Waits for the operations that flush_ticket() of this peer has counted. Returns a status."""


@_calls("ginBarrierSync")
def barrier(dc, size, rank, stride=1, index=0, coop=CTA, timeout=0):
    """GinBarrier(3) of `size` ranks, `stride` apart, this one number `rank`. Returns a status."""


@_calls("ginFetchAdd64")
def fetch_add(dc, peer, window, offset, value, context=0, coop=CTA, timeout=0, failed=None):
    """gin_atomicFetchAdd(3) on 8 bytes, by one thread: the old value, or 2**63 - 1 after a failure.

    failed is the address of a word of 4 bytes that gets the status of a failure, or None.
    """


@_calls("ginCompareSwap64")
def compare_swap(
    dc, peer, window, offset, compare, value, context=0, coop=CTA, timeout=0, failed=None
):
    """gin_atomicCompareSwap(3) on 8 bytes, by one thread: the old value. As fetch_add()."""


@_calls("ginSwap64")
def swap(dc, peer, window, offset, value, context=0, coop=CTA, timeout=0, failed=None):
    """gin_atomicSwap(3) on 8 bytes, by one thread: the old value. As fetch_add()."""


# Arguments of C functions whose parameters have other names.
_NAMES = {
    "dstWin": "dst",
    "dstOff": "dst_off",
    "srcWin": "src",
    "srcOff": "src_off",
    "bytes": "nbytes",
    "data": "value",
    "win": "window",
    "off": "offset",
    "id": "counter",
    "nRanks": "size",
}
# Of C functions with the argument `where`, these are a signal and what happens to it.
_SIGNAL = {
    "kind": "_kind(signal, weak)",
    "window": "signal_window",
    "where": "signal",
    "value": "add",
}


def prototype(function):
    """The kind of a C function's result, and {argument: kind}."""
    result, arguments = _abi.DEVICE_FUNCTIONS[function]
    return result, dict(part.split(":") for part in arguments.split())


def operands(row):
    """{argument of the C function: an expression of the row's parameters}, in C's order."""
    _, arguments = prototype(row.function)
    names = {**_NAMES, **_SIGNAL} if "where" in arguments else _NAMES
    return {argument: names.get(argument, argument) for argument in arguments}


def kind(signal, weak):
    """_kind() of a front end: the kind of a remote action. signal None: none."""
    if signal is None:
        return _abi.ginSignalNone
    if weak:
        return _abi.ginSignalWeak
    return _abi.ginSignalStrong


def define(row, namespace, call, parameters=None):
    """The function of a row in the namespace of a front end. `call` is the text of its C call."""
    signature = inspect.signature(row)
    if parameters:
        signature = signature.replace(parameters=parameters)
    word = "" if prototype(row.function)[0] == "none" else "return "
    source = f"def {row.__name__}{signature}:\n    {word}{call}\n"
    file = f"<{namespace['__name__']}.{row.__name__}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    exec(compile(source, file, "exec"), namespace)
    function = namespace[row.__name__]
    function.__doc__ = row.__doc__
    return function
