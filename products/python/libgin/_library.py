# SPDX-License-Identifier: BSD-3-Clause
"""Finds and loads libgin.so, declares its functions, and turns results into exceptions."""

import ctypes
import os

from . import _abi, errors

NAME = "libgin.so.0"
BESIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")

_loaded = None


class LibraryNotFound(ImportError):
    """libgin.so is not there, or does not load. The message lists what was tried."""


def candidates() -> list[str]:
    """What load() tries, in this order: LIBGIN_LIBRARY alone if it is set."""
    forced = os.environ.get("LIBGIN_LIBRARY")
    return [forced] if forced else [os.path.join(BESIDE, NAME), NAME]


def load() -> ctypes.CDLL:
    """The library with prototypes; loads it at the first call."""
    global _loaded
    if _loaded is None:
        _loaded = _declare(_find())
    return _loaded


def library_path() -> str:
    """The file that the library was loaded from."""
    address = ctypes.cast(load().ginGetVersion, ctypes.c_void_p).value or 0
    with open("/proc/self/maps") as maps:
        for line in maps:
            first, last = (int(end, 16) for end in line.split(maxsplit=1)[0].split("-"))
            if first <= address < last:
                return line.split(maxsplit=5)[5].rstrip("\n")
    raise LookupError("libgin.so is not among the mapped files of this process")


def _find():
    """Takes a libgin.so that the process has loaded already, by gin_ep for example."""
    if not os.environ.get("LIBGIN_LIBRARY"):
        try:
            return ctypes.CDLL(NAME, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
        except OSError:
            pass
    return first_of(
        candidates(),
        "libgin.so is not found",
        "Set LIBGIN_LIBRARY to the path of libgin.so.0, or install the package from libgin's "
        "source tree (pip install ./products/python), or install libgin (make install && ldconfig).",
    )


def first_of(paths: list[str], problem: str, remedy: str) -> ctypes.CDLL:
    """The first library that loads. If none does: an error with the problem and the remedy."""
    reasons = []
    for path in paths:
        try:
            return ctypes.CDLL(path, mode=os.RTLD_NOW)
        except OSError as error:
            reasons.append(f"  {path}: {error}")
    raise LibraryNotFound("\n".join([f"{problem}. Tried:", *reasons, remedy]))


def _declare(library):
    try:
        for name, (result, arguments) in _abi.FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except AttributeError as error:
        raise LibraryNotFound(
            f"the package libgin needs another version of libgin.so: {error}"
        ) from None
    return library


def failure(result: int, call: str, sentence: bytes = b"") -> errors.GinError:
    """The exception of a ginResult_t, with a sentence, or the library's words for the result."""
    words = sentence or load().ginGetErrorString(result)
    error = errors.CLASSES.get(result, errors.GinError)(words.decode(errors="replace"))
    error.call, error.result = call, result
    return error


def call(name: str, *arguments) -> None:
    """Calls a function that returns a ginResult_t, without the GIL; raises what the result says."""
    library = load()
    result = getattr(library, name)(*arguments)
    if result != _abi.ginSuccess:
        raise failure(result, name, library.ginGetLastError())


def version() -> tuple[int, int, int]:
    """Of the library that is loaded: major, minor, patch."""
    number = ctypes.c_int()
    call("ginGetVersion", ctypes.byref(number))
    return number.value // 10000, number.value // 100 % 100, number.value % 100
