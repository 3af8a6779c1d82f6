# SPDX-License-Identifier: BSD-3-Clause
"""Communicators: groups of ranks, and the ways to bring them together."""

import contextlib
import ctypes
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from . import _abi, _arguments, memory
from ._interrupt import interruptible, poll
from ._library import call, failure, load
from ._resource import OfThisProcess, Resource
from .device import DeviceCommunicator
from .errors import GinError
from .records import BackendInfo, CommunicatorInfo, PeerInfo, query
from .window import Window


opened: weakref.WeakSet["Communicator"] = weakref.WeakSet()  # and not closed
_COLORS = (_abi.GIN_NO_COLOR, 2**31 - 1)


class UniqueId(bytes):
    """128 bytes by which the ranks of one communicator find each other.

    Every process that has them can join.
    """

    def __repr__(self) -> str:
        return "<libgin.UniqueId>"  # a secret, not for logs


def unique_id() -> UniqueId:
    """One process calls it, sends the id to the others, and stays until all have joined."""
    made = _abi.ginUniqueId()
    call("ginGetUniqueId", ctypes.byref(made))
    return UniqueId(bytes(made))


_NO_ID = "rank 0 has no id: "  # before the sentence that the others get instead


def id_text() -> tuple[str, Exception | None]:
    """What rank 0 sends to the others: its id, or why it has none, so that nobody waits for it."""
    try:
        return unique_id().hex(), None
    except Exception as error:
        return f"{_NO_ID}{error}", error


def id_of(text: str, error: Exception | None = None) -> bytes:
    """The id of id_text(), on every rank; `error` on rank 0."""
    if error is not None:
        raise error
    if text.startswith(_NO_ID):
        raise failure(_abi.ginErrorBootstrap, "ginGetUniqueId", text.encode())
    return bytes.fromhex(text)


def _gatherer(allgather, size, failed):
    """ginAllgather_t that calls allgather(bytes). An exception goes to `failed`."""

    def gather(_, own, out, count):
        try:
            parts = [bytes(part) for part in allgather(ctypes.string_at(own, count))]
            lengths = [len(part) for part in parts]
            if lengths != [count] * size:
                raise ValueError(
                    f"allgather() returned parts of {lengths} bytes, not {size} of {count}"
                )
            ctypes.memmove(out, b"".join(parts), count * size)
            return 0
        except BaseException as error:  # must not pass through C
            failed.append(error)
            return 1

    return _abi.ginAllgather_t(gather)


def _discard(handle):
    """Ends a communicator that the caller will not get."""
    if handle.value:
        load().ginCommAbort(handle)
        load().ginCommDestroy(handle)


def _text(value):
    return value.encode() if value else None


