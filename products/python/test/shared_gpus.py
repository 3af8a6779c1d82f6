# SPDX-License-Identifier: BSD-3-Clause
"""A sitecustomize for programs that give each rank a GPU: with fewer GPUs, ranks share them.

torch.cuda.set_device() is taken modulo the number of GPUs, and torch.distributed uses gloo: NCCL wants a GPU for a rank.
"""

import functools

import torch
import torch.distributed as dist

GPUS = torch.cuda.device_count()
set_device, init_process_group = torch.cuda.set_device, dist.init_process_group
all_gather_into_tensor, all_to_all_single = dist.all_gather_into_tensor, dist.all_to_all_single


@functools.wraps(init_process_group)
def init_by_gloo(**arguments):
    arguments.pop("device_id", None)
    init_process_group(**{**arguments, "backend": "gloo"})


# gloo wants an output of the input's dimensions.
@functools.wraps(all_gather_into_tensor)
def all_gather_by_gloo(out, own, **arguments):
    return all_gather_into_tensor(out.view(-1, *own.shape[1:]), own, **arguments)


def rows_of_bytes(tensor):
    return tensor.cpu().contiguous().view(tensor.shape[0], -1).view(torch.uint8)


# gloo has no all-to-all for GPUs, and not for each type.
@functools.wraps(all_to_all_single)
def all_to_all_by_gloo(out, own, *arguments, **more):
    received = torch.empty_like(rows_of_bytes(out))
    all_to_all_single(received, rows_of_bytes(own), *arguments, **more)
    out.copy_(received.view(out.dtype).view(out.shape))


dist.all_gather_into_tensor = all_gather_by_gloo
dist.all_to_all_single = all_to_all_by_gloo
torch.cuda.set_device = lambda device: set_device(device % GPUS)
dist.init_process_group = init_by_gloo
