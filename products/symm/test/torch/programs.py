# SPDX-License-Identifier: BSD-3-Clause
"""programs.py FOLDER [-j JOBS] [--only REGEX] [--limit SECONDS] [--each SECONDS] [--logs FOLDER]

Runs the programs of others in FOLDER, unchanged, and prints a line for each:

    pytorch/test_symmetric_memory.py  of the sources of the installed version, class by class
    kraken/                           a checkout of Kraken: its tests, file by file
    helion/                           a checkout of Helion: EXAMPLES by torchrun
    whl/                              wheels of pure Python that the programs import

`run programs` chooses the backend. -j runs several programs at a time on the same GPUs. A program
that does not end within the limit is stopped; its output then ends with the stacks of its
processes. The tests of one that fails run again, each by itself within the limit --each, as one
that hangs hides the later ones. Nothing starts when --total seconds are over. The output of each is
in a file of --logs. --list runs nothing.
"""

import argparse
import ast
import collections
import concurrent.futures
import dataclasses
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
from pathlib import Path

# Those that run with two ranks, and with a configuration that they have.
EXAMPLES = (
    "all_reduce",
    "matmul_reduce_scatter",
    "fp8_matmul_reduce_scatter",
    "all_gather_matmul",
    "allreduce_bias_rmsnorm",
)
# It expects errors that sizes for two ranks do not give.
NEEDS_FOUR = "test_reduce_scatter_corner_cases"
STACKS_BEFORE = 5  # seconds before the limit


@dataclasses.dataclass
class Program:
    name: str
    command: list
    folder: Path
    report: Path | None = None  # pytest's, as XML


def pytest(name, target, folder, logs):
    report = logs / f"{name.replace(' ', '_')}.xml"
    python = [sys.executable, "-m", "pytest", "-v", "--tb=short", "-p", "no:cacheprovider"]
    less = ["-k", f"not {NEEDS_FOUR}"]
    return Program(name, [*python, *less, f"--junitxml={report}", target], folder, report)


def upstream(folder, logs):
    file = folder / "test_symmetric_memory.py"
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ClassDef) and "Test" in node.name:
            yield pytest(f"pytorch {node.name}", f"{file}::{node.name}", folder, logs)


def kraken(folder, logs):
    for file in sorted((folder / "test").glob("test_*.py")):
        yield pytest(f"kraken {file.stem}", str(file), folder, logs)


def helion(folder, logs):
    for name in EXAMPLES:
        file = folder / "examples" / "distributed" / f"{name}.py"
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command = [*torchrun, "--nproc-per-node", os.environ.get("RANKS", "2"), str(file)]
        yield Program(f"helion {name}", command, folder)


def programs(folder, logs):
    for kind in upstream, kraken, helion:
        inside = folder / ("pytorch" if kind is upstream else kind.__name__)
        if inside.is_dir():
            yield from kind(inside, logs)
        else:
            print(f"left out: {inside.name}: there is no {inside}", flush=True)


def environment(folder, program, stacks, limit):
    paths = [program.folder, *sorted((folder / "whl").glob("*-none-any.whl"))]
    paths.append(os.environ.get("PYTHONPATH", ""))
    return {
        "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": "60",  # so that one that hangs leaves time for others
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "SYMM_STACKS": f"{time.time() + max(limit - STACKS_BEFORE, 1)}:{stacks}",
    }


def stop(process):
    """SIGTERM first: torchrun's ranks are in sessions of their own, which torchrun ends."""
    for number, seconds in (signal.SIGTERM, 40), (signal.SIGKILL, 10):
        try:
            os.killpg(process.pid, number)
            process.wait(seconds)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass


def append_stacks(log, stacks):
    """Of the processes that were there when the limit was near."""
    with open(log, "a") as output:
        for file in sorted(stacks.iterdir()):
            if file.stat().st_size:
                output.write(f"\nstacks of process {file.name}:\n{file.read_text()}")
    shutil.rmtree(stacks)


