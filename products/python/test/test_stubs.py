# SPDX-License-Identifier: BSD-3-Clause
"""The rows of the table of device calls, and the type stubs, which need no import of a compiler."""

import ast
import inspect
import re

import pytest

from libgin import _table


def functions(path):
    """By name: the arguments of each public function, and how many of them have defaults."""
    found = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            hidden = sum(argument.arg == "_semantic" for argument in node.args.args)
            names = [argument.arg for argument in node.args.args if argument.arg != "_semantic"]
            found[node.name] = names, len(node.args.defaults) - hidden
    return found


def rows(*hidden):
    """By name: what functions() says of the calls of the table."""
    found = {}
    for name, row in _table.ROWS.items():
        given = [p for p in inspect.signature(row).parameters.values() if p.name not in hidden]
        found[name] = [p.name for p in given], sum(p.default is not p.empty for p in given)
    return found


def exported(path):
    """The names in __all__ that are not those of the table."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return {item.value for item in node.value.elts if isinstance(item, ast.Constant)}


@pytest.mark.parametrize("row", _table.ROWS.values(), ids=_table.ROWS)
def test_every_parameter_of_a_row_is_an_operand(row):
    operands = " ".join(_table.operands(row).values())
    assert set(re.findall(r"\w+", operands)) - {"_kind"} == set(inspect.signature(row).parameters)


@pytest.mark.parametrize("name", ["triton", "numba", "cute"])
def test_stub(root, name):
    module = root / "products" / "python" / "libgin" / f"{name}.py"
    own = {k: v for k, v in functions(module).items() if k in exported(module)}
    calls = rows("coop") if name == "triton" else rows()
    assert own and not own.keys() & calls.keys()
    assert functions(module.with_suffix(".pyi")) == {**own, **calls}


def test_the_page_has_the_calls_of_triton(root):
    page = (root / "products/python/man/man7/libgin-python.7").read_text()
    listed = re.search(r"the calls are:\n\.Bd [^\n]*\n(.*?)\.Ed", page, re.S)[1]
    calls = re.sub(r"\n +", " ", listed).splitlines()
    for row in _table.ROWS.values():
        given = [p for p in inspect.signature(row).parameters.values() if p.name != "coop"]
        none = [p.replace(default=None) if p.default == _table.NO_COUNTER else p for p in given]
        parameters = (str(p.replace(annotation=p.empty)) for p in none)
        assert f"{row.__name__}({', '.join(parameters)})" in calls
    assert len(calls) == len(_table.ROWS) + 2  # and peer_pointer(), after()


@pytest.mark.parametrize("name", ["numba", "cute"])
def test_calls_have_the_names_of_triton(root, name):
    """All three modules have the calls of libgin.triton by equal names and leading arguments."""
    folder = root / "products" / "python" / "libgin"
    triton, other = functions(folder / "triton.pyi"), functions(folder / f"{name}.pyi")
    for function in triton.keys() - {"after", "jit"}:
        names, _ = triton[function]
        assert [n for n in other[function][0] if n not in ("coop", "align")] == [
            n for n in names if n != "dtype" or name == "cute"
        ], function
