# SPDX-License-Identifier: BSD-3-Clause
"""Random layers for the tests. Every rank makes the data of all ranks, so that it knows what it has to receive."""

import copy
from dataclasses import dataclass

import numpy as np

import quant
import reference


@dataclass
class Shape:
    experts: int = 8
    topk: int = 2
    hidden: int = 128
    max_tokens: int = 8
    first: tuple = None  # first expert of each rank; None: as even as can be
    tokens: object = None  # tokens of each rank; None: random
    none: float = 0.1  # part of topk that is -1
    only: int = None  # all tokens go to the experts of this rank
    index: str = "int64"


class Problem:
    """x, topk, weights and tokens of all ranks."""

    def __init__(self, ranks, shape, seed):
        rng = np.random.default_rng(seed)
        self.ranks, self.shape = ranks, shape
        first = reference.first_experts(shape.experts, ranks) if shape.first is None else shape.first
        self.first = np.array(first)
        self.tokens = shape.tokens or [int(n) for n in rng.integers(0, shape.max_tokens + 1, ranks)]
        self.x = [self._rows(rng, n) for n in self.tokens]
        self.topk = [self._topk(rng, n) for n in self.tokens]
        self.weights = [rng.random((n, shape.topk), np.float32) for n in self.tokens]

    def _rows(self, rng, n):
        size = np.exp2(rng.integers(-6, 6, (n, 1)))
        return quant.f32_to_bf16((rng.standard_normal((n, self.shape.hidden)) * size).astype(np.float32))

    def _topk(self, rng, n):
        lowest, end = 0, self.shape.experts
        if self.shape.only is not None:
            lowest, end = self.first[self.shape.only], self.first[self.shape.only + 1]
        topk = np.full((n, self.shape.topk), -1, self.shape.index)
        for row in topk:
            chosen = rng.permutation(np.arange(lowest, end))[: self.shape.topk]
            row[: len(chosen)] = chosen
            rng.shuffle(row)
        topk[rng.random(topk.shape) < self.shape.none] = -1
        return topk

    def own_experts(self, rank):
        return int(self.first[rank + 1] - self.first[rank])

    def config(self):
        shape = self.shape
        config = dict(experts=shape.experts, topk=shape.topk, hidden=shape.hidden, max_tokens=shape.max_tokens)
        return config if shape.first is None else {**config, "first_experts": list(shape.first)}


def without(problem, lost):
    """The problem as the other ranks see it when a rank is left out: no tokens of it, none for its experts."""
    rest = copy.copy(problem)
    rest.topk = [topk.copy() for topk in problem.topk]
    for topk in rest.topk:
        topk[(topk >= problem.first[lost]) & (topk < problem.first[lost + 1])] = -1
    rest.x, rest.weights = list(problem.x), list(problem.weights)
    for arrays in (rest.x, rest.topk, rest.weights):
        arrays[lost] = arrays[lost][:0]
    return rest


def values_of(x, scales, kind):
    """f32 of received rows."""
    if kind == "bf16":
        return quant.bf16_to_f32(x)
    if kind == "ue8m0":
        exponents = np.stack([scales.view(np.uint32) >> 8 * i & 255 for i in range(4)], -1)
        exponents = exponents.reshape(scales.shape[:-1] + (4 * scales.shape[-1],))
        scales = (exponents << 23).astype(np.uint32).view(np.float32)
    spread = np.repeat(scales, quant.GROUP, axis=-1)[..., : x.shape[-1]]
    with np.errstate(all="ignore"):
        return quant.e4m3_to_f32(x) * spread


def run_experts(received, first_expert, kind):
    """bf16 [own experts, rows, hidden]: expert e gives (e % 5 + 0.75) times its rows."""
    y = np.zeros(received.x.shape, np.uint16)
    for local, count in enumerate(received.count):
        part = None if received.scales is None else received.scales[local, :count]
        values = values_of(received.x[local, :count], part, kind)
        y[local, :count] = quant.f32_to_bf16(values * np.float32((first_expert + local) % 5 + 0.75))
    return y


def same(what, got, want):
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        raise AssertionError(f"{what}: the shape is {got.shape}, should be {want.shape}")
    both_nan = (got != got) & (want != want)
    differs = np.argwhere((got != want) & ~both_nan)
    if len(differs):
        at = tuple(differs[0])
        raise AssertionError(
            f"{what}: {len(differs)} of {got.size} values differ, first at {[int(i) for i in at]}: "
            f"{got[at]!r}, should be {want[at]!r}"
        )


def all_bf16_rows():
    """Every bf16, NaNs and infinities too: groups of 128 that follow each other."""
    return np.arange(65536).astype(np.uint16).reshape(-1, 128)


def all_e4m3_rows():
    """Rows of 128 bf16 that contain every bf16 of at most 448; each begins with 448, so that its scale is 1."""
    bits = np.arange(65536).astype(np.uint16)
    bits = bits[np.abs(quant.bf16_to_f32(bits)) <= 448]
    rows = np.zeros((-(-len(bits) // 127), 128), np.uint16)
    rows[:, 0] = quant.f32_to_bf16([448])[0]
    filled = np.zeros(rows[:, 1:].size, np.uint16)
    filled[: len(bits)] = bits
    rows[:, 1:] = filled.reshape(-1, 127)
    return rows


def refuses(error, words, call):
    try:
        call()
    except error as raised:
        assert words in str(raised), raised
    else:
        raise AssertionError(words)
