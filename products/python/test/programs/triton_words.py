# SPDX-License-Identifier: BSD-3-Clause
"""triton_words.py - each call of libgin.triton once, by Triton's interpreter on host threads.

Processes as GIN_ROOT, RANK and WORLD_SIZE say. Needs no torch: kernels reach memory by
peer_pointer() of their own rank. Set TRITON_INTERPRET=1.
"""

import os
import signal
import threading

import numpy as np
import triton.language as tl
from words import check_signatures

import libgin
import libgin.triton as gin

LIMIT = tl.constexpr(20_000_000_000)  # nanoseconds
BYTES = tl.constexpr(8)
# Words of a rank's window: the put fills WORDS of them, put_value() VALUE, get() GOT, atomics work
# on COUNT. The kernel stores what it has seen from SEEN on, and its status.
WORDS, VALUE, GOT, COUNT, SEEN, STATUS = (tl.constexpr(i) for i in (96, 96, 97, 98, 99, 120))


@gin.jit
def every(dc, inbox, outbox, rank, right, left, size):
    own = gin.peer_pointer(outbox, rank, tl.int64)
    at = tl.arange(0, 32)
    for start in range(0, WORDS, 32):
        tl.store(own + start + at, (start + at).to(tl.int64) + 1000 * rank)
    nbytes = WORDS * BYTES
    result = gin.put(dc, right, inbox, 0, outbox, 0, nbytes, signal=0, counter=0, timeout=LIMIT)
    waited = gin.wait_signal(dc, 0, 1, timeout=LIMIT)
    result |= waited | gin.wait_counter(dc, 0, 1, timeout=LIMIT)
    target = gin.after(gin.peer_pointer(inbox, rank, tl.int64), waited)
    total = 0
    for start in range(0, WORDS, 32):
        total += tl.sum(tl.load(target + start + at))
    tl.store(target + SEEN, total)
    result |= gin.put_value(dc, right, inbox, VALUE * BYTES, 7000 + rank, signal=1, timeout=LIMIT)
    result |= gin.wait_value(dc, inbox, VALUE * BYTES, 1, timeout=LIMIT)
    tl.store(target + SEEN + 1, gin.read_value(dc, inbox, VALUE * BYTES))
    result |= gin.get(dc, left, outbox, BYTES, inbox, GOT * BYTES, BYTES, timeout=LIMIT)
    result |= gin.flush(dc, timeout=LIMIT)
    tl.store(target + SEEN + 2, gin.fetch_add(dc, right, inbox, COUNT * BYTES, 5, timeout=LIMIT))
    result |= gin.barrier(dc, size, rank, timeout=LIMIT)
    old = gin.compare_swap(dc, right, inbox, COUNT * BYTES, 5, 50, timeout=LIMIT)
    tl.store(target + SEEN + 3, old)
    result |= gin.barrier(dc, size, rank, timeout=LIMIT)
    old = gin.swap(dc, right, inbox, COUNT * BYTES, 500 + rank, timeout=LIMIT)
    tl.store(target + SEEN + 4, old)
    result |= gin.signal(dc, right, 2, add=3, timeout=LIMIT)
    result |= gin.wait_ticket(dc, right, gin.flush_ticket(dc, right), timeout=LIMIT)
    result |= gin.wait_signal(dc, 2, 3, timeout=LIMIT)
    tl.store(target + SEEN + 5, gin.read_signal(dc, 2))
    tl.store(target + SEEN + 6, gin.read_counter(dc, 0))
    gin.reset_signal(dc, 2)
    gin.reset_counter(dc, 0)
    tl.store(target + SEEN + 7, gin.read_signal(dc, 2))
    tl.store(target + SEEN + 8, gin.read_counter(dc, 0))
    tl.store(target + STATUS, result.to(tl.int64))


def expected(rank, left):
    """What the kernel stores from word SEEN on."""
    total = sum(range(WORDS.value)) + WORDS.value * 1000 * left
    values = {"sum of the put": total, "value": 7000 + left, "fetch_add": 0, "compare_swap": 5}
    return {**values, "swap": 50, "signal": 3, "counter": 1, "reset signal": 0, "reset counter": 0}


@gin.jit
def wait(dc):
    gin.wait_signal(dc, 0, 1)


def check_interrupt():
    """Ctrl-C ends a kernel that waits."""
    with libgin.Communicator(allgather=lambda own: [own], rank=0, size=1, device="none") as comm:
        dc = comm.device()
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            wait[(1,)](dc)
        except KeyboardInterrupt:
            return
    raise AssertionError("the wait has ended without an exception")


def main():
    check_signatures("triton", gin)
    check_interrupt()
    with libgin.Communicator(device="none") as comm:
        inbox, outbox = (np.asarray(comm.alloc(8 * 128)).view(np.int64) for _ in range(2))
        inbox[:], outbox[:] = 0, 0
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        with (
            comm.register(inbox) as to,
            comm.register(outbox) as source,
            comm.device(signals=4, counters=2, barriers=1) as dc,
        ):
            comm.barrier()
            every[(1,)](dc, to, source, comm.rank, right, left, comm.size)
            dc.raise_for(int(inbox[STATUS.value]))
            comm.barrier()
            want = expected(comm.rank, left)
            got = dict(zip(want, inbox[SEEN.value :].tolist(), strict=False))
            assert got == want, (got, want)
            assert (inbox[: WORDS.value] == np.arange(WORDS.value) + 1000 * left).all()
            assert inbox[GOT.value] == 1 + 1000 * left, inbox[GOT.value]
            assert inbox[COUNT.value] == 500 + left, inbox[COUNT.value]
        route = comm.peer(right).backend
        print(f"triton_words: rank {comm.rank} of {comm.size}, {route}: all right", flush=True)


if __name__ == "__main__":
    main()
