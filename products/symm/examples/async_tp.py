# SPDX-License-Identifier: BSD-3-Clause
"""Async tensor parallelism of PyTorch with backend GIN: a GEMM that begins while its operand is still gathered.

    torchrun --nproc-per-node 2 async_tp.py [ROWS,N,K]

With matrices smaller than the default's, the launches of the pieces take longer than the GEMM;
`bench/symm/run times` measures both, also in CUDA graphs, which launch at once.
"""

import os
import sys

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem

import libgin.torch_symm


def close(got, wanted):
    torch.testing.assert_close(got, wanted, atol=2e-2, rtol=2e-2)


def milliseconds(function, repeats=20):
    for _ in range(3):
        function()
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    for _ in range(repeats):
        function()
    last.record()
    torch.cuda.synchronize()
    return first.elapsed_time(last) / repeats


def gather_then_multiply(shard, weight, size):
    whole = torch.empty(size * shard.shape[0], shard.shape[1], dtype=shard.dtype, device=shard.device)
    dist.all_gather_into_tensor(whole, shard)
    return whole @ weight


def main():
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    rows, n, k = map(int, (sys.argv[1:] or ["16384,8192,8192"])[0].split(","))
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    symm_mem.set_backend("GIN")
    name = dist.group.WORLD.group_name
    torch.manual_seed(rank)
    shard = torch.randn(rows // size, k, device=device, dtype=torch.bfloat16) / k**0.25
    weight = torch.randn(k, n // size, device=device, dtype=torch.bfloat16) / k**0.25

    def fused():
        return torch.ops.symm_mem.fused_all_gather_matmul(shard, [weight], gather_dim=0, group_name=name)[1][0]

    def plain():
        return gather_then_multiply(shard, weight, size)

    close(fused(), plain())
    libgin.torch_symm.check()
    times = milliseconds(fused), milliseconds(plain)
    if rank == 0:
        fused_ms, plain_ms = times
        print(f"{size} ranks: right; fused {fused_ms:.3f} ms, one after the other {plain_ms:.3f} ms")
    libgin.torch_symm.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
