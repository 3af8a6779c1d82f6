# SPDX-License-Identifier: BSD-3-Clause
"""Each rank puts to its right neighbour and waits for its left one, by a kernel in Python.

ring.py HOW: the ranks are processes, which find each other by the launcher (own), by a store in a
file (store), by torch's TCPStore (tcpstore), by a process group (group) or by mpi4py (mpi).
"""

import os
import sys
import time
from pathlib import Path

import numpy as np

import libgin
from libgin import host


def shift(dc, inbox, outbox, right, nbytes, statuses):
    """A kernel: puts to the right neighbour, waits for the left one."""
    status = host.ginPut(
        *(dc, 0, right, inbox, 0, outbox, 0, nbytes),
        *(host.STRONG, None, 0, 1, host.NO_COUNTER, host.CTA, 0),
    )
    status |= host.ginWaitSignal(dc, 0, None, 0, 1, host.CTA, host.seconds(20))
    statuses[host.thread()] = status


def ring(comm, count=10000, threads=3):
    source = np.asarray(comm.alloc(count * 4)).view(np.int32)
    target = np.asarray(comm.alloc(count * 4)).view(np.int32)
    source[:] = np.arange(count) + 1000000 * comm.rank
    statuses = [-1] * threads
    with comm.register(target) as inbox, comm.register(source) as outbox, comm.device() as dc:
        right = (comm.rank + 1) % comm.size
        host.launch(1, threads, shift, dc, inbox, outbox, right, count * 4, statuses)
        dc.raise_for(max(statuses))
        comm.barrier()
    left = (comm.rank - 1) % comm.size
    assert statuses == [0] * threads
    assert (target == np.arange(count) + 1000000 * left).all()
    return comm.peer(right).backend


class FileStore:
    """A store in a folder."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def set(self, key, value):
        hidden = self.folder / f".{key}"
        hidden.write_text(value)
        hidden.rename(self.folder / key)

    def get(self, key):
        while not (self.folder / key).exists():
            time.sleep(0.01)
        return (self.folder / key).read_text()


def numbers():
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def by_own():
    return libgin.Communicator(device="none")


def by_store():
    return libgin.Communicator.from_store(FileStore(os.environ["STORE"]), *numbers(), device="none")


def by_tcpstore():
    from torch.distributed import TCPStore

    rank, size = numbers()
    store = TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), size, rank == 0)
    by_tcpstore.store = store  # rank 0's is the server
    with libgin.Communicator.from_store(store, rank, size, device="none") as first:
        first.barrier()
    return libgin.Communicator.from_store(store, rank, size, device="none")


def by_group():
    import torch.distributed as dist

    from libgin import torch as gin_torch

    dist.init_process_group("gloo")
    halves = [dist.new_group(list(range(first, dist.get_world_size(), 2))) for first in (0, 1)]
    with gin_torch.communicator(halves[dist.get_rank() % 2], device="none") as half:
        half.barrier()
    return gin_torch.communicator(device="none")


def by_mpi():
    from mpi4py import MPI

    return libgin.Communicator.from_mpi(MPI.COMM_WORLD, device="none")


def unreachable(comm):
    """numpy's memory, which other processes cannot map, is refused on all ranks."""
    try:
        comm.register(np.zeros(4096)).close()
    except libgin.GinError as error:
        assert "ginMemAlloc" in str(error), error
    else:
        assert comm.size == 1


def main(how):
    with globals()[f"by_{how}"]() as comm:
        backend = ring(comm)
        unreachable(comm)
        print(f"rank {comm.rank} of {comm.size}, {backend}, {comm.info().bootstrap}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
