# SPDX-License-Identifier: BSD-3-Clause
"""libgin's device calls in kernels of CuPy: CUDA C++ by NVRTC.

    module = libgin.cupy.RawModule(code=SOURCE)   # cupy.RawModule; SOURCE includes gin_device.cuh
    kernel = module.get_function("ring")
    kernel((1,), (256,), (dc, inbox, outbox, status))

A kernel takes libgin's structs by value, from the objects:

    extern "C" __global__ void ring(ginDevComm dc, ginWindow_t inbox, ginWindow_t outbox,
                                    int *status)

cupy.asarray() makes arrays of what Communicator.alloc() returns.
"""

from typing import Any

import cupy
import numpy as np

from . import paths
from ._resource import Resource
from .window import Window

__all__ = ["RawModule", "compile_options", "peer_array", "value"]


def compile_options() -> tuple[str, ...]:
    """Options of NVRTC by which kernels include gin_device.cuh."""
    return "--std=c++17", f"-I{paths.include_dir()}"


def value(argument: Any) -> Any:
    """A kernel's argument: a window's or device communicator's struct by value, else as given."""
    if not isinstance(argument, Resource):
        return argument
    argument.data_ptr()  # raises if it is closed
    if argument._value is None:
        data = bytes(argument.struct)
        # CuPy passes an array of one element by value.
        argument._value = np.frombuffer(data, dtype=np.dtype((np.void, len(data))))
    return argument._value


class _Kernel:
    """A cupy.RawKernel that takes windows and device communicators."""

    def __init__(self, kernel):
        self.kernel = kernel

    def __call__(self, grid, block, args, **options):
        self.kernel(grid, block, tuple(map(value, args)), **options)

    def __getattr__(self, name):
        return getattr(self.kernel, name)


class RawModule:
    """cupy.RawModule of CUDA C++ that includes gin_device.cuh; the keywords are RawModule's."""

    def __init__(self, *, code: str, options: tuple[str, ...] = (), **keywords):
        options = (*compile_options(), *options)
        self.module = cupy.RawModule(code=code, options=options, **keywords)

    def get_function(self, name: str) -> _Kernel:
        return _Kernel(self.module.get_function(name))

    def __getattr__(self, name):
        return getattr(self.module, name)


def peer_array(window: Window, rank: int, shape: tuple[int, ...], dtype: Any) -> Any:
    """The start of a rank's part of a window as an array; None if it is not direct."""
    address = window.peer_pointer(rank)
    if address is None:
        return None
    # With device_id CuPy does not look up the GPU of the address, which is the peer's.
    device = cupy.cuda.Device().id
    memory = cupy.cuda.UnownedMemory(address, window.nbytes, window, device_id=device)
    return cupy.ndarray(shape, dtype, cupy.cuda.MemoryPointer(memory, 0))
