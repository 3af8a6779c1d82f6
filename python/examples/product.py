# SPDX-License-Identifier: BSD-3-Clause
"""A product of few rows in Triton, by programs of some columns each."""

import torch
import triton
import triton.language as tl
from common import on_gpus


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


@triton.jit
def read_ahead(b, N, column, K: tl.constexpr, EARLY: tl.constexpr):
    """Reads 64 columns of the first rows of B into the L2 cache; waits for the kernel before."""
    if EARLY:
        row = tl.arange(0, 1024)
        line = b + tl.where(row < K, row, 0) * N + column
        asm: tl.constexpr = "prefetch.global.L2 [$1]; // $0"
        tl.inline_asm_elementwise(asm, "=r,l", [line], tl.int32, False, 1)
        tl.inline_asm_elementwise("griddepcontrol.wait; // $0", "=r", [], tl.int32, False, 1)


@triton.jit
def let_next_start(EARLY: tl.constexpr):
    """The next kernel may start: its read_ahead() waits for the end of this one."""
    if EARLY:
        asm: tl.constexpr = "griddepcontrol.launch_dependents; // $0"
        tl.inline_asm_elementwise(asm, "=r", [], tl.int32, False, 1)


def early_start():
    """Options of a kernel that calls read_ahead(): GPUs from sm_90 on start it early."""
    early = on_gpus() and torch.cuda.get_device_capability() >= (9, 0)
    return {"EARLY": True, "launch_pdl": True} if early else {"EARLY": False}
