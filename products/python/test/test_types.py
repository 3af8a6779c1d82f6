# SPDX-License-Identifier: BSD-3-Clause
"""Types of the public calls: annotations, and the stub of the device calls."""

import ast
import inspect
import subprocess
import sys

from conftest import PROGRAMS, ROOT, has_module, left_out, limit

import libgin
from libgin import _abi, host


def functions_of(thing):
    """(name, function) of each public function, method and property."""
    if inspect.isfunction(thing):
        yield thing.__qualname__, thing
    elif inspect.isclass(thing):
        members = {k: v for kind in reversed(thing.__mro__[:-1]) for k, v in vars(kind).items()}
        for name, member in members.items():
            member = getattr(member, "__func__", getattr(member, "fget", member))
            if inspect.isfunction(member) and (name == "__init__" or not name.startswith("_")):
                yield f"{thing.__name__}.{name}", member


def missing(function):
    """Parameters without a type, and the result."""
    signature = inspect.signature(function)
    for name, parameter in signature.parameters.items():
        variable = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if parameter.annotation is parameter.empty and name not in ("self", "cls") and not variable:
            yield name
    if signature.return_annotation is signature.empty and function.__name__ != "__init__":
        yield "the result"


def test_public_functions_have_types():
    public = [getattr(libgin, name) for name in libgin.__all__]
    public += [thing for name, thing in vars(host).items() if not name.startswith("_")]
    functions = {name: f for thing in public for name, f in functions_of(thing)}
    assert len(functions) > 50
    assert {n: list(missing(f)) for n, f in functions.items() if list(missing(f))} == {}


def test_the_stub_has_the_device_calls():
    stub = ast.parse((ROOT / "products/python/libgin/_calls.pyi").read_text())
    found = {
        node.name: [argument.arg for argument in node.args.posonlyargs]
        for node in stub.body
        if isinstance(node, ast.FunctionDef)
    }
    assert found == {
        name: [part.partition(":")[0] for part in arguments.split()]
        for name, (_, arguments) in _abi.DEVICE_FUNCTIONS.items()
    }


def test_mypy_reads_them():
    if not has_module("mypy"):
        left_out("types by mypy", f"{sys.executable} has no mypy")
    program = PROGRAMS / "typed.py"
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--ignore-missing-imports"]
    done = subprocess.run(
        [*command, "--cache-dir=/dev/null", program],
        cwd=ROOT / "products" / "python",
        capture_output=True,
        text=True,
        timeout=limit(100),
    )
    wrong = [int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line]
    lines = program.read_text().splitlines()
    assert wrong == [i for i, line in enumerate(lines, 1) if "# wrong" in line], done.stdout
