# SPDX-License-Identifier: BSD-3-Clause
"""Expert parallelism in NumPy, by plain loops: what dispatch and combine have to give, bit by bit.

The functions see all ranks at once. x[rank] is [tokens, hidden] of bf16 (uint16); topk[rank] is
[tokens, K], an expert's number or -1; weights[rank] is [tokens, K] f32. Rows go to each expert in the
order (source rank, token).
"""

from dataclasses import dataclass

import numpy as np

import quant


def first_experts(experts, ranks):
    """[ranks + 1]: rank r has experts first[r] to first[r + 1] - 1. Lower ranks get one more."""
    share, more = divmod(experts, ranks)
    return np.cumsum([0] + [share + (rank < more) for rank in range(ranks)])


def owner(first, expert):
    """The rank that has an expert."""
    return int(np.searchsorted(first, expert, side="right")) - 1


def items_of(topk_row):
    """The (k, expert) of one token, k ascending. An expert that comes again is left out."""
    items, seen = [], set()
    for k, expert in enumerate(topk_row):
        if expert >= 0 and int(expert) not in seen:
            seen.add(int(expert))
            items.append((k, int(expert)))
    return items


def ranks_of(topk_row, first):
    """The distinct ranks to which one token goes, ascending."""
    return sorted({owner(first, expert) for _, expert in items_of(topk_row)})


def rows_of_expert(topk, expert):
    """The (source rank, token, k) that an expert receives, in the order of its rows."""
    rows = []
    for source, indices in enumerate(topk):
        for token, row in enumerate(indices):
            rows += [(source, token, k) for k, e in items_of(row) if e == expert]
    return rows


def rows_of_rank(topk, first, rank, source):
    """The tokens of one source rank that go to a rank, ascending: one row each."""
    return [token for token, row in enumerate(topk[source]) if rank in ranks_of(row, first)]


@dataclass
class Received:
    """What one rank receives. Rows at and beyond the counts are not defined, here zero."""

    x: np.ndarray  # expert-major: [own experts, ranks * max_tokens, hidden], rank-major: [ranks, max_tokens, hidden]
    scales: np.ndarray  # None for bf16; f32 [.., groups], or int32 [.., words] of ue8m0
    count: np.ndarray  # int32: rows of each own expert, or of each source rank
    src_info: np.ndarray  # int32: the token of each row, at its source rank
    layout_range: np.ndarray = None  # expert-major: int64 [own experts, ranks], begin << 32 | count
    topk_idx: np.ndarray = None  # rank-major: int32 [ranks, max_tokens, K], a local expert or -1
    topk_weights: np.ndarray = None  # rank-major: f32 [ranks, max_tokens, K], of the local experts


def payload(row, kind):
    """(bytes or bf16, scales) of a row: kind is bf16, f32, rounded or ue8m0."""
    if kind == "bf16":
        return row, None
    codes, scales = quant.quantize(row, rounded=kind != "f32")
    return codes, quant.pack_ue8m0(scales) if kind == "ue8m0" else scales


