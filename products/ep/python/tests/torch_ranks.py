# SPDX-License-Identifier: BSD-3-Clause
"""torch_ranks.py [--threads N,... | --processes N] [--cuda] [CASE...] - gin_ep.deep_ep, against the reference

The ranks are N threads, for each N, or N processes that torch.distributed connects (gloo). The calls have the shapes of
vLLM's, SGLang's and DeepEP's own. --cuda: tensors on GPUs, one for each rank; else on the CPU.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import torch

import elastic_cases
import gin_ep
import quant
import reference
from gin_ep import deep_ep
from problem import Problem, Shape, all_e4m3_rows, refuses, run_experts, same, without

DEVICE = "cpu"


def to_torch(array, dtype=None):
    tensor = torch.from_numpy(array if array.dtype != np.uint16 else array.view(np.int16))
    return tensor.view(dtype).to(DEVICE) if dtype else tensor.to(DEVICE)


def to_numpy(tensor):
    """bf16 as uint16, e4m3 as uint8."""
    if tensor.is_cuda:
        torch.cuda.current_stream().synchronize()  # before a copy to memory that is not pinned: gin_ep(7)
    tensor = tensor.cpu()
    if tensor.dtype == torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view(np.uint16)
    if tensor.dtype == torch.float8_e4m3fn:
        return tensor.contiguous().view(torch.uint8).numpy()
    return tensor.numpy()


class Layer:
    """One problem: what this rank passes, and what it has to get."""

    def __init__(self, comm, shape, seed):
        problem = Problem(comm.size, shape, seed)
        self.problem, self.me = problem, comm.rank
        self.x = to_torch(problem.x[self.me], torch.bfloat16)
        self.topk = to_torch(problem.topk[self.me])
        self.weights = to_torch(problem.weights[self.me])
        self.most, self.experts = shape.max_tokens, shape.experts

    def wanted(self, kind):
        problem = self.problem
        return reference.dispatch(problem.x, problem.topk, problem.first, self.most, kind)

    def check(self, recv_x, count, handle, kind):
        """Compares what dispatch gave; returns the experts' rows of this rank."""
        wanted = self.wanted(kind)
        own = wanted[self.me]
        x, scales = recv_x if kind != "bf16" else (recv_x, None)
        same("count", to_numpy(count), own.count)
        src_info, layout_range, most, hidden, experts = handle
        same("layout_range", to_numpy(layout_range), own.layout_range)
        same("handle", (most, hidden, experts), (self.most, self.problem.shape.hidden, self.experts))
        same("shape of x", x.shape, own.x.shape)
        seen = gin_ep.Dispatched(to_numpy(x), None, own.count, to_numpy(src_info), None, None, None, None)
        if scales is not None:
            same("strides of scales", scales.stride()[-2:], (1, scales.shape[1]))
            seen.scales = np.ascontiguousarray(to_numpy(scales))
        for expert, n in enumerate(own.count):
            same("x", seen.x[expert, :n], own.x[expert, :n])
            same("src_info", seen.src_info[expert, :n], own.src_info[expert, :n])
            if scales is not None:
                same("scales", seen.scales[expert, :n], own.scales[expert, :n])
        first = self.problem.first
        self.y = [run_experts(part, int(first[rank]), kind) for rank, part in enumerate(wanted)]
        return to_torch(run_experts(seen, int(first[self.me]), kind), torch.bfloat16)

    def check_combined(self, out, reduce="none"):
        problem = self.problem
        way = reference.combine if reduce == "none" else reference.combine_rank
        wanted = way(self.y, problem.topk, problem.weights, problem.first)
        same(f"combine {reduce}", to_numpy(out), wanted[self.me])


def make_buffer(comm, **more):
    """As SGLang makes one; comm is the test's communicator, group what torch.distributed has."""
    group = torch.distributed.group.WORLD if torch.distributed.is_initialized() else comm
    size = deep_ep.Buffer.get_low_latency_rdma_size_hint(8, 128, comm.size, 8)
    where = {} if DEVICE == "cuda" else {"device": "none"}
    return deep_ep.Buffer(
        group, 0, size, low_latency_mode=True, num_qps_per_rank=2, explicitly_destroy=True, **where, **more
    )


