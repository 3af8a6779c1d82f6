# SPDX-License-Identifier: BSD-3-Clause
"""What the GEMM examples share: ranks, timing, checks."""

import os
import statistics
from contextlib import contextmanager

import torch
import torch.distributed as dist

import libgin.torch


def on_gpus():
    return torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1"


@contextmanager
def ranks(**options):
    """A communicator of the ranks that torchrun, or RANK and WORLD_SIZE, started."""
    if on_gpus():
        torch.cuda.set_device(int(os.environ["RANK"]) % torch.cuda.device_count())
    dist.init_process_group("nccl" if on_gpus() else "gloo")
    device = torch.cuda.current_device() if on_gpus() else "none"
    with libgin.torch.communicator(device=device, **options) as comm:
        yield comm
    dist.destroy_process_group()


def device():
    return torch.device("cuda", torch.cuda.current_device()) if on_gpus() else torch.device("cpu")


def dtype():
    """Triton's interpreter multiplies no bfloat16."""
    return torch.bfloat16 if on_gpus() else torch.float16


def operand(rows, columns, scale=1.0):
    return (torch.randn(rows, columns, device=device()) * scale).to(dtype())


def by_all_direct(comm):
    """Whether kernels reach every peer by loads and stores."""
    return all(comm.peer(rank).backend == "direct" for rank in range(comm.size))


def check(got, want):
    """Compares a whole result with torch's in float32."""
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


def table(name, fused, alone, apart, error):
    if dist.get_rank() == 0:
        print(
            f"{name:22} libgin {fused:7.1f} us, torch.mm alone {alone:7.1f}, "
            f"torch.mm + NCCL {apart:7.1f}: {apart / fused:.2f} x (off by {error:.4f})",
            flush=True,
        )
