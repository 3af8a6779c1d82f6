# SPDX-License-Identifier: BSD-3-Clause
"""The example of gin_ep_python(7), and examples/moe.py where there is torch."""

import os
import subprocess
import sys
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


class Examples(unittest.TestCase):
    def test_the_manual_page(self):
        subprocess.run([sys.executable, "-c", example()], check=True, timeout=60)

    @unittest.skipUnless(torch, "there is no torch")
    def test_moe(self):
        run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        done = subprocess.run(
            run + [os.path.join(ROOT, "examples", "moe.py")],
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=90,
        )
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(done.stdout.count("largest error"), 2, done.stdout)


if __name__ == "__main__":
    unittest.main()
