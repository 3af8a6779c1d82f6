# SPDX-License-Identifier: BSD-3-Clause
"""ranks.py [--threads N,...] [--but CASE] [CASE...] - dispatch and combine on NumPy arrays, against the reference

The ranks are N threads, for each N, or processes of a launcher. Every value must be equal to the reference.
"""

import argparse
import sys
import time

import numpy as np

import gin_ep
import quant
import reference
from problem import Problem, Shape, all_bf16_rows, all_e4m3_rows, run_experts, same, without

POISON = 0x5A
KINDS = ("bf16", "f32", "rounded", "ue8m0")
SCALES = {"bf16": "f32", "f32": "f32", "rounded": "pow2", "ue8m0": "ue8m0"}


def poisoned(ep, x, topk, kind, layout="expert"):
    """Outputs whose every byte is POISON."""
    out = ep.empty_like_received(x, topk, kind != "bf16", SCALES[kind], layout)
    for tensor in (out.x, out.scales, out.count, out.src_info, out.layout_range, out.topk_idx, out.topk_weights):
        if tensor is not None:
            memory = tensor if tensor.flags.c_contiguous else tensor.swapaxes(-1, -2)
            memory.reshape(-1).view(np.uint8)[:] = POISON
    return out


def untouched(what, rows):
    rows = np.ascontiguousarray(rows).view(np.uint8)
    same(f"{what} beyond the counts", rows, np.full(rows.shape, POISON, np.uint8))


def check_rows(what, got, want, counts):
    """Equal up to the counts, and not written beyond."""
    for i, count in enumerate(counts):
        same(f"{what}[{i}]", got[i, :count], want[i, :count])
        untouched(f"{what}[{i}]", got[i, count:])


def check_received(got, want):
    same("count", got.count, want.count)
    check_rows("src_info", got.src_info, want.src_info, want.count)
    check_rows("x", got.x, want.x, want.count)
    if want.scales is not None:
        check_rows("scales", got.scales, want.scales, want.count)
    if want.layout_range is not None:
        same("layout_range", got.layout_range, want.layout_range)
    if want.topk_idx is not None:
        check_rows("topk_idx", got.topk_idx, want.topk_idx, want.count)
        check_rows("topk_weights", got.topk_weights, want.topk_weights, want.count)


class Layer:
    """One problem on one Ep, at this rank. `expected`: the problem whose results are right, if it is another one."""

    def __init__(self, comm, ep, problem, kind, expected=None):
        self.ep, self.kind, self.me = ep, kind, comm.rank
        self.x, self.topk = problem.x[self.me], problem.topk[self.me]
        self.weights = problem.weights[self.me]
        self.problem = problem = expected or problem
        self.wanted = reference.dispatch(problem.x, problem.topk, problem.first, problem.shape.max_tokens, kind)

    def dispatch(self, phase="both"):
        self.received = self.ep.dispatch(
            self.x,
            self.topk,
            self.weights,
            fp8=self.kind != "bf16",
            scales=SCALES[self.kind],
            phase=phase,
            out=poisoned(self.ep, self.x, self.topk.shape[1], self.kind),
        )
        return self.received

    def check_dispatch(self):
        check_received(self.received, self.wanted[self.me])

    def compute(self):
        """y of all ranks; the own one by what was received."""
        first = self.problem.first
        self.y = [run_experts(part, int(first[rank]), self.kind) for rank, part in enumerate(self.wanted)]
        self.own_y = run_experts(self.received, int(first[self.me]), self.kind)

    def combine(self, reduce, phase="both"):
        self.combined = self.ep.combine(self.own_y, self.received, self.topk, self.weights, reduce=reduce, phase=phase)
        return self.combined

    def check_combine(self, reduce):
        way = reference.combine if reduce == "none" else reference.combine_rank
        wanted = way(self.y, self.problem.topk, self.problem.weights, self.problem.first)
        same(f"combine {reduce}", self.combined.out, wanted[self.me])

    def run(self):
        self.dispatch()
        self.check_dispatch()
        self.compute()
        for reduce in ("none", "rank"):
            self.combine(reduce)
            self.check_combine(reduce)


def layers(comm, shape, kinds=KINDS, rounds=3, seed=1):
    problem = Problem(comm.size, shape, seed)
    with gin_ep.Ep(comm, **problem.config()) as ep:
        for i in range(rounds):
            for kind in kinds:
                Layer(comm, ep, Problem(comm.size, shape, seed + i), kind).run()


def case_small(comm):
    layers(comm, Shape())


def case_hidden(comm):
    for hidden in (16, 144, 2880, 3584, 7168):
        layers(comm, Shape(hidden=hidden, max_tokens=3), rounds=1)


