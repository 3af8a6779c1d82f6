# SPDX-License-Identifier: BSD-3-Clause
"""Windows: registered memory, which puts and gets name."""

import ctypes
import itertools
from typing import Any

from . import _abi, _arguments
from ._library import call, load
from ._resource import Resource
from .memory import span_of

# Memory of dropped windows, by a number, until the library releases it.
_retired: dict[int, Any] = {}
_numbers = itertools.count(1)


@_abi.ginReleased_t
def _released(number):
    _retired.pop(number, None)


# A communicator may end while the interpreter does.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_released))


class Window(Resource):
    """A ginWindow_t. Communicator.register() makes it; making and close() are collective.

    A window that is dropped is retired: when all ranks have dropped or retired it, a later
    collective of the communicator deregisters it. Its memory is kept until then.
    """

    kind = "window"
    another = "each process registers its own memory"
    dtype = "uint8"  # for Triton, which takes the object as a pointer

    def __init__(self, comm: Any, memory: Any, local: bool = False):
        address, nbytes = (0, 0) if memory is None else span_of(memory, written=not local)
        self.memory, self.nbytes, self.local = memory, nbytes, local
        self._window = _abi.ginWindow()
        flags = _abi.GIN_WINDOW_LOCAL if local else 0
        register = comm._call if local else comm._collective
        register("ginWindowRegister", address or None, nbytes, flags, ctypes.byref(self._window))
        self._opened(comm, self._window.table)

    @classmethod
    def _inherited(cls, comm, old):
        window = cls.__new__(cls)
        window.memory, window.nbytes, window.local = old.memory, old.nbytes, old.local
        window._window = _abi.ginWindow()
        arguments = old._window, ctypes.byref(window._window)
        call("ginWindowInherited", comm.pointer, *arguments)
        window._opened(comm, window._window.table)
        return window

    def _about(self):
        return f"{self.nbytes} bytes of rank {self._comm.rank}, handle {self.handle:#x}"

    @property
    def struct(self) -> _abi.ginWindow:
        """The ginWindow_t by value, for kernels in CUDA C++."""
        self.data_ptr()  # raises if it is closed
        return self._window

    def peer_pointer(self, rank: int) -> int | None:
        """The address of a rank's part of the window, for loads and stores.

        None if the route to the rank is not direct, or its part is empty.
        """
        pointer = ctypes.c_void_p()
        number = _arguments.whole("rank", rank, _arguments.INT32)
        call("ginPeerPointer", self._comm.pointer, self._window, number, ctypes.byref(pointer))
        return pointer.value

    def _release(self):
        deregister = self._comm._call if self.local else self._comm._collective
        deregister("ginWindowDeregister", self._window)

    def _abandon(self):
        """Other ranks may write into the memory until they notice: it is kept."""
        if self.is_open:
            self._drop()
        self.is_open = False

    def _drop(self):
        number = next(_numbers)
        _retired[number] = self.memory
        load().ginWindowRetire(self._comm.pointer, self._window, _released, number)
