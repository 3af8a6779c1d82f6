# SPDX-License-Identifier: BSD-3-Clause
"""The build backend of `pip install products/ep/python`: builds the libraries by make, and a wheel that contains them.

It needs no package, so pip needs no network. Variables:
  GIN_EP_BUILD    the folder of make's results; preset: build, in the source tree
  GIN_EP_BUNDLE=0 no libraries in the wheel, the native module alone: gin_ep then loads installed ones
"""

import base64
import hashlib
import os
import subprocess
import sys
import sysconfig
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", "..", ".."))
NAME = "gin_ep"
# The first two are needed; a plug-in is there if its headers were.
NATIVE = "_native.abi3.so"
LIBRARIES = ("libgin.so.0", "libgin-ep.so.0")
PLUGINS = ("libgin-pmix.so", "libgin-rdma.so", "libgin-ofi.so")
SUMMARY = "Expert parallelism on libgin: dispatch and combine, low latency, with DeepEP's names"


def version():
    with open(os.path.join(HERE, NAME, "__init__.py")) as file:
        for line in file:
            if line.startswith("__version__"):
                return line.split('"')[1]
    raise RuntimeError(f"{NAME}/__init__.py has no __version__")


def bundled():
    return os.environ.get("GIN_EP_BUNDLE", "1") != "0"


def platform_tag():
    return "cp310-abi3-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")


def metadata():
    with open(os.path.join(HERE, "README.md")) as file:
        readme = file.read()
    return (
        f"Metadata-Version: 2.1\nName: gin-ep\nVersion: {version()}\nSummary: {SUMMARY}\n"
        f"License: BSD-3-Clause\nRequires-Python: >=3.10\nDescription-Content-Type: text/markdown\n\n{readme}"
    )


def wheel_file():
    return f"Wheel-Version: 1.0\nGenerator: gin_ep\nRoot-Is-Purelib: false\nTag: {platform_tag()}\n"


def make_libraries():
    """{name in the wheel: path} of the native module and the libraries, built if they are older than their sources."""
    if not os.path.exists(os.path.join(ROOT, "products", "ep", "include", "gin_ep.h")):
        raise SystemExit("gin_ep is built in libgin's source tree.")
    headers = sysconfig.get_path("include")
    if not os.path.exists(os.path.join(headers, "Python.h")):
        raise SystemExit(f"gin_ep's native module needs {headers}/Python.h: on Debian, apt-get install python3-dev")
    build = os.path.join(ROOT, os.environ.get("GIN_EP_BUILD", "build"))
    native = os.path.join(build, "gin_ep", NATIVE)
    wanted = ["lib", "ep"] if bundled() else [os.path.relpath(native, ROOT)]
    make = ["make", "-C", ROOT, f"-j{os.cpu_count()}", f"BUILD={os.path.relpath(build, ROOT)}"]
    subprocess.run([*make, "DEPS=0", f"PYTHON={sys.executable}", *wanted], check=True)
    found = {f"{NAME}/{NATIVE}": native}
    if bundled():
        found |= {f"{NAME}/lib/{name}": os.path.join(build, name) for name in LIBRARIES}
        plugins = {f"{NAME}/lib/{name}": os.path.join(build, name) for name in PLUGINS}
        found |= {name: path for name, path in plugins.items() if os.path.exists(path)}
    return found


def sources():
    """{name in the wheel: path} of the Python files."""
    found = {}
    for folder, _, files in os.walk(os.path.join(HERE, NAME)):
        for file in files:
            if file.endswith(".py"):
                path = os.path.join(folder, file)
                found[os.path.relpath(path, HERE)] = path
    return found


class Wheel:
    """A wheel under construction; the RECORD goes last."""

    def __init__(self, path):
        self.archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.record = []

    def add(self, name, data, mode=0o644):
        entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
        entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, (0o100000 | mode) << 16
        self.archive.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}")

    def close(self, info):
        self.add(f"{info}/METADATA", metadata().encode())
        self.add(f"{info}/WHEEL", wheel_file().encode())
        name = f"{info}/RECORD"
        self.archive.writestr(name, "\n".join(self.record + [f"{name},,"]) + "\n")
        self.archive.close()


def _write(directory, files):
    name = f"{NAME}-{version()}-{platform_tag()}.whl"
    wheel = Wheel(os.path.join(directory, name))
    for target, source in sorted(files.items()):
        with open(source, "rb") as file:
            wheel.add(target, file.read(), 0o755 if ".so" in target else 0o644)
    return wheel, name


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """pip asks for these files first; without this hook it would build the wheel twice."""
    name = f"{NAME}-{version()}.dist-info"
    os.makedirs(os.path.join(metadata_directory, name))
    for file, text in (("METADATA", metadata()), ("WHEEL", wheel_file())):
        with open(os.path.join(metadata_directory, name, file), "w") as out:
            out.write(text)
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    wheel, name = _write(wheel_directory, {**sources(), **make_libraries()})
    wheel.close(f"{NAME}-{version()}.dist-info")
    return name


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """`pip install -e`: the package in the source tree, with links to the libraries beside it."""
    beside = os.path.join(HERE, NAME, "lib")
    os.makedirs(beside, exist_ok=True)
    for target, source in make_libraries().items():
        link = os.path.join(HERE, target)
        if os.path.lexists(link):
            os.unlink(link)
        os.symlink(source, link)
    wheel, name = _write(wheel_directory, {})
    wheel.add(f"{NAME}.pth", f"{HERE}\n".encode())
    wheel.close(f"{NAME}-{version()}.dist-info")
    return name


def build_sdist(sdist_directory, config_settings=None):
    raise UnsupportedOperation("gin_ep has no source archive of its own: `make dist` makes libgin's")


class UnsupportedOperation(Exception):
    """PEP 517: this hook cannot do its work."""
