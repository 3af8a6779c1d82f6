# SPDX-License-Identifier: BSD-3-Clause
"""Writes wheels with shared libraries, and finds their platform tag. Needs no package."""

import base64
import hashlib
import os
import re
import subprocess
import sysconfig
import tempfile
import zipfile

# What every Linux with the right glibc has: PEP 600.
EVERYWHERE = re.compile(r"(libc|libm|libdl|librt|libpthread|libgcc_s|ld-linux.*)\.so\..*")


def machine():
    return sysconfig.get_platform().rpartition("-")[2]


def needed(library):
    """The libraries that a library needs."""
    text = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True)
    return re.findall(r"\(NEEDED\).*\[(.*)\]", text.stdout)


def glibc(library):
    """The newest version of glibc that a library asks for: (2, 34)."""
    text = subprocess.run(["readelf", "-V", library], check=True, capture_output=True, text=True)
    versions = re.findall(r"\bGLIBC_(\d+)\.(\d+)", text.stdout)
    return max((int(major), int(minor)) for major, minor in versions)


def platform_tag(libraries):
    """manylinux_X_Y if the libraries need glibc X.Y and nothing else; else linux."""
    names = {os.path.basename(path) for path in libraries}
    others = {
        name
        for path in libraries
        for name in needed(path)
        if name not in names and not EVERYWHERE.fullmatch(name)
    }
    if others:
        return f"linux_{machine()}"
    major, minor = max(glibc(path) for path in libraries)
    return f"manylinux_{major}_{minor}_{machine()}"


def stripped(library):
    """The bytes of a library that a process loads."""
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(["strip", "--strip-unneeded", "-o", out.name, library], check=True)
        with open(out.name, "rb") as file:
            return file.read()


def python_files(folder, name):
    """{name in the wheel: path} of the Python files of a package."""
    found = {}
    for place, _, files in os.walk(os.path.join(folder, name)):
        for file in files:
            if file.endswith((".py", ".pyi", "py.typed")):
                path = os.path.join(place, file)
                found[os.path.relpath(path, folder)] = path
    return found


class Wheel:
    """A wheel under construction; the RECORD goes last."""

    def __init__(self, path, info):
        self._archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self._record, self._info = [], info

    def add(self, name, data, mode=0o644):
        entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
        entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, (0o100000 | mode) << 16
        self._archive.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self._record.append(f"{name},sha256={digest},{len(data)}")

    def add_files(self, files):
        """{name in the wheel: path}; libraries go in without their debugging information."""
        for name, path in sorted(files.items()):
            if ".so" in name:
                self.add(name, stripped(path), 0o755)
                continue
            with open(path, "rb") as file:
                self.add(name, file.read())

    def close(self, metadata, wheel_file):
        self.add(f"{self._info}/METADATA", metadata.encode())
        self.add(f"{self._info}/WHEEL", wheel_file.encode())
        name = f"{self._info}/RECORD"
        self._archive.writestr(name, "\n".join([*self._record, f"{name},,"]) + "\n")
        self._archive.close()
