# SPDX-License-Identifier: BSD-3-Clause
"""Checks a cubin without a GPU, and prints a row of the table of compilers."""

import contextlib
import os
import re
import struct
import subprocess
import tempfile
import time

EM_CUDA = 190


def architecture_of(cubin):
    """The number of the ELF header's flags: bits 8 to 15 from CUDA 13 on, else bits 0 to 7."""
    magic, machine, abi, flags = (
        cubin[:4],
        struct.unpack_from("<H", cubin, 18)[0],
        cubin[8],
        struct.unpack_from("<I", cubin, 48)[0],
    )
    assert magic == b"\x7fELF" and machine == EM_CUDA, "this is no cubin"
    return flags >> 8 & 0xFF if abi >= 8 else flags & 0xFF


def machine_code(cubin):
    """The cubin's instructions by NVDISASM, or "" if it is not set or does not know the format."""
    program = os.environ.get("NVDISASM")
    if not program:
        return ""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return subprocess.run([program, "-c", file.name], capture_output=True, text=True).stdout


@contextlib.contextmanager
def report(compiler, version, architecture):
    """Gives a function check(cubin, kernel, ptx=None), and prints the row when the block ends."""
    row = {}

    def check(cubin, kernel, ptx=None):
        cubin = bytes(cubin)
        found = architecture_of(cubin)
        assert found == int(architecture), f"the cubin is for sm_{found}"
        assert kernel.encode() in cubin, f"the cubin has no {kernel}"
        undefined = re.findall(r"\.extern \.func[^;]*?\b(gin\w+)", ptx or "")
        assert not undefined, f"not linked: {undefined}"
        # The read-only cache may have old bytes after a peer has written new ones.
        stale = re.findall(r"LDG\S*CONSTANT.*", machine_code(cubin))
        assert not stale, f"loads that no wait orders: {stale[:3]}"
        row["bytes"] = len(cubin)

    start = time.monotonic()
    yield check
    seconds = time.monotonic() - start
    size = f"{row['bytes']:8} bytes"
    print(f"{compiler:10} {version:10} sm_{architecture:5} {size} {seconds:6.1f} s", flush=True)