def case_topk(comm):
    for topk, experts in ((1, 5), (6, 6), (9, 64), (22, 37), (32, 64)):
        layers(comm, Shape(experts=experts, topk=topk, hidden=32), kinds=("bf16", "f32"), rounds=1)


def case_experts(comm):
    uneven = [0] + [1] * comm.size
    uneven[-1] = 7
    for shape in (
        Shape(experts=1, topk=1),
        Shape(experts=7, topk=3),
        Shape(experts=7, topk=3, first=tuple(uneven)),
        Shape(experts=16, topk=4, only=comm.size - 1),
    ):
        layers(comm, shape, kinds=("bf16", "ue8m0"), rounds=1)


def case_tokens(comm):
    n = comm.size
    for shape in (
        Shape(tokens=[0] * n),
        Shape(tokens=[8] * n, none=1.0),
        Shape(tokens=[8 * (rank % 2) for rank in range(n)]),
        Shape(max_tokens=129, tokens=[129] * n, hidden=16),
        Shape(index="int32"),
    ):
        layers(comm, shape, kinds=("bf16", "f32"), rounds=1)


def case_rank_major(comm):
    shape = Shape(topk=3, experts=6)
    problem = Problem(comm.size, shape, 5)
    me, first = comm.rank, problem.first
    for kind in KINDS:
        wanted = reference.dispatch_rank_major(problem.x, problem.topk, problem.weights, first, shape.max_tokens, kind)
        with gin_ep.Ep(comm, **problem.config()) as ep:
            x, topk = problem.x[me], problem.topk[me]
            received = ep.dispatch(
                x,
                topk,
                problem.weights[me],
                fp8=kind != "bf16",
                scales=SCALES[kind],
                layout="rank",
                out=poisoned(ep, x, shape.topk, kind, "rank"),
            )
            check_received(received, wanted[me])
            y = [run_experts(part, 1, kind) for part in wanted]
            out = ep.combine(y[me], received, topk, reduce="rank", layout="rank").out
            same("combine", out, reference.combine_rank_major(y, problem.topk, first)[me])


def case_hooks(comm):
    """Two micro-batches, their receives in both orders, and a third send, which is refused."""
    shape = Shape()
    problems = [Problem(comm.size, shape, seed) for seed in (11, 12)]
    with gin_ep.Ep(comm, **problems[0].config()) as ep:
        for order in ((0, 1), (1, 0)):
            batches = [Layer(comm, ep, problem, "bf16") for problem in problems]
            for batch in batches:
                batch.dispatch("send")
            refuses_third(batches[0])
            for i in order:
                batches[i].received.receive()
                batches[i].check_dispatch()
                batches[i].compute()
            for batch in batches:
                batch.combine("none", "send")
            for i in reversed(order):
                batches[i].combined.receive()
                batches[i].check_combine("none")


def refuses_third(batch):
    received = batch.received
    try:
        batch.dispatch("send")
    except gin_ep.GinError as error:
        if "ginEpDispatch" not in str(error):
            raise
    else:
        raise AssertionError("a third send without a receive was not refused")
    batch.received = received


def case_fp8(comm):
    """All bf16 values of at most 448: a group that contains 448 has scale 1. Then every bf16, with each kind of scale.

    No power of two is a scale of infinity: such groups have any codes.
    """
    rows = all_e4m3_rows()
    topk = np.full((len(rows), 1), comm.rank, np.int64)
    with gin_ep.Ep(comm, experts=comm.size, topk=1, hidden=128, max_tokens=len(rows)) as ep:
        received = ep.dispatch(rows, topk, fp8=True)
    count = int(received.count[0])
    same("rows received", count, len(rows))
    same("scales", received.scales[0, :count], np.ones((count, 1), np.float32))
    same("e4m3", received.x[0, :count], quant.f32_to_e4m3(quant.bf16_to_f32(rows)))
    rows = all_bf16_rows()
    topk = np.full((len(rows), 1), comm.rank, np.int64)
    with gin_ep.Ep(comm, experts=comm.size, topk=1, hidden=128, max_tokens=len(rows)) as ep:
        for kind in KINDS[1:]:
            received = ep.dispatch(rows, topk, fp8=True, scales=SCALES[kind])
            for token, row in enumerate(rows):
                codes, scales = quant.quantize(row, rounded=kind != "f32")
                if kind == "f32" or np.isfinite(scales[0]):
                    same(f"{kind} of bf16 {token * 128} and more", received.x[0, token], codes)
                wanted = quant.pack_ue8m0(scales) if kind == "ue8m0" else scales
                same(f"their scale, {token}", received.scales[0, token], wanted)


