#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What Python and gin_functions(3) know of the headers. Run it in the root of the source tree.

    gen_python_abi.py LAYOUTS FOLDER

writes into FOLDER:
    _abi.py             layouts, constants and prototypes for ctypes
    _calls.pyi          types of the device calls in C
    cute.pyi, numba.pyi, triton.pyi    types of the modules for compilers of kernels
    gin_functions.3     the page with the prototypes of the device calls in C

LAYOUTS is what test/lint/abi/layouts prints: structs, enums and constants as the compiler sees
them. Prototypes come from include/gin.h, the host API, and from include/gin/functions.cuh, the
device calls in C. The modules' calls come from products/python/libgin/_table.py.
`make abi` writes the files, and test/lint/abi/check compares them.
"""

import ast
import contextlib
import functools
import io
import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

# Of the structs that kernels share with the library, Python needs these.
SHARED_STRUCTS = ("ginErrorRecord", "ginDevComm", "ginWindow")
SCALARS = {
    "void": "None",
    "char": "c_char",
    "int": "c_int",
    "int32_t": "c_int32",
    "uint8_t": "c_uint8",
    "uint16_t": "c_uint16",
    "uint32_t": "c_uint32",
    "uint64_t": "c_uint64",
    "size_t": "c_size_t",
    "ginResult_t": "c_int",
    "ginComm_t": "c_void_p",
}
NUMBERS = {
    "void": "none",
    "int": "i32",
    "ginResult_t": "i32",
    "uint32_t": "u32",
    "uint64_t": "u64",
}
HEAD = '''# SPDX-License-Identifier: BSD-3-Clause
"""Layouts, constants and prototypes of libgin. Written by mk/gen_python_abi.py: `make abi`."""
'''

CALLS_HEAD = """# SPDX-License-Identifier: BSD-3-Clause
# Types of the device calls in libgin.host. Written by mk/gen_python_abi.py: `make abi`.
from typing import SupportsIndex

# An address, a window, a device communicator, or None for NULL.
Pointer = SupportsIndex | None
"""
STUB_HEAD = """# SPDX-License-Identifier: BSD-3-Clause
# Types of libgin.{}. Written by mk/gen_python_abi.py: `make abi`.
# Arguments are numbers, tensors or libgin's objects of a kernel.
from typing import Any
"""
# What a stub imports.
IMPORTS = {
    "cute": "\nimport cutlass.cute as cute\nfrom cutlass import Int32, Int64\n",
    "numba": "\nfrom .window import Window\n",
    "triton": "",
}
# The results of calls, where a kernel's values have types of Python.
RESULTS = {"cute": {"i32": "Int32", "u64": "Int64"}}
# Parameters that callers do not give: in Triton the coop is the block.
HIDDEN = {"triton": ("coop", "_semantic")}


def source_of(path):
    """The text of a header without comments."""
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", Path(path).read_text(), flags=re.S)


def one_space(text):
    return " ".join(text.split())


class Layouts:
    """What the listing says: constants, enums with their values, structs with their fields."""

    def __init__(self, text):
        self.constants, self.enums, self.structs = [], {}, {}
        for line in text.splitlines():
            self._line(line)

    def _line(self, line):
        if match := re.fullmatch(r"constant (\w+) \(?(-?\w+?)(?:u|ull)?\)?", line):
            self.constants.append((match[1], match[2]))
        elif match := re.fullmatch(r"(enum|struct) (\w+)(?:, \d+ bytes)?", line):
            self._open = (self.enums if match[1] == "enum" else self.structs).setdefault(
                match[2], []
            )
        elif match := re.fullmatch(r"\t(\d+) (\w+)(?:: (.*))?", line):
            self._open.append((match[2], match[3] or match[1]))


class Types:
    """C types as ctypes."""

    def __init__(self, structs, callbacks):
        self.structs, self.callbacks = structs, callbacks

    def member(self, text):
        """The ctypes expression of a struct's member. Pointers are numbers."""
        text = bare_type(text)
        if array := re.fullmatch(r"(.*)\[(\d+)\]", text):
            return f"{self.member(array[1])} * {array[2]}"
        if text.endswith("*"):
            return "c_char_p" if text == "char *" else "c_void_p"
        return self._named(text)

    def argument(self, text):
        """The ctypes expression of a parameter of gin.h."""
        text = bare_type(text)
        if not text.endswith("*"):
            return self._named(text)
        target = text[:-1].strip()
        if target == "void":
            return "c_void_p"
        return "POINTER(c_void_p)" if target == "void *" else f"POINTER({self._named(target)})"

    def _named(self, name):
        struct = name.removesuffix("_t")
        if name in self.callbacks:
            return name
        return struct if struct in self.structs else SCALARS[name]


