# SPDX-License-Identifier: BSD-3-Clause
"""A program ends, and has not destroyed what it was to destroy."""

import os
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
except ImportError:
    torch = None

RANK = """
import sys, time
import torch, torch.distributed as dist
from gin_ep import deep_ep
store, rank, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
buffer = getattr(deep_ep, kind)(dist.group.WORLD, 0, explicitly_destroy=True, device="none")
if kind == "Buffer":
    buffer.get_dispatch_layout(torch.zeros(4, 1, dtype=torch.int64), 2)
else:
    x, idx = torch.ones(4, 16, dtype=torch.bfloat16), torch.zeros(4, 1, dtype=torch.int64)
    buffer.dispatch(x, idx, num_experts=2, num_max_tokens_per_rank=4)
dist.barrier()
time.sleep(rank)  # the other rank has ended when this one does
print("end", flush=True)
"""


@unittest.skipIf(torch is None, "there is no torch")
class Ends(unittest.TestCase):
    def test_left_buffers_are_no_failure(self):
        for kind in ("Buffer", "ElasticBuffer"):
            with self.subTest(kind), tempfile.TemporaryDirectory() as scratch:
                words = [sys.executable, "-c", RANK, f"{scratch}/store"]
                pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
                ranks = [
                    subprocess.Popen([*words, str(rank), kind], env={**os.environ, "GIN_LOG": "warn"}, **pipes)
                    for rank in range(2)
                ]
                said = [rank.communicate(timeout=100)[0] for rank in ranks]
                for rank, text in zip(ranks, said):
                    self.assertEqual(rank.returncode, 0, text)
                    self.assertIn("end", text)
                    self.assertNotIn("gin ERROR", text)


if __name__ == "__main__":
    unittest.main()
