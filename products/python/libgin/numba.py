# SPDX-License-Identifier: BSD-3-Clause
"""libgin's device calls in Numba kernels.

    @libgin.numba.jit                         # numba.cuda.jit, whose kernels take libgin's objects
    def kernel(dc, inbox, outbox, right, n, status):
        result = gin.put(dc, right, inbox, 0, outbox, 0, n, 0)  # with signal 0
        result |= gin.wait_signal(dc, 0, 1)
        if cuda.threadIdx.x == 0:
            status[0] = result

All threads of the block make a call together and get one result, unless coop is THREAD or WARP.
numba-cuda compiles the functions from gin_device.cuh by NVRTC for the GPU, as LTO-IR where it links
by nvJitLink, and links them with each kernel that calls them. The compiled module has no state of
libgin.

A status is 0, or the ginResult_t of the failure: or several together, store the result, and give it
to DeviceCommunicator.raise_for().
"""

import os
from typing import Any

import numpy as np
from numba import cuda, types

from . import _abi, host, paths
from ._resource import Resource
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
    "jit",
    "peer_array",
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
_NONE, _STRONG, _WEAK = host.NONE, host.STRONG, host.WEAK
_NO_COUNTER = host.NO_COUNTER
_NUMBA = {
    "none": types.int32,
    "ptr": types.uint64,
    "u64": types.uint64,
    "u32": types.uint32,
    "i32": types.int32,
}
_CUDA = {
    "none": "int",
    "ptr": "unsigned long long",
    "u64": "unsigned long long",
    "u32": "unsigned int",
    "i32": "int",
}


def _wrapper(name):
    """A device function with Numba's calling convention: the result by a pointer, numbers only."""
    result, arguments = _abi.DEVICE_FUNCTIONS[name]
    pairs = [part.split(":") for part in arguments.split()]
    parameters = "".join(f", {_CUDA[kind]} {argument}" for argument, kind in pairs)
    operands = ", ".join(f"libginAddress{{{a}}}" if kind == "ptr" else a for a, kind in pairs)
    call = f"{name}({operands})"
    if result == "ptr":
        call = f"({_CUDA[result]}){call}"
    body = f"{call}; *result = 0" if result == "none" else f"*result = {call}"
    head = f'extern "C" __device__ int libgin_{name}({_CUDA[result]} *result{parameters})'
    return f"{head}\n{{\n\t{body};\n\treturn 0;\n}}\n"


def source(*names: str) -> str:
    """CUDA C++ of functions of gin_functions(3), as Numba's kernels call them."""
    header = os.path.join(os.path.abspath(paths.include_dir()), "gin_device.cuh")
    return (
        f'#define GIN_SHAPES 0\n#include "{header}"\n'
        "struct libginAddress {\n\tunsigned long long number;\n"
        "\ttemplate <class T> __device__ operator T *() const { return (T *)number; }\n};\n"
        + "".join(map(_wrapper, names))
    )


_declared: list[str] = []


class _Source(cuda.CUSource):
    """Written when a kernel is linked, so that an import of this module needs no headers."""

    def __init__(self):
        super().__init__("", name="libgin.cu")

    @property
    def data(self):
        return source(*_declared)


_link = _Source()


def _declare(name):
    result, arguments = _abi.DEVICE_FUNCTIONS[name]
    _declared.append(name)
    kinds = [_NUMBA[part.partition(":")[2]] for part in arguments.split()]
    return cuda.declare_device(f"libgin_{name}", _NUMBA[result](*kinds), link=_link)


_put = _declare("ginPut")
_put_value = _declare("ginPutValue")
_get = _declare("ginGet")
_signal = _declare("ginSignal")
_wait_signal = _declare("ginWaitSignal")
_read_signal = _declare("ginReadSignal")
_reset_signal = _declare("ginResetSignal")
_read_value = _declare("ginReadValue")
_wait_value = _declare("ginWaitValue")
_read_counter = _declare("ginReadCounter")
_reset_counter = _declare("ginResetCounter")
_wait_counter = _declare("ginWaitCounter")
_flush = _declare("ginFlush")
_flush_ticket = _declare("ginFlushTicket")
_wait_ticket = _declare("ginWaitTicket")
_barrier = _declare("ginBarrierSync")
_fetch_add = _declare("ginFetchAdd64")
_compare_swap = _declare("ginCompareSwap64")
_swap = _declare("ginSwap64")
_pointer = _declare("ginPointer")


class _Handles:
    """Kernel arguments that are windows or device communicators go as their handles."""

    @staticmethod
    def prepare_args(ty, val, **_):
        return ty, val.handle if isinstance(val, Resource) else val


# numba.typeof() asks for it.
Resource._numba_type_ = types.uint64


def jit(*args: Any, **options) -> Any:
    """numba.cuda.jit for kernels that take windows and device communicators as arguments."""
    options["extensions"] = [*options.get("extensions", ()), _Handles]
    return cuda.jit(*args, **options)


_device = cuda.jit(device=True)


@_device
def _number(value):
    """None: 0."""
    if value is None:
        return 0
    return value


@_device
def _kind(signal, weak):
    if signal is None:
        return _NONE
    if weak:
        return _WEAK
    return _STRONG


@_device
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
    weak=False,
    signal_window=None,
    counter=_NO_COUNTER,
    context=0,
    coop=CTA,
    timeout=0,
):
    """gin_put(3): writes nbytes bytes into the peer's part of dst, then adds `add` to the signal.

    signal is the number of a signal, or with signal_window an offset in that window. Returns a
    status.
    """
    kind, window, where = _kind(signal, weak), _number(signal_window), _number(signal)
    return _put(
        dc,
        context,
        peer,
        dst,
        dst_off,
        src,
        src_off,
        nbytes,
        kind,
        window,
        where,
        add,
        counter,
        coop,
        timeout,
    )


