# SPDX-License-Identifier: BSD-3-Clause
"""times.py ROUNDS [BACKEND...] - PyTorch's symmetric memory with backend GIN beside PyTorch's own

A GPU for each of two ranks; in each round the backends, GIN and CUDA, run one after the other, in
processes of their own. Two tables: calls, and a GEMM beside an all-gather that copy engines do. A
time is the median of the rounds, with the lowest and the highest, of the slower rank. Calls of
async tensor parallelism are measured from Python, with its launches, and in a CUDA graph, as
compiled programs run them.
"""

import functools
import json
import math
import os
import statistics
import subprocess
import sys

SIZES = 4096, 8192  # of the matrices, M = N = K
GATHER = 64 << 20  # bytes of a rank
GEMM = 8192
GEMMS = 40  # in a row, beside all-gathers


class Bench:
    """In a rank."""

    def __init__(self, backend):
        import torch
        import torch.distributed as dist
        import torch.distributed._symmetric_memory as symm_mem

        self.torch, self.dist, self.symm_mem = torch, dist, symm_mem
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.device = torch.device("cuda", self.rank)
        torch.cuda.set_device(self.device)
        dist.init_process_group("nccl", device_id=self.device)
        self.name = dist.group.WORLD.group_name
        self.is_libgin = backend == "GIN"
        if self.is_libgin:  # PyTorch's own is there already, and has no name to choose it by
            import libgin.torch_symm

            symm_mem.set_backend(backend)
            self.end = libgin.torch_symm.close
        torch.manual_seed(self.rank)
        self.results = {}

    def meet(self):
        self.torch.cuda.synchronize()
        self.dist.barrier(device_ids=[self.rank])
        self.torch.cuda.synchronize()

    def slowest(self, value):
        most = self.torch.tensor([value], device=self.device)
        self.dist.all_reduce(most, op=self.dist.ReduceOp.MAX)
        return most.item()

    def elapsed(self, function):
        """Microseconds on the current stream."""
        first, last = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.meet()
        first.record()
        function()
        last.record()
        last.synchronize()
        return first.elapsed_time(last) * 1000

    def report(self, what, function, calls, repeats=7):
        function()
        values = [self.slowest(self.elapsed(function)) for _ in range(repeats)]
        self.results[what] = statistics.median(values) / calls

    def in_graph(self, what, function, calls=20):
        function()
        self.meet()
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            for _ in range(calls):
                function()
        self.report(what, graph.replay, calls)

    def eager(self, what, function, calls=20):
        self.report(what, lambda: [function() for _ in range(calls)], calls)

    def symmetric(self, *shape):
        tensor = self.symm_mem.empty(*shape, dtype=self.torch.bfloat16, device=self.device)
        return tensor, self.symm_mem.rendezvous(tensor, self.name)

    def random(self, rows, columns):
        scale = max(rows, columns) ** 0.25
        tensor = self.torch.randn(rows, columns, device=self.device, dtype=self.torch.bfloat16)
        return tensor / scale

    def close(self):
        self.meet()
        if self.is_libgin:
            self.end()
        self.dist.destroy_process_group()


