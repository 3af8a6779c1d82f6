# SPDX-License-Identifier: BSD-3-Clause
"""callers.py NAME TREE PROCESSES - code of programs that call DeepEP, unchanged, on gin_ep: for the script `callers`

The caller's own functions route tokens to experts and back, forward and, where they have one, backward. Numbers are so
small that all sums are exact: results are equal to those of one rank bit by bit. GPUs are used if there are any;
processes may share them.
"""

import importlib
import os
import subprocess
import sys
import tempfile
import types
from unittest import mock

import torch
import torch.distributed as dist

HIDDEN, TOPK, TOKENS = 128, 3, 40
DEVICE = f"cuda:{int(os.environ.get('RANK', 0)) % torch.cuda.device_count()}" if torch.cuda.device_count() else "cpu"


class Layer:
    """A rank's tokens; expert e multiplies by 1, 2 or 4."""

    def __init__(self, group, seed, hidden=HIDDEN):
        self.ranks, self.rank, self.each = group.size(), group.rank(), 4
        self.experts, self.tokens = self.each * self.ranks, TOKENS - 3 * self.rank
        make = torch.Generator().manual_seed(100 * seed + self.rank)
        small = lambda shape: torch.randint(-2, 3, shape, generator=make).to(torch.bfloat16).to(DEVICE)  # noqa: E731
        self.x, self.gradient = small((self.tokens, hidden)), small((self.tokens, hidden))
        self.idx = torch.rand(self.tokens, self.experts, generator=make).topk(TOPK, dim=1).indices.to(DEVICE)
        self.weights = 0.5 ** torch.randint(0, 3, (self.tokens, TOPK), generator=make).float().to(DEVICE)

    def factor(self, expert):
        return 2.0 ** (expert % 3)

    def own(self, rows, counts):
        """Own experts' answers to rows that lie expert after expert, `counts` each."""
        factors = [self.factor(self.rank * self.each + e) for e in range(self.each)]
        return rows * torch.tensor(factors, device=rows.device).repeat_interleave(counts).to(rows.dtype)[:, None]

    def own_of_experts(self, rows):
        """Own experts' answers to low latency's rows, [experts, rows, hidden]."""
        counts = torch.full((self.each,), rows.shape[1], device=rows.device)
        return self.own(rows.flatten(0, 1), counts).view_as(rows)

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


def stand_in(name, **has):
    """A module that is not read: it has what a caller imports, and `has`."""
    sys.modules[name] = made = mock.MagicMock(name=name, **has)
    parent, _, last = name.rpartition(".")
    setattr(sys.modules[parent], last, made)


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
        layer.check("lmdeploy, low latency", dispatcher.combine(layer.own_of_experts(wide), idx, weights))


