# SPDX-License-Identifier: BSD-3-Clause
"""The examples of products with communication, by Triton's interpreter on host threads."""

import os
import subprocess
import sys

import pytest
from conftest import EXAMPLES, PROGRAMS, ROOT, free_port, has_module, left_out, limit, run_processes


def settings():
    for name in ("torch", "triton", "libgin.triton"):
        if not has_module(name):
            left_out("GEMM examples", f"{sys.executable} has no {name}")
    return {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": free_port(),
        "TRITON_INTERPRET": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
    }


# The forms that the example chooses on the routes direct and proxy.
FORMS = {
    "gemm_rs": ("puts, direct", "puts, proxy"),
    "ag_gemm": ("puts, direct", "puts, proxy"),
    "gemm_ar": ("stores, direct", "puts, proxy"),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("few,route", [(2, "direct"), (3, "network")])
def test_gemm(name, few, route):
    said = run_processes(few, EXAMPLES / f"{name}.py", **settings(), GIN_ROUTE=route)
    lines = [line for text in said for line in text.splitlines() if "off by" in line]
    form = FORMS[name][route == "network"]
    want = [f"{form}: rank {rank} of {few}" for rank in range(few)]
    assert [part in line for part, line in zip(want, lines, strict=True)] == [True] * few, said


def all_reduce_calls(few, what):
    path = os.pathsep.join([str(EXAMPLES), os.environ["PYTHONPATH"]])
    return run_processes(few, PROGRAMS / "all_reduce_calls.py", what, **settings(), PYTHONPATH=path)


@pytest.mark.parametrize("few", [1, 2, 3])
def test_all_reduce_calls(few):
    said = all_reduce_calls(few, "21")
    assert said == [f"rank {rank} of {few}: 21 calls right\n" for rank in range(few)]


@pytest.mark.parametrize("few", [2, 3])
@pytest.mark.parametrize("what,error", [("late", "TimedOutError"), ("lost", "PeerError")])
def test_all_reduce_ends(few, what, error):
    said = all_reduce_calls(few, what)
    assert said == ["", *(f"rank {rank} of {few}: {error}\n" for rank in range(1, few))]


def test_no_gpu():
    environment = {**os.environ, **settings(), "CUDA_VISIBLE_DEVICES": "", "TRITON_INTERPRET": "0"}
    command = [sys.executable, str(EXAMPLES / "gemm_ar.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=limit(200))
    assert done.returncode == 1 and done.stderr.startswith("there is no GPU: TRITON_INTERPRET=1")


def test_the_ring():
    said = run_processes(2, EXAMPLES / "ring.py", GIN_ROOT=f"127.0.0.1:{free_port()}")
    assert said == [f"rank {rank} of 2: 40000 bytes from rank {1 - rank}\n" for rank in (0, 1)]


def test_the_page(tmp_path):
    """The first example of libgin-python(7) runs; the others need torch and a GPU: they compile."""
    page = (ROOT / "products/python/man/man7/libgin-python.7").read_text().split(".Sh EXAMPLES\n")[1]
    texts = [part.split(".Ed\n")[0] for part in page.split(".Bd -literal -offset indent\n")[1:]]
    paths = [tmp_path / f"{i}.py" for i in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
        compile(text, path, "exec")
    subprocess.run([sys.executable, paths[0]], check=True, timeout=limit(60))
