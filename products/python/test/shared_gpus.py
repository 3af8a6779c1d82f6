# SPDX-License-Identifier: BSD-3-Clause
"""A sitecustomize for programs that give each rank a GPU: with fewer GPUs, ranks share them.

torch.cuda.set_device() is taken modulo the number of GPUs, and torch.distributed uses gloo: NCCL wants a GPU for a rank.
"""

import functools

import torch
import torch.distributed as dist

GPUS = torch.cuda.device_count()
set_device, init_process_group = torch.cuda.set_device, dist.init_process_group
all_gather_into_tensor = dist.all_gather_into_tensor


@functools.wraps(init_process_group)
def init_by_gloo(**arguments):
    arguments.pop("device_id", None)
    init_process_group(**{**arguments, "backend": "gloo"})


# gloo wants an output of the input's dimensions.
@functools.wraps(all_gather_into_tensor)
def all_gather_by_gloo(out, own, **arguments):
    return all_gather_into_tensor(out.view(-1, *own.shape[1:]), own, **arguments)


dist.all_gather_into_tensor = all_gather_by_gloo
torch.cuda.set_device = lambda device: set_device(device % GPUS)
dist.init_process_group = init_by_gloo
