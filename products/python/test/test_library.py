# SPDX-License-Identifier: BSD-3-Clause
"""How the library is found and declared; what the package imports."""

import ctypes
import os
import re
import subprocess

import pytest
from conftest import ROOT, python

import libgin
from libgin import _abi, _library, host, paths


def structs_of_table():
    """(name, bytes, [(offset, member)]) of each struct in the table of layouts."""
    text = (ROOT / "test/lint/abi/layouts.txt").read_text()
    for name, size, body in re.findall(r"^struct (\w+), (\d+) bytes\n((?:\t.*\n?)*)", text, re.M):
        members = re.findall(r"^\t(\d+) (\w+):", body, re.M)
        yield name, int(size), [(int(offset), member) for offset, member in members]


def test_layouts_are_the_headers():
    seen = 0
    for name, size, members in structs_of_table():
        kind = getattr(_abi, name, None)
        if kind is None:
            continue
        seen += 1
        assert ctypes.sizeof(kind) == size, name
        assert [(getattr(kind, m).offset, m) for _, m in members] == members, name
        assert len(kind._fields_) == len(members), name
    assert seen >= 14


def test_prototypes_are_what_the_library_exports():
    exported = re.findall(r"^\t\t(gin\w+);", (ROOT / "lib/libgin.map").read_text(), re.M)
    assert sorted(_abi.FUNCTIONS) == sorted(exported)


def test_device_calls_are_what_the_library_exports():
    command = ["nm", "-D", "--defined-only", os.environ["LIBGIN_FFI"]]
    names = re.findall(r" T (gin(?!Ffi)\w+)", subprocess.check_output(command, text=True))
    assert sorted(_abi.DEVICE_FUNCTIONS) == sorted(names)
    assert all(getattr(host.load(), name) for name in names)


def test_the_version_is_the_headers():
    text = (ROOT / "include/gin.h").read_text()
    parts = re.findall(r"define GIN_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", text)
    assert libgin.__version__ == ".".join(parts)
    assert libgin.version() == tuple(map(int, parts))


def test_the_library_is_the_one_that_was_named():
    assert libgin.library_path() == os.path.realpath(os.environ["LIBGIN_LIBRARY"])


def test_a_path_that_is_not_there():
    said = python("import libgin; libgin.version()", LIBGIN_LIBRARY="/nowhere/libgin.so.0")
    assert re.search("libgin.so is not found. Tried:\n  /nowhere/libgin.so.0: .*cannot open", said)
    assert "Set LIBGIN_LIBRARY" in said


def test_a_library_without_the_calls():
    said = python("import libgin; libgin.version()", LIBGIN_LIBRARY="libc.so.6")
    assert "the package libgin needs another version of libgin.so" in said


def test_a_library_that_the_process_has_is_taken():
    code = (
        "import ctypes, os; ctypes.CDLL(os.environ.pop('LIBGIN_LIBRARY'));"
        "import libgin; print(libgin.version(), libgin.library_path())"
    )
    assert os.path.realpath(os.environ["LIBGIN_LIBRARY"]) in python(code)


def test_import_loads_nothing():
    code = (
        "import libgin, sys;"
        "print([m in sys.modules for m in ('torch', 'numpy')], libgin._library._loaded)"
    )
    assert python(code, LIBGIN_LIBRARY="/nowhere").splitlines() == ["[False, False] None"]


def test_device_calls_of_other_headers_are_refused(monkeypatch):
    monkeypatch.setattr(_abi, "GIN_DEVICE_ABI", 1)
    monkeypatch.setattr(host, "_loaded", None)
    with pytest.raises(libgin.LibraryNotFound, match="libgin-ffi.so has device ABI"):
        host.load()


def test_headers_are_found(monkeypatch):
    assert os.path.exists(os.path.join(libgin.include_dir(), "gin_device.cuh"))
    monkeypatch.setenv("LIBGIN_INCLUDE", "/nowhere")
    with pytest.raises(FileNotFoundError, match="/nowhere. Set LIBGIN_INCLUDE"):
        libgin.include_dir()


def test_the_example_of_the_page():
    page = (ROOT / "products/python/man/man7/libgin-python.7").read_text()
    example = re.search(r"\.Bd [^\n]*\n(import libgin.*?)\.Ed", page, re.S)[1]
    exec(compile(example, "libgin-python.7", "exec"), {})


def test_bitcode_is_found(monkeypatch, tmp_path):
    path = tmp_path / "libgin_device.bc"
    path.touch()
    monkeypatch.setenv("LIBGIN_BITCODE", str(path))
    assert libgin.bitcode() == str(path)
    monkeypatch.delenv("LIBGIN_BITCODE")
    monkeypatch.setattr(paths, "library_path", lambda: str(tmp_path / "libgin.so.0"))
    assert libgin.bitcode() == str(path)
    monkeypatch.setenv("LIBGIN_BITCODE", str(path))
    path.unlink()
    with pytest.raises(FileNotFoundError, match="Set LIBGIN_BITCODE, or install clang and LLVM 16"):
        libgin.bitcode()


def test_each_result_has_an_exception():
    results = {
        value
        for name, value in vars(_abi).items()
        if name.startswith("ginError") and isinstance(value, int)
    }
    assert set(libgin.errors.CLASSES) == results
    for result, kind in libgin.errors.CLASSES.items():
        assert _library.failure(result, "ginCall").result == result
        assert kind.__name__ in libgin.__all__