def vllm(tree, group):
    fused = "vllm.model_executor.layers.fused_moe"
    bare(tree, "vllm", "vllm.model_executor", "vllm.model_executor.layers", fused, f"{fused}.prepare_finalize")
    bare(tree, "vllm.v1", "vllm.v1.worker")
    stages = [importlib.import_module(f"{fused}.prepare_finalize.deepep_{kind}") for kind in ("ht", "ll")]
    plain = importlib.import_module(f"{fused}.config").FUSED_MOE_UNQUANTIZED_CONFIG
    reduces = importlib.import_module(f"{fused}.topk_weight_and_reduce")
    import deep_ep

    hidden = 2048  # low latency knows no smaller one
    layer = Layer(group, 0, hidden)
    ranks, experts = layer.ranks, layer.experts
    buffer = deep_ep.Buffer(group, 1 << 30, 0, num_qps_per_rank=1)
    stage = stages[0].DeepEPHTPrepareAndFinalize(buffer, ranks, 1, layer.rank * layer.each)
    for seed in range(2):
        layer = Layer(group, seed, hidden)
        y = torch.empty_like(layer.x)
        rows, _, meta, ids, weights = stage.prepare(layer.x, layer.weights, layer.idx, experts, None, False, plain)
        own = (ids // layer.each == layer.rank) * weights * layer.factor(ids)
        answers = (rows.float() * own.sum(1, keepdim=True)).to(rows.dtype)
        stage.finalize(y, answers, weights, ids, False, reduces.TopKWeightAndReduceNoOP())
        layer.check("vllm, high throughput", y)
    bytes_ = deep_ep.Buffer.get_low_latency_rdma_size_hint(TOKENS, hidden, ranks, experts)
    buffer = deep_ep.Buffer(group, 0, bytes_, low_latency_mode=True, num_qps_per_rank=layer.each)
    for seed, fp8 in enumerate((False, True)):
        layer = Layer(group, seed, hidden)
        y = torch.empty_like(layer.x)
        stage = stages[1].DeepEPLLPrepareAndFinalize(buffer, TOKENS, ranks, use_fp8_dispatch=fp8)
        rows = stage.prepare(layer.x, layer.weights, layer.idx, experts, None, False, plain)[0]
        answers = layer.own_of_experts(rows)
        stage.finalize(y, answers, layer.weights, layer.idx, False, reduces.TopKWeightAndReduceDelegate())
        layer.check("vllm, low latency", y)


def sglang(tree, group):
    srt, moe = "sglang.srt", "sglang.srt.layers.moe"
    bare(f"{tree}/python", "sglang", srt, f"{srt}.layers", moe, f"{moe}.token_dispatcher", f"{srt}.layers.quantization")
    bare(f"{tree}/python", f"{srt}.eplb", f"{srt}.distributed")
    for name in "layers.quantization.fp8_kernel", "distributed.parallel_state", "eplb.expert_distribution":
        stand_in(f"{srt}.{name}")
    no = {name: lambda *_: False for name in ("is_npu", "is_hip", "is_blackwell", "get_bool_env_var")}
    stand_in(f"{srt}.utils", **no)
    stand_in(f"{srt}.server_args", get_global_server_args=lambda: None)
    stand_in(f"{srt}.layers.deep_gemm_wrapper", ENABLE_JIT_DEEPGEMM=True, DEEPGEMM_BLACKWELL=False)
    stand_in(f"{moe}.topk", BypassedTopKOutput=mock.MagicMock)
    stand_in(f"{srt}.layers.dp_attention", get_is_extend_in_batch=lambda: is_normal)
    if DEVICE == "cpu":
        torch.cuda.get_device_properties = mock.MagicMock(return_value=mock.MagicMock(multi_processor_count=4))
    theirs = importlib.import_module(f"{moe}.token_dispatcher.deepep")

    # One buffer serves both modes.
    for seed, (is_normal, waits) in enumerate(((True, False), (False, False), (True, True), (False, True))):
        layer = Layer(group, seed)
        dispatcher = theirs.DeepEPDispatcher(
            group, TOPK, num_experts=layer.experts, num_local_experts=layer.each, hidden_size=HIDDEN,
            params_dtype=torch.bfloat16, async_finish=waits, return_recv_hook=waits,
        )  # fmt: skip
        dispatcher.set_quant_config({"dispatcher_output_dtype": "bf16"})
        chosen = types.SimpleNamespace(topk_weights=layer.weights, topk_ids=layer.idx)
        out = dispatcher.dispatch(layer.x, chosen)
        if is_normal:
            own = (out.topk_ids >= 0) * out.topk_weights * layer.factor(layer.rank * layer.each + out.topk_ids)
            answers = (out.hidden_states.float() * own.sum(1, keepdim=True)).to(torch.bfloat16)
            given = theirs.DeepEPNormalCombineInput(answers, out.topk_ids, out.topk_weights)
        else:
            answers = layer.own_of_experts(out.hidden_states)
            given = theirs.DeepEPLLCombineInput(answers, out.topk_ids, out.topk_weights)
        layer.check("sglang", dispatcher.combine(given))


CALLERS = {"megatron": megatron, "torchtitan": torchtitan, "lmdeploy": lmdeploy, "vllm": vllm, "sglang": sglang}


def run(name, tree):
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if DEVICE != "cpu":
        torch.cuda.set_device(DEVICE)
    dist.init_process_group("gloo", init_method=f"file://{os.environ['STORE']}", rank=rank, world_size=size)
    CALLERS[name](tree, dist.group.WORLD)
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
