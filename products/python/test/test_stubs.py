# SPDX-License-Identifier: BSD-3-Clause
"""The type stubs name the functions and arguments of their modules, which need no import for it."""

import ast

import pytest


def functions(path):
    """By name: the arguments of each public function, and how many of them have defaults."""
    found = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            hidden = sum(argument.arg == "_semantic" for argument in node.args.args)
            names = [argument.arg for argument in node.args.args if argument.arg != "_semantic"]
            found[node.name] = names, len(node.args.defaults) - hidden
    return found


def public(path):
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))


@pytest.mark.parametrize("name", ["triton", "numba"])
def test_stub(root, name):
    module = root / "python" / "libgin" / f"{name}.py"
    stub = module.with_suffix(".pyi")
    every, declared = functions(module), functions(stub)
    assert set(declared) == set(every) & public(module)
    for function, arguments in declared.items():
        assert arguments == every[function], function


@pytest.mark.parametrize("name", ["numba", "cute"])
def test_calls_have_the_names_of_triton(root, name):
    """All three modules have the calls of libgin.triton by equal names and leading arguments."""
    folder = root / "python" / "libgin"
    triton, other = functions(folder / "triton.py"), functions(folder / f"{name}.py")
    for function in public(folder / "triton.py") - {"after", "jit"}:
        names, _ = triton[function]
        assert [n for n in other[function][0] if n not in ("coop", "align")] == [
            n for n in names if n != "dtype" or name == "cute"
        ], function
