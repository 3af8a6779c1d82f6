# SPDX-License-Identifier: BSD-3-Clause
"""GEMM + reduce-scatter: C = sum over ranks of A_r @ B_r; each rank keeps its rows of C.

The product is made in parts by torch.mm. A part for another rank leaves as soon as it is made, by a
put whose kernel has one warp: copy engines move the bytes where the ranks are direct peers, the
proxy or a NIC where they are not. The rank's own rows come last. Their product is added to what has
arrived.

    torchrun --nproc-per-node 2 products/python/examples/gemm_rs.py
"""

import torch
import torch.distributed as dist
import torch_forms
import triton.language as tl
from common import Operation, device, dtype, main, on_gpus, operand
from compare import compare

import libgin.triton as gin

SHAPES = "2048,8192,4096", "8192,8192,4096", "8192,8192,14336"  # M, N, K on GPUs
FOREVER = tl.constexpr(20_000_000_000)  # nanoseconds


@gin.jit(do_not_specialize=["to", "at", "nbytes", "peer", "signal"])
def send(dc, there, to, here, at, nbytes, peer, signal, status):
    result = gin.put(dc, peer, there, to, here, at, nbytes, signal=signal, timeout=FOREVER)
    if result != 0:
        tl.store(status, result)


@gin.jit(do_not_specialize=["signal"])
def wait(dc, signal, rounds, status):
    """Waits for one more put. Counts in memory: a CUDA graph replays equal arguments."""
    turn = tl.load(rounds + signal) + 1
    result = gin.wait_signal(dc, signal, turn, timeout=FOREVER)
    tl.store(rounds + signal, turn)
    if result != 0:
        tl.store(status, result)


class GemmReduceScatter(Operation):
    """For products of M rows and N columns. Making it and close() are collective.

    The result of a call lies in the window's memory, until the call after the next one.
    """

    def __init__(self, comm, M, N, parts=2):
        self.parts, self.turn = parts, 0
        self.rows = M // comm.size // parts
        if M % (comm.size * parts):
            raise ValueError(f"M {M} is not a multiple of {comm.size * parts}")
        # Two halves: a call reads one while other ranks fill the other for the next call.
        shape = 2, comm.size, parts, self.rows, N
        super().__init__(comm, comm.size * parts, inbox=shape, outbox=shape)

    def part(self, a, owner, index):
        first = (owner * self.parts + index) * self.rows
        return a[first : first + self.rows]

    def offset(self, half, rank, index):
        """Bytes before a part in the windows."""
        part = (half * self.comm.size + rank) * self.parts + index
        return part * self.rows * self.inbox.shape[-1] * self.inbox.element_size()

    def send(self, half, owner, index):
        arguments = (
            *(self.dc, self.inbox_window, self.offset(half, self.comm.rank, index)),
            *(self.outbox_window, self.offset(half, owner, index), self.offset(0, 0, 1)),
            *(owner, self.comm.rank * self.parts + index, self.status),
        )
        if not on_gpus():
            send[(1,)](*arguments)
            return
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            send[(1,)](*arguments, num_warps=1)

    def __call__(self, a, b):
        half = self.turn % 2
        self.turn += 1
        for index in range(self.parts):
            for owner in self.others():
                torch.mm(self.part(a, owner, index), b, out=self.outbox[half, owner, index])
                self.send(half, owner, index)
        sums = self.inbox[half, (self.comm.rank + 1) % self.comm.size]
        for index in range(self.parts):
            self.add_own(a, b, half, index, sums[index])
        if self.side and self.others():  # a rank alone has sent nothing on that stream
            torch.cuda.current_stream().wait_stream(self.side)
        return sums.view(-1, sums.shape[-1])

    def add_own(self, a, b, half, index, sums):
        """The rank's own product, and what the other ranks have sent for these rows."""
        sources = self.others()
        for source in sources:
            wait[(1,)](self.dc, source * self.parts + index, self.rounds, self.status, num_warps=1)
        if self.turn == 1:
            self.end_kernels()
        for source in sources[1:]:
            sums.add_(self.inbox[half, source, index])
        beta = 1 if sources else 0
        torch.addmm(sums, self.part(a, self.comm.rank, index), b, beta=beta, out=sums)


def run(comm, M, N, K):
    torch.manual_seed(comm.rank)
    a, b = operand(M, K, K**-0.5), operand(K, N)
    want = a.float() @ b.float()
    dist.all_reduce(want)
    want = want.view(comm.size, -1, N)[comm.rank]
    operation = GemmReduceScatter(comm, M, N)
    full = torch.empty(M, N, dtype=dtype(), device=device())
    out = torch.empty_like(want, dtype=dtype())

    def alone():
        torch.mm(a, b, out=full)

    def apart():
        alone()
        dist.reduce_scatter_tensor(out, full)

    forms = alone, apart, torch_forms.gemm_reduce_scatter(a, b)
    return compare(f"rs {M} x {N} x {K}", operation, lambda: operation(a, b), want, *forms)


if __name__ == "__main__":
    main(run, SHAPES, ["48,64,48"], copy_engines=True)
