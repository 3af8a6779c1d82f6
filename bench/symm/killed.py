# SPDX-License-Identifier: BSD-3-Clause
"""killed.py [-n RUNS] [-j JOBS] [--limit SECONDS] [--start SECONDS] [--calls REGEX] [--seed N]
          [BACKEND...]

What a rank sees of PyTorch's symmetric memory when its peer is killed: a table with a row for each
backend and call. Two ranks, with a GPU each or one for both, make the call again and again; rank 1 is
killed at a random time, and rank 0 has until the limit. GIN_CPU needs no GPU. -j runs several pairs of ranks at once.
A pair that has not made its first calls within the time of --start counts as "not offered".
Exits with 1 if with libgin's backend a rank did not get its exception.
"""

import argparse
import collections
import json
import multiprocessing
import os
import random
import re
import select
import signal
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem

BACKENDS = "GIN", "CUDA", "NVSHMEM", "NCCL"
HEADER = "backend", "call", "runs", "exception", "hung", "wrong result", "ended", "not offered"
HEADER += "seconds to the exception", "GPU usable after it", "words"


class WrongResultError(Exception):
    pass


class Rank:
    """One of two, with a symmetric tensor."""

    def __init__(self, backend, rank, path):
        self.backend, self.rank, self.peer, self.turn = backend, rank, 1 - rank, 0
        gpus = torch.cuda.device_count()
        self.device = torch.device("cpu") if backend == "GIN_CPU" else torch.device("cuda", rank % gpus)
        self.is_libgin = backend.startswith("GIN")
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        if self.is_libgin:
            import libgin.torch_symm

            self.check = libgin.torch_symm.check
        if backend != "CUDA":  # PyTorch's own is there already, and has no name to choose it by
            symm_mem.set_backend(backend)
        self.join(path)
        self.tensor = symm_mem.empty(4096, device=self.device).fill_(rank + 1)
        self.handle = symm_mem.rendezvous(self.tensor, self.name)

    def join(self, path):
        kind = "nccl" if self.backend == "NCCL" else "gloo"
        store = dist.FileStore(path, 2)
        dist.init_process_group(kind, store=store, rank=self.rank, world_size=2)
        self.name = dist.group.WORLD.group_name
        if kind == "nccl":  # makes the communicator that the backend NCCL takes
            dist.all_reduce(torch.ones(1, device=self.device))

    def put_signal(self):
        if self.backend == "NCCL":
            symm_mem.put_signal(self.tensor, self.handle, self.peer)
        elif self.backend == "NVSHMEM":
            pad = self.handle.get_signal_pad(self.rank)
            torch.ops.symm_mem.nvshmem_put_with_signal(self.tensor, pad, self.turn, self.peer)
        else:
            self.handle.put_signal(self.peer, channel=1)

    def wait_signal(self):
        if self.backend == "NCCL":
            symm_mem.wait_signal(self.handle, self.peer)
        elif self.backend == "NVSHMEM":
            pad = self.handle.get_signal_pad(self.rank)
            torch.ops.symm_mem.nvshmem_wait_for_signal(pad, self.turn, self.peer)
        else:
            self.handle.wait_signal(self.peer, channel=1)

    def finish(self):
        """What was launched has ended, and ended well."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        if self.is_libgin:
            self.check(self.name, self.device)


def barrier(r):
    r.handle.barrier()
    r.finish()


def barrier_within(r):
    r.handle.barrier(timeout_ms=1000)
    r.finish()


def signals(r):
    r.turn += 1
    first, second = (r.put_signal, r.wait_signal) if r.rank else (r.wait_signal, r.put_signal)
    first()
    second()
    r.finish()


def kernel(r):
    total = torch.ops.symm_mem.one_shot_all_reduce(r.tensor, "sum", r.name)
    r.finish()
    if not total.eq(3).all():
        raise WrongResultError(f"the sum is {total[0].item()}")


CALLS = {
    "barrier()": barrier,
    "barrier(timeout_ms=1000)": barrier_within,
    "wait_signal()": signals,
    "one_shot_all_reduce": kernel,
}


def is_usable(device):
    try:
        return torch.ones(2, device=device).sum().item() == 2
    except Exception:
        return False


def rank_main(backend, call, rank, path, say):
    """Says "ready", then how it ended."""
    try:
        r = Rank(backend, rank, path)
        for _ in range(5):
            CALLS[call](r)
    except Exception as error:
        return say(how="not offered", words=str(error))
    say(how="ready")
    while True:
        try:
            CALLS[call](r)
        except Exception as error:
            at = time.monotonic()
            how = "wrong result" if isinstance(error, WrongResultError) else "exception"
            return say(how=how, at=at, usable=is_usable(r.device), words=str(error))


def fork_rank(backend, call, rank, path, pipe):
    """By fork: the ranks need not import PyTorch. Nothing here has used CUDA, so that they can."""
    pid = os.fork()
    if pid:
        return pid
    null = os.open(os.devnull, os.O_RDWR)
    for stream in 0, 1, 2:
        os.dup2(null, stream)

    def say(**words):
        if rank == 0:
            os.write(pipe, json.dumps(words).encode() + b"\n")

    rank_main(backend, call, rank, path, say)
    os._exit(0)


def heard(pipe, seconds):
    """What rank 0 says next."""
    line, ends = b"", time.monotonic() + seconds
    while not line.endswith(b"\n"):
        left = ends - time.monotonic()
        if left <= 0 or not select.select([pipe], [], [], left)[0]:
            return {"how": "hung", "words": f"nothing within {seconds:.0f} s"}
        got = os.read(pipe, 4096)
        if not got:
            return {"how": "ended"}
        line += got
    return json.loads(line)


def end(pid):
    """Ends a rank. How it had ended by itself, if it had."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return f"signal {-status}" if status < 0 else f"status {status}"


