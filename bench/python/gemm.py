# SPDX-License-Identifier: BSD-3-Clause
"""gemm.py ROUNDS [EXAMPLE...] - rows of tables: the GEMM examples beside torch and NCCL.

Processes with a GPU each; bench/python/run starts them. Each round makes a new operation, checks
its results in full, and takes its times.
"""

import importlib
import math
import statistics
import sys
from contextlib import redirect_stdout

import torch
import torch.distributed as dist
from common import ranks

import libgin.torch

OPERATIONS = {
    "gemm_rs": "GEMM + reduce-scatter",
    "ag_gemm": "all-gather + GEMM",
    "gemm_ar": "GEMM + all-reduce",
}
COLUMNS = "operation", "form", "M x N x K", "libgin", "torch.mm", "torch.mm + NCCL", "gain", "torch"
HEADER = " | ".join((*COLUMNS, "gain", "largest error"))


def spread(values):
    """The median, and the lowest and highest value. Empty where torch has no form here."""
    if math.isnan(sum(values)):
        return ""
    low, high = min(values), max(values)
    return f"{statistics.median(values):.1f} ({low:.1f} to {high:.1f})"


def gain(others, own):
    """Of the medians."""
    ratio = statistics.median(others) / statistics.median(own)
    return "" if math.isnan(ratio) else f"{ratio:.2f} x"


def row(operation, shape, results):
    form = results[0][0].split(", ", 1)[1]
    own, mm, nccl, fused = zip(*(times for _, _, times in results), strict=True)
    gains = [gain(nccl, own), gain(fused, own)]
    times = [spread(values) for values in (own, mm, nccl, fused)]
    times[3:3] = gains[:1]
    error = f"{max(error for _, error, _ in results):.4f}"
    return " | ".join([operation, form, shape, *times, gains[1], error])


def rows(comm, name, rounds):
    example = importlib.import_module(name)
    for shape in example.SHAPES:
        sides = [int(side) for side in shape.split(",")]
        with redirect_stdout(sys.stderr):  # the lines that the example prints
            results = [example.run(comm, *sides) for _ in range(rounds)]
        if comm.rank == 0:
            print(f"| {row(OPERATIONS[name], ' x '.join(map(str, sides)), results)} |", flush=True)


def versions():
    nccl = ".".join(map(str, torch.cuda.nccl.version()))
    triton = importlib.import_module("triton").__version__
    return f"CUDA {torch.version.cuda}, torch {torch.__version__}, Triton {triton}, NCCL {nccl}"


def main(rounds, *names):
    with ranks(copy_engines=True) as engines, libgin.torch.communicator() as comm:
        if comm.rank == 0:
            device = torch.cuda.get_device_name()
            print(f"- {comm.size} {device}; {versions()}; bf16; microseconds")
            print(f"\n| {HEADER} |\n{'|---' * (len(COLUMNS) + 2)}|", flush=True)
        for name in names or OPERATIONS:
            rows(comm if name == "gemm_ar" else engines, name, int(rounds))
            dist.barrier()


if __name__ == "__main__":
    main(*sys.argv[1:])
