# SPDX-License-Identifier: BSD-3-Clause
"""callers.py NAME TREE PROCESSES - code of programs that call DeepEP, unchanged, on gin_ep; the script `callers` runs it

The caller's own functions route tokens to experts and back, forward and, where they have one, backward. Numbers are so
small that all sums are exact: results are equal to those of one rank bit by bit. GPUs are used if there are any; processes
may share them.
"""

import importlib
import os
import subprocess
import sys
import tempfile
import types

import torch
import torch.distributed as dist

HIDDEN, TOPK, TOKENS = 128, 3, 40  # low latency of DeepEP wants scales of 128 elements
DEVICE = f"cuda:{int(os.environ.get('RANK', 0)) % torch.cuda.device_count()}" if torch.cuda.device_count() else "cpu"


class Layer:
    """A rank's tokens; expert e multiplies by 1, 2 or 4."""

    def __init__(self, group, seed):
        self.ranks, self.rank, self.each = group.size(), group.rank(), 4
        self.experts, self.tokens = self.each * self.ranks, TOKENS - 3 * self.rank
        make = torch.Generator().manual_seed(100 * seed + self.rank)
        small = lambda shape: torch.randint(-2, 3, shape, generator=make).to(torch.bfloat16).to(DEVICE)  # noqa: E731
        self.x, self.gradient = small((self.tokens, HIDDEN)), small((self.tokens, HIDDEN))
        self.idx = torch.rand(self.tokens, self.experts, generator=make).topk(TOPK, dim=1).indices.to(DEVICE)
        self.weights = 0.5 ** torch.randint(0, 3, (self.tokens, TOPK), generator=make).float().to(DEVICE)

    def factor(self, expert):
        return 2.0 ** (expert % 3)

    def own(self, rows, counts):
        """Own experts' answers to rows that lie expert after expert, `counts` each."""
        factors = [self.factor(self.rank * self.each + e) for e in range(self.each)]
        return rows * torch.tensor(factors, device=rows.device).repeat_interleave(counts).to(rows.dtype)[:, None]

    def dense(self):
        """[tokens, experts] routing map and weights."""
        weights = torch.zeros(self.tokens, self.experts, device=DEVICE).scatter_(1, self.idx, self.weights)
        return weights > 0, weights

    def check(self, what, y, x=None, weights=None):
        """The sum over k, and the gradients of x and of [tokens, k] weights."""
        factors = self.factor(self.idx)
        scales = (self.weights * factors).sum(1, keepdim=True)
        same(f"{what}: sums", y, self.x.float() * scales)
        if x is not None:
            same(f"{what}: gradient of x", x.grad, self.gradient.float() * scales)
        if weights is not None:
            inner = (self.x.float() * self.gradient.float()).sum(1, keepdim=True)
            same(f"{what}: gradient of weights", weights, inner * factors)


def same(what, found, wanted):
    if not torch.equal(found.float(), wanted.float()):
        wrong = found.float() != wanted.float()
        raise AssertionError(f"{what}: {int(wrong.sum())} of {wrong.numel()} values differ")


def bare(tree, *packages):
    """Packages of the tree whose __init__.py is not run: it needs more than the module that is wanted."""
    for name in packages:
        sys.modules[name] = package = types.ModuleType(name)
        package.__path__ = [f"{tree}/{name.replace('.', '/')}"]


def megatron(tree, group):
    sys.path.insert(0, tree)
    from megatron.core.transformer.moe.token_dispatcher import _DeepepManager
    from megatron.core.transformer.transformer_config import TransformerConfig

    for seed, is_async in enumerate((False, True, False)):
        layer = Layer(group, seed)
        config = TransformerConfig(
            num_layers=1, hidden_size=HIDDEN, num_attention_heads=4, num_moe_experts=layer.experts,
            moe_router_topk=TOPK, moe_token_dispatcher_type="flex", moe_flex_dispatcher_backend="deepep",
            moe_router_dtype="fp32", bf16=True, add_bias_linear=False,
        )  # fmt: skip
        manager = _DeepepManager(group, layer.each, TOPK, layer.experts, config)
        routing, weights = layer.dense()
        x, weights = layer.x.clone().requires_grad_(), weights.requires_grad_()
        manager.setup_metadata(routing, weights)
        rows = manager.dispatch(x, async_finish=is_async, allocate_on_comm_stream=is_async)
        rows, row_weights = manager.get_permuted_hidden_states_by_experts(rows)
        counts = manager.get_number_of_tokens_per_expert().to(DEVICE)
        answers = layer.own(rows, counts) * row_weights[:, None].to(rows.dtype)
        y = manager.combine(
            manager.get_restored_hidden_states_by_experts(answers), async_finish=is_async,
            allocate_on_comm_stream=is_async,
        )  # fmt: skip
        y.backward(layer.gradient)
        layer.check("megatron", y, x, weights.grad.gather(1, layer.idx))


