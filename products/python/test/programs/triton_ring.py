# SPDX-License-Identifier: BSD-3-Clause
"""triton_ring.py - rings in Triton, of processes on GPUs: rings.py. main() needs torch.

  puts     puts the outbox with a signal, by programs of 1, 4 and 8 warps
  gets     gets the left neighbour's outbox
  stores   stores into the right neighbour's inbox, then signals; direct routes only

Finally the programs of each rank count in a word of the right neighbour, by fetch_add().
"""

import triton
import triton.language as tl
from programs import rings

import libgin
import libgin.triton as gin

LIMIT = tl.constexpr(rings.LIMIT)
BLOCK = tl.constexpr(1024)
PROGRAMS = 8
# Triton would compile a variant of a kernel for an argument of 1 and another for multiples of 16:
# in rounds 1 and 16, while the neighbour's kernel waits.
NUMBERS = ["n", "rank", "size", "round"]


@triton.jit
def fill(words, n, rank, round):
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(words + at, at * 3 + rank * 1000003 + round * 7, mask=at < n)


@triton.jit
def copy_words(words, copy, n):
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(copy + at, tl.load(words + at, mask=at < n) + 1, mask=at < n)


@gin.jit(do_not_specialize=NUMBERS)
def puts(dc, inbox, outbox, target, source, copy, status, n, rank, size, round):
    fill(source, n, rank, round)
    right = (rank + 1) % size
    result = gin.put(dc, right, inbox, 0, outbox, 0, n * 4, signal=0, timeout=LIMIT)
    result |= gin.wait_signal(dc, 0, round, timeout=LIMIT)
    copy_words(target, copy, n)
    result |= gin.flush(dc, timeout=LIMIT)
    tl.store(status, result)


@gin.jit(do_not_specialize=NUMBERS)
def gets(dc, inbox, outbox, target, source, copy, status, n, rank, size, round):
    fill(source, n, rank, round)
    left = (rank + size - 1) % size
    result = gin.barrier(dc, size, rank, timeout=LIMIT)
    result |= gin.get(dc, left, outbox, 0, inbox, 0, n * 4, timeout=LIMIT)
    result |= gin.flush(dc, timeout=LIMIT)
    copy_words(target, copy, n)
    result |= gin.barrier(dc, size, rank, timeout=LIMIT)  # the right neighbour has its copy
    tl.store(status, result)


@gin.jit(do_not_specialize=NUMBERS)
def stores(dc, inbox, outbox, target, source, copy, status, n, rank, size, round):
    right = (rank + 1) % size
    fill(gin.peer_pointer(inbox, right, tl.int32), n, rank, round)
    result = gin.signal(dc, right, 0, timeout=LIMIT)
    result |= gin.wait_signal(dc, 0, round, timeout=LIMIT)
    copy_words(target, copy, n)
    tl.store(status, result)


@gin.jit
def count(dc, words, seen, failed, right):
    old = gin.fetch_add(dc, right, words, 0, 1, failed=failed, timeout=LIMIT)
    tl.store(seen + tl.program_id(0), old)


def maker(kernel, warps):
    """make() of rings.py."""
    import torch

    import libgin.torch

    def make(comm, n):
        empty = libgin.torch.empty
        target, source = (empty(n, dtype=torch.int32, device=comm.device_index) for _ in range(2))
        copy = torch.zeros(n, dtype=torch.int32, device="cuda")
        status = torch.full((1,), -1, dtype=torch.int32, device="cuda")
        torch.cuda.synchronize()

        def launch(dc, inbox, outbox, right, round):
            tensors = target, source, copy, status
            numbers = n, comm.rank, comm.size, round
            kernel[(1,)](dc, inbox, outbox, *tensors, *numbers, num_warps=warps)

        def done():
            torch.cuda.synchronize()
            return copy.cpu().numpy(), int(status.item())

        return target, source, launch, done

    return make


def check_counts(comm):
    """fetch_add() of each program gives another number, and the word is the sum."""
    import torch

    import libgin.torch

    words = libgin.torch.empty(1, dtype=torch.int64, device=comm.device_index)
    words.zero_()
    seen = torch.full((PROGRAMS,), -1, dtype=torch.int64, device="cuda")
    failed = torch.zeros(1, dtype=torch.int32, device="cuda")
    with comm.register(words) as window, comm.device() as dc:
        torch.cuda.synchronize()
        comm.barrier()
        count[(PROGRAMS,)](dc, window, seen, failed, (comm.rank + 1) % comm.size)
        torch.cuda.synchronize()
        dc.raise_for(int(failed.item()))
        comm.barrier()
    assert sorted(seen.tolist()) == list(range(PROGRAMS)), seen
    assert words.item() == PROGRAMS, words
    print(f"triton counts: rank {comm.rank} of {comm.size}: right", flush=True)


def main():
    import torch

    with libgin.Communicator() as comm:
        torch.cuda.set_device(comm.device_index)
        for warps in (1, 4, 8):
            rings.rounds(comm, f"triton puts, {warps} warps", maker(puts, warps))
        rings.rounds(comm, "triton gets", maker(gets, 4))
        if comm.peer((comm.rank + 1) % comm.size).backend == "direct":
            rings.rounds(comm, "triton stores", maker(stores, 4))
        check_counts(comm)


if __name__ == "__main__":
    main()