def bare_type(text):
    return re.sub(r"\b(const|struct|enum) ", "", text).strip()


def device_type(text):
    """ptr, or the kind and the bits of a number: i32, u64."""
    text = bare_type(text)
    return "ptr" if text.endswith("*") else NUMBERS[text]


def parameters(text):
    """(type, name) of each parameter of a C function."""
    text = one_space(text)
    if text in ("", "void"):
        return []
    return [re.fullmatch(r"(.*?)(\w+)", part.strip()).groups() for part in text.split(",")]


def callbacks(header):
    """Typedefs of functions of the caller: name, result, parameters."""
    return re.findall(r"typedef (\w+) \(\*(\w+)\)\(([^)]*)\);", header)


def host_functions(header):
    """Result, name and parameters of what gin.h declares and does not define."""
    pattern = r"^(ginResult_t|const char \*)\s*(gin\w+)\(([^;{)]*)\);"
    return re.findall(pattern, header, flags=re.M)


@functools.cache
def device_functions():
    """Result, name and parameters of the device calls in C. The preprocessor expands macros."""
    text = re.sub(r"^#include.*", "", Path("include/gin/functions.cuh").read_text(), flags=re.M)
    compiler = shlex.split(os.environ.get("CC", "gcc"))
    command = [*compiler, "-E", "-P", "-x", "c", "-DGIN_C_FN=GIN_C_FN", "-"]
    done = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True)
    return re.findall(r"\bGIN_C_FN\s+([^({;]*?)(gin\w+)\(([^{;]*?)\)\s*\{", done.stdout)


def enum_of(path, name):
    """(name, value) of an enum that is written in one line."""
    body = re.search(rf"enum {name} \{{([^}}]*)\}}", source_of(path))[1]
    return re.findall(r"(\w+) = (\d+)", body)


def print_struct(name, fields, types):
    print(f"\n\nclass {name}(Structure):\n    _fields_ = [")
    for field, kind in fields:
        print(f'        ("{field}", {types.member(kind)}),')
    print("    ]")


def print_host_functions(header, types):
    print("\n# name: result, arguments\nFUNCTIONS = {")
    for result, name, text in host_functions(header):
        result = "c_char_p" if "char" in result else "c_int"
        kinds = [types.argument(kind) for kind, _ in parameters(text)]
        listed = ", ".join(kinds) + ("," if len(kinds) == 1 else "")
        print_wrapped(f'    "{name}": ({result}, (', f"{listed})),")
    print("}")


def print_device_functions():
    print("\n# name: result, arguments")
    print("DEVICE_FUNCTIONS = {")
    for result, name, text in device_functions():
        listed = " ".join(f"{argument}:{device_type(kind)}" for kind, argument in parameters(text))
        print(f'    "{name}": (\n        "{device_type(result)}",')
        for line in textwrap.wrap(listed, 85):
            space = " " * (not listed.endswith(line))
            print(f'        "{line}{space}"')
        print("    ),")
    print("}")


def print_wrapped(start, rest):
    """One line, or several of at most 100 columns."""
    print("\n".join(textwrap.wrap(start + rest, 100, subsequent_indent=" " * 8)))


def print_imports(body):
    names = [
        name for name in ("CFUNCTYPE", "POINTER", "Structure") if re.search(rf"\b{name}\b", body)
    ]
    print("from ctypes import (")
    for name in names + sorted(set(re.findall(r"\bc_\w+", body))):
        print(f"    {name},")
    print(")")


def print_body(layouts, header, types):
    for name, value in layouts.constants:
        print(f"{name} = {value}")
    for name, values in layouts.enums.items():
        print(f"\n# enum {name}")
        print("\n".join(f"{value} = {number}" for value, number in values))
    for result, name, text in callbacks(header):
        kinds = [SCALARS[result], *(types.argument(kind) for kind, _ in parameters(text))]
        print(f"\n{name} = CFUNCTYPE({', '.join(kinds)})")
    for name, fields in layouts.structs.items():
        print_struct(name, fields, types)
    print()
    print_host_functions(header, types)
    print_device_functions()


def print_def(name, listed, result):
    """A function of a stub: in one line, or with lines of parameters."""
    listed = list(listed)
    line = f"def {name}({', '.join(listed)}) -> {result}: ..."
    if len(line) > 100:
        line = f"def {name}(\n{wrapped(listed, ',', '    ')}\n) -> {result}: ..."
    print(line)


def wrapped(parts, between, indent, width=100):
    """Lines that end between parts."""
    text = f"{between} ".join(part.replace(" ", "\0") for part in parts)
    lines = textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent)
    return "\n".join(lines).replace("\0", " ")


