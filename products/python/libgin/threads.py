# SPDX-License-Identifier: BSD-3-Clause
"""Ranks as threads of one process."""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from . import _arguments
from ._interrupt import LONGEST_WAIT
from .communicator import Communicator
from .errors import PeerError

_Result = TypeVar("_Result")


class _Board:
    """An allgather between threads."""

    def __init__(self, size):
        self._parts = [b""] * size
        self._barrier = threading.Barrier(size, timeout=60)

    def allgather(self, rank, data):
        self._parts[rank] = data
        self._barrier.wait()
        parts = list(self._parts)
        self._barrier.wait()
        return parts

    def abort(self):
        self._barrier.abort()


class _Ranks:
    def __init__(self, size, function, arguments, device):
        self.board = _Board(size)
        self.results, self.errors = [None] * size, []
        self.size, self.device = size, device
        self.comms: list[Communicator] = []
        self._lock, self._aborted = threading.Lock(), False
        self._function, self._arguments = function, arguments

    def main(self, rank):
        try:
            with self._join(rank) as comm:
                self._keep(comm)
                self.results[rank] = self._function(comm, *self._arguments)
        except BaseException as error:
            self.errors.append(error)
            self.board.abort()

    def _keep(self, comm):
        with self._lock:
            self.comms.append(comm)
            aborted = self._aborted
        if aborted:
            comm.abort()

    def abort(self):
        """Ends all waits, and those that begin later."""
        with self._lock:
            self._aborted = True
            comms = list(self.comms)
        self.board.abort()
        for comm in comms:
            comm.abort()

    def raise_error(self):
        """The first error, but not a consequence of another rank's."""
        if self.errors:
            raise min(self.errors, key=lambda error: isinstance(error, PeerError))

    def _join(self, rank):
        def gather(data):
            return self.board.allgather(rank, data)

        return Communicator(allgather=gather, rank=rank, size=self.size, device=self.device)


def run_threads(
    size: int, function: Callable[..., _Result], *arguments, device: Any = "none"
) -> list[_Result]:
    """Calls function(communicator, *arguments) on `size` threads, the ranks; returns their results.

    After an exception on one rank the waits of the other ranks end; the first exception is raised.
    Ctrl-C on the main thread ends the waits of all ranks.
    """
    size = _arguments.whole("size", size, (1, _arguments.INT32[1]))
    ranks = _Ranks(size, function, arguments, device)
    threads = [
        threading.Thread(target=ranks.main, args=(rank,), name=f"rank {rank}")
        for rank in range(size)
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(LONGEST_WAIT)
    except BaseException:  # of a signal handler
        ranks.abort()
        for thread in threads:
            if thread.is_alive():
                thread.join()
        raise
    ranks.raise_error()
    return ranks.results
