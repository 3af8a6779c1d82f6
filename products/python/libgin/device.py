# SPDX-License-Identifier: BSD-3-Clause
"""Device communicators: what kernels communicate with."""

import ctypes
import dataclasses
from typing import Any

from . import _abi, _arguments
from ._library import call, failure, load
from ._resource import Resource
from .errors import CLASSES
from .records import ErrorRecord, counted, from_struct, sized

ROUTES = {"direct": _abi.ginRouteDirect, "proxy": _abi.ginRouteProxy, "gdaki": _abi.ginRouteGdaki}

ROUTE_NAMES = {number: name for name, number in ROUTES.items()}


def _route_mask(routes):
    """GIN_ROUTES_... of names of routes; 0: any."""
    unknown = [name for name in routes if name not in ROUTES]
    if isinstance(routes, str) or unknown:
        raise ValueError(f"routes is {routes!r}: give a tuple of {', '.join(map(repr, ROUTES))}")
    return sum(1 << ROUTES[name] for name in set(routes))


class DeviceCommunicator(Resource):
    """A ginDevComm. Communicator.device() makes it; making and close() are collective."""

    kind = "device communicator"
    another = "each process makes its own by Communicator.device()"
    dtype = "uint8"  # for Triton, which takes the object as a pointer

    def __init__(
        self,
        comm: Any,
        *,
        contexts: int = 1,
        signals: int = 16,
        counters: int = 4,
        barriers: int = 4,
        queue_depth: int = 1024,
        timeout: float = 0,
        routes: tuple[str, ...] = (),
        traffic_class: int = -1,
    ):
        want = _abi.ginDevCommRequirements(
            ctypes.sizeof(_abi.ginDevCommRequirements),
            _arguments.whole("contexts", contexts, _arguments.UINT32),
            _arguments.whole("signals", signals, _arguments.UINT32),
            _arguments.nanoseconds("timeout", timeout),
            _arguments.whole("counters", counters, _arguments.UINT32),
            _arguments.whole("barriers", barriers, _arguments.UINT32),
            _arguments.whole("queue_depth", queue_depth, _arguments.UINT32),
            _route_mask(routes),
            _arguments.whole("traffic_class", traffic_class, (-1, 255)),
        )
        self.struct = _abi.ginDevComm()
        size = ctypes.sizeof(self.struct)
        comm._collective(
            "ginDevCommCreateAbi",
            ctypes.byref(want),
            _abi.GIN_DEVICE_ABI,
            size,
            ctypes.byref(self.struct),
        )
        self._opened(comm, self.struct.self)  # its address in the device's memory

    def _about(self):
        struct = self.struct
        counts = f"contexts {struct.contexts}, signals {struct.signals}, counters {struct.counters}"
        return f"rank {struct.rank} of {struct.nRanks}, {counts}, handle {self.handle:#x}"

    def __bytes__(self) -> bytes:
        """The ginDevComm by value, for kernels in CUDA C++."""
        return bytes(self.struct)

    def error(self) -> ErrorRecord | None:
        """The first failure of a device call, or None. Any thread, also while kernels run."""
        record = _abi.ginErrorRecord()
        arguments = ctypes.byref(self.struct), ctypes.byref(record)
        call("ginDevCommGetError", self._comm.pointer, *arguments)
        if not record.valid:
            return None
        sentence = load().ginGetLastError().decode(errors="replace")
        return dataclasses.replace(from_struct(ErrorRecord, record), sentence=sentence)

    def stats(self) -> dict[str, Any]:
        """What kernels of this rank have posted: {"id": ..., "contexts": [...], "peers": [...]}.

        The numbers of ginCommGetStats(3) and ginCommGetPeerStats(3), as dicts; None: the route does
        not count it. Any thread, also while kernels run.
        """
        device, comm = ctypes.byref(self.struct), self._comm

        def ask(struct_type, name, number):
            struct = sized(struct_type)
            call(name, comm.pointer, device, number, ctypes.byref(struct))
            return counted(struct)

        peers = [ask(_abi.ginPeerStats, "ginCommGetPeerStats", rank) for rank in range(comm.size)]
        for peer in peers:
            peer["route"] = ROUTE_NAMES[peer["route"]]
        every = range(self.struct.contexts)
        contexts = [ask(_abi.ginStats, "ginCommGetStats", context) for context in every]
        return {"id": self.struct.id, "contexts": contexts, "peers": peers}

    def raise_for(self, status: int) -> None:
        """Raises what the ginResult_t of a device call says; several may be or-ed. 0: returns.

        The sentence is that of error(), or of the communicator's failure, if it is of the status.
        The exception's `record` is error().
        """
        status = _arguments.whole("status", status, (0, _arguments.INT32[1]))
        if not status:
            return
        record = self.error() if self.is_open else None
        for result, sentence in self._failures(record) if self.is_open else ():
            if result == status or (status not in CLASSES and result | status == status):
                raise self._failure(result, sentence, record)
        several = b"" if status in CLASSES else b"several device calls have failed"
        raise self._failure(status, several, record)

    @staticmethod
    def _failure(result, sentence, record):
        error = failure(result, "device call", sentence)
        error.record = record
        return error

    def _failures(self, record):
        """(result, sentence) of the first failure of a device call, and of the communicator."""
        if record:
            yield record.result, record.sentence.encode()
        result = self._comm._number("ginCommGetAsyncError")
        if result:
            yield result, load().ginGetLastError()

    def _release(self):
        self._comm._collective("ginDevCommDestroy", ctypes.byref(self.struct))
