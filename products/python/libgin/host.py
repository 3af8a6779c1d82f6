# SPDX-License-Identifier: BSD-3-Clause
"""Kernels in Python on host threads, for tests where there is no GPU.

launch() runs a Python function on host threads, which stand for the threads of a GPU. The function
makes the device calls of gin_functions(3), which are attributes of this module: libgin.host.ginPut.
The calls run libgin's own device code, coops included. Python's threads take turns, so it is slow.
"""

import ctypes
import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import _abi, _arguments, _interrupt, _library, _table, communicator
from ._resource import Resource, by_handle
from .device import DeviceCommunicator
from .window import Window

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

_LIMITS = {
    "ptr": (0, 2**64 - 1),
    "i32": _arguments.INT32,
    "u32": _arguments.UINT32,
    "u64": (-(2**63), 2**64 - 1),  # adding a negative number subtracts
}
_WINDOWS = "dstWin", "srcWin", "win", "window"

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


def _handle(kind, argument, value):
    """The handle of an object, or of the number of one, that host threads may use."""
    found = value if isinstance(value, Resource) else by_handle.get(value)
    if not isinstance(found, kind):
        raise TypeError(f"{argument} is {value!r}: give an open libgin.{kind.__name__}")
    device = found._comm.device_index
    if device is not None:
        raise ValueError(f"{argument} is of GPU {device}: host threads cannot use it")
    return found.data_ptr()


def _address(argument, value):
    if value is None or isinstance(value, (ctypes._SimpleCData, ctypes._Pointer, ctypes.Array)):
        return value
    if isinstance(value, Resource):
        raise TypeError(f"{argument} is {value!r}: give an address")
    return _arguments.whole(argument, value, _LIMITS["ptr"])


def _checks(name):
    """{argument: a function that returns what C gets for a value}."""
    _, arguments = _table.prototype(name)
    for argument, kind in arguments.items():
        if argument == "dc":
            yield argument, lambda a, value: _handle(DeviceCommunicator, a, value)
        elif argument == "window" and "where" in arguments:  # None: `where` is a signal's number
            yield argument, lambda a, value: value and _handle(Window, a, value)
        elif argument in _WINDOWS:
            yield argument, lambda a, value: _handle(Window, a, value)
        elif kind == "ptr":
            yield argument, _address
        else:
            yield argument, lambda a, value, kind=kind: _arguments.whole(a, value, _LIMITS[kind])


@functools.cache
def _checked(name):
    """A device call whose arguments are of the right kinds. C checks numbers against limits."""
    function, checks = getattr(load(), name), dict(_checks(name))

    def call(*values):
        if len(values) != len(checks):
            raise TypeError(f"{name}({', '.join(checks)}) got {len(values)} arguments")
        return function(*(f(a, v) for (a, f), v in zip(checks.items(), values, strict=True)))

    call.__name__ = name
    return call


if not TYPE_CHECKING:

    def __getattr__(name):
        if name in _abi.DEVICE_FUNCTIONS:
            return _checked(name)
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


def abort_waits(arguments: tuple) -> None:
    """Aborts the communicators of the arguments; if none is of one, all without a GPU."""
    named = {argument._comm for argument in arguments if isinstance(argument, Resource)}
    for comm in named or {comm for comm in communicator.opened if comm.device_index is None}:
        comm.abort()


def launch(grid: int, block: int, kernel: Callable, *arguments) -> None:
    """Runs kernel(*arguments) on grid x block host threads and waits for them.

    The first exception of a thread is raised when all threads have ended. If a thread leaves out a
    call of a coop, the other threads wait forever, as on a GPU. Ctrl-C on the main thread aborts
    the communicators of the arguments, and so ends waits.
    """
    grid = _arguments.whole("grid", grid, _arguments.UINT32)
    block = _arguments.whole("block", block, _arguments.UINT32)
    raised = []

    @_Kernel
    def body(_):
        try:
            kernel(*arguments)
        except BaseException as error:  # must not pass through C
            raised.append(error)

    library = load()
    result = _interrupt.on_helper(
        lambda: abort_waits(arguments), library.ginFfiLaunch, grid, block, body, None
    )
    if result:
        sentence = f"grid is {grid} and block {block}: give 1 or more, as many as threads can be"
        raise _library.failure(result, "ginHostLaunch", sentence.encode())
    if raised:
        raise raised[0]
