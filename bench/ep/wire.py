#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""wire.py [TOKENS [SEED]] - bytes between NVLink domains of a low latency dispatch and combine, counted

A rank's rows to other domains: one for each expert (DeepEP V1), for each rank of its experts (gin_ep, low latency), for
each domain (gin_ep, high throughput). 256 experts, top-8, 7168 elements; KB of a rank, the mean of all ranks and of 20
batches, and the us that a NIC of 50 GB/s takes for the fullest rank's, sent or received. Routing: `uniform`; `groups`:
as DeepSeek-V3, the four best of eight groups of experts, then experts there; `skewed`: expert e is as likely as
1 / sqrt(e + 1) in a random order. Needs NumPy, no GPU.
"""

import sys

import numpy as np

EXPERTS, TOPK, HIDDEN, NIC = 256, 8, 7168, 50e3  # bytes of a us
BATCHES = 20
DISPATCH = HIDDEN + HIDDEN // 128 * 4 + 16  # a row of fp8 with its scales and header
COMBINE = 2 * HIDDEN


def routed(random, routing, rows):
    """[rows, TOPK] experts."""
    scores = random.gumbel(size=(rows, EXPERTS))
    if routing == "skewed":
        scores += -0.5 * np.log(1 + random.permutation(EXPERTS))
    elif routing == "groups":
        groups = scores.reshape(rows, 8, -1)
        best = np.sort(groups, axis=2)[:, :, -2:].sum(axis=2)
        kept = best >= np.sort(best, axis=1)[:, 4:5]
        scores = np.where(kept[:, :, None], groups, -np.inf).reshape(rows, EXPERTS)
    return np.argpartition(scores, -TOPK, axis=1)[:, -TOPK:]


def sent(experts, ranks, each, distinct):
    """[ranks, ranks // each] rows of each rank to each target, of `each` ranks; `distinct`: a token's once."""
    targets = experts // (EXPERTS // ranks) // each
    count = np.zeros((len(experts), ranks // each), dtype=int)
    np.add.at(count, (np.arange(len(experts))[:, None], targets), 1)
    return (np.minimum(count, 1) if distinct else count).reshape(ranks, -1, ranks // each).sum(axis=1)


def between_domains(rows, each, size):
    """(mean, most) rows of a rank to and from other domains."""
    ranks = len(rows)
    own = np.arange(ranks)[:, None] // size == np.arange(ranks // each)[None] * each // size
    rows = np.where(own, 0, rows)
    if each == size:  # the rail peer of a source receives, one for each domain
        received = np.zeros(ranks, dtype=int)
        for source in range(ranks):
            received[np.arange(ranks // size) * size + source % size] += rows[source]
    else:
        received = rows.sum(axis=0)
    return rows.sum() / ranks, max(rows.sum(axis=1).max(), received.max())


def main(tokens, seed):
    random = np.random.default_rng(seed)
    print(f"{tokens} tokens of a rank, seed {seed}")
    print("| domains | routing | rows for each | rows | dispatch fp8, KB | us | combine bf16, KB | us |")
    print("|" + "---|" * 8)
    for domains, size in ((2, 8), (4, 8)):
        ranks = domains * size
        for routing in ("uniform", "groups", "skewed"):
            sums = {}
            for _ in range(BATCHES):
                experts = routed(random, routing, ranks * tokens)
                for name, each, distinct in (("expert", 1, False), ("rank", 1, True), ("domain", size, True)):
                    found = between_domains(sent(experts, ranks, each, distinct), each, size)
                    sums[name] = np.add(sums.get(name, 0), found)
            for name, total in sums.items():
                mean, most = total / BATCHES
                cells = [f"{mean / tokens:.2f}"]
                for size_of in (DISPATCH, COMBINE):
                    cells += [f"{mean * size_of / 1000:.0f}", f"{most * size_of / NIC:.0f}"]
                print(f"| {domains} x {size} | {routing} | {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 128, int(sys.argv[2]) if len(sys.argv) > 2 else 7)
