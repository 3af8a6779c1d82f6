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

from . import _table, host, paths
from ._resource import Resource
from .device import DeviceCommunicator
from .window import Window

__all__ = ["CTA", "THREAD", "WARP", "peer_pointer", *_table.ROWS]

THREAD: int = host.THREAD
WARP: int = host.WARP
CTA: int = host.CTA
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
    handle = resource.data_ptr()
    if resource._pointers is None:
        number = ctypes.c_uint64(handle)
        resource._pointers = [ctypes.cast(ctypes.pointer(number), ctypes.c_void_p)]
    return resource._pointers


Resource.__c_pointers__ = _c_pointers


def _operands(name):
    """The names of a function's operands, and their types."""
    return {argument: _TYPES[kind] for argument, kind in _table.prototype(name)[1].items()}


@functools.cache
def _extern(name):
    """A function of libgin_device.bc, declared to CuTe DSL by its Python signature."""

    def declaration(*_):
        raise NotImplementedError("CuTe DSL does not call it")

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    declaration.__signature__ = inspect.Signature(
        [inspect.Parameter(a, kind, annotation=t) for a, t in _operands(name).items()],
        return_annotation=_TYPES[_table.prototype(name)[0]],
    )
    return cute.extern(name=name, source=cute.BitCode(paths.bitcode()))(declaration)


def _call(name, **values):
    """Calls a function of gin_functions(3); each operand is cast to the function's type."""
    operands = _operands(name)
    assert operands.keys() == values.keys(), (name, operands.keys() ^ values.keys())
    zero = {argument: 0 if value is None else value for argument, value in values.items()}
    return _extern(name)(*(kind(zero[argument]) for argument, kind in operands.items()))


_kind = _table.kind


def _define(row):
    """The row's function for kernels."""
    values = ", ".join(f"{name}={value}" for name, value in _table.operands(row).items())
    function = _table.define(row, globals(), f"_call({row.function!r}, {values})")
    function.__annotations__["return"] = _TYPES[_table.prototype(row.function)[0]]


for _row in _table.ROWS.values():
    _define(_row)


def peer_pointer(
    window: Any, peer: Any, dtype: Any, offset: Any = 0, align: int = 16
) -> cute.Pointer:
    """Where this rank loads and stores the peer's part of a window; NULL if it is not direct.

    align: the bytes that the address is a multiple of.
    """
    address = _call("ginPointer", window=window, offset=offset, peer=peer)
    return cute.make_ptr(dtype, address, cute.AddressSpace.gmem, assumed_align=align)
