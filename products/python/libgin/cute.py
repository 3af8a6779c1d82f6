# SPDX-License-Identifier: BSD-3-Clause
"""libgin's device calls in kernels of CuTe DSL.

    @cute.kernel
    def kernel(dc: Int64, inbox: Int64, outbox: Int64, right: Int32, n: Int64):
        status = gin.put(dc, right, inbox, 0, outbox, 0, n, signal=0)
        status = status | gin.wait_signal(dc, 0, 1)

    @cute.jit
    def launch(dc, inbox, outbox, right: Int32, n: Int64):
        kernel(dc, inbox, outbox, right, n).launch(grid=[1, 1, 1], block=[256, 1, 1])

    launch(dc, inbox, outbox, right, n)  # the objects DeviceCommunicator and Window

Arguments that are objects of libgin have no type in the signature of a cute.jit function: CuTe DSL
converts an argument with a type before it looks for the object's conversion.

All threads of the block make a call together and get one result, unless coop is THREAD or WARP.
CuTe DSL links libgin_device.bc into each kernel that makes a call. It warns of the data layout of
the file, which names fewer types than its own. The compiled module has no state of libgin.

A status is 0, or the ginResult_t of the failure: or several together, store the result, and give it
to DeviceCommunicator.raise_for().
"""

import ctypes
import functools
import inspect
from typing import Any

import cutlass.cute as cute
from cutlass import Int32, Int64, Uint32

from . import _abi, host, paths
from ._resource import Resource
from .device import DeviceCommunicator
from .window import Window

__all__ = [
    "CTA",
    "THREAD",
    "WARP",
    "barrier",
    "compare_swap",
    "fetch_add",
    "flush",
    "flush_ticket",
    "get",
    "peer_pointer",
    "put",
    "put_value",
    "read_counter",
    "read_signal",
    "read_value",
    "reset_counter",
    "reset_signal",
    "signal",
    "swap",
    "wait_counter",
    "wait_signal",
    "wait_ticket",
    "wait_value",
]

THREAD, WARP, CTA = host.THREAD, host.WARP, host.CTA
# Operands and results are numbers: a pointer is one of 64 bits.
_TYPES = {"none": None, "ptr": Int64, "u64": Int64, "u32": Uint32, "i32": Int32}


@cute.register_jit_arg_adapter(Window)
@cute.register_jit_arg_adapter(DeviceCommunicator)
def _handle(resource):
    """The object as an argument of a function that CuTe DSL compiles."""
    return Int64(resource.handle)


def _c_pointers(resource):
    """The object as an argument of a compiled function: the address of its handle.

    The cast keeps the number alive.
    """
    number = ctypes.c_uint64(resource.handle)
    return [ctypes.cast(ctypes.pointer(number), ctypes.c_void_p)]


Resource.__c_pointers__ = _c_pointers


def _operands(name):
    """The names of a function's operands, and their types."""
    _, arguments = _abi.DEVICE_FUNCTIONS[name]
    pairs = (part.partition(":") for part in arguments.split())
    return {argument: _TYPES[kind] for argument, _, kind in pairs}


@functools.cache
def _extern(name):
    """A function of libgin_device.bc, declared to CuTe DSL by its Python signature."""

    def declaration(*_):
        raise NotImplementedError("CuTe DSL does not call it")

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    declaration.__signature__ = inspect.Signature(
        [inspect.Parameter(a, kind, annotation=t) for a, t in _operands(name).items()],
        return_annotation=_TYPES[_abi.DEVICE_FUNCTIONS[name][0]],
    )
    return cute.extern(name=name, source=cute.BitCode(paths.bitcode()))(declaration)


def _call(name, **values):
    """Calls a function of gin_functions(3); each operand is cast to the function's type."""
    operands = _operands(name)
    assert operands.keys() == values.keys(), (name, operands.keys() ^ values.keys())
    zero = {argument: 0 if value is None else value for argument, value in values.items()}
    return _extern(name)(*(kind(zero[argument]) for argument, kind in operands.items()))


def _action(signal, add, weak, signal_window):
    """The operands of a remote action. signal None: none."""
    kind = host.WEAK if weak else host.STRONG
    return {
        "kind": host.NONE if signal is None else kind,
        "window": signal_window,
        "where": signal,
        "value": add,
    }


