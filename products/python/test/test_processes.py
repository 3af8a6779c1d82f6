# SPDX-License-Identifier: BSD-3-Clause
"""Ranks as processes, and the ways by which they find each other."""

import os
import re
import secrets
import shutil
import subprocess
import sys

import pytest
from conftest import PROGRAMS, free_port, has_module, left_out, limit, run_processes

RING = PROGRAMS / "ring.py"


def expected(size, backend, bootstrap):
    return [f"rank {rank} of {size}, {backend}, {bootstrap}\n" for rank in range(size)]


def own_launcher():
    return {"GIN_ROOT": f"127.0.0.1:{free_port()}", "GIN_SECRET": secrets.token_hex(16)}


def test_gin_root(size):
    said = run_processes(size, RING, "own", **own_launcher())
    assert said == expected(size, "direct", "tcp")


@pytest.mark.parametrize("few", [1, 2])
def test_gin_root_and_the_proxy(few):
    route = {"GIN_ROUTE": "network", "GIN_BACKEND": "proxy"}
    said = run_processes(few, RING, "own", **own_launcher(), **route)
    assert said == expected(few, "proxy", "tcp")


@pytest.mark.parametrize("root", [True, False])
def test_memory_is_not_collective(root):
    """One rank alone allocates, before and after it has a communicator."""
    code = (
        "import libgin, os, sys\n"
        "first = os.environ['RANK'] == '0'\n"
        "if first: libgin.alloc(64, 'none')\n"
        "if len(sys.argv) > 1:\n"
        "    with libgin.Communicator(device='none') as comm:\n"
        "        if first: comm.alloc_host(64)\n"
        "        print(comm.size)"
    )
    root = own_launcher() if root else {}
    settings = {**root, "GIN_BOOTSTRAP": "tcp", "GIN_TIMEOUT": "20"}
    said = run_processes(2, "-c", code, *root, **settings)
    assert said == ["2\n" if root else ""] * 2


def test_a_store(tmp_path):
    said = run_processes(3, RING, "store", STORE=str(tmp_path))
    assert said == expected(3, "direct", "unique id")


@pytest.mark.parametrize("how", ["tcpstore", "group"])
def test_torch(how):
    if not has_module("torch"):
        left_out(f"torch {how}", f"{sys.executable} has no torch")
    settings = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    said = run_processes(3, RING, how, **settings)
    assert said == expected(3, "direct", "unique id")


def mpirun(size, how):
    if not shutil.which("mpirun"):
        left_out(f"mpirun, {how}", "there is no mpirun")
    command = ["mpirun", "-n", str(size), "--oversubscribe", sys.executable, str(RING), how]
    environment = {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=limit(60))
    assert done.returncode == 0, done.stdout + done.stderr
    # mpirun mixes the lines of ranks.
    lines = re.findall(r"rank \d of \d, \w+, (?:pmix|caller)", done.stdout)
    return sorted(line + "\n" for line in lines)


def test_pmix():
    assert mpirun(2, "own") == expected(2, "direct", "pmix")


def test_mpi4py():
    if not has_module("mpi4py"):
        left_out("mpi4py", f"{sys.executable} has no mpi4py")
    assert mpirun(3, "mpi") == expected(3, "direct", "caller")
