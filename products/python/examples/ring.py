# SPDX-License-Identifier: BSD-3-Clause
"""Every rank sends an array to its right neighbour and waits for its left one.

The kernel is a Python function on host threads, so that the example needs no GPU:

    python products/python/examples/ring.py                  # three ranks as threads of one process
    mpirun -n 3 python products/python/examples/ring.py      # three processes
"""

import os

import numpy as np

import libgin
from libgin import host

COUNT, THREADS = 10000, 4


def shift(dc, inbox, outbox, right, nbytes, statuses):
    """The kernel. All threads of the block make each call together: coop CTA."""
    status = host.ginPut(
        *(dc, 0, right, inbox, 0, outbox, 0, nbytes),  # context 0, from and to offset 0
        *(host.STRONG, None, 0, 1),  # then add 1 to signal 0
        *(host.NO_COUNTER, host.CTA, host.seconds(10)),
    )
    if status == 0:  # once the signal is visible, so is the data
        status = host.ginWaitSignal(dc, 0, None, 0, 1, host.CTA, host.seconds(10))
    statuses[host.thread()] = status


def rank_main(comm):
    outbox = np.asarray(comm.alloc(4 * COUNT)).view(np.int32)
    inbox = np.asarray(comm.alloc(4 * COUNT)).view(np.int32)
    outbox[:] = np.arange(COUNT) + comm.rank
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    statuses = [None] * THREADS
    with comm.register(inbox) as target, comm.register(outbox) as source, comm.device() as dc:
        host.launch(1, THREADS, shift, dc, target, source, right, outbox.nbytes, statuses)
        for status in statuses:
            dc.raise_for(status)
    assert (inbox == np.arange(COUNT) + left).all()
    print(f"rank {comm.rank} of {comm.size}: {inbox.nbytes} bytes from rank {left}", flush=True)


def main():
    if "OMPI_COMM_WORLD_SIZE" in os.environ or "WORLD_SIZE" in os.environ:
        with libgin.Communicator(device="none") as comm:
            rank_main(comm)
    else:
        libgin.run_threads(3, rank_main)


if __name__ == "__main__":
    main()
