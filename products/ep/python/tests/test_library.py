# SPDX-License-Identifier: BSD-3-Clause
"""How the library is found, and what is said when it is not; what the package imports."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

import gin_ep
from gin_ep._shown import shown

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


class Profiled:
    @shown
    def dispatch(self, x, rows=None):
        return len(x), rows


class Ranges(unittest.TestCase):
    """A stand-in for torch.autograd.profiler."""

    def test_calls_are_ranges_while_the_profiler_records(self):
        profiler = types.SimpleNamespace(_is_profiler_enabled=False, record_function=mock.MagicMock())
        x = memoryview(bytes(24))
        with mock.patch.dict(sys.modules, {"torch.autograd.profiler": profiler}):
            self.assertEqual(Profiled().dispatch(x), (24, None))
            profiler.record_function.assert_not_called()
            profiler._is_profiler_enabled = True
            self.assertEqual(Profiled().dispatch(x=x, rows="fp8"), (24, "fp8"))
        profiler.record_function.assert_called_once_with("gin_ep.dispatch, 24 bytes")
        profiler.record_function.return_value.__exit__.assert_called_once()

    def test_which_calls(self):
        for call in gin_ep.Ep.dispatch, gin_ep.Ep.combine:
            self.assertTrue(hasattr(call, "__wrapped__"), call)


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