class Communicator(OfThisProcess):
    """A group of ranks. Collective: every rank makes one, and every rank closes it.

    Without arguments the ranks find each other as ginCommInit(3) says: by PMIx (mpirun, srun), by
    GIN_ROOT, or this rank is alone. With `id`, `rank` and `size`: by a unique id. With `allgather`,
    `rank` and `size`: by a function that takes the bytes of this rank and returns a list of the
    bytes of all ranks.

    device: "auto" (the current CUDA device, else local rank modulo count, or host threads without a
    GPU), "none" (host threads), an ordinal or a torch device.

    One thread at a time uses a communicator; any thread may call abort().
    """

    rank: int
    size: int
    device_index: int | None
    is_open = False
    another = "each process makes its own, with id=, rank= and size= for example"

    def __init__(
        self,
        *,
        id: bytes | None = None,
        rank: int | None = None,
        size: int | None = None,
        allgather: Callable[[bytes], list[bytes]] | None = None,
        device: Any = "auto",
        name: str | None = None,
        backend: str | None = None,
        copy_engines: bool = False,
    ):
        if (id is not None or allgather is not None) and (rank is None or size is None):
            raise TypeError("id= and allgather= need rank= and size=")
        if id is None and allgather is None and (rank is not None or size is not None):
            raise TypeError(
                "rank= and size= need id= or allgather=, by which the ranks find each other; "
                "without rank= and size= they do as ginCommInit(3) says"
            )
        if allgather is not None and not callable(allgather):
            raise TypeError(f"allgather is {allgather!r}: give a function")
        if id is not None and len(id) != ctypes.sizeof(_abi.ginUniqueId):
            raise ValueError(f"id has {len(id)} bytes: give all bytes of unique_id()")
        if rank is not None and size is not None:
            rank = _arguments.whole("rank", rank, _arguments.INT32)
            size = _arguments.whole("size", size, _arguments.INT32)
        config = _abi.ginConfig(ctypes.sizeof(_abi.ginConfig), _arguments.device_number(device))
        config.name, config.backend = _text(name), _text(backend)
        config.copyEngines, config.poll = copy_engines, poll
        out = ctypes.c_void_p()
        if id is not None:
            interruptible(lambda: _discard(out), self._init_rank, config, id, rank, size, out)
        else:
            interruptible(lambda: _discard(out), self._init, config, allgather, rank, size, out)
        self._opened(out)

    @staticmethod
    def _init_rank(config, id, rank, size, out):
        carried = _abi.ginUniqueId.from_buffer_copy(id)
        arguments = ctypes.byref(carried), rank, size, ctypes.byref(out)
        call("ginCommInitRank", ctypes.byref(config), *arguments)

    @staticmethod
    def _init(config, allgather, rank, size, out):
        failed = []
        if allgather is not None:
            config.allgather = _gatherer(allgather, size, failed)
            config.rank, config.nRanks = rank, size
        try:
            call("ginCommInit", ctypes.byref(config), ctypes.byref(out))
        except GinError as error:
            if failed:
                raise failed[0] from error
            raise

    @classmethod
    def from_store(
        cls, store: Any, rank: int, size: int, *, key: str = "libgin", **options
    ) -> "Communicator":
        """Ranks with a key-value store of set() and get(), as torch.distributed has.

        get() waits for the key. The key is deleted when all ranks have joined, if the store has
        delete_key(); else, and after a failure, the next communicator needs a key of its own.
        """
        for name in ("set", "get"):
            if not callable(getattr(store, name, None)):
                raise TypeError(f"a {type(store).__name__} has no {name}(): give a store")
        error = None
        if rank == 0:
            text, error = id_text()
            store.set(key, text)
        found = store.get(key)
        text = found.decode() if isinstance(found, bytes) else found
        comm = cls(id=id_of(text, error), rank=rank, size=size, **options)
        if rank == 0 and hasattr(store, "delete_key"):
            store.delete_key(key)
        comm.barrier()  # no rank takes the old id for the next communicator's
        return comm

    @classmethod
    def from_mpi(cls, comm: Any, **options) -> "Communicator":
        """The ranks of a communicator of mpi4py."""
        return cls(allgather=comm.allgather, rank=comm.Get_rank(), size=comm.Get_size(), **options)

    def _opened(self, handle):
        self._handle = handle
        self._ending = threading.RLock()  # the collector may drop a window while this thread closes
        self._resources: weakref.WeakSet[Resource] = weakref.WeakSet()
        self._memories: list[Any] = []  # of inherited windows
        self.is_open = True
        opened.add(self)
        self.rank, self.size = self._number("ginCommRank"), self._number("ginCommSize")
        device = self._number("ginCommDevice")
        self.device_index = None if device == _abi.GIN_DEVICE_NONE else device

    @property
    def pointer(self) -> ctypes.c_void_p:
        """The ginComm_t."""
        self._check_open()
        return self._handle

    def _check_open(self):
        if not self.is_open:
            raise ValueError("the communicator is closed")

    def _number(self, name):
        number = ctypes.c_int()
        call(name, self.pointer, ctypes.byref(number))
        return number.value

    def _call(self, name, *arguments):
        call(name, self.pointer, *arguments)

    def _collective(self, name, *arguments):
        interruptible(self.abort, call, name, self.pointer, *arguments)

    def info(self) -> CommunicatorInfo:
        return query(CommunicatorInfo, _abi.ginCommInfo, "ginCommQuery", self.pointer)

    def peer(self, rank: int) -> PeerInfo:
        """How data goes to a rank, and why so."""
        number = _arguments.whole("rank", rank, _arguments.INT32)
        return query(PeerInfo, _abi.ginPeerInfo, "ginCommQueryPeer", self.pointer, number)

    def backends(self) -> list[BackendInfo]:
        """Which backends this rank can use, and why not."""
        arguments = BackendInfo, _abi.ginBackendInfo, "ginCommQueryBackend", self.pointer
        return [query(*arguments, index) for index in range(self.info().backends)]

    def stats(self) -> list[dict[str, Any]]:
        """DeviceCommunicator.stats() of each open device communicator, the oldest first."""
        found = [r for r in list(self._resources) if isinstance(r, DeviceCommunicator)]
        found.sort(key=lambda device: device.struct.id)
        return [device.stats() for device in found if device.is_open]

    def allgather(self, data: bytes) -> list[bytes]:
        """The bytes of all ranks, ordered by rank. Collective. Equal sizes of at most 64 KiB."""
        try:
            data = memoryview(data).tobytes()
        except TypeError:
            raise TypeError(f"data is {data!r}: give bytes") from None
        count = len(data)
        if not count:
            self.barrier()
            return [b""] * self.size
        out = ctypes.create_string_buffer(count * self.size)
        self._collective("ginCommAllgather", data, out, count)
        return [out.raw[rank * count : (rank + 1) * count] for rank in range(self.size)]

    def barrier(self) -> None:
        """Returns when all ranks have called it. Collective."""
        self._collective("ginCommAllgather", None, None, 0)

    def split(self, color: int | None, key: int = 0) -> "Communicator | None":
        """The ranks of one color as a new communicator; None for color None. Collective."""
        out = ctypes.c_void_p()
        number = _abi.GIN_NO_COLOR if color is None else _arguments.whole("color", color, _COLORS)
        key = _arguments.whole("key", key, _arguments.INT32)
        self._collective("ginCommSplit", number, key, ctypes.byref(out))
        if not out.value:
            return None
        return Communicator._made(out)

    @staticmethod
    def _made(handle):
        part = Communicator.__new__(Communicator)
        part._opened(handle)
        return part

    def shrink(self, exclude: Iterable[int] = ()) -> "Communicator":
        """The ranks that go on without dead ones and `exclude`, as a new communicator.

        Collective over these ranks; ginCommShrink(3). The new communicator inherits the windows:
        inherited(). Their memory is kept until the new communicator is closed.
        """
        excluded = [_arguments.whole("exclude", rank, _arguments.INT32) for rank in exclude]
        ranks = (ctypes.c_int * len(excluded))(*excluded)
        windows = [r for r in self._resources if isinstance(r, Window) and r.is_open]
        memories = [window.memory for window in windows]
        out = ctypes.c_void_p()
        self._collective("ginCommShrink", ranks, len(excluded), ctypes.byref(out))
        part = Communicator._made(out)
        part._memories = memories
        return part

    def inherited(self, window: Window) -> Window:
        """The window of this communicator, which shrink() made, for one of the older communicator.

        Not collective. Both windows are closed separately.
        """
        if not isinstance(window, Window):
            raise TypeError(f"window is {window!r}: give a Window")
        return Window._inherited(self, window)

    def alloc(self, nbytes: int) -> memory.Buffer:
        """libgin.alloc() on this communicator's device."""
        self._check_open()
        return memory.alloc(nbytes, "none" if self.device_index is None else self.device_index)

    def alloc_host(self, nbytes: int) -> memory.Buffer:
        """libgin.alloc_host() for this communicator's device."""
        self._check_open()
        return memory.alloc_host(nbytes, "none" if self.device_index is None else self.device_index)

    def register(self, memory: Any, *, local: bool = False) -> Window:
        """A window over a tensor, an array, a Buffer, (address, bytes) or None. Collective.

        local: a source for puts of this rank only; not collective.
        """
        return Window(self, memory, local)

    def device(self, **requirements) -> DeviceCommunicator:
        """A device communicator; see DeviceCommunicator for the keywords. Collective."""
        return DeviceCommunicator(self, **requirements)

    def progress(self) -> bool:
        """One turn of the proxy on this thread; whether there was something to do."""
        return bool(self._number("ginCommProgress"))

    def raise_async(self) -> None:
        """Raises the communicator's failure outside of a call, if there was one. Any thread."""
        error = self._number("ginCommGetAsyncError")
        if error:
            raise failure(error, "ginCommGetAsyncError", load().ginGetLastError())

    def abort(self) -> None:
        """Ends every wait, on this rank and its peers. Any thread."""
        if self.is_open:
            call("ginCommAbort", self._handle)

    def close(self) -> None:
        """Leaves the group. Collective; at once if the communicator has failed or was aborted."""
        if not self.is_open:
            return
        with self._ending:
            self.is_open = False  # ginCommDestroy() frees all, whatever the call returns
            opened.discard(self)
            for resource in self._resources:
                resource.is_open = False
        interruptible(lambda: None, call, "ginCommDestroy", self._handle)
        self._memories.clear()

    def __repr__(self) -> str:
        if not self.is_open:
            return "<libgin.Communicator: closed>"
        where = "host threads" if self.device_index is None else f"GPU {self.device_index}"
        return f"<libgin.Communicator: rank {self.rank} of {self.size}, {where}>"

    def __enter__(self) -> "Communicator":
        self._check_open()
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.close()
            return
        self.abort()  # other ranks must not wait for this one
        with contextlib.suppress(GinError):
            self.close()

    def __del__(self):
        if self.is_open:
            text = "a libgin communicator was dropped, not closed"
            warnings.warn(text, ResourceWarning, source=self, stacklevel=2)
