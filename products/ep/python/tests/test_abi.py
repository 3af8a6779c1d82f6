# SPDX-License-Identifier: BSD-3-Clause
"""gin_ep/_abi.py against the headers: a C program prints sizes, offsets and constants."""

import os
import shutil
import subprocess
import tempfile
import unittest

from gin_ep import _abi

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "..")
IN_C = {"shape": "size"}


def fields(struct):
    return [name for name, *_ in struct._fields_]


def program():
    lines = ["#include <stddef.h>", "#include <stdio.h>", '#include "gin_ep.h"', "int main(void)", "{"]
    for c_name, struct in _abi.STRUCTS.items():
        lines.append(f'printf("{c_name} %zu\\n", sizeof({c_name}));')
        for name in fields(struct):
            field = IN_C.get(name, name)
            lines.append(
                f'printf("{c_name}.{name} %zu %zu\\n", offsetof({c_name}, {field}), sizeof((({c_name} *)0)->{field}));'
            )
    for name in _abi.CONSTANTS:
        lines.append(f'printf("{name} %d\\n", (int){name});')
    return "\n".join(lines + ["}"]) + "\n"


def expected():
    lines = []
    for c_name, struct in _abi.STRUCTS.items():
        lines.append(f"{c_name} {_abi.ctypes.sizeof(struct)}")
        for name in fields(struct):
            field = getattr(struct, name)
            lines.append(f"{c_name}.{name} {field.offset} {field.size}")
    return lines + [f"{name} {value}" for name, value in _abi.CONSTANTS.items()]


class Abi(unittest.TestCase):
    @unittest.skipUnless(shutil.which("gcc"), "there is no gcc")
    def test_layouts_and_constants(self):
        with tempfile.TemporaryDirectory() as scratch:
            source, binary = os.path.join(scratch, "abi.c"), os.path.join(scratch, "abi")
            with open(source, "w") as file:
                file.write(program())
            include = [f"-I{ROOT}/include", f"-I{ROOT}/products/ep/include"]
            subprocess.run(["gcc", "-Wall", *include, "-o", binary, source], check=True)
            seen = subprocess.run([binary], check=True, capture_output=True, text=True).stdout
        self.assertEqual(seen.splitlines(), expected())


if __name__ == "__main__":
    unittest.main()