def orders_of_all_bf16():
    """Every bf16: among its neighbours, among others, and alone among zeros; [tokens, hidden]."""
    every = np.arange(65536).astype(np.uint16)
    alone = np.zeros((65536, 32), np.uint16)
    alone[np.arange(65536), np.random.default_rng(9).integers(0, 32, 65536)] = every
    return every.reshape(64, -1), np.random.default_rng(8).permutation(every).reshape(64, -1), alone.reshape(64, -1)


def case_formats(comm):
    """Every bf16 becomes mxfp8, and nvfp4 by several global scales, as the reference has it."""
    kinds = [("mxfp8", None, quant.mxfp8)]
    for number in (1, 42, 2.0**-100):
        scale = np.array([number], np.float32)
        kinds.append(("nvfp4", scale, lambda rows, scale=scale: quant.nvfp4(rows, scale[0])))
    for rows in orders_of_all_bf16():
        tokens, hidden = rows.shape
        topk = np.full((tokens, 1), comm.rank, np.int64)
        with gin_ep.Ep(comm, experts=comm.size, topk=1, hidden=hidden, max_tokens=tokens) as ep:
            for kind, scale, cast in kinds:
                got = ep.dispatch(rows, topk, rows=kind, x_global_scale=scale)
                codes, scales = cast(rows)
                same(f"{kind} codes, {scale}", got.x[0, :tokens], codes)
                same(f"{kind} scales, {scale}", got.scales[0, :tokens], scales)


def case_given_formats(comm):
    """Rows that are mxfp8 or nvfp4 already, with scales that are anything, in columns and in blocks."""
    problem = Problem(comm.size, Shape(hidden=352), 22)
    rng = np.random.default_rng(22)
    for kind, data, scales in (("mxfp8", 352, 11), ("nvfp4", 176, 22)):
        x, x_scales = (
            [rng.integers(0, 256, (len(rows), n)).astype(np.uint8) for rows in problem.x] for n in (data, scales)
        )
        wanted, wanted_scales = (
            reference.dispatch(rows, problem.topk, problem.first, problem.shape.max_tokens)[comm.rank]
            for rows in (x, x_scales)
        )
        with gin_ep.Ep(comm, **problem.config()) as ep:
            for layout in ("columns", "blocks"):
                got = ep.dispatch(
                    x[comm.rank], problem.topk[comm.rank], x_scales=x_scales[comm.rank], rows=kind, scales=layout
                )
                same("count", got.count, wanted.count)
                for i, n in enumerate(wanted.count):
                    found = quant.from_blocks(got.scales[i], n, scales) if layout == "blocks" else got.scales[i, :n]
                    same(f"{kind} data of expert {i}", got.x[i, :n], wanted.x[i, :n].astype(np.uint8))
                    same(f"{kind} scales of expert {i}", found, wanted_scales.x[i, :n].astype(np.uint8))


def case_odd_numbers(comm):
    """Groups with infinities, NaNs, denormals, and zeros only."""
    rng = np.random.default_rng(8)
    x = rng.integers(0, 65536, (16, 256)).astype(np.uint16)
    x[3], x[4] = 0, 0x8000
    x[5] &= 0x807F
    topk = np.full((16, 1), comm.rank, np.int64)
    with gin_ep.Ep(comm, experts=comm.size, topk=1, hidden=256, max_tokens=16) as ep:
        for kind in KINDS[1:3]:
            received = ep.dispatch(x, topk, fp8=True, scales=SCALES[kind])
            for token in range(16):
                codes, scales = quant.quantize(x[token], rounded=kind == "rounded")
                finite = np.repeat(np.isfinite(scales), quant.GROUP)
                same(f"{kind} codes of token {token}", received.x[0, token][finite], codes[finite])
                same(f"{kind} scales of token {token}", received.scales[0, token], scales)


def case_given_fp8(comm):
    """x that is e4m3 already, with its scales."""
    problem = Problem(comm.size, Shape(hidden=272), 21)
    wanted = reference.dispatch(problem.x, problem.topk, problem.first, problem.shape.max_tokens, "f32")
    rows = [quant.quantize(row) for row in problem.x[comm.rank]]
    x = np.array([codes for codes, _ in rows], np.uint8).reshape(-1, 272)
    scales = np.array([scale for _, scale in rows], np.float32).reshape(-1, 3)
    with gin_ep.Ep(comm, **problem.config()) as ep:
        out = poisoned(ep, x, problem.shape.topk, "f32")
        check_received(ep.dispatch(x, problem.topk[comm.rank], x_scales=scales, out=out), wanted[comm.rank])


def case_strides(comm):
    """x whose rows are apart, and x whose rows have to be copied."""
    problem = Problem(comm.size, Shape(), 31)
    wanted = reference.dispatch(problem.x, problem.topk, problem.first, problem.shape.max_tokens)
    own, topk = problem.x[comm.rank], problem.topk[comm.rank]
    apart = np.zeros((len(own), 256), np.uint16)[:, 64:192]
    apart[...] = own
    swapped = np.ascontiguousarray(own.T).T
    with gin_ep.Ep(comm, **problem.config()) as ep:
        for x in (apart, swapped):
            out = poisoned(ep, x, topk.shape[1], "bf16")
            check_received(ep.dispatch(x, np.asfortranarray(topk), out=out), wanted[comm.rank])


