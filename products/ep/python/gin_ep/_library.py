# SPDX-License-Identifier: BSD-3-Clause
"""Finds and loads libgin-ep.so, and with it libgin.so, unless the process has loaded libgin.so."""

import ctypes
import importlib.machinery
import importlib.util
import os

NAME = "libgin-ep.so.0"
LIBGIN = "libgin.so.0"
HERE = os.path.dirname(os.path.abspath(__file__))
BESIDE = os.path.join(HERE, "lib")

NATIVE = "_native.abi3.so"

_loaded = None
_folder = None  # of the library that is loaded; None if the system's loader has found it


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


def native():
    """The module gin_ep._native: of the package, or of the build folder that has the library."""
    load()
    folders = [HERE] + ([os.path.join(_folder, "gin_ep")] if _folder else [])
    for folder in folders:
        path = os.path.join(folder, NATIVE)
        if os.path.exists(path):
            return _module(path)
    raise LibraryNotFound(
        f"gin_ep finds no {NATIVE} in {' or '.join(folders)}. Where Python.h is (Debian's python3-dev), `make ep` "
        "builds it, and so does `pip install products/ep/python`."
    )


def _module(path):
    loader = importlib.machinery.ExtensionFileLoader("gin_ep._native", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def load():
    """The library as a ctypes.CDLL, without prototypes. Its handle has the names of libgin.so, too."""
    global _loaded
    if _loaded is None:
        _loaded = _load()
    return _loaded


def _load():
    global _folder
    reasons = []
    for path in candidates():
        try:
            found = _open(path)
            _folder = os.path.dirname(os.path.realpath(path)) if os.path.dirname(path) else None
            return found
        except OSError as error:
            reasons.append(f"  {path}: {error}")
    raise LibraryNotFound(
        "gin_ep finds no libgin-ep.so. Tried:\n" + "\n".join(reasons) + "\n"
        "Set GIN_EP_LIBRARY to the path of libgin-ep.so, or install the package from libgin's source tree "
        "(pip install products/ep/python), or install libgin (make install && ldconfig)."
    )
