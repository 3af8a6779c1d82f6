# SPDX-License-Identifier: BSD-3-Clause
"""Kernels in Python on host threads, for tests where there is no GPU.

launch() runs a Python function on host threads, which stand for the threads of a GPU. The function
makes the device calls of gin_functions(3), which are attributes of this module: libgin.host.ginPut.
The calls run libgin's own device code, coops included. Python's threads take turns, so it is slow.
"""

import ctypes
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import _abi, _library, _table

if TYPE_CHECKING:
    from ._calls import *  # noqa: F403 - the device calls, which __getattr__() finds

NAME = "libgin-ffi.so.0"

# Values of the argument `coop`, `kind` and `counter` of device calls.
THREAD, WARP, CTA = _abi.ginCoopThread, _abi.ginCoopWarp, _abi.ginCoopCta
NONE, STRONG, WEAK = _abi.ginSignalNone, _abi.ginSignalStrong, _abi.ginSignalWeak
NO_COUNTER = _table.NO_COUNTER
TYPES = {
    "none": None,
    "ptr": ctypes.c_void_p,
    "i32": ctypes.c_int32,
    "u32": ctypes.c_uint32,
    "u64": ctypes.c_uint64,
}

_Kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_loaded = None


def candidates() -> list[str]:
    """What load() tries, in this order: LIBGIN_FFI alone if it is set."""
    forced = os.environ.get("LIBGIN_FFI")
    return [forced] if forced else [os.path.join(_library.BESIDE, NAME), NAME]


def load() -> ctypes.CDLL:
    """libgin-ffi.so, the device calls of host threads, with prototypes."""
    global _loaded
    if _loaded is None:
        remedy = "Set LIBGIN_FFI to its path; `make python` builds it."
        _loaded = _declare(_library.first_of(candidates(), "libgin-ffi.so is not found", remedy))
    return _loaded


def _declare(library):
    abi = library.ginFfiAbi()
    if abi != _abi.GIN_DEVICE_ABI:
        raise _library.LibraryNotFound(
            f"libgin-ffi.so has device ABI {abi}, the package libgin has {_abi.GIN_DEVICE_ABI}"
        )
    for name in _abi.DEVICE_FUNCTIONS:
        result, arguments = _table.prototype(name)
        function = getattr(library, name)
        function.restype = TYPES[result]
        function.argtypes = [TYPES[kind] for kind in arguments.values()]
    library.ginFfiLaunch.argtypes = ctypes.c_uint32, ctypes.c_uint32, _Kernel, ctypes.c_void_p
    return library


if not TYPE_CHECKING:

    def __getattr__(name):
        if name in _abi.DEVICE_FUNCTIONS:
            return getattr(load(), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def seconds(count: float) -> int:
    """Nanoseconds, the unit of a device call's timeout."""
    return round(count * 1e9)


def thread() -> int:
    """Number of the calling thread in its block."""
    return load().ginFfiThread()


def block() -> int:
    """Number of the calling thread's block."""
    return load().ginFfiBlock()


def launch(grid: int, block: int, kernel: Callable, *arguments) -> None:
    """Runs kernel(*arguments) on grid x block host threads and waits for them.

    The first exception of a thread is raised when all threads have ended. If a thread leaves out a
    call of a coop, the other threads wait forever, as on a GPU.
    """
    raised = []

    @_Kernel
    def body(_):
        try:
            kernel(*arguments)
        except BaseException as error:  # must not pass through C
            raised.append(error)

    result = load().ginFfiLaunch(grid, block, body, None)
    if result:
        raise _library.failure(result, "ginHostLaunch")
    if raised:
        raise raised[0]
