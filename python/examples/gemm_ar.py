# SPDX-License-Identifier: BSD-3-Clause
"""GEMM + all-reduce of few rows, as decoding does: C = sum over ranks of A_r @ B_r, on every rank.

One kernel: each program multiplies, sends its columns of the product to all other ranks, waits for
their parts and adds them, in the order of ranks, so that all ranks get equal bits. Direct peers get
the part by stores from registers, other peers by a put.

    torchrun --nproc-per-node 2 python/examples/gemm_ar.py
"""

import torch
import torch.distributed as dist
import torch_forms
import triton
import triton.language as tl
from common import Operation, by_all_direct, device, dtype, main, on_gpus, operand
from compare import checked, compare

import libgin.triton as gin

SHAPES = "16,8192,4096", "64,8192,4096", "64,8192,1024"  # M, N, K on GPUs
FOREVER = tl.constexpr(20_000_000_000)  # nanoseconds


@triton.jit
def product(a, b, N, column, M: tl.constexpr, K: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """BN columns of A times B. Both lie in memory row by row."""
    rows, k = tl.arange(0, M), tl.arange(0, BK)
    a_at = a + rows[:, None] * K + k[None, :]
    b_at = b + k[:, None] * N + (column + tl.arange(0, BN))[None, :]
    sums = tl.zeros((M, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        sums = tl.dot(tl.load(a_at), tl.load(b_at), sums)
        a_at += BK
        b_at += BK * N
    return sums


@gin.jit(do_not_specialize=["rank"])
def gemm_all_reduce(
    dc,
    window,  # over inbox
    inbox,
    source,  # over outbox
    outbox,
    a,
    b,
    out,
    rounds,
    status,
    rank,
    N,
    SIZE: tl.constexpr,
    M: tl.constexpr,
    K: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    STORES: tl.constexpr,
):
    pid = tl.program_id(0)
    programs = tl.num_programs(0)
    turn = tl.load(rounds + pid) + 1  # counted in memory: a CUDA graph replays equal arguments
    rows, columns = tl.arange(0, M)[:, None], tl.arange(0, BN)[None, :]
    part: tl.constexpr = M * BN  # of a program; lies in the inbox row by row
    inside = rows * BN + columns
    dtype: tl.constexpr = out.dtype.element_ty
    mine = product(a, b, N, pid * BN, M, K, BN, BK).to(dtype)
    # Two halves: a call reads one while other ranks fill the other for the next call.
    slot = ((turn % 2) * SIZE * programs + pid) * part
    there = slot + rank * programs * part
    result = tl.load(status)
    if not STORES:
        tl.store(outbox + pid * part + inside, mine)
    for distance in tl.static_range(1, SIZE):
        peer = (rank + distance) % SIZE
        signal = rank * programs + pid
        if STORES:
            pointer = gin.peer_pointer(window, peer, dtype, there * 2)
            tl.store(tl.multiple_of(pointer, 16) + inside, mine)
            result |= gin.signal(dc, peer, signal, timeout=FOREVER)
        else:
            to, at = there * 2, pid * part * 2
            result |= gin.put(dc, peer, window, to, source, at, part * 2, signal, timeout=FOREVER)
    sums = tl.zeros((M, BN), dtype=tl.float32)
    for other in tl.static_range(SIZE):
        if other == rank:
            sums += mine.to(tl.float32)
        else:
            arrived = gin.wait_signal(dc, other * programs + pid, turn, timeout=FOREVER)
            result |= arrived
            theirs = gin.after(inbox + slot + other * programs * part, arrived)
            sums += tl.load(theirs + inside).to(tl.float32)
    tl.store(out + rows * N + pid * BN + columns, sums.to(dtype))
    if not STORES:
        result |= gin.flush(dc, timeout=FOREVER)  # the next call overwrites the outbox
    tl.store(rounds + pid, turn)
    if result != 0:
        tl.store(status, result)


class GemmAllReduce(Operation):
    """For A of M x K and B of K x N, contiguous. Making it and close() are collective."""

    def __init__(self, comm, M, N, K, columns=64, depth=128):
        if M not in (16, 32, 64) or N % columns or K % depth:
            want = f"M 16, 32 or 64, N a multiple of {columns}, K of {depth}"
            raise ValueError(f"{M} x {N} x {K}: give {want}")
        stores = by_all_direct(comm)
        self.programs, self.form = N // columns, "stores" if stores else "puts"
        self.options = {"M": M, "K": K, "BN": columns, "BK": depth, "SIZE": comm.size}
        self.options |= {"STORES": stores, "num_warps": 4, "num_stages": 5}
        inbox, signals = (2, comm.size, M, N), comm.size * self.programs
        super().__init__(comm, signals, inbox=inbox, outbox=(M, N))

    def __call__(self, a, b, out):
        gemm_all_reduce[(self.programs,)](
            *(self.dc, self.inbox_window, self.inbox, self.outbox_window, self.outbox),
            *(a, b, out, self.rounds, self.status, self.comm.rank, out.shape[1]),
            **self.options,
        )
        return out


def run(comm, M, N, K):
    torch.manual_seed(comm.rank)
    a, b = operand(M, K, K**-0.5), operand(K, N)
    want = a.float() @ b.float()
    dist.all_reduce(want)
    out = torch.empty(M, N, dtype=dtype(), device=device())
    operation = GemmAllReduce(comm, M, N, K, *(() if on_gpus() else (32, 16)))
    checked(operation, lambda: operation(a, b, out), want)
    first = out.float()
    dist.broadcast(first, 0)
    assert torch.equal(first, out.float()), "ranks have different bits"

    def alone():
        torch.mm(a, b, out=out)

    def apart():
        alone()
        dist.all_reduce(out)

    forms = alone, apart, torch_forms.gemm_all_reduce(a, b)
    return compare(f"ar {M} x {N} x {K}", operation, lambda: operation(a, b, out), want, *forms)


if __name__ == "__main__":
    main(run, SHAPES, ["16,64,48"])
