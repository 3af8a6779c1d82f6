# SPDX-License-Identifier: BSD-3-Clause
"""train.py - two training steps of a mixture of experts, by calls of high throughput

    torchrun --nproc-per-node 4 products/ep/examples/train.py

Each rank has its share of the experts and of the tokens. Rows go to their experts' ranks and come back; backward of
dispatch is a combine by the same handle, and backward of combine a dispatch. Each rank compares its experts after two
steps, and the gradients of its tokens and weights, with those of a training of all tokens on one rank: numbers are so
small that bf16 holds all of them, so the two are equal. Runs on GPUs if there is one for each rank, else on the CPU.

A program that uses DeepEP V1 changes the line marked (1), or nothing if it calls the module deep_ep.
"""

import os

import torch
import torch.distributed as dist

from gin_ep import deep_ep  # (1) was: import deep_ep

TOKENS, HIDDEN, EXPERTS, TOPK, STEPS = 24, 64, 8, 2, 2


class Dispatch(torch.autograd.Function):
    """Rows and weights to the ranks of their experts."""

    @staticmethod
    def forward(ctx, x, weights, chosen, buffer):
        per_rank, _, per_expert, in_rank, _ = buffer.get_dispatch_layout(chosen, EXPERTS)
        rows, expert, row_weights, _, handle, _ = buffer.dispatch(
            x,
            num_tokens_per_rank=per_rank,
            is_token_in_rank=in_rank,
            num_tokens_per_expert=per_expert,
            topk_idx=chosen,
            topk_weights=weights,
        )
        ctx.buffer, ctx.handle = buffer, handle
        ctx.mark_non_differentiable(expert)
        return rows, row_weights, expert, handle

    @staticmethod
    def backward(ctx, rows, row_weights, *_):
        x, weights, _ = ctx.buffer.combine(rows.contiguous(), ctx.handle, topk_weights=row_weights)
        return x, weights, None, None


class Combine(torch.autograd.Function):
    """The sums of the ranks' rows to their tokens."""

    @staticmethod
    def forward(ctx, rows, buffer, handle):
        ctx.buffer, ctx.handle = buffer, handle
        return buffer.combine(rows, handle)[0]

    @staticmethod
    def backward(ctx, out):
        rows = ctx.buffer.dispatch(out.contiguous(), handle=ctx.handle)[0]
        return rows, None, None


def compute(rows, weights, expert, own):
    """The weighted sums of the experts `own`; `expert` -1: none."""
    out = torch.zeros_like(rows)
    for number, matrix in enumerate(own):
        part = torch.where(expert == number, weights, 0).sum(1, keepdim=True).to(rows.dtype)
        out = out + part * (rows @ matrix)
    return out


def tokens_of(rank):
    """Small integers, and a choice of experts: equal wherever it is called."""
    generator = torch.Generator().manual_seed(rank)
    x = torch.randint(-1, 2, (TOKENS, HIDDEN), generator=generator).bfloat16()
    x *= torch.rand(TOKENS, HIDDEN, generator=generator) < 0.05
    chosen = torch.rand(TOKENS, EXPERTS, generator=generator).topk(TOPK).indices
    return x, torch.randint(0, 2, (TOKENS, TOPK), generator=generator).float(), chosen


def matrices():
    generator = torch.Generator().manual_seed(1000)
    dense = torch.randint(-1, 2, (EXPERTS, HIDDEN, HIDDEN), generator=generator).bfloat16()
    return dense * (torch.rand(dense.shape, generator=generator) < 0.05)


def train(own, forward):
    """STEPS steps of the loss sum(out): the gradient of each matrix is added to it, clipped."""
    for _ in range(STEPS):
        own = own.detach().requires_grad_()
        forward(own).sum().backward()
        own = own.detach() - own.grad.clamp(-1, 1)
    return own


def main():
    local_rank, ranks = int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
    on_gpu = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    device = torch.device("cuda", local_rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rank, each = dist.get_rank(), EXPERTS // ranks
    assert EXPERTS % ranks == 0, f"{EXPERTS} experts are not divisible by {ranks} ranks"

    buffer = deep_ep.Buffer(dist.group.WORLD, 1 << 26, 0, explicitly_destroy=True)
    x, weights, chosen = (tensor.to(device) for tensor in tokens_of(rank))
    parts = zip(*map(tokens_of, range(ranks)), strict=True)
    all_x, all_weights, all_chosen = (torch.cat(part).to(device) for part in parts)
    for leaf in x, weights, all_x, all_weights:
        leaf.requires_grad_()

    def layer(own):
        rows, row_weights, expert, handle = Dispatch.apply(x, weights, chosen, buffer)
        return Combine.apply(compute(rows, row_weights, expert, own), buffer, handle)

    def alone(all_experts):
        return compute(all_x, all_weights, all_chosen, all_experts)

    mine, tokens = slice(rank * each, (rank + 1) * each), slice(rank * TOKENS, (rank + 1) * TOKENS)
    start = matrices().to(device)
    trained, wanted = train(start[mine], layer), train(start, alone)
    pairs = (trained, wanted[mine]), (x.grad, all_x.grad[tokens]), (weights.grad, all_weights.grad[tokens])
    same = all(torch.equal(one, other) for one, other in pairs)
    changed = int((trained != start[mine]).sum())
    print(f"rank {rank} of {ranks} on {device}: {changed} elements changed, as on one rank: {same}", flush=True)
    assert same and changed and x.grad.any() and weights.grad.any(), "the training differs"
    buffer.destroy()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