def watch(pipe, victim, delay, first, limit):
    start = heard(pipe, first)
    if start["how"] != "ready":
        return start if start["how"] == "not offered" else {**start, "how": "not offered"}
    time.sleep(delay)
    killed = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    result = heard(pipe, limit)
    return {**result, "seconds": result["at"] - killed} if "at" in result else result


def run(backend, call, seed, first, limit):
    delay = random.Random(f"{seed} {backend} {call}").uniform(0, 0.05)
    with tempfile.TemporaryDirectory() as folder:
        pipe, pipe_of_ranks = os.pipe()
        pids = [fork_rank(backend, call, r, f"{folder}/store", pipe_of_ranks) for r in range(2)]
        os.close(pipe_of_ranks)
        try:
            result = watch(pipe, pids[1], delay, first, limit)
        finally:
            ends = [end(pid) for pid in pids]
            os.close(pipe)
    return {"words": ends[0], **result}


def row(backend, call, results):
    count = collections.Counter(result["how"] for result in results)
    raised = [result for result in results if result["how"] == "exception"]
    seconds = [result["seconds"] for result in raised]
    times = f"{statistics.median(seconds):.2f}, at most {max(seconds):.2f}" if seconds else ""
    usable = f"{sum(result['usable'] for result in raised)} of {len(raised)}" if raised else ""
    words = collections.Counter(result["words"].split("\n")[0][:160] for result in results)
    numbers = [len(results), *(count[how] for how in HEADER[3:8])]
    words = words.most_common(1)[0][0].replace("|", "/")
    return " | ".join(map(str, [backend, f"`{call}`", *numbers, times, usable, words]))


def main():
    parser = argparse.ArgumentParser(usage=__doc__.partition("\n\n")[0])
    parser.add_argument("-n", type=int, default=100, dest="runs")
    parser.add_argument("-j", type=int, default=1, dest="jobs")
    parser.add_argument("--limit", type=float, default=5)
    parser.add_argument("--start", type=float, default=90)
    parser.add_argument("--calls", type=re.compile, default="")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("backends", nargs="*", metavar="BACKEND", default=BACKENDS)
    options = parser.parse_args()
    if unknown := [name for name in options.backends if name not in (*BACKENDS, "GIN_CPU")]:
        parser.error(f"there is no backend {unknown[0]}")
    print(f"- seed {options.seed}, {options.jobs} pairs at a time, limit {options.limit:.0f} s")
    print(f"\n| {' | '.join(HEADER)} |\n{'|---' * len(HEADER)}|", flush=True)
    good = True
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        for backend in options.backends:
            for call in (call for call in CALLS if re.search(options.calls, call)):
                seeds = range(options.seed, options.seed + options.runs)
                limits = options.start, options.limit
                tasks = [(backend, call, seed, *limits) for seed in seeds]
                results = pool.starmap(run, tasks, chunksize=1)
                print(f"| {row(backend, call, results)} |", flush=True)
                is_good = all(r["how"] in ("exception", "not offered") for r in results)
                good = good and (is_good or not backend.startswith("GIN"))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
