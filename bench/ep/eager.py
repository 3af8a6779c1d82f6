#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""eager.py RANKS TOKENS [MODULE...] - dispatch and combine of DeepEP's Buffer as programs call them, on GPUs

A row for each module, gin_ep.deep_ep by default; give also deep_ep where DeepEP is installed. Times in us, of rank 0:
the host's for each call (median, the device is idle before), a pair of calls back to back, a pair in a graph of four,
and how many kernels of torch's profiler have "dispatch" and "combine" in their names. 256 experts, top-8, 7168
elements, fp8, as in DeepEP's own tests.
"""

import importlib
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

EXPERTS, HIDDEN, TOPK = 256, 7168, 8


class Pair:
    """A dispatch and a combine of one rank."""

    def __init__(self, module, group, ranks, tokens):
        deep_ep = importlib.import_module(module)
        bytes_needed = deep_ep.Buffer.get_low_latency_rdma_size_hint(tokens, HIDDEN, ranks, EXPERTS)
        self.buffer = deep_ep.Buffer(
            group, num_rdma_bytes=bytes_needed, low_latency_mode=True, num_qps_per_rank=EXPERTS // ranks,
            explicitly_destroy=True,
        )  # fmt: skip
        self.tokens = tokens
        self.x = torch.randn(tokens, HIDDEN, device="cuda").bfloat16()
        self.index = torch.rand(tokens, EXPERTS, device="cuda").topk(TOPK)[1].to(deep_ep.topk_idx_t)
        self.weights = torch.rand(tokens, TOPK, device="cuda")
        self.out = torch.empty_like(self.x)
        self.rows = torch.zeros(EXPERTS // ranks, tokens * ranks, HIDDEN, device="cuda", dtype=torch.bfloat16)

    def dispatch(self, hook=False):
        return self.buffer.low_latency_dispatch(
            self.x, self.index, self.tokens, EXPERTS, use_fp8=True, return_recv_hook=hook
        )

    def combine(self, handle, hook=False):
        return self.buffer.low_latency_combine(
            self.rows, self.index, self.weights, handle, out=self.out, return_recv_hook=hook
        )

    def both(self, hook=False):
        _, _, handle, _, receive = self.dispatch(hook)
        if hook:
            receive()
        _, _, receive = self.combine(handle, hook)
        if hook:
            receive()


def together():
    torch.cuda.synchronize()
    dist.barrier()


def host_times(pair, hook=False, rounds=100):
    """Medians of the calls' times on the host."""
    dispatches, combines = [], []
    for _ in range(rounds):
        together()
        start = time.perf_counter()
        _, _, handle, _, receive = pair.dispatch(hook)
        sent = time.perf_counter()
        if hook:
            receive()
        begun = time.perf_counter()
        _, _, receive = pair.combine(handle, hook)
        end = time.perf_counter()
        if hook:
            receive()
        dispatches.append(sent - start)
        combines.append(end - begun)
    return [statistics.median(times) * 1e6 for times in (dispatches, combines)]


def back_to_back(call, rounds=200):
    together()
    start = time.perf_counter()
    for _ in range(rounds):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / rounds * 1e6


def in_a_graph(pair):
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        for _ in range(2):
            pair.both()
    together()
    with torch.cuda.graph(graph):
        for _ in range(4):
            pair.both()
    graph.replay()
    return back_to_back(graph.replay, 50) / 4


def kernel_names(pair, hook):
    """How many kinds of kernels have each word in their names."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(20):
            pair.both(hook)
        torch.cuda.synchronize()
    names = [event.key for event in profile.key_averages()]
    return [sum(word in name for name in names) for word in ("dispatch", "combine")], names


def measure(module, group, ranks, tokens, rank):
    pair = Pair(module, group, ranks, tokens)
    for hook in [False] * 20 + [True] * 5:
        pair.both(hook)
    times = [
        *host_times(pair), *host_times(pair, hook=True), back_to_back(pair.both), back_to_back(lambda: pair.both(True)),
        in_a_graph(pair),
    ]  # fmt: skip
    counts, names = [], []
    for hook in (False, True):
        count, found = kernel_names(pair, hook)
        counts += count
        names += found
    if rank == 0:
        print(f"| {module} | {tokens} | " + " | ".join(f"{t:.1f}" for t in times) + f" | {counts} |", flush=True)
        if os.environ.get("NAMES"):
            print("\n".join(sorted(set(names))), flush=True)
    together()
    pair.buffer.destroy()


def main(rank, ranks, tokens, module, port):
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    torch.manual_seed(rank)
    group = dist.new_group(list(range(ranks)))
    measure(module, group, ranks, tokens, rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    ranks, tokens = int(sys.argv[1]), [int(word) for word in sys.argv[2].split(",")]
    port = int(os.environ.get("PORT", 20000 + os.getpid() % 20000))
    print("| module | tokens | host: dispatch | combine | send | send | pair | with hooks | in a graph | names |")
    print("|" + "---|" * 10, flush=True)
    # Processes of their own for each row: kernels that have been profiled are launched slowly after that.
    for count in tokens:
        for module in sys.argv[3:] or ["gin_ep.deep_ep"]:
            mp.spawn(main, args=(ranks, count, module, port), nprocs=ranks)
            port += 1
