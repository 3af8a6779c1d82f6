# SPDX-License-Identifier: BSD-3-Clause
"""What windows and device communicators have in common."""

import warnings
import weakref
from typing import Any, NoReturn, TypeVar

_Resource = TypeVar("_Resource", bound="Resource")


class OfThisProcess:
    """Owns what only this process has: a copy would own it, too, or point to nothing."""

    another = ""  # how to get another one

    def __reduce_ex__(self, protocol) -> NoReturn:
        name = type(self).__name__
        raise TypeError(f"a libgin.{name} cannot be copied or pickled: {self.another}")


class Resource(OfThisProcess):
    """Belongs to a communicator. close() is collective, so the garbage collector never calls it.

    Where C takes an address or a number, `int(resource)` is the handle; ctypes and triton.jit take
    the object. Each launch calls data_ptr().
    """

    kind = ""
    is_open = False
    _comm: Any = None
    _handle = 0
    # What libgin.cute and libgin.cupy pass to kernels, made in the first launch.
    _pointers: Any = None
    _value: Any = None

    def _opened(self, comm, handle):
        self._comm, self._handle, self.is_open = comm, handle, True
        comm._resources.add(self)
        by_handle[handle] = self

    def data_ptr(self) -> int:
        if self.is_open:
            return self._handle
        raise ValueError(f"the {self.kind} is closed")

    @property
    def handle(self) -> int:
        """The number that device calls in C take."""
        return self.data_ptr()

    def __int__(self) -> int:
        return self.handle

    def __index__(self) -> int:
        return self.handle

    @property
    def _as_parameter_(self):
        return self.handle

    def _about(self) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        about = self._about() if self.is_open else "closed"
        return f"<libgin.{type(self).__name__}: {about}>"

    def _release(self):
        raise NotImplementedError

    def _drop(self):
        """The collector has found an open resource. Not collective."""
        text = f"a libgin {self.kind} was dropped, not closed: Communicator.close() frees it"
        warnings.warn(text, ResourceWarning, source=self, stacklevel=3)

    def close(self) -> None:
        """Collective, unless the communicator is closed. A second call does nothing."""
        if self.is_open:
            self.is_open = False
            self._release()

    def __enter__(self: _Resource) -> _Resource:
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.close()
            return
        self._comm.abort()  # other ranks must not wait for this one; Communicator.close() frees all
        self._abandon()

    def _abandon(self):
        """An exception has ended the with block. Not collective."""
        self.is_open = False

    def __del__(self):
        if not self.is_open:
            return
        with self._comm._ending:
            if self.is_open:  # the communicator's end closes it
                self._drop()


by_handle: weakref.WeakValueDictionary[int, Resource] = weakref.WeakValueDictionary()