def _empty(shape, x, kind):
    """x and scales of one rank, zeros."""
    hidden = x[0].shape[1]
    groups = -(-hidden // quant.GROUP)
    if kind == "bf16":
        return np.zeros(shape + (hidden,), np.uint16), None
    if kind == "ue8m0":
        scales = np.zeros(shape + (-(-groups // 4),), np.int32)
    else:
        scales = np.zeros(shape + (groups,), np.float32)
    return np.zeros(shape + (hidden,), np.uint8), scales


def dispatch(x, topk, first, max_tokens, kind="bf16"):
    """Expert-major: a list of Received, one of each rank."""
    ranks = len(x)
    received = []
    for rank in range(ranks):
        own = range(first[rank], first[rank + 1])
        out, scales = _empty((len(own), ranks * max_tokens), x, kind)
        count = np.zeros(len(own), np.int32)
        src_info = np.zeros((len(own), ranks * max_tokens), np.int32)
        layout_range = np.zeros((len(own), ranks), np.int64)
        for local, expert in enumerate(own):
            rows = rows_of_expert(topk, expert)
            for number, (source, token, _) in enumerate(rows):
                out[local, number], scale = payload(x[source][token], kind)
                if scales is not None:
                    scales[local, number] = scale
                src_info[local, number] = token
            count[local] = len(rows)
            begin = 0
            for source in range(ranks):
                n = sum(row[0] == source for row in rows)
                layout_range[local, source] = begin << 32 | n
                begin += n
        received.append(Received(out, scales, count, src_info, layout_range))
    return received


def dispatch_rank_major(x, topk, weights, first, max_tokens, kind="bf16"):
    """Rank-major: a list of Received, one of each rank; row [source, i] is the source's i-th token that comes here."""
    ranks, topk_most = len(x), topk[0].shape[1]
    received = []
    for rank in range(ranks):
        out, scales = _empty((ranks, max_tokens), x, kind)
        count = np.zeros(ranks, np.int32)
        src_info = np.zeros((ranks, max_tokens), np.int32)
        local_idx = np.full((ranks, max_tokens, topk_most), -1, np.int32)
        local_weights = np.zeros((ranks, max_tokens, topk_most), np.float32)
        for source in range(ranks):
            tokens = rows_of_rank(topk, first, rank, source)
            for slot, token in enumerate(tokens):
                out[source, slot], scale = payload(x[source][token], kind)
                if scales is not None:
                    scales[source, slot] = scale
                src_info[source, slot] = token
                for k, expert in items_of(topk[source][token]):
                    if owner(first, expert) == rank:
                        local_idx[source, slot, k] = expert - first[rank]
                        local_weights[source, slot, k] = weights[source][token, k]
            count[source] = len(tokens)
        received.append(Received(out, scales, count, src_info, None, local_idx, local_weights))
    return received


def rows_back(y, topk, first):
    """{(source, token, k): row}: the row that each expert computed. y[rank] is [own experts, rows, hidden]."""
    back = {}
    for rank, rows in enumerate(y):
        for local, expert in enumerate(range(first[rank], first[rank + 1])):
            for number, item in enumerate(rows_of_expert(topk, expert)):
                back[item] = rows[local, number]
    return back


def weighted_sum(rows, weights):
    """f32: fma of each bf16 row times its weight, in the given order, from 0."""
    total = np.zeros(len(rows[0]), np.float32)
    for row, weight in zip(rows, weights):
        total = quant.fma(quant.bf16_to_f32(row), weight, total)
    return total


def combine(y, topk, weights, first):
    """Top-k rows come back: a list of [tokens, hidden] bf16. One sum per token, k ascending, rounded once."""
    back = rows_back(y, topk, first)
    hidden = y[0].shape[2]
    out = []
    for source, indices in enumerate(topk):
        combined = np.zeros((len(indices), hidden), np.uint16)
        for token, row in enumerate(indices):
            items = items_of(row)
            if items:
                rows = [back[source, token, k] for k, _ in items]
                total = weighted_sum(rows, [weights[source][token, k] for k, _ in items])
                combined[token] = quant.f32_to_bf16(total)
        out.append(combined)
    return out


def combine_rank(y, topk, weights, first):
    """One partial row per rank comes back: a list of [tokens, hidden] bf16.

    Each rank sums its experts' rows, k ascending, and rounds to bf16. The token's rank adds the partials in
    f32, ranks ascending, and rounds once.
    """
    back = rows_back(y, topk, first)
    partials = {}
    for source, indices in enumerate(topk):
        for token, row in enumerate(indices):
            for rank in ranks_of(row, first):
                here = [k for k, expert in items_of(row) if owner(first, expert) == rank]
                rows = [back[source, token, k] for k in here]
                total = weighted_sum(rows, [weights[source][token, k] for k in here])
                partials[source, token, rank] = quant.f32_to_bf16(total)
    return add_partials(partials, topk, first, y[0].shape[2])


def combine_rank_major(y, topk, first):
    """As combine_rank, of rows that the ranks have added: y[rank] is [ranks, max_tokens, hidden] bf16."""
    partials = {}
    for rank, rows in enumerate(y):
        for source in range(len(topk)):
            for slot, token in enumerate(rows_of_rank(topk, first, rank, source)):
                partials[source, token, rank] = rows[source, slot]
    return add_partials(partials, topk, first, y[0].shape[2])


def add_partials(partials, topk, first, hidden):
    """Sums of the bf16 rows {(source, token, rank): row}, in f32, ranks ascending, rounded once."""
    out = []
    for source, indices in enumerate(topk):
        combined = np.zeros((len(indices), hidden), np.uint16)
        for token, row in enumerate(indices):
            total = np.zeros(hidden, np.float32)
            for rank in ranks_of(row, first):
                total = total + quant.bf16_to_f32(partials[source, token, rank])
            combined[token] = quant.f32_to_bf16(total)
        out.append(combined)
    return out
