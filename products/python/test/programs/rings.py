# SPDX-License-Identifier: BSD-3-Clause
"""What the rings in Triton, Numba, CuTe DSL and CuPy have in common.

Each rank fills its outbox in the kernel, puts it to its right neighbour with a signal, waits for
its left neighbour, and copies the inbox in the kernel. The host compares every byte of the copy.
The ranks find each other by the launcher or by GIN_ROOT, RANK and WORLD_SIZE. Ranks may share a
GPU.
"""

import os
import time

import numpy as np

import libgin

SIZES = 5000, 300001  # words
ROUNDS = int(os.environ.get("ROUNDS", "20"))
LIMIT = 10_000_000_000  # nanoseconds


def word(at, rank, round):
    """The word that a rank sends: an int32 of its index, the rank and the round."""
    return at * 3 + rank * 1000003 + round * 7


def right_words(got, rank, round):
    """Whether each word of a copy is the rank's word plus 1. Prints the first wrong word."""
    want = word(np.arange(len(got), dtype=np.int64), rank, round).astype(np.int32) + np.int32(1)
    wrong = np.flatnonzero(np.asarray(got) != want)
    if len(wrong):
        at = wrong[0]
        first = f"word {at} is {got[at]} instead of {want[at]}"
        print(f"round {round}: {len(wrong)} of {len(got)} words wrong: {first}")
    return not len(wrong)


def rounds(comm, name, make):
    """make(comm, n) returns inbox, outbox, launch(dc, inbox, outbox, right, round) and done().

    done() waits for the kernel and returns the copy on the host, and the status.
    """
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    route = comm.peer(right).backend
    for n in SIZES:
        inbox, outbox, launch, done = make(comm, n)
        with comm.register(inbox) as to, comm.register(outbox) as source, comm.device() as dc:
            good, start = 0, time.monotonic()
            for round in range(1, ROUNDS + 1):
                comm.barrier()  # the right neighbour has read its inbox
                launch(dc, to, source, right, round)
                copy, status = done()
                dc.raise_for(status)
                good += right_words(copy, left, round)
        assert good == ROUNDS, f"{name}: {good} of {ROUNDS} rounds right"
        rank = f"rank {comm.rank} of {comm.size}, {route}"
        seconds = f"{time.monotonic() - start:.1f} s"
        print(f"{name}: {rank}, {n} words: {good} rounds right, {seconds}", flush=True)


def run(name, make):
    with libgin.Communicator() as comm:
        rounds(comm, name, make)