def print_calls():
    types = {"ptr": "Pointer", "none": "None"}
    print(CALLS_HEAD)
    for result, name, text in device_functions():
        listed = [f"{a}: {types.get(device_type(kind), 'int')}" for kind, a in parameters(text)]
        returned = "int | None" if "*" in result else types.get(device_type(result), "int")
        print_def(name, [*listed, "/"], returned)  # ctypes takes no names


def nodes(path, kind):
    """The statements of a kind in a Python file."""
    return [node for node in ast.parse(Path(path).read_text()).body if isinstance(node, kind)]


def exported(path):
    """What a Python file names in __all__."""
    for node in nodes(path, ast.Assign):
        if ast.unparse(node.targets[0]) == "__all__":
            return [name.value for name in node.value.elts if isinstance(name, ast.Constant)]


def stub_parameters(arguments, hidden):
    """The parameters of a Python function with their types."""
    first = len(arguments.args) - len(arguments.defaults)
    for i, argument in enumerate(arguments.args):
        kind = ast.unparse(argument.annotation) if argument.annotation else "Any"
        if argument.arg not in hidden:
            yield f"{argument.arg}: {kind}" + " = ..." * (i >= first)
    for stars, argument in ("*", arguments.vararg), ("**", arguments.kwarg):
        if argument:
            yield f"{stars}{argument.arg}: Any"


def print_stub(module):
    """Types of a module for a compiler of kernels: constants, calls of the table, own functions."""
    source, hidden = f"products/python/libgin/{module}.py", HIDDEN.get(module, ())
    kinds = {name: device_type(result) for result, name, _ in device_functions()}
    results = {**dict.fromkeys(kinds.values(), "Any"), **RESULTS.get(module, {}), "none": "None"}
    print(STUB_HEAD.format(module) + IMPORTS[module])
    for node in nodes(source, ast.AnnAssign):
        if not node.target.id.startswith("_"):
            print(f"{node.target.id}: {ast.unparse(node.annotation)}")
    print()
    for node in nodes("products/python/libgin/_table.py", ast.FunctionDef):
        if node.decorator_list:
            kind = kinds[ast.literal_eval(node.decorator_list[0].args[0])]
            print_def(node.name, stub_parameters(node.args, hidden), results[kind])
    for node in nodes(source, ast.FunctionDef):
        if node.name in exported(source):
            print_def(node.name, stub_parameters(node.args, hidden), ast.unparse(node.returns))


def print_page():
    """gin_functions(3) with the prototypes of functions.cuh at the names of its SYNOPSIS."""
    declared = {name: (result.strip(), text) for result, name, text in device_functions()}

    def prototype(match):
        if match[1] not in declared:
            sys.exit(f"gin_functions(3) has {match[1]}, functions.cuh does not")
        result, text = declared.pop(match[1])
        arguments = [f'"{one_space(part)}"' for part in text.split(",")]
        result = f'"{result}"' if " " in result else result
        return f".Ft {result}\n.Fo {match[1]}\n{wrapped(arguments, '', '.Fa ', 120)}\n.Fc\n"

    page = Path("man/man3/gin_functions.3").read_text()
    pattern = r"(?:\.Ft .*\n)?\.Fo (\w+)\n(?:\.Fa .*\n)*\.Fc\n"
    print(re.sub(pattern, prototype, page), end="")
    if declared:
        sys.exit(f"gin_functions(3) lacks {', '.join(declared)}")


def print_abi(path):
    header = source_of("include/gin.h") + source_of("include/gin/shrink.h")
    layouts = Layouts(Path(path).read_text())
    layouts.enums["ginSignalKind"] = enum_of("include/gin/functions.cuh", "ginSignalKind")
    layouts.enums["ginCoopKind"] = enum_of("include/gin/core/coop.cuh", "ginCoopKind")
    declared = set(re.findall(r"typedef struct (\w+) \{", header)) | set(SHARED_STRUCTS)
    layouts.structs = {name: fields for name, fields in layouts.structs.items() if name in declared}
    types = Types(layouts.structs, {name for _, name, _ in callbacks(header)})
    body = io.StringIO()
    with contextlib.redirect_stdout(body):
        print_body(layouts, header, types)
    print(HEAD)
    print_imports(body.getvalue())
    print()
    print(body.getvalue(), end="")


def main(layouts, folder):
    files = {"_abi.py": (print_abi, layouts), "_calls.pyi": (print_calls,)}
    files |= {f"{module}.pyi": (print_stub, module) for module in IMPORTS}
    files["gin_functions.3"] = (print_page,)
    for name, (function, *arguments) in files.items():
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            function(*arguments)
        (Path(folder) / name).write_text(text.getvalue())


if __name__ == "__main__":
    main(*sys.argv[1:])
