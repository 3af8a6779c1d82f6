#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""overlap.py RANKS TOKENS [EXPERTS] - combine beside the GEMM that writes its rows, on GPUs

A layer is a dispatch, a down-projection of 2048 to 7168 elements for each expert in Triton, and a combine. Serial: each
after the other. Overlapped, as SGLang's single-batch overlap: the GEMM raises a word for each tile of its rows, and
combine sends rows whose words are complete, on few SMs, while the GEMM runs. Times in us in a graph, of rank 0,
medians; "GEMM": alone, on all SMs and on those that combine leaves. Before they are taken, both ways must give equal
sums. EXPERTS of all ranks: 16 by default.
"""

import os
import statistics
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import triton
import triton.language as tl

HIDDEN, INNER, TOPK = 7168, 2048, 8
BLOCK_M, BLOCK_N, BLOCK_K = 64, 128, 64
COMBINE_SMS = [int(word) for word in os.environ.get("COMBINE_SMS", "3,6,12").split(",")]


@triton.jit
def down(
    rows, weights, out, counts, words, experts, most, raises: tl.constexpr, n: tl.constexpr, k: tl.constexpr,
    block_m: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr,
):  # fmt: skip
    """out[e] = rows[e] @ weights[e].T for counts[e] rows of expert e; raises: counts done tiles in words."""
    columns: tl.constexpr = n // block_n
    bands = tl.cdiv(most, block_m)
    for tile in range(tl.program_id(0), experts * bands * columns, tl.num_programs(0)):
        expert, rest = tile // (bands * columns), tile % (bands * columns)
        band, column = rest // columns, rest % columns
        count = tl.load(counts + expert)
        if band * block_m < count:
            m = band * block_m + tl.arange(0, block_m)
            c = column * block_n + tl.arange(0, block_n)
            at = tl.arange(0, block_k)
            a = rows + (expert * most + m).to(tl.int64)[:, None] * k + at[None, :]
            b = weights + (expert * n + c).to(tl.int64)[None, :] * k + at[:, None]
            total = tl.zeros((block_m, block_n), dtype=tl.float32)
            for _ in range(k // block_k):
                total = tl.dot(tl.load(a, mask=m[:, None] < count, other=0.0), tl.load(b), total)
                a += block_k
                b += block_k
            to = out + (expert * most + m).to(tl.int64)[:, None] * n + c[None, :]
            tl.store(to, total.to(tl.bfloat16), mask=m[:, None] < count)
            if raises:
                tl.debug_barrier()  # all stores of the tile are before the word
                tl.atomic_add(words + expert * bands + band, 1, sem="release", scope="gpu")


class Layer:
    def __init__(self, group, ranks, tokens, experts):
        import gin_ep.deep_ep as deep_ep

        own, self.most, self.tokens, self.experts = experts // ranks, tokens * ranks, tokens, experts
        size = deep_ep.Buffer.get_low_latency_rdma_size_hint(tokens, HIDDEN, ranks, experts)
        self.buffer = deep_ep.Buffer(group, num_rdma_bytes=size, low_latency_mode=True, explicitly_destroy=True)
        bf16 = {"device": "cuda", "dtype": torch.bfloat16}
        self.x = torch.randn(tokens, HIDDEN, **bf16)
        self.index = torch.rand(tokens, experts, device="cuda").topk(min(TOPK, experts))[1].to(deep_ep.topk_idx_t)
        self.weights = torch.rand(tokens, self.index.shape[1], device="cuda")
        self.inner = torch.randn(own, self.most, INNER, **bf16) / 32
        self.matrix = torch.randn(own, HIDDEN, INNER, **bf16) / 32
        self.rows = torch.zeros(own, self.most, HIDDEN, **bf16)
        self.words = torch.zeros(own * -(-self.most // BLOCK_M), device="cuda", dtype=torch.int32)
        self.out = torch.empty_like(self.x)
        self.aside = torch.cuda.Stream()
        self.sms = torch.cuda.get_device_properties("cuda").multi_processor_count

    def dispatch(self):
        sent = self.buffer.low_latency_dispatch(self.x, self.index, self.tokens, self.experts, use_fp8=True)
        return sent[1:3]

    def gemm(self, count, sms, raises):
        down[(sms,)](
            self.inner, self.matrix, self.rows, count, self.words, self.rows.shape[0], self.most, raises, HIDDEN, INNER,
            BLOCK_M, BLOCK_N, BLOCK_K, num_warps=4, num_stages=4,
        )  # fmt: skip

    def combine(self, handle, **more):
        return self.buffer.low_latency_combine(self.rows, self.index, self.weights, handle, out=self.out, **more)[2]

    def serial(self):
        count, handle = self.dispatch()
        self.gemm(count, self.sms, False)
        self.combine(handle)

    def overlapped(self, combine_sms):
        current = torch.cuda.current_stream()
        self.words.zero_()
        count, handle = self.dispatch()
        self.aside.wait_stream(current)
        with torch.cuda.stream(self.aside):
            self.gemm(count, self.sms - combine_sms, True)
        receive = self.combine(
            handle, overlap=True, packed_recv_count=count, comp_signal=self.words, block_m=BLOCK_M,
            threshold=HIDDEN // BLOCK_N, num_sms=combine_sms, return_recv_hook=True,
        )  # fmt: skip
        current.wait_stream(self.aside)
        receive()


def in_a_graph(call, rounds=50):
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        for _ in range(2):
            call()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for _ in range(4):
            call()
    times = []
    for _ in range(rounds):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        times.append((start, end))
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) * 1e3 / 4 for start, end in times[3:])


def main(rank, ranks, tokens, experts, port):
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    torch.manual_seed(rank)
    layer = Layer(dist.new_group(list(range(ranks))), ranks, tokens, experts)
    layer.serial()
    expected = layer.out.clone()
    for sms in COMBINE_SMS:
        layer.out.fill_(float("nan"))
        layer.rows.fill_(float("nan"))
        layer.overlapped(sms)
        assert torch.equal(layer.out, expected), f"the overlapped layer with {sms} SMs gives other sums"
    serial = in_a_graph(layer.serial)
    count = layer.dispatch()[0]
    gemm = in_a_graph(lambda: layer.gemm(count, layer.sms, False))
    for sms in COMBINE_SMS:
        time = in_a_graph(lambda sms=sms: layer.overlapped(sms))
        fewer = in_a_graph(lambda sms=sms: layer.gemm(count, layer.sms - sms, False))
        if rank == 0:
            row = tokens, experts, sms, f"{gemm:.1f}", f"{fewer:.1f}", f"{serial:.1f}", f"{time:.1f}"
            print("|", " | ".join(map(str, row)), f"| {time / serial:.2f} |", flush=True)
    layer.buffer.destroy()
    dist.destroy_process_group()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    ranks, experts = int(sys.argv[1]), int(sys.argv[3]) if len(sys.argv) > 3 else 16
    port = int(os.environ.get("PORT", 20000 + os.getpid() % 20000))
    print("| tokens | experts | SMs of combine | GEMM | GEMM | serial | overlapped | ratio |", flush=True)
    print("|---" * 8 + "|", flush=True)
    for tokens in map(int, sys.argv[2].split(",")):
        mp.spawn(main, args=(ranks, tokens, experts, port), nprocs=ranks)
        port += 1