def put(
    dc: Any,
    peer: Any,
    dst: Any,
    dst_off: Any,
    src: Any,
    src_off: Any,
    nbytes: Any,
    signal: Any = None,
    add: Any = 1,
    weak: bool = False,
    signal_window: Any = None,
    counter: Any = host.NO_COUNTER,
    context: Any = 0,
    coop: Any = CTA,
    timeout: Any = 0,
) -> Int32:
    """gin_put(3): writes nbytes bytes into the peer's part of dst, then adds `add` to the signal.

    signal is the number of a signal, or with signal_window an offset in that window. Returns a
    status.
    """
    return _call(
        "ginPut",
        dc=dc,
        context=context,
        peer=peer,
        dstWin=dst,
        dstOff=dst_off,
        srcWin=src,
        srcOff=src_off,
        bytes=nbytes,
        counter=counter,
        coop=coop,
        timeout=timeout,
        **_action(signal, add, weak, signal_window),
    )


def put_value(
    dc: Any,
    peer: Any,
    dst: Any,
    dst_off: Any,
    value: Any,
    nbytes: Any = 8,
    signal: Any = None,
    add: Any = 1,
    weak: bool = False,
    signal_window: Any = None,
    context: Any = 0,
    coop: Any = CTA,
    timeout: Any = 0,
) -> Int32:
    """gin_putValue(3): writes the low 1, 2, 4 or 8 bytes of an integer. Returns a status."""
    action = _action(signal, add, weak, signal_window)
    return _call(
        "ginPutValue",
        dc=dc,
        context=context,
        peer=peer,
        dstWin=dst,
        dstOff=dst_off,
        data=value,
        bytes=nbytes,
        coop=coop,
        timeout=timeout,
        **action,
    )


def get(
    dc: Any,
    peer: Any,
    src: Any,
    src_off: Any,
    dst: Any,
    dst_off: Any,
    nbytes: Any,
    context: Any = 0,
    coop: Any = CTA,
    timeout: Any = 0,
) -> Int32:
    """gin_get(3): the bytes are there after flush(). Returns a status."""
    return _call(
        "ginGet",
        dc=dc,
        context=context,
        peer=peer,
        srcWin=src,
        srcOff=src_off,
        dstWin=dst,
        dstOff=dst_off,
        bytes=nbytes,
        coop=coop,
        timeout=timeout,
    )


def signal(
    dc: Any,
    peer: Any,
    signal: Any,
    add: Any = 1,
    weak: bool = False,
    signal_window: Any = None,
    context: Any = 0,
    coop: Any = CTA,
    timeout: Any = 0,
) -> Int32:
    """gin_signal(3). Returns a status."""
    action = _action(signal, add, weak, signal_window)
    return _call(
        "ginSignal", dc=dc, context=context, peer=peer, coop=coop, timeout=timeout, **action
    )


def wait_signal(
    dc: Any,
    signal: Any,
    least: Any,
    signal_window: Any = None,
    context: Any = 0,
    coop: Any = CTA,
    timeout: Any = 0,
) -> Int32:
    """gin_waitSignal(3): waits until this rank's signal is at least `least`. Returns a status."""
    return _call(
        "ginWaitSignal",
        dc=dc,
        context=context,
        window=signal_window,
        where=signal,
        least=least,
        coop=coop,
        timeout=timeout,
    )


def read_signal(
    dc: Any, signal: Any, signal_window: Any = None, context: Any = 0, coop: Any = CTA
) -> Int64:
    """gin_readSignal(3): the value of this rank's signal."""
    return _call(
        "ginReadSignal", dc=dc, context=context, window=signal_window, where=signal, coop=coop
    )


def reset_signal(
    dc: Any, signal: Any, signal_window: Any = None, context: Any = 0, coop: Any = CTA
) -> None:
    """gin_resetSignal(3)."""
    _call("ginResetSignal", dc=dc, context=context, window=signal_window, where=signal, coop=coop)


def read_value(
    dc: Any, window: Any, offset: Any, nbytes: Any = 8, context: Any = 0, coop: Any = CTA
) -> Int64:
    """gin_readValue(3): a word of 4 or 8 bytes of this rank's part of a window."""
    return _call(
        "ginReadValue", dc=dc, context=context, win=window, off=offset, bytes=nbytes, coop=coop
    )


def wait_value(
    dc: Any,
    window: Any,
    offset: Any,
    least: Any,
    nbytes: Any = 8,
    context: Any = 0,
    coop: Any = CTA,
    timeout: Any = 0,
) -> Int32:
    """gin_waitValue(3). Returns a status."""
    return _call(
        "ginWaitValue",
        dc=dc,
        context=context,
        win=window,
        off=offset,
        bytes=nbytes,
        least=least,
        coop=coop,
        timeout=timeout,
    )


