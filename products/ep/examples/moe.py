# SPDX-License-Identifier: BSD-3-Clause
"""moe.py - one layer of a mixture of experts, on as many ranks as torchrun starts

    torchrun --nproc-per-node 4 products/ep/examples/moe.py

Each rank has its share of the experts and some tokens. The layer sends the tokens to their experts' ranks,
computes, and brings the weighted sums back; the result is compared with a computation of all experts on
each rank. Runs on GPUs if there is one for each rank, else on the CPU.

A program that uses DeepEP V1 changes the two lines marked (1) and (2), or only (1) if it calls the module
deep_ep.
"""

import os
import time

import torch
import torch.distributed as dist

from gin_ep import deep_ep  # (1) was: import deep_ep

TOKENS, HIDDEN, EXPERTS, TOPK = 64, 256, 16, 4


class MoeLayer:
    """EXPERTS linear layers, divided among the ranks, and a router."""

    def __init__(self, group, device):
        generator = torch.Generator().manual_seed(0)  # equal on all ranks
        self.router = torch.randn(HIDDEN, EXPERTS, generator=generator).to(device)
        self.experts = (torch.randn(EXPERTS, HIDDEN, HIDDEN, generator=generator) / HIDDEN**0.5).to(device)
        local = EXPERTS // group.size()
        self.own = self.experts[group.rank() * local : (group.rank() + 1) * local].bfloat16()
        size = deep_ep.Buffer.get_low_latency_rdma_size_hint(TOKENS, HIDDEN, group.size(), EXPERTS)
        self.buffer = deep_ep.Buffer(group, 0, size, low_latency_mode=True, explicitly_destroy=True)  # (2) unchanged

    def route(self, x):
        """The TOPK experts of each token, and their weights."""
        weights, chosen = (x.float() @ self.router).softmax(-1).topk(TOPK)
        return chosen, weights / weights.sum(-1, keepdim=True)

    def forward(self, x):
        chosen, weights = self.route(x)
        rows, count, handle, _, receive = self.buffer.low_latency_dispatch(
            x, chosen, TOKENS, EXPERTS, use_fp8=False, return_recv_hook=True
        )
        receive()  # other work can go between
        # Rows beyond an expert's count hold no tokens, and combine does not read them. A kernel would skip them.
        computed = torch.bmm(rows.nan_to_num(), self.own)
        combined, _, receive = self.buffer.low_latency_combine(computed, chosen, weights, handle, return_recv_hook=True)
        receive()
        return combined

    def forward_alone(self, x):
        """All experts on this rank, in f32."""
        chosen, weights = self.route(x)
        out = torch.zeros(x.shape, device=x.device)
        for expert in range(EXPERTS):
            token, k = torch.where(chosen == expert)
            out[token] += weights[token, k, None] * (x[token].float() @ self.experts[expert])
        return out


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    on_gpu = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    device = torch.device("cuda", local_rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    group = dist.group.WORLD
    assert EXPERTS % group.size() == 0, f"{EXPERTS} experts are not divisible by {group.size()} ranks"

    layer = MoeLayer(group, device)
    generator = torch.Generator().manual_seed(1 + group.rank())
    x = torch.randn(TOKENS, HIDDEN, generator=generator).bfloat16().to(device)
    out = layer.forward(x)
    error = (out.float() - layer.forward_alone(x)).abs().max().item()

    dist.barrier()
    start = time.perf_counter()
    for _ in range(20):
        layer.forward(x)
    if on_gpu:
        torch.cuda.synchronize()
    each = (time.perf_counter() - start) / 20 * 1e6
    print(
        f"rank {group.rank()} of {group.size()} on {device}: largest error {error:.4f}, {each:.0f} us a layer",
        flush=True,
    )
    assert error < 0.05, "the layer's result is wrong"

    layer.buffer.destroy()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
