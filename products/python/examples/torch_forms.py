# SPDX-License-Identifier: BSD-3-Clause
"""torch's own forms of the operations, over its symmetric memory, to compare the times with.

The first two are what torch.compile makes of tensor parallelism ("async TP").
"""

import functools

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem


@functools.cache
def group():
    """Enables symmetric memory for the default group. Returns the group's name."""
    name = dist.group.WORLD.group_name
    symm_mem.enable_symm_mem_for_group(name)
    return name


def gemm_reduce_scatter(a, b):
    return lambda: torch.ops.symm_mem.fused_matmul_reduce_scatter(a, b, "sum", 0, group())


def all_gather_gemm(a, b):
    return lambda: torch.ops.symm_mem.fused_all_gather_matmul(a, [b], 0, group())[1][0]


def gemm_all_reduce(a, b):
    @functools.cache
    def product():
        tensor = symm_mem.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
        symm_mem.rendezvous(tensor, group())
        return tensor

    def call():
        torch.mm(a, b, out=product())
        return torch.ops.symm_mem.one_shot_all_reduce(product(), "sum", group())

    return call
