# SPDX-License-Identifier: BSD-3-Clause
"""The check of an operation against torch, and its times beside torch's and NCCL's."""

import math
import statistics

import torch
import torch.distributed as dist
from common import one_gpu_each


def checked(operation, call, want):
    """Makes a call and compares its whole result with torch's in float32. Returns the error."""
    got = call()
    operation.raise_error()
    error = ((got.float() - want).abs().max() / want.abs().max()).item()
    assert error < 0.02, f"off by {error:.3f} of the largest value"
    return error


def microseconds(function, inside=20, outside=7):
    """Median time of a call, of `inside` calls in a CUDA graph. All ranks call it at one time."""
    for _ in range(4):
        function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(inside):
            function()
    times = []
    for _ in range(outside):
        dist.barrier()
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        graph.replay()
        last.record()
        last.synchronize()
        times.append(first.elapsed_time(last) * 1000 / inside)
    return statistics.median(times)


def measured(call, alone, apart, own):
    """Microseconds of libgin's form, of torch.mm, of torch.mm and NCCL, and of torch's form."""
    fused, mm, nccl = (microseconds(function) for function in (call, alone, apart))
    try:
        fused_by_torch = microseconds(own)
    except RuntimeError as error:
        fused_by_torch = math.nan
        print(f"torch has no form of its own here: {str(error).splitlines()[0]}")
    return fused, mm, nccl, fused_by_torch


def print_times(name, fused, mm, nccl, fused_by_torch):
    if dist.get_rank() == 0:
        print(
            f"{name}: libgin {fused:7.1f} us, torch.mm alone {mm:7.1f}, "
            f"torch.mm + NCCL {nccl:7.1f}: {nccl / fused:.2f} x, "
            f"torch fused {fused_by_torch:7.1f}: {fused_by_torch / fused:.2f} x",
            flush=True,
        )


def compare(name, operation, call, want, alone, apart, own):
    """Checks the results of some calls, and prints the form of the operation and times.

    They are times of torch.mm, of torch.mm and NCCL, and of a form in torch_forms.py. Returns the
    name with the form, the largest error, and the times, none where ranks share a GPU.
    """
    times = ()
    rank, size = operation.comm.rank, operation.comm.size
    name = f"{name}, {operation.form}, {operation.routes() or 'alone'}"
    for _ in range(5):
        error = checked(operation, call, want)
    if one_gpu_each():
        times = measured(call, alone, apart, own)
        print_times(name, *times)
        checked(operation, call, want)
    else:
        print(f"{name}: rank {rank} of {size}: off by {error:.4f}", flush=True)
    operation.comm.barrier()
    operation.close()
    return name, error, times
