# SPDX-License-Identifier: BSD-3-Clause
"""Communicators: the ranks that exchange tokens."""

import contextlib
import ctypes
import threading

from . import _abi


def _device_number(device):
    """ginConfig_t.device of None, "auto", "none", "cpu", an ordinal, or a torch.device."""
    if device is None or device == "auto":
        return _abi.DEVICE_AUTO
    if isinstance(device, int):
        return device
    kind, _, index = str(device).partition(":")
    if kind in ("none", "cpu"):
        return _abi.DEVICE_NONE
    if kind == "cuda" and (not index or index.isdigit()):
        return int(index) if index else _abi.DEVICE_AUTO
    raise ValueError(f'device {device!r}: give "auto", "none", an ordinal or a torch device')


class Communicator:
    """A ginComm_t. Collective: every rank makes one.

    Without `allgather` the ranks find each other as ginCommInit(3) says: by PMIx (mpirun, srun), by
    GIN_ROOT, or this rank is alone. With `allgather`, a function that takes the bytes of this rank and
    returns a list of the bytes of all ranks, `rank` and `size` number the ranks, which may be threads.

    device: "auto" (the current CUDA device, or none if there is no GPU), "none" (host threads), an ordinal
    or a torch device.
    """

    def __init__(self, allgather=None, rank=0, size=1, device="auto", name=None):
        config = _abi.Config(ctypes.sizeof(_abi.Config), _device_number(device))
        failed = []
        if allgather is not None:
            config.allgather = _abi.Allgather(_callback(allgather, failed))
            config.rank, config.nRanks = rank, size
        config.name = name.encode() if name else None
        self._comm = ctypes.c_void_p()
        try:
            _abi.call("ginCommInit", ctypes.byref(config), ctypes.byref(self._comm))
        except _abi.GinError as error:
            raise error from (failed[0] if failed else None)
        self._describe()

    def _describe(self):
        self.rank = self._number("ginCommRank")
        self.size = self._number("ginCommSize")
        device = self._number("ginCommDevice")
        self.device = None if device == _abi.DEVICE_NONE else device  # CUDA ordinal, or None

    @classmethod
    def from_torch(cls, group=None, device="auto"):
        """Of a torch.distributed process group (None: the default group), of gloo, nccl or another backend."""
        import torch.distributed as dist

        return cls(lambda data: _torch_allgather(data, group), dist.get_rank(group), dist.get_world_size(group), device)

    @classmethod
    def from_mpi(cls, comm, device="auto"):
        """Of an mpi4py communicator."""
        return cls(comm.allgather, comm.Get_rank(), comm.Get_size(), device)

    def shrink(self, exclude=()):
        """A communicator of the ranks that live and are not excluded. Collective over these ranks."""
        rest = object.__new__(type(self))
        rest._comm = ctypes.c_void_p()
        ranks = (ctypes.c_int * len(exclude))(*exclude)
        _abi.call("ginCommShrink", self.pointer, ranks, len(exclude), ctypes.byref(rest._comm))
        rest._describe()
        return rest

    def _number(self, call):
        number = ctypes.c_int()
        _abi.call(call, self.pointer, ctypes.byref(number))
        return number.value

    def domain(self):
        """Ranks of a domain of high throughput, which divide `size`: ginEpHtDomain(3)."""
        ranks = ctypes.c_uint32()
        _abi.call("ginEpHtDomain", self.pointer, ctypes.byref(ranks))
        return ranks.value

    @property
    def pointer(self):
        """The ginComm_t."""
        if self._comm.value is None:
            raise ValueError("the communicator is destroyed")
        return self._comm

    def allgather(self, data):
        """The bytes of all ranks, ordered by rank. Collective; equal sizes, at most 65,536 bytes."""
        data = bytes(data)
        out = ctypes.create_string_buffer(len(data) * self.size)
        _abi.call("ginCommAllgather", self.pointer, data or None, out if data else None, len(data))
        return [out.raw[i * len(data) : (i + 1) * len(data)] for i in range(self.size)]

    def barrier(self):
        """Collective."""
        self.allgather(b"")

    def abort(self):
        """Ends every wait, here and on the other ranks. Any thread."""
        _abi.call("ginCommAbort", self.pointer)

    def destroy(self):
        """Collective; at once if the communicator has failed. A second call does nothing."""
        if self._comm.value is not None:
            comm, self._comm = self._comm, ctypes.c_void_p()
            _abi.call("ginCommDestroy", comm)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.destroy()
        elif self._comm.value is not None:
            self.abort()  # the other ranks must not wait for this one
            with contextlib.suppress(_abi.GinError):
                self.destroy()


def _callback(allgather, failed):
    """ginAllgather_t that calls allgather(bytes); an exception goes to `failed`, and the call returns 1."""

    def gather(_, own, out, count):
        try:
            parts = allgather(ctypes.string_at(own, count))
            for rank, part in enumerate(parts):
                if len(part) != count:
                    raise ValueError(f"allgather returned {len(part)} bytes of rank {rank}, not {count}")
            ctypes.memmove(out, b"".join(bytes(part) for part in parts), count * len(parts))
            return 0
        except BaseException as error:  # must not pass through C
            failed.append(error)
            return 1

    return gather


def _torch_allgather(data, group):
    import torch
    import torch.distributed as dist

    backend = str(dist.get_backend(group))
    # A group of several backends is written "cpu:gloo,cuda:nccl".
    host = "gloo" in backend or "mpi" in backend or "cpu:" in backend
    own = torch.tensor(list(data), dtype=torch.uint8, device="cpu" if host else "cuda")
    parts = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, own, group=group)
    return [bytes(part.tolist()) for part in parts]


class _Board:
    """An allgather between threads."""

    def __init__(self, size):
        self.parts = [None] * size
        self.barrier = threading.Barrier(size, timeout=60)

    def allgather(self, rank, data):
        self.parts[rank] = data
        self.barrier.wait()
        parts = list(self.parts)
        self.barrier.wait()
        return parts


def run_threads(size, function, *arguments, device="none"):
    """Calls function(communicator, *arguments) on `size` threads, which are the ranks; returns their results.

    After an exception on one rank the others' waits end; run_threads raises the first exception.
    """
    board, results, errors = _Board(size), [None] * size, []

    def call(comm):
        try:
            return function(comm, *arguments)
        except BaseException as error:
            errors.append(error)  # before the abort, which fails on the other ranks
            raise

    def rank_main(rank):
        try:
            with Communicator(lambda data: board.allgather(rank, data), rank, size, device) as comm:
                results[rank] = call(comm)
        except BaseException as error:
            errors.append(error)
            board.barrier.abort()

    threads = [threading.Thread(target=rank_main, args=(rank,), name=f"rank {rank}") for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