def small_calls(b):
    ops = b.torch.ops.symm_mem
    _, handle = b.symmetric(64)
    peer = 1 - b.rank

    def there_and_back():
        if b.rank == 0:
            handle.put_signal(peer, channel=1)
            handle.wait_signal(peer, channel=1)
        else:
            handle.wait_signal(peer, channel=1)
            handle.put_signal(peer, channel=1)

    b.in_graph("`barrier()`", handle.barrier)
    b.in_graph("`put_signal()`, `wait_signal()`, there and back", there_and_back)
    for size in 1 << 16, 1 << 20:
        tensor, _ = b.symmetric(size // 2)
        tensor.fill_(1)
        what = f"{size >> 10} KiB"
        one_shot = functools.partial(ops.one_shot_all_reduce, tensor, "sum", b.name)
        b.in_graph(f"`one_shot_all_reduce`, {what}", one_shot)
    two_shot = functools.partial(ops.two_shot_all_reduce_, tensor.zero_(), "sum", b.name)
    b.in_graph(f"`two_shot_all_reduce_`, {what}", two_shot)


def async_tp(b, side):
    """M = N = K = side; the results are those of a GEMM and a collective of NCCL."""
    ops, close = b.torch.ops.symm_mem, b.torch.testing.assert_close
    shard, weight = b.random(side // b.size, side), b.random(side, side // b.size)
    whole = b.torch.empty(side, side, dtype=shard.dtype, device=b.device)

    def gather():
        return ops.fused_all_gather_matmul(shard, [weight], gather_dim=0, group_name=b.name)[1][0]

    def plain_gather():
        b.dist.all_gather_into_tensor(whole, shard)
        return whole @ weight

    def scatter():
        return ops.fused_matmul_reduce_scatter(left, right, "sum", scatter_dim=0, group_name=b.name)

    close(gather(), plain_gather(), atol=2e-2, rtol=2e-2)
    b.eager(f"`fused_all_gather_matmul`, {side}", gather)
    b.in_graph(f"`fused_all_gather_matmul`, {side}, in a graph", gather, calls=5)
    left, right = b.random(side, side // b.size), b.random(side // b.size, side)
    part = b.torch.empty(side // b.size, side, dtype=left.dtype, device=b.device)
    b.dist.reduce_scatter_tensor(part, left @ right)
    close(scatter(), part, atol=5e-2, rtol=5e-2)
    b.eager(f"`fused_matmul_reduce_scatter`, {side}", scatter)
    b.in_graph(f"`fused_matmul_reduce_scatter`, {side}, in a graph", scatter, calls=5)
    b.eager(f"`all_gather_into_tensor`, then `mm`, {side}", plain_gather)


def gathers(b):
    """Functions that gather GATHER bytes of each rank and return them all, by name."""
    elements = GATHER // 2
    source, _ = b.symmetric(elements)
    source.fill_(b.rank + 1)
    plain = b.torch.empty(b.size * elements, dtype=source.dtype, device=b.device)

    def pulled():
        whole = b.torch.ops.symm_mem._low_contention_all_gather(source, b.name)
        return b.torch.ops._c10d_functional.wait_tensor(whole)

    def pushed():
        b.torch.ops.gin_symm.all_gather(whole, source, 3, b.name)
        return whole

    def by_nccl():
        b.dist.all_gather_into_tensor(plain, source)
        return plain

    yield "`_low_contention_all_gather`", pulled
    if b.is_libgin:
        whole, _ = b.symmetric(b.size, elements)
        yield "`gin_symm::all_gather`", pushed
    yield "NCCL", by_nccl


def series(b, gemm, gather, stream, each):
    """GEMMS times the GEMM, and `each` all-gathers for each on another stream: times of one."""
    first, last, gathered = (b.torch.cuda.Event(enable_timing=True) for _ in range(3))
    b.meet()
    first.record()
    stream.wait_event(first)
    for _ in range(GEMMS):
        with b.torch.cuda.stream(stream):
            for _ in range(each):
                gather()
        gemm()
    last.record()
    gathered.record(stream)
    b.torch.cuda.synchronize()
    of_gemm = b.slowest(first.elapsed_time(last) * 1000 / GEMMS)
    return of_gemm, b.slowest(first.elapsed_time(gathered) * 1000 / GEMMS) / max(each, 1)


def beside_gemm(b):
    """What a GEMM loses beside all-gathers, of which there are so many that they outlast it."""
    left, right = b.random(GEMM, GEMM), b.random(GEMM, GEMM)
    out, stream = b.torch.empty_like(left), b.torch.cuda.Stream()

    def gemm():
        b.torch.mm(left, right, out=out)

    for what, gather in gathers(b):
        parts = gather().view(b.size, -1)
        for rank in range(b.size):
            assert parts[rank].eq(rank + 1).all(), f"{what}: rank {rank}'s part is wrong"
        b.eager(what, gather)
        gather_alone = b.results.pop(what)
        each = math.ceil(1.1 * series(b, gemm, gather, stream, 0)[0] / gather_alone)
        rounds = []
        for _ in range(5):
            gemm_alone, _ = series(b, gemm, gather, stream, 0)
            rounds.append((gather_alone, gemm_alone, *series(b, gemm, gather, stream, each)))
        medians = [statistics.median(values) for values in zip(*rounds, strict=True)]
        b.results[f"beside {what}"] = medians


def rank_main(backend):
    b = Bench(backend)
    small_calls(b)
    for side in SIZES:
        async_tp(b, side)
    beside_gemm(b)
    if b.rank == 0:
        print(json.dumps(b.results), flush=True)
    b.close()


def measure(backend):
    """In processes that torchrun starts, and ends when it is told to end."""
    limited = ["timeout", "-k", "40", "240", sys.executable, "-W", "ignore"]
    torchrun = [*limited, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    run = subprocess.run([*torchrun, __file__, backend], stdout=subprocess.PIPE, text=True)
    if run.returncode:
        sys.exit(f"backend {backend} failed: status {run.returncode}")
    return json.loads(run.stdout.strip().splitlines()[-1])


def spread(values):
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def print_calls(results, backends):
    print(f"| call | {' | '.join(backends)} | ratio |\n{'|---' * (len(backends) + 2)}|")
    for what in results[backends[0]][0]:
        if what.startswith("beside"):
            continue
        times = [[round[what] for round in results[backend]] for backend in backends]
        medians = [statistics.median(values) for values in times]
        words = [what, *map(spread, times), f"{medians[0] / medians[-1]:.3f}"]
        print(f"| {' | '.join(words)} |")


def print_beside(results, backends):
    columns = "backend", "all-gather", "alone", "beside GEMMs", "GEMM alone", "beside", "slower by"
    print(f"\n| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    for backend in backends:
        for what in (what for what in results[backend][0] if what.startswith("beside")):
            rounds = zip(*(round[what] for round in results[backend]), strict=True)
            gather, alone, beside, gather_beside = rounds
            slower = statistics.median(b / a - 1 for a, b in zip(alone, beside, strict=True))
            times = map(spread, (gather, gather_beside, alone, beside))
            words = [backend, what.removeprefix("beside "), *times, f"{slower:.1%}"]
            print(f"| {' | '.join(words)} |")


def main(rounds, *backends):
    backends = backends or ("GIN", "CUDA")
    results = {backend: [] for backend in backends}
    for _ in range(int(rounds)):
        for backend in backends:
            results[backend].append(measure(backend))
    what = f"all-gather of {GATHER >> 20} MiB a rank; GEMM of M = N = K = {GEMM}"
    print(f"- microseconds; bf16; {rounds} rounds; {what}\n")
    print_calls(results, backends)
    print_beside(results, backends)


if __name__ == "__main__":
    if "RANK" in os.environ:
        rank_main(*sys.argv[1:])
    elif len(sys.argv) < 2 or not sys.argv[1].isdigit():
        sys.exit(__doc__)
    else:
        main(*sys.argv[1:])