def read_counter(dc: Any, counter: Any, context: Any = 0, coop: Any = CTA) -> Int64:
    """gin_readCounter(3)."""
    return _call("ginReadCounter", dc=dc, context=context, id=counter, coop=coop)


def reset_counter(dc: Any, counter: Any, context: Any = 0, coop: Any = CTA) -> None:
    """gin_resetCounter(3)."""
    _call("ginResetCounter", dc=dc, context=context, id=counter, coop=coop)


def wait_counter(
    dc: Any, counter: Any, least: Any, context: Any = 0, coop: Any = CTA, timeout: Any = 0
) -> Int32:
    """gin_waitCounter(3). Returns a status."""
    return _call(
        "ginWaitCounter",
        dc=dc,
        context=context,
        id=counter,
        least=least,
        coop=coop,
        timeout=timeout,
    )


def flush(dc: Any, context: Any = 0, coop: Any = CTA, timeout: Any = 0) -> Int32:
    """gin_flush(3). Returns a status."""
    return _call("ginFlush", dc=dc, context=context, coop=coop, timeout=timeout)


def flush_ticket(dc: Any, peer: Any, context: Any = 0, coop: Any = CTA) -> Int64:
    """gin_flushAsync(3): a ticket for wait_ticket()."""
    return _call("ginFlushTicket", dc=dc, context=context, peer=peer, coop=coop)


def wait_ticket(
    dc: Any, peer: Any, ticket: Any, context: Any = 0, coop: Any = CTA, timeout: Any = 0
) -> Int32:
    """Waits for the operations that flush_ticket() of this peer has counted. Returns a status."""
    return _call(
        "ginWaitTicket",
        dc=dc,
        context=context,
        peer=peer,
        ticket=ticket,
        coop=coop,
        timeout=timeout,
    )


def barrier(
    dc: Any,
    size: Any,
    rank: Any,
    stride: Any = 1,
    index: Any = 0,
    coop: Any = CTA,
    timeout: Any = 0,
) -> Int32:
    """GinBarrier(3) of `size` ranks, `stride` apart, this one number `rank`. Returns a status."""
    return _call(
        "ginBarrierSync",
        dc=dc,
        nRanks=size,
        rank=rank,
        stride=stride,
        index=index,
        coop=coop,
        timeout=timeout,
    )


def fetch_add(
    dc: Any,
    peer: Any,
    window: Any,
    offset: Any,
    value: Any,
    context: Any = 0,
    coop: Any = CTA,
    timeout: Any = 0,
    failed: Any = None,
) -> Int64:
    """gin_atomicFetchAdd(3) on 8 bytes, by one thread: the old value.

    failed is the address of a word that gets the status of a failure, or None.
    """
    return _call(
        "ginFetchAdd64",
        dc=dc,
        context=context,
        peer=peer,
        win=window,
        off=offset,
        value=value,
        coop=coop,
        timeout=timeout,
        failed=failed,
    )


def compare_swap(
    dc: Any,
    peer: Any,
    window: Any,
    offset: Any,
    compare: Any,
    value: Any,
    context: Any = 0,
    coop: Any = CTA,
    timeout: Any = 0,
    failed: Any = None,
) -> Int64:
    """gin_atomicCompareSwap(3) on 8 bytes, by one thread: the old value. As fetch_add()."""
    return _call(
        "ginCompareSwap64",
        dc=dc,
        context=context,
        peer=peer,
        win=window,
        off=offset,
        compare=compare,
        value=value,
        coop=coop,
        timeout=timeout,
        failed=failed,
    )


def swap(
    dc: Any,
    peer: Any,
    window: Any,
    offset: Any,
    value: Any,
    context: Any = 0,
    coop: Any = CTA,
    timeout: Any = 0,
    failed: Any = None,
) -> Int64:
    """gin_atomicSwap(3) on 8 bytes, by one thread: the old value. As fetch_add()."""
    return _call(
        "ginSwap64",
        dc=dc,
        context=context,
        peer=peer,
        win=window,
        off=offset,
        value=value,
        coop=coop,
        timeout=timeout,
        failed=failed,
    )


def peer_pointer(
    window: Any, peer: Any, dtype: Any, offset: Any = 0, align: int = 16
) -> cute.Pointer:
    """Where this rank loads and stores the peer's part of a window; NULL if it is not direct.

    align: the bytes that the address is a multiple of.
    """
    address = _call("ginPointer", window=window, offset=offset, peer=peer)
    return cute.make_ptr(dtype, address, cute.AddressSpace.gmem, assumed_align=align)
