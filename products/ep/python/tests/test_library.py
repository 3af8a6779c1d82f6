# SPDX-License-Identifier: BSD-3-Clause
"""How the library is found, and what is said when it is not; what the package imports."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import gin_ep

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "..")


def python(code, **environment):
    """Output of a Python program, and its standard error."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ).stdout


class Library(unittest.TestCase):
    def test_a_path_that_is_not_there(self):
        said = python("import gin_ep; gin_ep.Communicator()", GIN_EP_LIBRARY="/nowhere/libgin-ep.so.0")
        self.assertRegex(said, "gin_ep finds no libgin-ep.so. Tried:\n  /nowhere/libgin-ep.so.0: .*cannot open")
        self.assertIn("Set GIN_EP_LIBRARY", said)

    def test_a_library_without_the_calls(self):
        said = python("import gin_ep; gin_ep.Communicator()", GIN_EP_LIBRARY="libc.so.6")
        self.assertIn("gin_ep needs another version of libgin-ep.so", said)
        self.assertIn("ginCommInit", said)

    def test_one_libgin_for_both_packages(self):
        """Each package has a libgin.so.0 of its own: the second package takes the one that the first has loaded."""
        said = (
            "import os; maps = open('/proc/self/maps').read().split(); "
            "print(sorted({os.path.realpath(word) for word in maps if '/libgin.so' in word}))"
        )
        loads = ["import libgin; libgin.version()", "from gin_ep import _library; _library.load()"]
        ep = os.environ["GIN_EP_LIBRARY"]
        own = os.path.realpath(os.path.join(os.path.dirname(ep), "libgin.so.0"))
        path = os.pathsep.join([os.path.join(ROOT, "products", "python"), os.environ["PYTHONPATH"]])
        with tempfile.TemporaryDirectory() as scratch:
            other = os.path.realpath(shutil.copy(own, os.path.join(scratch, "libgin.so.0")))
            settings = {"PYTHONPATH": path, "LIBGIN_LIBRARY": other}
            self.assertEqual(python("; ".join([*loads, said]), **settings), f"['{other}']\n")
            settings["LIBGIN_LIBRARY"] = ""
            self.assertEqual(python("; ".join([*loads[::-1], said]), **settings), f"['{own}']\n")

    def test_import_loads_neither_torch_nor_the_library(self):
        code = "import gin_ep, sys; print('torch' in sys.modules, 'numpy' in sys.modules, gin_ep._library._loaded)"
        self.assertEqual(python(code, GIN_EP_LIBRARY="/nowhere").split(), ["False", "False", "None"])

    def test_the_version_is_the_headers(self):
        with open(os.path.join(ROOT, "include", "gin.h")) as file:
            parts = re.findall(r"define GIN_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", file.read())
        self.assertEqual(gin_ep.__version__, ".".join(parts))


if __name__ == "__main__":
    unittest.main()
