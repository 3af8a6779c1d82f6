# SPDX-License-Identifier: BSD-3-Clause
"""The start of DeepEP's tests."""

import os
import random

import torch
import torch.distributed as dist

_local_rank = None
_seed = 0


def init_seed(global_seed):
    """Seeds torch and random by the seed plus the rank."""
    global _seed
    _seed = global_seed
    torch.manual_seed(get_local_seed())
    random.seed(get_local_seed())


def get_global_seed():
    return _seed


def get_local_seed():
    return _seed + dist.get_rank()


def init_dist(local_rank, num_local_ranks, seed=0):
    """(rank, ranks, group), by NCCL. WORLD_SIZE and RANK are numbers of nodes, as in DeepEP's tests."""
    global _local_rank
    _local_rank = local_rank
    address, port = os.getenv("MASTER_ADDR", "127.0.0.1"), os.getenv("MASTER_PORT", "8361")
    ranks = int(os.getenv("WORLD_SIZE", "1")) * num_local_ranks
    dist.init_process_group(
        backend="nccl",
        init_method=f"tcp://{address}:{port}",
        world_size=ranks,
        rank=int(os.getenv("RANK", "0")) * num_local_ranks + local_rank,
        device_id=torch.device("cuda", local_rank),
    )
    torch.set_default_dtype(torch.bfloat16)
    torch.set_default_device("cuda")
    torch.cuda.set_device(local_rank)
    init_seed(seed)
    return dist.get_rank(), ranks, dist.new_group(list(range(ranks)))


def dist_print(s="", once_in_node=False):
    """Prints on all ranks, or on the first one of each node; then a barrier."""
    if not once_in_node or _local_rank == 0:
        print(s, flush=True)
    dist.barrier()