def case_statistics(comm):
    problem = Problem(comm.size, Shape(), 41)
    wanted = reference.dispatch(problem.x, problem.topk, problem.first, problem.shape.max_tokens)[comm.rank]
    stats = np.full(len(wanted.count), 5, np.int32)
    cost = np.full(comm.size, 7, np.int64)
    with gin_ep.Ep(comm, **problem.config()) as ep:
        for i in (1, 2):
            ep.dispatch(problem.x[comm.rank], problem.topk[comm.rank], stats=stats, wait_cost=cost)
            same("stats", stats, 5 + i * wanted.count)
    if (cost < 7).any():
        raise AssertionError(f"wait_cost went down: {cost}")


def case_lost_rank(comm):
    """The last rank leaves out a call. on_lost="error": an error, until all ranks reset. "mask": the rest go on."""
    lost = comm.size - 1
    if lost == 0:
        return
    for on_lost in ("error", "mask"):
        problem = Problem(comm.size, Shape(), 51)
        with gin_ep.Ep(comm, timeout=3, on_lost=on_lost, **problem.config()) as ep:
            Layer(comm, ep, problem, "bf16").run()
            comm.barrier()
            if comm.rank != lost:
                {"error": calls_fail, "mask": calls_go_on}[on_lost](comm, ep, problem, lost)
            comm.barrier()
            ep.reset()
            same("masks after reset", ep.masks(), [[False] * comm.size] * 2)
            Layer(comm, ep, problem, "bf16").run()


def case_shrink(comm):
    """The last rank leaves, and the others go on in the memory of their Ep, with all experts."""
    lost = comm.size - 1
    problem = Problem(comm.size, Shape(), 61)
    ep = gin_ep.Ep(comm, **problem.config())
    Layer(comm, ep, problem, "bf16").run()
    comm.barrier()
    if comm.rank != lost:
        with comm.shrink([lost]) as rest:
            same("ranks of the rest", (rest.rank, rest.size), (comm.rank, comm.size - 1))
            fewer = Problem(rest.size, Shape(), 62)
            with ep.shrink(rest, **fewer.config()) as next_ep:
                for kind in ("bf16", "f32"):
                    Layer(rest, next_ep, fewer, kind).run()
    comm.barrier()
    ep.destroy()


def calls_fail(comm, ep, problem, lost):
    for _ in range(2):
        try:
            ep.dispatch(problem.x[comm.rank], problem.topk[comm.rank])
        except gin_ep.GinError:
            continue
        raise AssertionError("a dispatch without one rank has succeeded")
    failure = ep.failure()
    if failure.call != "dispatch receive" or (failure.rank != lost and "has given up" not in failure.sentence):
        raise AssertionError(f"the record is {failure}")
    same("observed", ep.masks()[0][failure.rank], True)


def calls_go_on(comm, ep, problem, lost):
    for _ in range(3):
        Layer(comm, ep, problem, "bf16", without(problem, lost)).run()
    same("masks", ep.masks(), [[rank == lost for rank in range(comm.size)]] * 2)


def case_many(comm):
    """Random shapes and sizes on several Eps at a time."""
    for seed in range(100, 110):
        rng = np.random.default_rng(seed)
        experts = int(rng.integers(1, 12))
        shape = Shape(
            experts, int(rng.integers(1, experts + 1)), 16 * int(rng.integers(1, 20)), int(rng.integers(1, 20))
        )
        print(f"seed {seed}: {shape}", flush=True) if comm.rank == 0 else None
        layers(comm, shape, kinds=(KINDS[seed % 4],), rounds=4, seed=seed)


CASES = {name[5:]: case for name, case in list(globals().items()) if name.startswith("case_")}


def run(comm, names):
    for name in names:
        start = time.monotonic()
        CASES[name](comm)
        comm.barrier()
        if comm.rank == 0:
            print(f"{name}: equal on {comm.size} ranks ({time.monotonic() - start:.1f} s)", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", default="")
    parser.add_argument("--but", help="a case that is left out")
    parser.add_argument("cases", nargs="*", default=[])
    options = parser.parse_args()
    names = [name for name in options.cases or CASES if name != options.but]
    for size in filter(None, options.threads.split(",")):
        gin_ep.run_threads(int(size), run, names)
    if not options.threads:
        with gin_ep.Communicator(device="none") as comm:
            run(comm, names)


if __name__ == "__main__":
    sys.exit(main())
