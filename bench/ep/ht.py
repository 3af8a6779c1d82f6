#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""ht.py RANKS [MODULE...] - high throughput of DeepEP's Buffer as programs call it, on GPUs

A row for each module: gin_ep.deep_ep, and deep_ep where DeepEP V1 is installed; then their ratios. Times in us, means
of the ranks. `host`: from get_dispatch_layout() to the return of dispatch(), which has waited for the counts; `whole`:
until its rows are there; both medians, eager, bf16 with experts. Then calls with a handle by events, the L2 cache
overwritten before each, at the best of the module's configurations: dispatch of fp8 and bf16, combine. TOKENS (4096)
tokens, 256 experts, top-8, 7168 elements, as in DeepEP's own tests. DeepEP uses SMS (24) SMs, gin_ep 20, in combine 24,
or OWN_SMS in all. WINDOW=n gives gin_ep a window of n bytes, for rows without a copy, which combine takes, too.
"""

import importlib
import importlib
import importlib.util
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

EXPERTS, HIDDEN, TOPK, TOKENS = 256, 7168, 8, int(os.environ.get("TOKENS", 4096))
COLUMNS = "host", "whole", "dispatch fp8", "dispatch bf16", "combine"


def mean_of_ranks(number):
    numbers = [None] * dist.get_world_size()
    dist.all_gather_object(numbers, number)
    return sum(numbers) / len(numbers)


def together():
    torch.cuda.synchronize()
    dist.barrier()


class Layer:
    """A dispatch and a combine of one rank."""

    def __init__(self, module, group, ranks):
        self.deep_ep = importlib.import_module(module)
        self.own = module != "deep_ep"
        window = int(os.environ.get("WINDOW", 0))
        own = {"window_bytes": window} if self.own and window else {}
        self.buffer = self.deep_ep.Buffer(group, int(2e9), 0, explicitly_destroy=True, **own)
        self.x = torch.randn(TOKENS, HIDDEN, device="cuda").bfloat16()
        scales = torch.rand(HIDDEN // 128, TOKENS, device="cuda").T
        self.f8 = self.x.to(torch.float8_e4m3fn), scales
        self.index = torch.rand(TOKENS, EXPERTS, device="cuda").topk(TOPK)[1].to(self.deep_ep.topk_idx_t)
        self.weights = torch.rand(TOKENS, TOPK, device="cuda")
        self.first(self.config(20, 8))
        self.rows, *_, self.handle, _ = self.first(self.config(20, 8))

    def config(self, sms, chunk):
        sms = int(os.environ.get("OWN_SMS", sms) if self.own else os.environ.get("SMS", 24))
        return self.deep_ep.Config(sms, chunk, 256)

    def configs(self, sms, chunks):
        """DeepEP's test tries these; chunks have no meaning for gin_ep."""
        return [self.config(sms, chunk) for chunk in (chunks[:1] if self.own else chunks)]

    def first(self, config):
        per_rank, _, per_expert, in_rank, _ = self.buffer.get_dispatch_layout(self.index, EXPERTS)
        return self.buffer.dispatch(
            self.x, num_tokens_per_rank=per_rank, is_token_in_rank=in_rank, num_tokens_per_expert=per_expert,
            topk_idx=self.index, topk_weights=self.weights, config=config,
        )  # fmt: skip

    def eager(self, rounds=30):
        hosts, wholes = [], []
        for _ in range(rounds):
            together()
            begin = time.perf_counter()
            self.first(self.config(20, 8))
            hosts.append(time.perf_counter() - begin)
            torch.cuda.synchronize()
            wholes.append(time.perf_counter() - begin)
        return [mean_of_ranks(statistics.median(times) * 1e6) for times in (hosts, wholes)]

    def by_events(self, call, rounds=20):
        cache, times = torch.empty(64 << 20, dtype=torch.int32, device="cuda"), []
        call()
        together()
        for _ in range(rounds):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            cache.zero_()
            begin.record()
            call()
            end.record()
            times.append((begin, end))
        torch.cuda.synchronize()
        return mean_of_ranks(statistics.mean(begin.elapsed_time(end) for begin, end in times[1:]) * 1e3)

    def best(self, configs, call):
        return min(self.by_events(lambda: call(config)) for config in configs)

    def cached(self):
        chunks = list(range(4, 33, 4))
        yield self.best(
            self.configs(20, chunks), lambda config: self.buffer.dispatch(self.f8, handle=self.handle, config=config)
        )
        yield self.best(
            self.configs(20, chunks), lambda config: self.buffer.dispatch(self.x, handle=self.handle, config=config)
        )
        chunks = list(range(1, 17, 2))
        yield self.best(
            self.configs(24, chunks), lambda config: self.buffer.combine(self.rows, self.handle, config=config)
        )


def main(rank, ranks, modules, port):
    gpus = torch.cuda.device_count()
    torch.cuda.set_device(rank % gpus)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    torch.manual_seed(rank)
    group = dist.new_group(list(range(ranks)))
    rows = {}
    for module in modules:
        layer = Layer(module, group, ranks)
        rows[module] = [*layer.eager(), *layer.cached()]
        together()
        layer.buffer.destroy()
    if rank == 0:
        for module, times in rows.items():
            print(f"| {module} | " + " | ".join(f"{t:.1f}" for t in times) + " |")
        if len(rows) == 2:
            own, other = rows.values()
            print("| ratio | " + " | ".join(f"{a / b:.2f}" for a, b in zip(own, other)) + " |", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    installed = ["deep_ep"] if importlib.util.find_spec("deep_ep") else []
    port = int(os.environ.get("PORT", 20000 + os.getpid() % 20000))
    print(f"| module | {' | '.join(COLUMNS)} |\n|{'---|' * (1 + len(COLUMNS))}", flush=True)
    ranks, modules = int(sys.argv[1]), sys.argv[2:] or ["gin_ep.deep_ep", *installed]
    mp.spawn(main, args=(ranks, modules, port), nprocs=ranks)
