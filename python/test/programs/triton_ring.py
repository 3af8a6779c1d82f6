# SPDX-License-Identifier: BSD-3-Clause
"""triton_ring.py - a ring in Triton: two processes on two GPUs, or any number interpreted.

RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT as torchrun sets them; GIN_ROUTE=network for the
network. Each way below prints how many rounds were right.

  ring     stores the outbox, puts it with a signal, waits for the left neighbour, loads the inbox
  pull     the data of `ring`, by get from the left neighbour
  atomics  fetch_add of all programs, by one thread each, gives each program another number
  stores   through a peer pointer, where the route is direct
"""

import os

import torch
import torch.distributed as dist
import triton
import triton.language as tl

import libgin
import libgin.torch
import libgin.triton as gin

LIMIT = tl.constexpr(5_000_000_000)  # nanoseconds


@gin.jit
def ring(dc, inbox, outbox, target, source, out, status, rank, right, n, round, BLOCK: tl.constexpr):
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(source + at, at.to(tl.float32) + 1000.0 * rank + 7 * round, mask=at < n)
    result = gin.put(dc, right, inbox, 0, outbox, 0, n * 4, signal=0, timeout=LIMIT)
    result |= gin.wait_signal(dc, 0, round, timeout=LIMIT)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(target + at, mask=at < n) + 1.0, mask=at < n)
    result |= gin.flush(dc, timeout=LIMIT)
    tl.store(status, result)


@gin.jit
def pull(dc, inbox, outbox, target, source, out, status, rank, left, n, size, round, BLOCK: tl.constexpr):
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(source + at, at.to(tl.float32) + 1000.0 * rank + 7 * round, mask=at < n)
    result = gin.barrier(dc, size, rank, timeout=LIMIT)
    result |= gin.get(dc, left, outbox, 0, inbox, 0, n * 4, timeout=LIMIT)
    result |= gin.flush(dc, timeout=LIMIT)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(target + at, mask=at < n) + 1.0, mask=at < n)
    result |= gin.barrier(dc, size, rank, timeout=LIMIT)
    tl.store(status, result)


@gin.jit
def count(dc, words, seen, failed, peer):
    old = gin.fetch_add(dc, peer, words, 0, 1, failed=failed, timeout=LIMIT)
    tl.store(seen + tl.program_id(0), old)


@gin.jit
def stores(inbox, source, right, n, BLOCK: tl.constexpr):
    there = gin.peer_pointer(inbox, right, tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(there + at, tl.load(source + at, mask=at < n) * 2.0, mask=at < n)


class Ranks:
    def __init__(self, comm, device, n):
        self.comm, self.rank, self.size, self.n = comm, comm.rank, comm.size, n
        self.right, self.left = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        empty = lambda: libgin.torch.empty(n, dtype=torch.float32, device=device)  # noqa: E731
        self.source, self.target = empty(), empty()
        self.out = torch.zeros(n, dtype=torch.float32, device=self.source.device)
        self.status = torch.full((1,), -1, dtype=torch.int32, device=self.source.device)

    def meet(self):
        if self.source.is_cuda:
            torch.cuda.synchronize()
        dist.barrier()

    def right_now(self, round):
        want = torch.arange(self.n, dtype=torch.float32) + 1000 * self.left + 7 * round + 1
        got = self.out.cpu()
        wrong = int((got != want).sum())
        if wrong:
            at = int((got != want).nonzero()[0])
            print(f"rank {self.rank} round {round}: {wrong} of {self.n} wrong, first at {at}: {got[at]} for {want[at]}")
        return not wrong

    def rounds(self, name, count, launch):
        good = 0
        for round in range(1, count + 1):
            self.meet()
            launch(round)
            self.meet()
            good += self.right_now(round)
        status = int(self.status.item())
        print(f"{name}: rank {self.rank}: {good} of {count} rounds right, status {status}", flush=True)


def main():
    gpu = torch.cuda.is_available() and not triton.knobs.runtime.interpret
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    rounds = int(os.environ.get("ROUNDS", "200" if gpu else "2"))
    warps = [int(w) for w in os.environ.get("WARPS", "4,1,8").split(",")] if gpu else [1]
    pulls = gpu or size == 1
    if gpu:
        torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("gloo", rank=rank, world_size=size)
    device = torch.cuda.current_device() if gpu else "none"
    with libgin.torch.communicator(device=device) as comm:
        r = Ranks(comm, device, 5000)
        with comm.register(r.source) as outbox, comm.register(r.target) as inbox:
            arguments = inbox, outbox, r.target, r.source, r.out, r.status, rank
            for w in warps:
                with comm.device(signals=2, barriers=1) as dc:
                    r.rounds(f"ring, {w} warps", rounds, lambda i: ring[(1,)](
                        dc, *arguments, r.right, r.n, i, BLOCK=1024, num_warps=w))
                    if pulls and os.environ.get("WAYS") != "ring": r.rounds(f"pull, {w} warps", rounds, lambda i: pull[(1,)](
                        dc, *arguments, r.left, r.n, size, i, BLOCK=1024, num_warps=w))
                    dc.raise_for(int(r.status.item()))
            if "ring" == os.environ.get("WAYS"):
                return
            atomics(r, comm)
            if comm.peer(r.right).route == "direct" or comm.peer(r.right).backend == "direct":
                stores[(1,)](inbox, r.source, r.right, r.n, BLOCK=1024)
                r.meet()
                want = (torch.arange(r.n) + 1000 * r.left) * 2
                print(f"stores: rank {rank}:", "right" if (r.target.cpu() - want).abs().max() < 30000 else "wrong")
        r.meet()
    dist.destroy_process_group()


def atomics(r, comm):
    grid = 8
    words = libgin.torch.empty(8, dtype=torch.int64, device=r.comm.device_index if hasattr(r.comm, "device_index") else (r.source.device.index if r.source.is_cuda else "none"))
    words.zero_()
    seen = torch.full((grid,), -1, dtype=torch.int64, device=r.source.device)
    failed = torch.zeros(1, dtype=torch.int32, device=r.source.device)
    with comm.register(words) as window, comm.device() as dc:
        r.meet()
        count[(grid,)](dc, window, seen, failed, r.right)
        r.meet()
        every = [torch.zeros(grid, dtype=torch.int64) for _ in range(r.size)]
        dist.all_gather(every, seen.cpu())
        # The left neighbour counts in this rank's word.
        numbers = sorted(every[r.left].tolist())
        print(f"atomics: rank {r.rank}: word {words.cpu()[0].item()}, numbers {numbers}, failed {failed.item()}", flush=True)


if __name__ == "__main__":
    main()