def execute(folder, program, log, limit):
    """The exit status; None: it did not end."""
    stacks = log.with_suffix(".stacks")
    stacks.mkdir(exist_ok=True)
    with open(log, "w") as output:
        process = subprocess.Popen(
            program.command,
            cwd=program.folder,
            env=environment(folder, program, stacks, limit),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            stop(process)
            append_stacks(log, stacks)


def cases(report):
    """How many passed, the names of those that failed, and the skipped ones by reason."""
    passed, failed, skipped = 0, [], collections.Counter()
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        skip = case.find("skipped")
        if skip is not None:
            skipped[skip.get("message", "").split("\n")[0].split(", skipping ")[0]] += 1
        elif case.find("failure") is not None or case.find("error") is not None:
            failed.append(case.get("name"))
        else:
            passed += 1
    return passed, failed, skipped


def summary(report):
    if not report.exists():
        return "no report"
    passed, failed, skipped = cases(report)
    words = [f"{passed} passed"]
    words += [f"{len(failed)} failed ({', '.join(failed)})"] if failed else []
    reasons = ", ".join(f"{count} x {reason}" for reason, count in skipped.items())
    words += [f"{skipped.total()} skipped ({reasons})"] if skipped else []
    return ", ".join(words)


def run(folder, program, logs, limit, ends):
    """Whether it passed. pytest ends with 5 where it has chosen no test."""
    if time.monotonic() > ends:
        print(f"left out: {program.name}: the time is over", flush=True)
        return False
    log, began = logs / f"{program.name.replace(' ', '_')}.log", time.monotonic()
    status = execute(folder, program, log, limit)
    ends = {0: "ok", 5: "ok", None: f"FAILED, did not end within {limit} s"}
    words = ends.get(status, f"FAILED, status {status}")
    tests = f": {summary(program.report)}" if program.report else ""
    print(f"{words}: {program.name}{tests}; {time.monotonic() - began:.0f} s", flush=True)
    return status in (0, 5)


def tests_of(folder, program, logs, limit):
    """Programs for each test of one of pytest's."""
    log = logs / f"{program.name.replace(' ', '_')}_tests.log"
    collect = [*program.command, "--collect-only", "-qq"]
    execute(folder, dataclasses.replace(program, command=collect), log, limit)
    for line in log.read_text().splitlines():
        if re.fullmatch(r"\S+::\S+", line):
            test = line.rpartition("::")[2]
            yield pytest(f"{program.name} {test}", line, program.folder, logs)


def run_all(folder, program, logs, options, ends):
    """Whether it passed. If not, its tests run one by one."""
    if run(folder, program, logs, options.limit, ends):
        return True
    if program.report and time.monotonic() < ends:
        for test in tests_of(folder, program, logs, options.each):
            run(folder, test, logs, options.each, ends)
    return False


def main():
    parser = argparse.ArgumentParser(usage=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("-j", type=int, default=1, dest="jobs")
    parser.add_argument("--only", type=re.compile, default="")
    parser.add_argument("--limit", type=float, default=240)
    parser.add_argument("--each", type=float, default=60)
    parser.add_argument("--total", type=float, default=math.inf)
    parser.add_argument("--logs", type=Path)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    folder = options.folder.resolve()
    if not folder.is_dir():
        parser.error(f"there is no folder {folder}")
    logs = (options.logs or Path(tempfile.mkdtemp(prefix="symm-"))).resolve()
    logs.mkdir(parents=True, exist_ok=True)
    chosen = [p for p in programs(folder, logs) if re.search(options.only, p.name)]
    if options.list:
        print(*(f"{p.name}: {' '.join(p.command)}" for p in chosen), sep="\n")
        return 0
    if not chosen:
        parser.error("there is no such program")
    print(f"output in {logs}", flush=True)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        ends = time.monotonic() + options.total
        passed = list(pool.map(lambda p: run_all(folder, p, logs, options, ends), chosen))
    print(f"{sum(passed)} of {len(passed)} programs passed")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
