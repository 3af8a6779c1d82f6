# SPDX-License-Identifier: BSD-3-Clause
"""The example of gin_ep_python(7), and examples/moe.py where there is torch."""

import os
import subprocess
import sys
import tempfile
import unittest

try:
    import torch  # noqa: F401
except ImportError:
    torch = None

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))


def example():
    """The program of the page's EXAMPLES."""
    with open(os.path.join(ROOT, "man", "man7", "gin_ep_python.7")) as page:
        return page.read().split(".Bd -literal -offset indent\n")[1].split(".Ed\n")[0]


# A Buffer that the program does not destroy. Rank 1 raises an exception if the word FAILS is given.
LEAVES = """
import sys, torch
import torch.distributed as dist
from gin_ep import deep_ep

dist.init_process_group("gloo")
buffer = deep_ep.Buffer(dist.group.WORLD, 0, 0, low_latency_mode=True, device="none")
x = torch.ones(4, 128, dtype=torch.bfloat16)
topk_idx, weights = torch.arange(8).reshape(4, 2), torch.ones(4, 2)

def layer():
    rows, _, handle, _, _ = buffer.low_latency_dispatch(x, topk_idx, 4, 8, use_fp8=False)
    return buffer.low_latency_combine(rows, topk_idx, weights, handle)[0]

for _ in range(20):
    assert (layer() == 2).all()
if "FAILS" in sys.argv:
    if dist.get_rank() == 1:
        raise KeyError("rank 1 fails")
    layer()
"""


def torchrun(ranks, *program):
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), *program],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=90,  # less than the time that a call waits for a rank
    )


class Examples(unittest.TestCase):
    def test_the_manual_page(self):
        subprocess.run([sys.executable, "-c", example()], check=True, timeout=60)

    @unittest.skipUnless(torch, "there is no torch")
    def test_moe(self):
        done = torchrun(2, os.path.join(ROOT, "examples", "moe.py"))
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(done.stdout.count("largest error"), 2, done.stdout)

    def leave(self, *words):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as program:
            program.write(LEAVES)
            program.flush()
            return torchrun(3, program.name, *words)

    @unittest.skipUnless(torch, "there is no torch")
    def test_a_buffer_that_is_not_destroyed(self):
        done = self.leave()
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("has died", done.stdout)

    @unittest.skipUnless(torch, "there is no torch")
    def test_no_rank_waits_for_one_that_has_failed(self):
        done = self.leave("FAILS")
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn("rank 1 fails", done.stdout)


if __name__ == "__main__":
    unittest.main()
