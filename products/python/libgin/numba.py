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

import inspect
import os
from typing import Any

import numpy as np
from numba import cuda, types

from . import _table, host, paths
from ._resource import Resource
from .window import Window

__all__ = ["CTA", "THREAD", "WARP", "jit", "peer_array", "peer_pointer", *_table.ROWS]

THREAD: int = host.THREAD
WARP: int = host.WARP
CTA: int = host.CTA
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
    result, arguments = _table.prototype(name)
    pairs = arguments.items()
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
    result, arguments = _table.prototype(name)
    _declared.append(name)
    kinds = [_NUMBA[kind] for kind in arguments.values()]
    return cuda.declare_device(f"libgin_{name}", _NUMBA[result](*kinds), link=_link)


class _Handles:
    """Kernel arguments that are windows or device communicators go as their handles."""

    @staticmethod
    def prepare_args(ty, val, **_):
        return ty, val.data_ptr() if isinstance(val, Resource) else val


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


_kind = _device(_table.kind)


def _define(row):
    """The row's function for kernels. Parameters whose default is None are numbers of C."""
    options = [p.name for p in inspect.signature(row).parameters.values() if p.default is None]
    values = _table.operands(row).values()
    numbers = [f"_number({value})" if value in options else value for value in values]
    globals()[f"_{row.function}"] = _declare(row.function)
    call = f"_{row.function}({', '.join(numbers)})"
    globals()[row.__name__] = _device(_table.define(row, globals(), call))


for _row in _table.ROWS.values():
    _define(_row)

_pointer = _declare("ginPointer")


@_device
def peer_pointer(window: Any, peer: Any, offset: Any = 0) -> Any:
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
