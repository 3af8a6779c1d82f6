# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures: ranks as threads, and programs as processes."""

import collections
import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = Path(__file__).resolve().parent / "programs"
EXAMPLES = ROOT / "products" / "python" / "examples"


def pytest_addoption(parser):
    parser.addoption("--drops", type=int, default=100, help="windows that each rank drops")


SIZES = (1, 2, 3, 4)


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(params=SIZES)
def size(request):
    """The number of ranks."""
    return request.param


def has_module(name):
    return importlib.util.find_spec(name) is not None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


_left_out = collections.Counter()


def left_out(part, reason):
    """Skips the test; test/run counts the line that follows the results."""
    _left_out[part, reason] += 1
    pytest.skip(reason)


def pytest_terminal_summary(terminalreporter):
    for (part, reason), count in sorted(_left_out.items()):
        terminalreporter.write_line(f"left out: {part}, {count} tests: {reason}")


def limit(seconds):
    """How long a program may take that needs less than `seconds` where nothing else runs."""
    return seconds * (1 + os.getloadavg()[0] / os.cpu_count())


def python(code, **environment):
    """What a Python program prints, on both outputs."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=limit(60),
    ).stdout


def run_processes(size, program, *arguments, **environment):
    """Runs a program `size` times with RANK and WORLD_SIZE; their standard outputs."""
    command = [sys.executable, str(program), *arguments]
    settings = {**os.environ, **environment, "WORLD_SIZE": str(size)}
    started = [
        subprocess.Popen(
            command,
            env={**settings, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    outputs = [process.communicate(timeout=limit(150)) for process in started]
    assert [process.returncode for process in started] == [0] * size, outputs
    return [output for output, _ in outputs]