def case_vllm(comm):
    """vLLM: size hint and Buffer by keywords, hooks, out=, masks, set_num_sms."""
    layer = Layer(comm, Shape(), 1)
    hint = deep_ep.Buffer.get_low_latency_rdma_size_hint(
        num_max_dispatch_tokens_per_rank=8, hidden=128, num_ranks=comm.size, num_experts=8
    )
    assert hint > 0
    buffer = make_buffer(comm, allow_nvlink_for_low_latency_mode=True, allow_mnnvl=False, enable_shrink=False)
    buffer.get_local_buffer_tensor(dtype=torch.int8, use_rdma_buffer=True).zero_()
    buffer.set_num_sms(20)
    for use_fp8, rounded in ((False, False), (True, False), (True, True)):
        recv_x, count, handle, _, hook = buffer.low_latency_dispatch(
            layer.x,
            layer.topk,
            layer.most,
            layer.experts,
            use_fp8=use_fp8,
            round_scale=rounded,
            use_ue8m0=rounded,
            async_finish=False,
            return_recv_hook=True,
        )
        hook()
        y = layer.check(recv_x, count, handle, "bf16" if not use_fp8 else "ue8m0" if rounded else "f32")
        out = torch.full_like(layer.x, 3)
        _, _, hook = buffer.low_latency_combine(
            y,
            layer.topk,
            layer.weights,
            handle,
            async_finish=False,
            zero_copy=False,
            return_recv_hook=True,
            out=out,
        )
        hook()
        layer.check_combined(out)
    mask = torch.full((comm.size,), 9, dtype=torch.int32, device=DEVICE)
    buffer.low_latency_query_mask_buffer(mask)
    same("mask", to_numpy(mask), [0] * comm.size)
    buffer.low_latency_clean_mask_buffer()
    buffer.destroy()


def case_sglang(comm):
    """SGLang: positional size hint, no hook on the first call, events, a change of mode."""
    layer = Layer(comm, Shape(topk=4), 2)
    buffer = make_buffer(comm, allow_mnnvl=True)
    buffer.clean_low_latency_buffer(layer.most, 128, layer.experts)
    for return_hook in (False, True):
        recv_x, count, handle, event, hook = buffer.low_latency_dispatch(
            layer.x,
            layer.topk,
            layer.most,
            layer.experts,
            use_fp8=True,
            async_finish=not return_hook,
            return_recv_hook=return_hook,
            round_scale=False,
            use_ue8m0=False,
        )
        hook() if return_hook else event.current_stream_wait()
        y = layer.check(recv_x, count, handle, "f32")
        combined, event, hook = buffer.low_latency_combine(
            x=y,
            topk_idx=layer.topk,
            topk_weights=layer.weights,
            handle=handle,
            async_finish=not return_hook,
            return_recv_hook=return_hook,
        )
        hook() if return_hook else event.current_stream_wait()
        layer.check_combined(combined)
    assert (buffer.group_size, buffer.low_latency_mode, buffer.num_nvl_bytes) == (comm.size, True, 0)
    assert buffer.num_rdma_bytes > 0 and buffer.group is not None
    buffer.destroy()


