# SPDX-License-Identifier: BSD-3-Clause
"""The build backend of `pip install ./products/python`: libraries by make, and a wheel that has them.

It needs no package, so that pip needs no network. Variables:
  LIBGIN_BUILD           the folder of make's results; default: build, in the source tree
  LIBGIN_WHEEL=portable  libraries that need nothing but glibc, and the tag manylinux; the library
                         then does not know which CPUs are next to a GPU
  LIBGIN_WHEEL=bare      no libraries: the package loads installed ones
  CC, CXX                compilers, of ziglang for example, for an older glibc. With CC a
                         portable wheel has no plug-ins: no PMIx, RDMA and libfabric
"""

import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "mk"))

import wheel_writer  # noqa: E402

NAME = "libgin"
LIBRARIES = ("libgin.so.0", "libgin-ffi.so.0")
# In the package if this machine can build them.
PLUGINS = ("libgin-pmix.so", "libgin-rdma.so", "libgin-ofi.so")
BITCODE = "libgin_device.bc"
# Symmetric memory of PyTorch: the adapter is compiled where torch is.
SYMM = "libgin-symm.so.0"
SYMM_SOURCES = ("torch/adapter.cc", "include/gin_symm.h")
INCLUDES = (("include",), ("products", "nccl", "include"))
HEADERS = (".h", ".cuh")
SUMMARY = "GPU-initiated networking: put, get, signal and wait from inside kernels"
EXTRAS = {
    "torch": ["torch>=2.6"],
    "triton": ["triton>=3.4"],
    # NumPy 2.5 has no row_stack(), which numba-cuda uses.
    "numba": ["numba-cuda>=0.20", "numpy<2.5"],
    "cute": ["nvidia-cutlass-dsl>=4.6"],
    "cupy": ["cupy-cuda13x"],
    "mpi": ["mpi4py>=4"],
}


def kind():
    chosen = os.environ.get("LIBGIN_WHEEL", "local")
    if chosen not in ("local", "portable", "bare"):
        raise SystemExit(f'LIBGIN_WHEEL is {chosen}: it is "local", "portable" or "bare"')
    return chosen


def version():
    with open(os.path.join(HERE, NAME, "__init__.py")) as file:
        return next(line.split('"')[1] for line in file if line.startswith("__version__"))


def info():
    return f"{NAME}-{version()}.dist-info"


def metadata():
    with open(os.path.join(HERE, "README.md")) as file:
        readme = file.read()
    extras = ""
    for name, packages in EXTRAS.items():
        extras += f"Provides-Extra: {name}\n"
        extras += "".join(f"Requires-Dist: {p}; extra == '{name}'\n" for p in packages)
    return (
        f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version()}\nSummary: {SUMMARY}\n"
        f"License: BSD-3-Clause\nRequires-Python: >=3.10\n{extras}"
        f"Description-Content-Type: text/markdown\n\n{readme}"
    )


def wheel_file(tag):
    pure = "true" if tag.endswith("-any") else "false"
    return f"Wheel-Version: 1.0\nGenerator: libgin\nRoot-Is-Purelib: {pure}\nTag: {tag}\n"


def build_folder():
    build = os.path.join(ROOT, os.environ.get("LIBGIN_BUILD", "build"))
    return os.path.join(build, "portable") if kind() == "portable" else build


def run_make(*targets, cuda=False):
    build = os.path.relpath(build_folder(), ROOT)
    variables = [f"{name}={os.environ[name]}" for name in ("CC", "CXX") if name in os.environ]
    if kind() == "portable":
        # Another compiler has a glibc of its own: this system's libraries are not for it.
        variables.append("PKG_CONFIG=false" if "CC" in os.environ else "HWLOC=")
    command = ["make", "-C", ROOT, f"-j{os.cpu_count()}", f"BUILD={build}", "DEPS=0"]
    if not cuda:
        variables.append("CUDA=0")
    return subprocess.run([*command, *variables, *targets]).returncode


def takes_nvcc():
    """As the folder was built, if it was: libgin-symm.so has kernels for GPUs."""
    try:
        with open(os.path.join(build_folder(), "nvcc-used")) as file:
            return bool(file.read().split())
    except FileNotFoundError:
        return True


def built():
    """{name in the wheel: path} of libraries and bitcode, which make brings up to date."""
    if not os.path.exists(os.path.join(ROOT, "include", "gin.h")):
        raise SystemExit("libgin is built in its source tree. LIBGIN_WHEEL=bare needs none.")
    if run_make("lib", "python"):
        raise SystemExit("make has failed")
    if run_make("bitcode"):
        print("The package has no libgin_device.bc: make bitcode did not make it.")
    if run_make("symm", cuda=takes_nvcc()):
        print("The package has no libgin-symm.so: make symm did not make it.")
    names = (*LIBRARIES, *PLUGINS, BITCODE, SYMM)
    paths = {f"{NAME}/lib/{name}": os.path.join(build_folder(), name) for name in names}
    sources = os.path.join(ROOT, "products", "symm")
    paths.update({f"{NAME}/native/{name}": os.path.join(sources, name) for name in SYMM_SOURCES})
    return {name: path for name, path in paths.items() if os.path.exists(path)}


def headers():
    """{name in the wheel: path} of the headers."""
    found = {}
    for parts in INCLUDES:
        include = os.path.join(ROOT, *parts)
        for folder, _, files in os.walk(include):
            for file in files:
                if file.endswith(HEADERS):
                    path = os.path.join(folder, file)
                    found[f"{NAME}/include/{os.path.relpath(path, include)}"] = path
    return found


def tag(files):
    """Plug-ins do not count: the library works without a plug-in that does not load."""
    if kind() == "bare":
        return "py3-none-any"
    return "py3-none-" + wheel_writer.platform_tag(
        [files[f"{NAME}/lib/{name}"] for name in LIBRARIES]
    )


def _write(folder, files, platform):
    name = f"{NAME}-{version()}-{platform}.whl"
    wheel = wheel_writer.Wheel(os.path.join(folder, name), info())
    wheel.add_files(files)
    return wheel, name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    native = {} if kind() == "bare" else {**built(), **headers()}
    platform = tag(native)
    files = {**wheel_writer.python_files(HERE, NAME), **native}
    wheel, name = _write(wheel_directory, files, platform)
    wheel.close(metadata(), wheel_file(platform))
    return name


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    os.makedirs(os.path.join(metadata_directory, info()))
    with open(os.path.join(metadata_directory, info(), "METADATA"), "w") as out:
        out.write(metadata())
    return info()


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """`pip install -e`: the package in the source tree, with links to the libraries and headers."""
    include = os.path.join(HERE, NAME, "include")
    # No link of an earlier call stays: its header may be gone.
    if os.path.islink(include):
        os.unlink(include)
    shutil.rmtree(include, ignore_errors=True)
    for target, source in {**built(), **headers()}.items():
        _link(source, os.path.join(HERE, target))
    wheel, name = _write(wheel_directory, {}, "py3-none-any")
    wheel.add(f"{NAME}.pth", f"{HERE}\n".encode())
    wheel.close(metadata(), wheel_file("py3-none-any"))
    return name


def _link(source, link):
    os.makedirs(os.path.dirname(link), exist_ok=True)
    if os.path.islink(link):
        os.unlink(link)
    os.symlink(source, link)


class UnsupportedOperation(Exception):
    """PEP 517: this hook cannot do its work."""


def build_sdist(sdist_directory, config_settings=None):
    raise UnsupportedOperation("`make dist` makes libgin's source archive")
