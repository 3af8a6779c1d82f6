# SPDX-License-Identifier: BSD-3-Clause
"""Where the headers and the bitcode are: in the package, or where `make install` puts them."""

import os
from collections.abc import Iterable

from ._library import library_path

_HERE = os.path.dirname(os.path.abspath(__file__))
INCLUDES = ("/usr/local/include", "/usr/include")


def _first(variable: str, paths: Iterable[str], marker: str = "", remedy: str = "") -> str:
    forced = os.environ.get(variable)
    tried = [forced] if forced else list(paths)
    for path in tried:
        if os.path.exists(os.path.join(path, marker) if marker else path):
            return path
    raise FileNotFoundError(f"not found: {', '.join(tried)}. Set {variable}{remedy}.")


def _beside_library(*names):
    """Paths relative to the folder of the library, which need not be below /usr."""
    try:
        folder = os.path.dirname(library_path())
    except (ImportError, LookupError):
        return []
    return [os.path.normpath(os.path.join(folder, name)) for name in names]


def include_dir() -> str:
    """The folder of gin.h and gin_device.cuh, for the option -I of nvcc and NVRTC.

    LIBGIN_INCLUDE overrides it.
    """
    return _first(
        "LIBGIN_INCLUDE",
        [os.path.join(_HERE, "include"), *_beside_library("../include"), *INCLUDES],
        "gin_device.cuh",
    )


def bitcode() -> str:
    """The file libgin_device.bc: device calls in C for every GPU. LIBGIN_BITCODE overrides it.

    `make bitcode-checks` makes one whose calls check their arguments.
    """
    name = "libgin_device.bc"
    installed = _beside_library(name, os.path.join("libgin0", name))
    paths = [os.path.join(_HERE, "lib", name), *installed]
    remedy = ", or install clang and LLVM 16 to 19 (Debian: clang-16 llvm-16) and the package again"
    return _first("LIBGIN_BITCODE", paths, remedy=remedy)
