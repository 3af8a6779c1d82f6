# SPDX-License-Identifier: BSD-3-Clause
"""Finds and loads libgin-ep.so, and with it libgin.so, unless the process has loaded libgin.so."""

import ctypes
import os

NAME = "libgin-ep.so.0"
LIBGIN = "libgin.so.0"
BESIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")

_loaded = None


class LibraryNotFound(ImportError):
    """libgin-ep.so is not there, or does not load. The message lists what was tried."""


def candidates():
    """What load() tries, in this order: GIN_EP_LIBRARY alone if it is set."""
    forced = os.environ.get("GIN_EP_LIBRARY")
    return [forced] if forced else [os.path.join(BESIDE, NAME), NAME]


def _open(path):
    """Opens libgin-ep.so with one libgin.so.0: the one that the process has, else the one beside libgin-ep.so.

    The loader takes a loaded libgin.so.0 for the one that libgin-ep.so needs. The package libgin looks for a
    loaded one, too.
    """
    beside = os.path.join(os.path.dirname(path), LIBGIN)
    if os.path.dirname(path) and os.path.exists(beside) and not _is_loaded(LIBGIN):
        ctypes.CDLL(beside)
    return ctypes.CDLL(path)


def _is_loaded(name):
    try:
        ctypes.CDLL(name, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
    except OSError:
        return False
    return True


def load():
    """The library as a ctypes.CDLL, without prototypes. Its handle has the names of libgin.so, too."""
    global _loaded
    if _loaded is None:
        _loaded = _load()
    return _loaded


def _load():
    reasons = []
    for path in candidates():
        try:
            return _open(path)
        except OSError as error:
            reasons.append(f"  {path}: {error}")
    raise LibraryNotFound(
        "gin_ep finds no libgin-ep.so. Tried:\n" + "\n".join(reasons) + "\n"
        "Set GIN_EP_LIBRARY to the path of libgin-ep.so, or install the package from libgin's source tree "
        "(pip install products/ep/python), or install libgin (make install && ldconfig)."
    )
