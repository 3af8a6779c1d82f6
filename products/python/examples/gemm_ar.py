# SPDX-License-Identifier: BSD-3-Clause
"""GEMM + all-reduce of few rows, as decoding does: C = sum over ranks of A_r @ B_r, on every rank.

Direct peers: one kernel. Each program multiplies, stores its columns of the product into the memory
of all other ranks, takes their parts (parts.py) and adds them. Other peers: torch.mm, then one put
of the whole product to each. Parts are added in the order of ranks: all ranks get equal bits.

    torchrun --nproc-per-node 2 products/python/examples/gemm_ar.py
"""

import torch
import torch.distributed as dist
import torch_forms
import triton.language as tl
from common import Operation, by_all_direct, device, dtype, main, on_gpus, operand
from compare import checked, compare
from gemm_rs import send, wait
from parts import EMPTY, take
from product import product

import libgin.triton as gin

SHAPES = "16,8192,4096", "64,8192,4096", "64,8192,1024"  # M, N, K on GPUs


@gin.jit(do_not_specialize=["rank"])
def gemm_all_reduce(
    dc,
    window,  # over inbox
    inbox,
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
    EMPTY: tl.constexpr,
):
    pid = tl.program_id(0)
    programs = tl.num_programs(0)
    turn = tl.load(rounds + pid) + 1  # counted in memory: a CUDA graph replays equal arguments
    result = tl.load(status)
    rows, columns = tl.arange(0, M)[:, None], tl.arange(0, BN)[None, :]
    part: tl.constexpr = M * BN  # of a program; lies in the inbox row by row
    inside = rows * BN + columns
    dtype: tl.constexpr = out.dtype.element_ty
    mine = product(a, b, N, pid * BN, M, K, BN, BK).to(dtype)
    # Two halves: a call reads one while other ranks fill the other for the next call. They return
    # to the first when they have this rank's parts of the next call, which follow this kernel.
    slot = ((turn % 2) * SIZE * programs + pid) * part
    there = slot + rank * programs * part
    for distance in tl.static_range(1, SIZE):
        peer = (rank + distance) % SIZE
        pointer = gin.peer_pointer(window, peer, dtype, there * 2)
        tl.store(tl.multiple_of(pointer, 16) + inside, mine)
    sums = tl.zeros((M, BN), dtype=tl.float32)
    for other in tl.static_range(SIZE):
        if other == rank:
            sums += mine.to(tl.float32)
        else:
            place = (inbox + slot + other * programs * part).to(tl.pointer_type(tl.int16))
            words, result = take(dc, other, tl.multiple_of(place, 16) + inside, result, EMPTY)
            sums += words.to(dtype, bitcast=True).to(tl.float32)
    tl.store(out + rows * N + pid * BN + columns, sums.to(dtype))
    tl.store(rounds + pid, turn)
    if result != 0:
        tl.store(status, result)


class ByStores(Operation):
    """For A of M x K and B of K x N, contiguous, and direct peers."""

    form = "stores"

    def __init__(self, comm, M, N, K, columns=64, depth=128):
        if M not in (16, 32, 64) or N % columns or K % depth:
            want = f"M 16, 32 or 64, N a multiple of {columns}, K of {depth}"
            raise ValueError(f"{M} x {N} x {K}: give {want}")
        self.programs = N // columns
        self.options = {"M": M, "K": K, "BN": columns, "BK": depth, "SIZE": comm.size}
        self.options |= {"EMPTY": EMPTY[dtype()], "num_warps": 4, "num_stages": 5}
        super().__init__(comm, self.programs, inbox=(2, comm.size, M, N))
        self.inbox.view(torch.int16).fill_(EMPTY[dtype()])
        self.end_kernels()
        comm.barrier()

    def __call__(self, a, b, out):
        gemm_all_reduce[(self.programs,)](
            *(self.dc, self.inbox_window, self.inbox, a, b, out, self.rounds, self.status),
            *(self.comm.rank, out.shape[1]),
            **self.options,
        )
        return out


class ByPuts(Operation):
    """For any peers. A CUDA graph has to hold an even number of calls, for there are two halves."""

    def __init__(self, comm, M, N):
        self.turn = 0
        super().__init__(comm, comm.size, parts=(2, comm.size, M, N))

    def __call__(self, a, b, out):
        parts, rank, peers = self.parts[self.turn % 2], self.comm.rank, self.others()
        torch.mm(a, b, out=parts[rank])
        nbytes = out.numel() * out.element_size()
        here = self.parts_window, (self.turn % 2 * self.comm.size + rank) * nbytes
        for peer in peers:
            send[(1,)](self.dc, *here, *here, nbytes, peer, rank, self.status, num_warps=1)
        for peer in peers:
            wait[(1,)](self.dc, peer, self.rounds, self.status, num_warps=1)
        if self.turn == 0:
            self.end_kernels()
        self.turn += 1
        return torch.sum(parts, 0, out=out)


def run(comm, M, N, K):
    torch.manual_seed(comm.rank)
    a, b = operand(M, K, K**-0.5), operand(K, N)
    want = a.float() @ b.float()
    dist.all_reduce(want)
    out = torch.empty(M, N, dtype=dtype(), device=device())
    few = () if on_gpus() else (32, 16)
    operation = ByStores(comm, M, N, K, *few) if by_all_direct(comm) else ByPuts(comm, M, N)
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
