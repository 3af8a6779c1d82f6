# SPDX-License-Identifier: BSD-3-Clause
"""GEMM + all-reduce of few rows, as decoding does: C = sum over ranks of A_r @ B_r, on every rank.

One kernel after torch.mm: each program sends its part of the product to all other ranks, waits for
their parts and adds them, in the order of ranks, so that all ranks get equal bits. Direct peers get
the part by stores, other peers by a put.

    torchrun --nproc-per-node 2 python/examples/gemm_ar.py
"""

import sys

import libgin.triton as gin
import torch
import torch.distributed as dist
import triton.language as tl
from common import by_all_direct, check, device, dtype, microseconds, on_gpus, operand, ranks, table

import libgin.torch

FOREVER = tl.constexpr(20_000_000_000)  # nanoseconds


@gin.jit(do_not_specialize=["rank"])
def all_reduce(
    dc,
    window,
    source,
    inbox,
    own,
    out,
    rounds,
    status,
    rank,
    count,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
    STORES: tl.constexpr,
    DT: tl.constexpr,
):
    pid = tl.program_id(0)
    programs = tl.num_programs(0)
    turn = tl.load(rounds + pid) + 1  # in memory, for CUDA graphs
    slots = (turn % 2) * SIZE * count  # a round is read while the next one arrives
    at = pid * BLOCK + tl.arange(0, BLOCK)
    mine = tl.load(own + at)
    result = tl.load(status)
    for distance in tl.static_range(1, SIZE):
        peer = (rank + distance) % SIZE
        slot = slots + rank * count
        if STORES:
            there = gin.peer_pointer(window, peer, DT, slot * 2)
            tl.store(tl.multiple_of(there, 16) + at, mine)
            result |= gin.signal(dc, peer, rank * programs + pid, timeout=FOREVER)
        else:
            result |= gin.put(
                dc,
                peer,
                window,
                (slot + pid * BLOCK) * 2,
                source,
                pid * BLOCK * 2,
                BLOCK * 2,
                signal=rank * programs + pid,
                timeout=FOREVER,
            )
    sums = tl.zeros((BLOCK,), dtype=tl.float32)
    for other in tl.static_range(SIZE):
        if other == rank:
            sums += mine.to(tl.float32)
        else:
            status_of = gin.wait_signal(dc, other * programs + pid, turn, timeout=FOREVER)
            result |= status_of
            arrived = gin.after(inbox + slots + other * count, status_of)
            sums += tl.load(arrived + at).to(tl.float32)
    tl.store(out + at, sums.to(DT))
    if not STORES:
        result |= gin.flush(dc, timeout=FOREVER)  # the next product overwrites the source
    tl.store(rounds + pid, turn)
    if result != 0:
        tl.store(status, result)


class GemmAllReduce:
    """For products of M x N. Making it and close() are collective."""

    def __init__(self, comm, M, N, block=4096, stores=None):
        self.comm, self.count = comm, M * N
        self.block = min(block, self.count)
        self.programs = self.count // self.block
        if self.count % self.block:
            raise ValueError(f"{M} x {N} is not a multiple of {self.block}")
        self.stores = by_all_direct(comm) if stores is None else stores
        self.inbox = libgin.torch.empty(2, comm.size, M, N, dtype=dtype(), device=device())
        self.own = libgin.torch.empty(M, N, dtype=dtype(), device=device())
        self.window, self.source = comm.register(self.inbox), comm.register(self.own)
        self.dc = comm.device(signals=comm.size * self.programs)
        self.rounds = torch.zeros(self.programs, dtype=torch.int64, device=device())
        self.status = torch.zeros(1, dtype=torch.int32, device=device())

    def __call__(self, a, b, out):
        torch.mm(a, b, out=self.own)
        all_reduce[(self.programs,)](
            *(self.dc, self.window, self.source, self.inbox, self.own, out),
            *(self.rounds, self.status, self.comm.rank, self.count),
            SIZE=self.comm.size,
            BLOCK=self.block,
            STORES=self.stores,
            DT=tl.bfloat16 if dtype() == torch.bfloat16 else tl.float16,
            num_warps=8,
        )
        return out

    def check(self):
        self.dc.raise_for(self.status.item())

    def close(self):
        for resource in (self.dc, self.window, self.source):
            resource.close()


def run(comm, M, N, K):
    torch.manual_seed(comm.rank)
    a, b = operand(M, K, K**-0.5), operand(K, N)
    want = a.float() @ b.float()
    dist.all_reduce(want)
    out = torch.empty(M, N, dtype=dtype(), device=device())
    operation = GemmAllReduce(comm, M, N, 4096 if on_gpus() else 256)
    for _ in range(5):
        error = check(operation(a, b, out), want)
    operation.check()
    first = out.float().clone()
    dist.broadcast(first, 0)
    assert torch.equal(first, out.float()), "ranks have different bits"
    if on_gpus():

        def apart():
            torch.mm(a, b, out=out)
            dist.all_reduce(out)

        fused = microseconds(lambda: operation(a, b, out))
        alone = microseconds(lambda: torch.mm(a, b, out=out))
        table(f"ar {M} x {N} x {K}", fused, alone, microseconds(apart), error)
        operation.check()
        check(operation(a, b, out), want)
    else:
        print(f"rank {comm.rank} of {comm.size}: off by {error:.4f}", flush=True)
    comm.barrier()
    operation.close()


def main(*shapes):
    preset = ["16,8192,4096", "64,8192,4096", "64,8192,1024"] if on_gpus() else ["16,64,48"]
    with ranks() as comm:
        for shape in shapes or preset:
            run(comm, *map(int, shape.split(",")))


if __name__ == "__main__":
    main(*sys.argv[1:])
