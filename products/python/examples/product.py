# SPDX-License-Identifier: BSD-3-Clause
"""A product of few rows in Triton, by programs of some columns each."""

import triton
import triton.language as tl


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
