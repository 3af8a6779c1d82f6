# SPDX-License-Identifier: BSD-3-Clause
"""The example of gin_ep_python(7), and those of products/ep/examples where there is torch."""

import os
import socket
import subprocess
import sys
import tempfile
import unittest

try:
    import torch  # noqa: F401
except ImportError:
    torch = None

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", ".."))


def of_page(number):
    """A program of the page: the one in EXAMPLES is the last."""
    with open(os.path.join(ROOT, "products", "ep", "man", "man7", "gin_ep_python.7")) as page:
        return page.read().split(".Bd -literal -offset indent\n")[number].split(".Ed\n")[0]


def trains(comm, functions, x, topk_idx):
    """The gradient of x in a layer whose experts double rows, and the output."""
    import gin_ep

    x = x.clone().requires_grad_()
    with gin_ep.Ep(comm, experts=4, topk=2, hidden=32, max_tokens=4) as ep:
        for call in (lambda: ep.dispatch(x, topk_idx), lambda: ep.combine(x, None, topk_idx)):
            try:
                call()
                raise AssertionError("the gradient is lost")
            except ValueError as error:
                assert "x requires a gradient" in str(error), error
        with torch.no_grad():
            received = ep.dispatch(x, topk_idx)
            ep.combine(received.x, received, topk_idx)
        rows, _, handle = functions["Dispatch"].apply(x, ep, topk_idx)
        out = functions["Combine"].apply(rows * 2, ep, topk_idx, handle)
        out.backward(torch.arange(4, dtype=torch.bfloat16)[:, None].expand(4, 32))
    return out.detach(), x.grad


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


def torchrun(*program, ranks=2):
    """Starts ranks as torchrun does, without its start-up time. Returns the exit statuses and all output.

    A rank that waits for another one is still there when the limit, which is longer on a busy machine, is over.
    """
    limit = 90 * (1 + os.getloadavg()[0] / os.cpu_count())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    sizes = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    where["GIN_EP_TIMEOUT"] = "100000"
    with tempfile.TemporaryFile("w+") as output:
        started = [
            subprocess.Popen(
                [sys.executable, *program],
                env={**os.environ, **where, "RANK": str(rank), "LOCAL_RANK": str(rank), **sizes},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            for rank in range(ranks)
        ]
        try:
            statuses = [one.wait(timeout=limit) for one in started]
        finally:
            for one in started:
                one.kill()
        output.seek(0)
        return statuses, output.read()


class Examples(unittest.TestCase):
    @unittest.skipUnless(torch, "there is no torch")
    def test_gradients(self):
        """Each token goes to two experts on two ranks, one expert of token 3 is none."""
        import gin_ep

        functions = {"torch": torch}
        exec(of_page(1), functions)
        x = torch.arange(128, dtype=torch.bfloat16).view(4, 32) % 7
        topk_idx = torch.tensor([[0, 2], [3, 1], [1, 2], [0, -1]])
        copies = torch.tensor([4, 4, 4, 2])[:, None]
        for out, grad in gin_ep.run_threads(2, trains, functions, x, topk_idx):
            self.assertTrue(torch.equal(out, x * copies))
            self.assertTrue(torch.equal(grad, (torch.arange(4)[:, None] * copies).expand(4, 32)))

    def test_the_manual_page(self):
        subprocess.run([sys.executable, "-c", of_page(-1)], check=True, timeout=60)

    @unittest.skipUnless(torch, "there is no torch")
    def test_moe(self):
        statuses, output = torchrun(os.path.join(ROOT, "products", "ep", "examples", "moe.py"))
        self.assertEqual(statuses, [0, 0], output)
        self.assertEqual(output.count("largest error"), 2, output)

    @unittest.skipUnless(torch, "there is no torch")
    def test_train(self):
        statuses, output = torchrun(os.path.join(ROOT, "products", "ep", "examples", "train.py"))
        self.assertEqual(statuses, [0, 0], output)
        self.assertEqual(output.count("as on one rank: True"), 2, output)

    def leave(self, *words):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as program:
            program.write(LEAVES)
            program.flush()
            return torchrun(program.name, *words)

    @unittest.skipUnless(torch, "there is no torch")
    def test_a_buffer_that_is_not_destroyed(self):
        statuses, output = self.leave()
        self.assertEqual(statuses, [0, 0], output)
        self.assertNotIn("has died", output)

    @unittest.skipUnless(torch, "there is no torch")
    def test_no_rank_waits_for_one_that_has_failed(self):
        statuses, output = self.leave("FAILS")
        self.assertNotEqual(statuses[1], 0, output)
        self.assertIn("rank 1 fails", output)


if __name__ == "__main__":
    unittest.main()