def case_overlap(comm):
    """SGLang's single-batch overlap: a down-GEMM writes rows, and raises their words, while combine runs."""
    layer, block, threshold = Layer(comm, Shape(), 3), 4, 3
    buffer = make_buffer(comm)
    for by_block in (True, False):
        recv_x, count, handle, _, _ = buffer.low_latency_dispatch(
            layer.x, layer.topk, layer.most, layer.experts, use_fp8=False
        )
        rows = layer.check(recv_x, count, handle, "bf16")
        experts, most, _ = rows.shape
        late = torch.full_like(rows, float("nan"))
        each = block if by_block else most
        words = torch.zeros(experts * -(-most // each), dtype=torch.int32, device=DEVICE)

        def gemm(rows=rows, late=late, words=words, each=each):
            for word in torch.randperm(len(words), device="cpu").tolist():
                expert, first = word // (len(words) // rows.shape[0]), word % (len(words) // rows.shape[0]) * each
                late[expert, first : first + each] = rows[expert, first : first + each]
                for _ in range(threshold):
                    words[word] += 1

        gemm(late=late.clone(), words=words.clone())  # CUDA must not load its kernels while combine waits
        signals = (
            dict(packed_recv_count=count, comp_signal=words, block_m=block, threshold=threshold, num_sms=3)
            if by_block
            else dict(src_signals=words.view(torch.uint32), src_signal_expect_value=threshold, num_sms=3)
        )
        beside = Beside(gemm)
        out, _, hook = buffer.low_latency_combine(
            late, layer.topk, layer.weights, handle, overlap=True, return_recv_hook=by_block, **signals
        )
        beside.launched()
        if hook:
            hook()
        beside.wait()
        layer.check_combined(out)
    buffer.destroy()


class Beside:
    """Runs a function beside the call that follows: in a thread, or on a stream once the call is launched."""

    def __init__(self, function):
        self.function, self.thread = function, None
        if DEVICE != "cuda":
            self.thread = threading.Thread(target=function)
            self.thread.start()
        else:
            self.stream = torch.cuda.Stream()
            self.stream.wait_stream(torch.cuda.current_stream())

    def launched(self):
        if self.thread is None:
            with torch.cuda.stream(self.stream):
                self.function()

    def wait(self):
        self.thread.join() if self.thread else torch.cuda.synchronize()


def case_deepep(comm):
    """DeepEP's own test: statistics, the combine's buffer, zero_copy, hooks of two batches, plain calls."""
    layer = Layer(comm, Shape(hidden=256), 3)
    buffer = make_buffer(comm)
    own = layer.problem.own_experts(comm.rank)
    stats = torch.zeros(own, dtype=torch.int32, device=DEVICE)
    cost = torch.zeros(comm.size, dtype=torch.int64, device=DEVICE)
    recv_x, count, handle, event, hook = buffer.low_latency_dispatch(
        layer.x,
        layer.topk,
        layer.most,
        layer.experts,
        cumulative_local_expert_recv_stats=stats,
        dispatch_wait_recv_cost_stats=cost,
        round_scale=True,
    )
    assert hook is None and event.event is None
    same("stats", to_numpy(stats), to_numpy(count))
    y = layer.check(recv_x, count, handle, "rounded")
    rows = buffer.get_next_low_latency_combine_buffer(handle)
    rows[:, :, :] = y
    combined, _, _ = buffer.low_latency_combine(
        rows, layer.topk, layer.weights, handle, zero_copy=True, combine_wait_recv_cost_stats=cost
    )
    layer.check_combined(combined)
    other = Layer(comm, Shape(hidden=256), 4)
    sent = [
        (batch, buffer.low_latency_dispatch(batch.x, batch.topk, 8, 8, use_fp8=False, return_recv_hook=True))
        for batch in (layer, other)
    ]
    for batch, (recv_x, count, handle, _, hook) in reversed(sent):
        hook()
        batch.rows = batch.check(recv_x, count, handle, "bf16")
    for batch, (_, _, handle, _, _) in sent:
        batch.check_combined(buffer.low_latency_combine(batch.rows, batch.topk, batch.weights, handle)[0])
    buffer.destroy()


def case_corners(comm):
    """Sizes and indices that DeepEP refuses, no token at all, and -1, by the callers' own calls."""
    ranks = comm.size
    shapes = (
        Shape(experts=7, topk=3, hidden=16),
        Shape(experts=64, topk=32, hidden=112, max_tokens=3),
        Shape(experts=1, topk=1, hidden=48, max_tokens=1),
        Shape(tokens=[0] * ranks),
        Shape(tokens=[8 * (rank % 2) for rank in range(ranks)]),
        Shape(tokens=[8] * ranks, none=1.0),
        Shape(experts=8, only=ranks - 1, topk=min(2, 8 // ranks)),
        Shape(index="int32"),
    )
    buffer = make_buffer(comm)
    for seed, shape in enumerate(shapes):
        layer = Layer(comm, shape, 60 + seed)
        for use_fp8, hooked in ((False, True), (True, False)):
            recv_x, count, handle, event, hook = buffer.low_latency_dispatch(
                layer.x,
                layer.topk,
                layer.most,
                layer.experts,
                use_fp8=use_fp8,
                async_finish=not hooked,
                return_recv_hook=hooked,
            )
            hook() if hooked else event.current_stream_wait()
            y = layer.check(recv_x, count, handle, "f32" if use_fp8 else "bf16")
            out, event, hook = buffer.low_latency_combine(
                y, layer.topk, layer.weights, handle, async_finish=not hooked, return_recv_hook=hooked
            )
            hook() if hooked else event.current_stream_wait()
            layer.check_combined(out)
    buffer.destroy()


def case_nvfp4(comm):
    """vLLM and SGLang with use_nvfp4: data and scales of each expert in the order of FlashInfer's masked GEMM."""
    layer = Layer(comm, Shape(hidden=352), 90)
    most = max(float(layer.x.float().abs().max()), 1.0) if len(layer.x) else 1.0
    scale = torch.tensor(448 * 6 / most, dtype=torch.float32, device=DEVICE)
    scales = [np.frombuffer(one, np.float32)[0] for one in comm.allgather(np.float32(scale.cpu()).tobytes())]
    buffer = make_buffer(comm)
    for is_hooked in (False, True):
        (x, x_scales), count, handle, event, hook = buffer.low_latency_dispatch(
            layer.x,
            layer.topk,
            layer.most,
            layer.experts,
            use_fp8=False,
            use_nvfp4=True,
            x_global_scale=scale,
            async_finish=not is_hooked,
            return_recv_hook=is_hooked,
        )
        hook() if is_hooked else event.current_stream_wait()
        rows, bytes_, experts = x.shape
        assert bytes_ == 176 and x_scales.shape == (32, 4, -(-rows // 128), 4, 6, experts), x_scales.shape
        source = [quant.nvfp4(own, number) if len(own) else ([], []) for own, number in zip(layer.problem.x, scales)]
        for e in range(experts):
            tokens = reference.rows_of_expert(layer.problem.topk, int(layer.problem.first[comm.rank]) + e)
            same("count", int(count[e]), len(tokens))
            for i, (rank, token, _) in enumerate(tokens):
                same("e2m1", to_numpy(x[i, :, e]), source[rank][0][token])
                found = to_numpy(x_scales[i % 32, i // 32 % 4, i // 128, :, :, e]).T.reshape(-1)
                same("scales", found[:22], source[rank][1][token])
        y = torch.ones((experts, rows, 352), dtype=torch.bfloat16, device=DEVICE)
        out, _, _ = buffer.low_latency_combine(y, layer.topk, layer.weights, handle)
        weights = torch.where(layer.topk >= 0, layer.weights, 0).sum(1, keepdim=True)
        assert torch.allclose(out.float(), weights.expand(out.shape), rtol=0.01)
    for words, more in (("needs use_fp8=False", {"use_fp8": True}), ("needs x_global_scale", {"x_global_scale": None})):
        try:
            keywords = {"use_fp8": False, "use_nvfp4": True, "x_global_scale": scale, **more}
            buffer.low_latency_dispatch(layer.x, layer.topk, 8, 8, **keywords)
            raise AssertionError(f"no error: {words}")
        except ValueError as error:
            assert words in str(error), error
    buffer.destroy()


def case_wrong(comm):
    """Arguments of the wrong kind or shape: the error names them, and no rank waits for another."""
    layer = Layer(comm, Shape(tokens=[4] * comm.size), 80)
    buffer = make_buffer(comm)
    handle = buffer.low_latency_dispatch(layer.x, layer.topk, 8, 8, use_fp8=False)[2]
    wrong = (
        (TypeError, "x is a list: give a tensor", "dispatch", ([1], layer.topk, 8, 8)),
        (ValueError, r"x has the shape \[128\]: give a tensor", "dispatch", (layer.x[0], layer.topk, 8, 8)),
        (ValueError, "x is torch.float32, not bfloat16", "dispatch", (layer.x.float(), layer.topk, 8, 8)),
        (ValueError, r"topk_idx has the shape \[4\]", "dispatch", (layer.x, layer.topk[:, 0], 8, 8)),
        (gin_ep.GinError, "topkIdx.size.0. is 3", "dispatch", (layer.x, layer.topk[:3], 8, 8)),
        (gin_ep.GinError, "topkIdx has elements", "dispatch", (layer.x, layer.topk.float(), 8, 8)),
        (gin_ep.GinError, "x.size.0. is 4, must be 0 to maxTokens = 3", "dispatch", (layer.x, layer.topk, 3, 8)),
        (ValueError, "topk_idx has the shape", "combine", (layer.x, layer.topk[0], layer.weights, handle)),
        (gin_ep.GinError, "x has 2 dimensions, must be 3", "combine", (layer.x, layer.topk, layer.weights, handle)),
        (TypeError, "the handle is not one of", "combine", (layer.x, layer.topk, layer.weights, None)),
    )
    for kind, words, call, arguments in wrong:
        try:
            getattr(buffer, f"low_latency_{call}")(*arguments)
        except kind as error:
            assert re.search(words, str(error)), (words, error)
        else:
            raise AssertionError(f"low_latency_{call} took what should be {words}")
    buffer.destroy()


def case_rank_reduce(comm):
    """The weights go with the dispatch, one row per rank comes back; a tuple of the handle's five values works."""
    layer = Layer(comm, Shape(topk=5), 5)
    buffer = make_buffer(comm)

    def dispatch(**more):
        recv_x, count, handle, _, _ = buffer.low_latency_dispatch(
            layer.x, layer.topk, layer.most, layer.experts, use_fp8=False, **more
        )
        return layer.check(recv_x, count, handle, "bf16"), tuple(handle)

    def combine(y, handle, **more):
        return buffer.low_latency_combine(y, layer.topk, layer.weights, handle, **more)[0]

    y, handle = dispatch(topk_weights=layer.weights)
    layer.check_combined(combine(y, handle, reduce="rank"), "rank")
    y, handle = dispatch()
    layer.check_combined(combine(y, handle), "none")
    try:
        combine(y, handle, reduce="rank")
    except ValueError as error:
        assert "topk_weights" in str(error)
    else:
        raise AssertionError("reduce='rank' without weights was not refused")
    try:
        combine(y, handle, use_logfmt=True)
    except NotImplementedError as error:
        assert "LogFMT" in str(error)
    else:
        raise AssertionError("use_logfmt was not refused")
    buffer.destroy()


def case_masks(comm):
    """The caller's mask is reported, and forgotten; the own rank cannot be masked. No call is made with a mask."""
    buffer = make_buffer(comm, enable_shrink=True)
    mask = torch.zeros(comm.size, dtype=torch.int32, device=DEVICE)
    layer = Layer(comm, Shape(), 6)
    other = (comm.rank + 1) % comm.size
    for first_dispatch in (False, True) if comm.size > 1 else ():
        if first_dispatch:
            recv_x, count, handle, _, _ = buffer.low_latency_dispatch(layer.x, layer.topk, 8, 8, use_fp8=False)
            layer.check(recv_x, count, handle, "bf16")
        buffer.low_latency_update_mask_buffer(other, True)
        buffer.low_latency_query_mask_buffer(mask)
        same("mask", to_numpy(mask), [int(rank == other) for rank in range(comm.size)])
        buffer.low_latency_clean_mask_buffer()
        buffer.low_latency_query_mask_buffer(mask)
        same("mask", to_numpy(mask), [0] * comm.size)
    buffer.low_latency_update_mask_buffer(comm.rank, False)
    for rank, words in ((comm.size, f"no rank {comm.size}"), (comm.rank, "this rank")):
        try:
            buffer.low_latency_update_mask_buffer(rank, True)
        except ValueError as error:
            assert words in str(error)
        else:
            raise AssertionError(f"rank {rank} was masked")
    buffer.destroy()


def case_shrink(comm):
    """enable_shrink=True: the last rank makes no call, as in DeepEP's --shrink-test; the others mask it and go on.

    Of three ranks or more, the last but one does not clean the buffer. Then a reset. The Ep is there since Buffer(), so
    the first dispatch needs nobody.
    """
    lost = comm.size - 1
    if lost == 0:
        return
    os.environ["GIN_EP_TIMEOUT"] = "3"
    buffer = make_buffer(comm, enable_shrink=True)
    layer = Layer(comm, Shape(), 7)
    mask = torch.zeros(comm.size, dtype=torch.int32, device=DEVICE)
    if comm.rank != lost:
        layer.problem = without(layer.problem, lost)
        for _ in range(2):
            recv_x, count, handle, _, _ = buffer.low_latency_dispatch(layer.x, layer.topk, 8, 8)
            y = layer.check(recv_x, count, handle, "f32")
            layer.check_combined(buffer.low_latency_combine(y, layer.topk, layer.weights, handle)[0])
        buffer.low_latency_query_mask_buffer(mask)
        same("mask", to_numpy(mask), [0] * lost + [1])
    absent = {lost, max(lost - 1, 1)}
    if comm.rank not in absent:
        buffer.clean_low_latency_buffer(8, layer.x.shape[1], 8)
        buffer.low_latency_query_mask_buffer(mask)
        same("mask after clean", to_numpy(mask), [int(rank in absent) for rank in range(comm.size)])
    comm.barrier()
    buffer.reset()
    buffer.low_latency_query_mask_buffer(mask)
    same("mask after a reset", to_numpy(mask), [0] * comm.size)
    layer = Layer(comm, Shape(), 8)
    recv_x, count, handle, _, _ = buffer.low_latency_dispatch(layer.x, layer.topk, 8, 8)
    y = layer.check(recv_x, count, handle, "f32")
    layer.check_combined(buffer.low_latency_combine(y, layer.topk, layer.weights, handle)[0])
    os.environ.pop("GIN_EP_TIMEOUT", None)
    buffer.destroy()


def case_shapes(comm):
    """One Buffer for layers of several shapes, used in turn."""
    buffer = make_buffer(comm)
    for seed in range(2):
        for shape in (Shape(), Shape(experts=5, topk=3, hidden=48, max_tokens=3), Shape(max_tokens=5)):
            layer = Layer(comm, shape, 10 + seed)
            recv_x, count, handle, _, _ = buffer.low_latency_dispatch(
                layer.x, layer.topk, shape.max_tokens, shape.experts
            )
            y = layer.check(recv_x, count, handle, "f32")
            layer.check_combined(buffer.low_latency_combine(y, layer.topk, layer.weights, handle)[0])
    buffer.destroy()


def case_fp8(comm):
    """All bf16 of at most 448 become what torch and the reference make of them."""
    rows = all_e4m3_rows()
    x = to_torch(rows, torch.bfloat16)
    topk = torch.full((len(rows), 1), comm.rank, dtype=torch.int64, device=DEVICE)
    buffer = make_buffer(comm)
    (codes, scales), count, _, _, _ = buffer.low_latency_dispatch(x, topk, len(rows), comm.size)
    n = int(count[0])
    same("rows", n, len(rows))
    same("scales", to_numpy(scales)[0, :n], np.ones((n, 1), np.float32))
    same("e4m3, by the reference", to_numpy(codes)[0, :n], quant.f32_to_e4m3(quant.bf16_to_f32(rows)))
    same("e4m3, by torch", to_numpy(codes)[0, :n], to_numpy(x.float().to(torch.float8_e4m3fn)))
    buffer.destroy()


def case_operators(comm):
    """gin_ep::dispatch and gin_ep::combine, plain and compiled, with fake tensors for the compiler."""
    from gin_ep import ops

    layer = Layer(comm, Shape(), 20)
    state = torch.zeros(1, device=DEVICE)
    ep = gin_ep.Ep(comm, **layer.problem.config())

    def forward(x, topk, weights):
        rows, _, count, _, _, handle = ops.dispatch(state, x, topk, weights, ep.number, False, "f32")
        return rows, count, ops.combine(state, rows * 2, handle, topk, weights, ep.number, "none")

    compiled = forward
    if not torch.distributed.is_initialized() and comm.size > 1:
        if comm.rank == 0:
            print("left out: gin_ep::dispatch compiled by several threads: torch.compile is for one thread")
    else:
        compiled = torch.compile(forward, fullgraph=True, backend="aot_eager")
    for function in (forward, compiled):
        rows, count, out = function(layer.x, layer.topk, layer.weights)
        own = layer.wanted("bf16")
        same("count", to_numpy(count), own[comm.rank].count)
        for expert, n in enumerate(own[comm.rank].count):
            same("x", to_numpy(rows)[expert, :n], own[comm.rank].x[expert, :n])
        twice = [to_numpy(to_torch(part.x, torch.bfloat16) * 2) for part in own]
        problem = layer.problem
        wanted = reference.combine(twice, problem.topk, problem.weights, problem.first)
        same("combine", to_numpy(out), wanted[comm.rank])
    if comm.size == 1:
        check_schemas(ops, state, layer, ep.number)
    ep.destroy()


def check_schemas(ops, state, layer, number):
    """torch's own check: an operator writes only what it declares, and its fake tensors are right."""
    tests = "test_schema", "test_faketensor"
    layer_of = state, layer.x, layer.topk, layer.weights, number
    for fp8, scales in ((False, "f32"), (True, "f32"), (True, "ue8m0")):
        torch.library.opcheck(ops.dispatch, (*layer_of, fp8, scales), test_utils=tests)
    rows, _, _, _, _, handle = ops.dispatch(*layer_of, False, "f32")
    rest = torch.zeros_like(rows), handle, layer.topk, layer.weights, number
    for reduce in ("none", "rank"):
        torch.library.opcheck(ops.combine, (state, *rest, reduce), test_utils=tests)


def case_graph(comm):
    """CUDA graphs with one, two and three layers, replayed, with plain calls between."""
    if DEVICE == "cpu":
        if comm.rank == 0:
            print("left out: graphs of deep_ep calls: they need a GPU")
        return
    buffer = make_buffer(comm)
    layer = Layer(comm, Shape(), 30)

    def calls(n):
        for _ in range(n):
            recv_x, count, handle, _, hook = buffer.low_latency_dispatch(
                layer.x, layer.topk, 8, 8, use_fp8=False, return_recv_hook=True
            )
            hook()
            out, _, hook = buffer.low_latency_combine(recv_x, layer.topk, layer.weights, handle, return_recv_hook=True)
            hook()
        return recv_x, count, handle, out

    def check(recv_x, count, handle, out):
        layer.check(recv_x, count, handle, "bf16")
        layer.y = [part.x for part in layer.wanted("bf16")]
        layer.check_combined(out)

    check(*calls(1))
    for n in (1, 2, 3):
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            results = calls(n)
        for _ in range(20):
            graph.replay()
            torch.cuda.synchronize()
            check(*results)
            check(*calls(1))
    torch.cuda.synchronize()
    buffer.destroy()


def case_normal(comm):
    """High throughput, in the order of DeepEP's test of one node: layout, dispatch, cached, worst, combine."""
    normal(comm, 0)


def case_window(comm):
    """Calls with a window, which has no room at all on every third rank; its tensors live on after it."""
    room = 4096 if comm.rank % 3 == 1 else 1 << 26
    received, window = normal(comm, room)
    is_in = 0 <= received.data_ptr() - window.address < window.size
    same("rows are in the window", is_in, room > 4096)
    comm.barrier()
    received.fill_(1)
    refuses(ValueError, "the window is closed", lambda: window.pointer)


def normal(comm, window_bytes):
    """Returns received rows, and the window of the Buffer, which is destroyed."""
    ranks, experts, topk, tokens, hidden = comm.size, 3 * comm.size, 4, 37 + comm.rank, 256
    x, idx, weights = [], [], []  # of all ranks
    for rank in range(ranks):
        make = torch.Generator().manual_seed(100 + rank)
        x.append(torch.randn(37 + rank, hidden, generator=make).to(torch.bfloat16))
        idx.append(torch.rand(37 + rank, experts, generator=make).topk(min(topk, experts), dim=1).indices)
        idx[-1][torch.rand(idx[-1].shape, generator=make) < 0.2] = -1
        weights.append(torch.rand(idx[-1].shape, generator=make))
    me, own = comm.rank, experts // ranks
    goes = [torch.stack([((i >= 0) & (i // own == r)).any(1) for r in range(ranks)], 1) for i in idx]
    from_rows = [goes[s][:, me].nonzero()[:, 0] for s in range(ranks)]
    n = sum(map(len, from_rows))
    there = {"dtype": torch.bfloat16, "device": DEVICE}
    buffer = deep_ep.Buffer(comm, device="none" if DEVICE == "cpu" else None, window_bytes=window_bytes)
    config = deep_ep.Config(8, 8, 256)
    mine, my_idx, my_weights = x[me].to(DEVICE), idx[me].to(DEVICE), weights[me].to(DEVICE)
    for is_async in (False, True):
        event = {"previous_event": deep_ep.Buffer.capture() if is_async else None, "async_finish": is_async}

        def done(overlap):
            if is_async:
                overlap.current_stream_wait()
            else:
                assert overlap.event is None

        per_rank, per_node, per_expert, in_rank, overlap = buffer.get_dispatch_layout(my_idx, experts, **event)
        done(overlap)
        assert torch.equal(in_rank.cpu(), goes[me])
        nodes = [goes[me][:, r : r + 8].any(1).sum().item() for r in range(0, ranks, 8)] if ranks > 8 else None
        same("tokens of nodes", None if per_node is None else per_node.tolist(), nodes)
        same("tokens of ranks", per_rank.tolist(), goes[me].sum(0).tolist())
        same("tokens of experts", per_expert.tolist(), [int((idx[me] == e).sum()) for e in range(experts)])
        layout = {"num_tokens_per_rank": per_rank, "is_token_in_rank": in_rank, "num_tokens_per_expert": per_expert}
        picked = {"topk_idx": my_idx, "topk_weights": my_weights}
        received, r_idx, r_weights, counts, handle, overlap = buffer.dispatch(
            mine, **layout, **picked, expert_alignment=4, config=config, **event
        )
        done(overlap)
        assert torch.equal(received.cpu(), torch.cat([x[s][from_rows[s]] for s in range(ranks)]))
        all_idx = torch.cat([idx[s][from_rows[s]] for s in range(ranks)])
        is_own = all_idx // own == me
        is_own &= all_idx >= 0
        assert torch.equal(r_idx.cpu(), torch.where(is_own, all_idx - me * own, -1))
        all_weights = torch.cat([weights[s][from_rows[s]] for s in range(ranks)])
        assert torch.equal(r_weights.cpu(), torch.where(is_own, all_weights, 0.0))
        items = [int((all_idx == me * own + e).sum()) for e in range(own)]
        same("counts", counts, [-(-count // 4) * 4 for count in items])
        prefix, sources = (handle[0][:, me], 3) if ranks <= 8 else (handle[-4], -3)
        same("rows of sources", prefix.tolist(), np.cumsum(list(map(len, from_rows))).tolist())
        same("tokens of sources", handle[sources].tolist(), torch.cat(from_rows).tolist())
        worst, w_idx, _, empty, w_handle, overlap = buffer.dispatch(
            mine, **layout, **picked, num_worst_tokens=ranks * 64, **event
        )
        done(overlap)
        assert empty == [] and torch.equal(worst[:n], received) and bool((w_idx[n:] == -1).all())
        assert worst.shape[0] == w_handle[sources].shape[0] == ranks * 64 and torch.equal(w_idx[:n], r_idx)
        scales = torch.arange(tokens * 2, dtype=torch.float32, device=DEVICE).view(2, tokens).T  # column-major
        codes = mine.to(torch.float8_e4m3fn)
        (c_codes, c_scales), *others, overlap = buffer.dispatch((codes, scales), handle=handle, **event)
        done(overlap)
        assert others == [None] * 4 and c_scales.is_contiguous()
        expected = torch.cat([x[s][from_rows[s]] for s in range(ranks)]).to(torch.float8_e4m3fn)
        assert torch.equal(c_codes.cpu().view(torch.uint8), expected.view(torch.uint8))
        wanted = [torch.stack([rows.float(), rows.float() + 37 + s], 1) for s, rows in enumerate(from_rows)]
        assert torch.equal(c_scales.cpu(), torch.cat(wanted))
        if buffer.mem_pool:
            with torch.cuda.use_mem_pool(buffer.mem_pool):
                received = received.clone()
        bias = torch.full((tokens, hidden), 0.5, **there)
        for given, rows, of in ((None, received, handle), (bias, worst, w_handle), ((bias, bias), received, handle)):
            sent = r_weights if of is handle else None
            out, sums, overlap = buffer.combine(rows, of, topk_weights=sent, bias=given, **event)
            done(overlap)
            total = torch.zeros(tokens, hidden)
            for one in given if isinstance(given, tuple) else [given] * (given is not None):
                total += one.float().cpu()
            for rank in range(ranks):
                total += x[me].float() * goes[me][:, rank : rank + 1]
            assert torch.equal(out.cpu(), total.to(torch.bfloat16))
            if sent is not None:
                assert torch.allclose(sums.cpu(), torch.where(idx[me] >= 0, weights[me], 0.0))
    refuses(TypeError, "handle is not one of dispatch", lambda: buffer.combine(mine, (mine,)))
    refuses(TypeError, "no argument surprise", lambda: buffer.dispatch(mine, surprise=1))
    buffer._free()
    return received, buffer.window


def case_elastic(comm):
    elastic_cases.compact(comm, DEVICE)


def case_elastic_expand(comm):
    elastic_cases.expand(comm, DEVICE)


def case_elastic_order(comm):
    elastic_cases.in_order(comm, DEVICE)


CASES = {name[5:]: case for name, case in list(globals().items()) if name.startswith("case_")}


def run(comm, names):
    if DEVICE == "cuda":
        torch.cuda.set_device(comm.device)
    for name in names:
        start = time.monotonic()
        CASES[name](comm)
        comm.barrier()
        if comm.rank == 0:
            print(f"{name}: equal on {comm.size} ranks ({time.monotonic() - start:.1f} s)", flush=True)


def run_process(names):
    """One rank of --processes."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if DEVICE == "cuda":
        torch.cuda.set_device(rank)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{os.environ['STORE']}", rank=rank, world_size=size
    )
    with gin_ep.Communicator.from_torch(device=rank if DEVICE == "cuda" else "none") as comm:
        run(comm, names)
    torch.distributed.destroy_process_group()


def start_processes(count, arguments):
    with tempfile.TemporaryDirectory() as scratch:
        store = os.path.join(scratch, "store")
        ranks = [
            subprocess.Popen(
                [sys.executable, __file__, *arguments],
                env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(count), "STORE": store},
            )
            for rank in range(count)
        ]
        return max(rank.wait() for rank in ranks)


def main():
    global DEVICE
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", default="")
    parser.add_argument("--processes", type=int)
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("cases", nargs="*", default=[])
    options = parser.parse_args()
    names = options.cases or list(CASES)
    DEVICE = "cuda" if options.cuda else "cpu"
    if options.processes:
        return start_processes(options.processes, ["--cuda"] * options.cuda + names)
    for size in filter(None, options.threads.split(",")):
        gin_ep.run_threads(int(size), run, names)
    if not options.threads:
        run_process(names)
    return 0


if __name__ == "__main__":
    sys.exit(main())
