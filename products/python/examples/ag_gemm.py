# SPDX-License-Identifier: BSD-3-Clause
"""All-gather + GEMM: every rank has some rows of A and its own B, and makes all rows of A times B.

The rank's rows go to all other ranks by puts whose kernels have one warp: copy engines move the
bytes where the ranks are direct peers, the proxy or a NIC where they are not. Meanwhile torch.mm
multiplies the rows that are here, and then each rank's rows when they have arrived.

    torchrun --nproc-per-node 2 products/python/examples/ag_gemm.py
"""

from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch_forms
from common import Operation, device, dtype, main, operand
from compare import compare
from gemm_rs import send, wait

SHAPES = "2048,8192,4096", "8192,8192,4096", "8192,8192,14336"  # M, N, K on GPUs


class AllGatherGemm(Operation):
    """For `rows` rows of A on each rank, of K values. Making it and close() are collective."""

    def __init__(self, comm, rows, K):
        self.turn = 0
        # Two halves: a call reads one while other ranks fill the other for the next call.
        super().__init__(comm, comm.size, gathered=(2, comm.size, rows, K))

    def send(self, a, half):
        """Copies the rows into the window and puts them to all others, on a stream of its own."""
        rank = self.comm.rank
        mine = self.gathered[half, rank]
        at = (half * self.comm.size + rank) * mine.nbytes
        if self.side:
            self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side) if self.side else nullcontext():
            mine.copy_(a)
            for peer in self.others():
                send[(1,)](
                    *(self.dc, self.gathered_window, at, self.gathered_window, at, mine.nbytes),
                    *(peer, rank, self.status),
                    num_warps=1,
                )

    def __call__(self, a, b, out):
        half, rows = self.turn % 2, a.shape[0]
        self.turn += 1
        self.send(a, half)
        parts = out.view(self.comm.size, rows, -1)
        torch.mm(a, b, out=parts[self.comm.rank])
        for source in self.others()[::-1]:  # the left neighbour's rows come first
            wait[(1,)](self.dc, source, self.rounds, self.status, num_warps=1)
            if self.turn == 1:
                self.end_kernels()
            torch.mm(self.gathered[half, source], b, out=parts[source])
        if self.side:
            torch.cuda.current_stream().wait_stream(self.side)
        return out


def run(comm, M, N, K):
    torch.manual_seed(comm.rank)
    rows = M // comm.size
    a, b = operand(rows, K, K**-0.5), operand(K, N)
    every = torch.empty(M, K, dtype=dtype(), device=device())
    dist.all_gather(list(every.chunk(comm.size)), a)
    want = every.float() @ b.float()
    out = torch.empty(M, N, dtype=dtype(), device=device())
    operation = AllGatherGemm(comm, rows, K)

    def alone():
        torch.mm(every, b, out=out)

    def apart():
        dist.all_gather_into_tensor(every, a)
        alone()

    forms = alone, apart, torch_forms.all_gather_gemm(a, b)
    return compare(f"ag {M} x {N} x {K}", operation, lambda: operation(a, b, out), want, *forms)


if __name__ == "__main__":
    main(run, SHAPES, ["48,64,48"], copy_engines=True)
