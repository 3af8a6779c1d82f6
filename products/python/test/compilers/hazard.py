# SPDX-License-Identifier: BSD-3-Clause
"""hazard.py ARCH...: libgin.triton.after() keeps loads of a pipelined loop after their wait.

Compiles programs/triton_tiles.py, whose loop waits for a tile and loads it, and follows registers
in the PTX. With after(), the address of every load of a tile depends on the result of a wait, or
Triton refuses to compile the loop. Without after(), Triton moves loads above the waits: the check
must see it, otherwise the check is worth nothing.
"""

import re
import sys

import triton
from programs.triton_tiles import SIDE, consume
from triton.compiler import ASTSource
from triton_calls import compile

NAMES = "dc", "a", "b", "c", "status", "tiles", "round", "SIDE", "AFTER", "STAGES"
TYPES = "*u8", "*fp16", "*fp16", "*fp32", "*i32", "i32", "i32", *["constexpr"] * 3
REGISTER = re.compile(r"%\w+")
TILE_LOAD = re.compile(
    r"cp\.async\.c[ag]\.shared\.global \[.*?\], \[(.*?)\]|ld\.global\.v4\.\w+ \{.*?\}, \[(.*?)\]"
)


def ptx_of(architecture, after, stages):
    """The PTX, or None if Triton refuses the kernel."""
    constants = {(7,): SIDE, (8,): after, (9,): stages}
    aligned = {(argument,): [["tt.divisibility", 16]] for argument in range(4)}
    signature = dict(zip(NAMES, TYPES, strict=True))
    source = ASTSource(fn=consume.kernel, signature=signature, constexprs=constants, attrs=aligned)
    try:
        return compile(source, architecture, num_warps=4).asm["ptx"]
    except RuntimeError as error:
        if "PassManager" not in str(error):
            raise
        return None


def definitions(ptx):
    """For each register, the lines that write it."""
    found = {}
    for line in ptx[ptx.index(".entry") :].splitlines():
        line = line.strip()
        operands = line.partition("// after")[0].partition("\t")[2].split(",")
        if line.startswith("mov.b64") and operands == [""]:
            operands = line.split(" ", 1)[1].split(",")
        for register in REGISTER.findall(operands[0].partition("[")[0]):
            found.setdefault(register, []).append(line)
    return found


def origins(address, written):
    """The lines from which a register gets its value, by any number of steps."""
    lines, todo, seen = set(), REGISTER.findall(address), set()
    while todo:
        register = todo.pop()
        if register in seen:
            continue
        seen.add(register)
        for line in written.get(register, ()):
            lines.add(line)
            todo += REGISTER.findall(line)
    return lines


def unordered(ptx):
    """The number of loads of tiles, and the loads whose address depends on no wait."""
    written = definitions(ptx)
    loads = [one or other for one, other in TILE_LOAD.findall(ptx[ptx.index(".entry") :])]
    wrong = []
    for address in loads:
        lines = origins(address, written)
        # The PTX names the status beside the address: "// after %r1", and a call returns it.
        if not all(any(mark in line for line in lines) for mark in ("// after", "[retval")):
            wrong.append(address)
    return len(loads), wrong


def check(architecture, stages):
    ptx = ptx_of(architecture, True, stages)
    if ptx is None:
        assert stages > 1, "Triton refuses a loop that is not pipelined"
        return "refused"
    count, wrong = unordered(ptx)
    assert count and not wrong, f"{len(wrong)} of {count} loads depend on no wait: {wrong[:3]}"
    return f"{count} loads ordered"


def main():
    version = triton.__version__
    for architecture in sys.argv[1:]:
        row = [f"{stages} stages: {check(architecture, stages)}" for stages in (1, 3)]
        control = ptx_of(architecture, False, 3)
        if control is not None:
            count, wrong = unordered(control)
            assert count and len(wrong) == count, "loads without after() seem ordered"
            row.append(f"without after: {len(wrong)} of {count} not ordered")
        print(f"after      triton {version} sm_{architecture}: {', '.join(row)}", flush=True)


if __name__ == "__main__":
    main()