def torchtitan(tree, group):
    bare(tree, "torchtitan", "torchtitan.distributed", "torchtitan.distributed.deepep")
    titan = importlib.import_module("torchtitan.distributed.deepep.deepep")
    if DEVICE == "cpu":  # the file has operators for GPUs
        torch.library.impl("deepep::dispatch", "CPU")(titan._dispatch_op_impl)
        torch.library.impl("deepep::combine", "CPU")(titan._combine_op_impl)
    titan.get_buffer(group, hidden=HIDDEN, num_max_tokens_per_rank=TOKENS, num_topk=TOPK)
    for seed, is_inference in enumerate((False, True, False)):
        layer = Layer(group, seed)
        x, weights = layer.x.clone().requires_grad_(), layer.weights.clone().requires_grad_()
        with torch.set_grad_enabled(not is_inference):
            rows, counts, state = titan.dispatch_tokens(
                x, layer.idx, weights, layer.each, layer.experts, num_tokens_per_rank=TOKENS,
                cudagraphable=is_inference,
            )  # fmt: skip
            used = int(counts.sum())
            answers = torch.cat([layer.own(rows[:used], counts), torch.zeros_like(rows[used:])])
            y = titan.combine_tokens(answers, state)
            titan.sync_combine()
        if is_inference:
            layer.check("torchtitan, inference", y)
        else:
            y.backward(layer.gradient)
            layer.check("torchtitan", y, x, weights.grad)


def lmdeploy(tree, group):
    backends = "lmdeploy.pytorch.backends"
    bare(tree, "lmdeploy", "lmdeploy.pytorch", backends, f"{backends}.cuda", f"{backends}.default")
    theirs = importlib.import_module(f"{backends}.cuda.token_dispatcher")

    for seed in range(4):
        layer = Layer(group, seed)
        given = group, layer.experts, layer.each, HIDDEN, torch.bfloat16
        if seed % 2 == 0:
            dispatcher = theirs.DeepEPTokenDispatcher(*given)
            rows, _, _, counts = dispatcher.dispatch(layer.x, layer.idx, layer.weights)
            layer.check("lmdeploy, normal", dispatcher.combine(layer.own(rows, counts)))
            continue
        dispatcher = theirs.DeepEPTokenDispatcherLowLatency(*given, return_recv_hook=seed == 1)
        (rows, scales), idx, weights, _, _ = dispatcher.dispatch(layer.x, layer.idx, layer.weights, layer.experts)
        wide = rows.value.float().view(*scales.value.shape, 128) * scales.value[..., None]
        wide = wide.flatten(2).to(torch.bfloat16)
        most = torch.full((layer.each,), wide.shape[1], device=DEVICE)
        answers = layer.own(wide.flatten(0, 1), most).view_as(wide)
        layer.check("lmdeploy, low latency", dispatcher.combine(answers, idx, weights))


def run(name, tree):
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if DEVICE != "cpu":
        torch.cuda.set_device(DEVICE)
    dist.init_process_group("gloo", init_method=f"file://{os.environ['STORE']}", rank=rank, world_size=size)
    {"megatron": megatron, "torchtitan": torchtitan, "lmdeploy": lmdeploy}[name](tree, dist.group.WORLD)
    dist.barrier()
    if rank == 0:
        print(f"{name}: equal on {size} ranks, {DEVICE.partition(':')[0]}", flush=True)


def main():
    if "RANK" in os.environ:
        return run(*sys.argv[1:3])
    with tempfile.TemporaryDirectory() as scratch:
        base = {**os.environ, "STORE": f"{scratch}/store", "WORLD_SIZE": sys.argv[3]}
        ranks = [
            subprocess.Popen([sys.executable, __file__, *sys.argv[1:3]], env={**base, "RANK": str(rank)})
            for rank in range(int(sys.argv[3]))
        ]
        return max(rank.wait() for rank in ranks)


if __name__ == "__main__":
    sys.exit(main())
