# SPDX-License-Identifier: BSD-3-Clause
"""Compiles the adapter of libgin-symm.so for the PyTorch that is installed, once.

A C++ compiler is enough: neither nvcc nor CUDA's or Python's headers. The results are in
~/.cache/libgin/adapters, by PyTorch's version, the source and the flags. CXX names a compiler.
"""

import fcntl
import hashlib
import os
import subprocess
from collections.abc import Iterable

import torch

from . import paths

_HERE = os.path.dirname(os.path.abspath(__file__))
# In the package, or in the source tree.
SOURCES = os.path.join(_HERE, "native"), os.path.join(_HERE, "..", "..", "symm")
OLDEST = (2, 10)


class BuildError(ImportError):
    """The adapter does not compile. The message has the compiler's words."""


def _version() -> tuple[int, int]:
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def _flags() -> list[str]:
    """As torch.utils.cpp_extension compiles with."""
    standard = "c++17" if _version() < (2, 12) else "c++20"
    abi = int(torch._C._GLIBCXX_USE_CXX11_ABI)
    return [f"-std={standard}", f"-D_GLIBCXX_USE_CXX11_ABI={abi}", "-O2", "-fPIC"]


def _source() -> tuple[str, str]:
    """The adapter, and the folder of gin_symm.h."""
    for folder in SOURCES:
        adapter = os.path.join(folder, "torch", "adapter.cc")
        if os.path.exists(adapter):
            return adapter, os.path.join(folder, "include")
    raise FileNotFoundError(f"torch/adapter.cc is in none of {', '.join(SOURCES)}")


def _command(library: str) -> list[str]:
    adapter, include = _source()
    home = os.path.dirname(torch.__file__)
    return [
        os.environ.get("CXX", "g++"),
        *_flags(),
        f"-isystem{home}/include",
        f"-isystem{home}/include/torch/csrc/api/include",
        f"-I{include}",
        f"-I{paths.include_dir()}",
        "-shared",
        adapter,
        f"-L{home}/lib",
        "-ltorch_cpu",
        "-lc10",
        library,
    ]


def _key(command: Iterable[str]) -> str:
    """Of everything that the result depends on."""
    adapter, include = _source()
    digest = hashlib.sha256(torch.__version__.encode())
    for path in adapter, os.path.join(include, "gin_symm.h"):
        with open(path, "rb") as file:
            digest.update(file.read())
    digest.update("\0".join(command).encode())
    return f"torch-{torch.__version__.split('+')[0]}-{digest.hexdigest()[:16]}"


def _compile(command, target):
    """Into a file of its own, which then takes the name: another process never loads a part."""
    made = f"{target}.{os.getpid()}"
    try:
        run = subprocess.run([*command, "-o", made], capture_output=True, text=True)
    except OSError as error:
        raise BuildError(f"{command[0]} does not run: {error}. CXX names a C++ compiler.") from None
    if run.returncode:
        words = "\n".join(run.stderr.splitlines()[:20])
        raise BuildError(f"the adapter for PyTorch {torch.__version__} does not compile:\n{words}")
    os.rename(made, target)


def adapter(library: str) -> str:
    """The path of the adapter, which is linked with `library`, the path of libgin-symm.so."""
    if _version() < OLDEST:
        raise BuildError(f"PyTorch {torch.__version__} is too old: 2.10 or newer")
    command = _command(library)
    cache = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
    folder = os.path.join(cache, "libgin", "adapters")
    target = os.path.join(folder, f"{_key(command)}.so")
    os.makedirs(folder, exist_ok=True)
    with open(f"{target}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(target):
            _compile(command, target)
    return target