@_device
def put_value(
    dc,
    peer,
    dst,
    dst_off,
    value,
    nbytes=8,
    signal=None,
    add=1,
    weak=False,
    signal_window=None,
    context=0,
    coop=CTA,
    timeout=0,
):
    """gin_putValue(3): writes the low 1, 2, 4 or 8 bytes of an integer. Returns a status."""
    kind, window, where = _kind(signal, weak), _number(signal_window), _number(signal)
    return _put_value(
        dc,
        context,
        peer,
        dst,
        dst_off,
        value,
        nbytes,
        kind,
        window,
        where,
        add,
        coop,
        timeout,
    )


@_device
def get(dc, peer, src, src_off, dst, dst_off, nbytes, context=0, coop=CTA, timeout=0):
    """gin_get(3): the bytes are there after flush(). Returns a status."""
    return _get(dc, context, peer, src, src_off, dst, dst_off, nbytes, coop, timeout)


@_device
def signal(dc, peer, signal, add=1, weak=False, signal_window=None, context=0, coop=CTA, timeout=0):
    """gin_signal(3). Returns a status."""
    window = _number(signal_window)
    return _signal(dc, context, peer, _kind(signal, weak), window, signal, add, coop, timeout)


@_device
def wait_signal(dc, signal, least, signal_window=None, context=0, coop=CTA, timeout=0):
    """gin_waitSignal(3): waits until this rank's signal is at least `least`. Returns a status."""
    return _wait_signal(dc, context, _number(signal_window), signal, least, coop, timeout)


@_device
def read_signal(dc, signal, signal_window=None, context=0, coop=CTA):
    """gin_readSignal(3): the value of this rank's signal."""
    return _read_signal(dc, context, _number(signal_window), signal, coop)


@_device
def reset_signal(dc, signal, signal_window=None, context=0, coop=CTA):
    """gin_resetSignal(3)."""
    _reset_signal(dc, context, _number(signal_window), signal, coop)


@_device
def read_value(dc, window, offset, nbytes=8, context=0, coop=CTA):
    """gin_readValue(3): a word of 4 or 8 bytes of this rank's part of a window."""
    return _read_value(dc, context, window, offset, nbytes, coop)


@_device
def wait_value(dc, window, offset, least, nbytes=8, context=0, coop=CTA, timeout=0):
    """gin_waitValue(3). Returns a status."""
    return _wait_value(dc, context, window, offset, nbytes, least, coop, timeout)


@_device
def read_counter(dc, counter, context=0, coop=CTA):
    """gin_readCounter(3)."""
    return _read_counter(dc, context, counter, coop)


@_device
def reset_counter(dc, counter, context=0, coop=CTA):
    """gin_resetCounter(3)."""
    _reset_counter(dc, context, counter, coop)


@_device
def wait_counter(dc, counter, least, context=0, coop=CTA, timeout=0):
    """gin_waitCounter(3). Returns a status."""
    return _wait_counter(dc, context, counter, least, coop, timeout)


@_device
def flush(dc, context=0, coop=CTA, timeout=0):
    """gin_flush(3). Returns a status."""
    return _flush(dc, context, coop, timeout)


@_device
def flush_ticket(dc, peer, context=0, coop=CTA):
    """gin_flushAsync(3): a ticket for wait_ticket()."""
    return _flush_ticket(dc, context, peer, coop)


@_device
def wait_ticket(dc, peer, ticket, context=0, coop=CTA, timeout=0):
    """Waits for the operations that flush_ticket() of this peer has counted. Returns a status."""
    return _wait_ticket(dc, context, peer, ticket, coop, timeout)


@_device
def barrier(dc, size, rank, stride=1, index=0, coop=CTA, timeout=0):
    """GinBarrier(3) of `size` ranks, `stride` apart, this one number `rank`. Returns a status."""
    return _barrier(dc, size, rank, stride, index, coop, timeout)


@_device
def fetch_add(dc, peer, window, offset, value, context=0, coop=CTA, timeout=0, failed=None):
    """gin_atomicFetchAdd(3) on 8 bytes, by one thread: the old value.

    failed is the address of a word that gets the status of a failure, or None.
    """
    return _fetch_add(dc, context, peer, window, offset, value, coop, timeout, _number(failed))


@_device
def compare_swap(
    dc, peer, window, offset, compare, value, context=0, coop=CTA, timeout=0, failed=None
):
    """gin_atomicCompareSwap(3) on 8 bytes, by one thread: the old value. As fetch_add()."""
    failed = _number(failed)
    return _compare_swap(dc, context, peer, window, offset, compare, value, coop, timeout, failed)


@_device
def swap(dc, peer, window, offset, value, context=0, coop=CTA, timeout=0, failed=None):
    """gin_atomicSwap(3) on 8 bytes, by one thread: the old value. As fetch_add()."""
    return _swap(dc, context, peer, window, offset, value, coop, timeout, _number(failed))


@_device
def peer_pointer(window, peer, offset=0):
    """The address where this rank loads and stores the peer's part of a window; 0: not direct."""
    return _pointer(window, offset, peer)


class _Part:
    """A rank's part of a window."""

    def __init__(self, window, address, shape, dtype):
        self._window = window
        self.__cuda_array_interface__ = {
            "shape": tuple(shape),
            "typestr": np.dtype(dtype).str,
            "data": (address, False),
            "version": 2,
        }


def peer_array(window: Window, rank: int, shape: tuple[int, ...], dtype: Any) -> Any:
    """The start of a rank's part of a window as a device array; None if it is not direct."""
    address = window.peer_pointer(rank)
    return None if address is None else cuda.as_cuda_array(_Part(window, address, shape, dtype))
