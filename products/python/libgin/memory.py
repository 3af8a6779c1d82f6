# SPDX-License-Identifier: BSD-3-Clause
"""Memory that every route reaches, and the memory of tensors and arrays.

ginMemAlloc() takes a communicator, or the calling thread's current GPU. This module allocates by a
communicator of one rank for each device, which lives as long as the process. Memory outlives the
communicators that use it, and any thread's garbage collector frees it.
"""

import ctypes
import math
import os
import re
import threading
import weakref
from typing import Any

from . import _abi, _arguments, _dlpack
from ._library import call, load
from ._resource import OfThisProcess

_owners: dict[int, ctypes.c_void_p] = {}  # by device: ginComm_t
_ADDRESSES = (0, 2**64 - 1)
_lock = threading.RLock()  # the collector may free memory while this thread allocates some


@_abi.ginAllgather_t
def _alone(_, source, target, count):
    ctypes.memmove(target, source, count)
    return 0


def _owner(device):
    """The caller holds the lock."""
    if device not in _owners:
        config = _abi.ginConfig(ctypes.sizeof(_abi.ginConfig), device, _alone, None, 0, 1)
        handle = ctypes.c_void_p()
        call("ginCommInit", ctypes.byref(config), ctypes.byref(handle))
        _owners[device] = handle
    return _owners[device]


def _forget_parent():
    """In a child of fork(): the communicators are the parent's, and no other thread runs."""
    global _lock
    _owners.clear()
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_forget_parent)


def _free(address):
    """Any thread: without a communicator the device is the memory's own."""
    load().ginMemFree(None, address)


class Buffer(OfThisProcess):
    """Bytes of ginMemAlloc() or ginMemAllocHost(), freed with the last array made of them.

    numpy.asarray(), numpy.from_dlpack(), torch.from_dlpack() and cupy.asarray() make arrays of
    bytes of it without a copy.
    """

    dtype = "uint8"  # for Triton, which takes a Buffer as a pointer
    another = "copy an array of it, numpy.asarray(buffer).copy() for example, or send its bytes"

    def __init__(self, nbytes: int, device: Any = "auto", host: bool = False):
        number = _arguments.resolved(device)
        self.device = None if number == _abi.GIN_DEVICE_NONE else number
        self.on_gpu = self.device is not None and not host
        self.nbytes = _arguments.whole("nbytes", nbytes, _arguments.SIZE)
        pointer = ctypes.c_void_p()
        with _lock:
            name = "ginMemAllocHost" if host else "ginMemAlloc"
            call(name, _owner(number), self.nbytes, ctypes.byref(pointer))
        self.address = pointer.value or 0
        self._finalizer = weakref.finalize(self, _free, self.address)
        self._finalizer.atexit = False  # the end of the process frees it

    def data_ptr(self) -> int:
        return self.address

    def _interface(self):
        data = (self.address, False)
        return {"shape": (self.nbytes,), "typestr": "|u1", "data": data, "version": 3}

    @property
    def __array_interface__(self) -> dict:
        if self.on_gpu:
            raise AttributeError("__array_interface__: the memory is a GPU's")
        return self._interface()

    @property
    def __cuda_array_interface__(self) -> dict:
        if not self.on_gpu:
            raise AttributeError("__cuda_array_interface__: the memory is the host's")
        return {**self._interface(), "stream": None}

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_dlpack.CUDA, self.device or 0) if self.on_gpu else (_dlpack.CPU, 0)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """No stream has work on the memory, so that there is nothing to wait for."""
        if copy:
            raise BufferError("libgin does not copy memory")
        return _dlpack.capsule(self)

    def __repr__(self) -> str:
        where = f"GPU {self.device}" if self.on_gpu else "host"
        return f"<libgin.Buffer: {self.nbytes} bytes at {self.address:#x}, {where}>"


def alloc(nbytes: int, device: Any = "auto") -> Buffer:
    """Memory of a GPU, or shared host memory without one. Not collective."""
    return Buffer(nbytes, device)


def alloc_host(nbytes: int, device: Any = "auto") -> Buffer:
    """Host memory that CPUs and kernels of all ranks reach. Not collective."""
    return Buffer(nbytes, device, host=True)


def _item_bytes(typestr):
    """Of an array's elements, which are numbers or text, not references to objects."""
    found = re.match(r"[<>|=]([biufcmMVSU])(\d+)", typestr)
    if not found:
        raise TypeError(f"an array of type {typestr!r} is not memory of numbers")
    return int(found[2]) * (4 if found[1] == "U" else 1)


def _of_interface(thing):
    """Address, bytes and whether it is read-only, of an array interface, or None."""
    names = ("__cuda_array_interface__", "__array_interface__")
    interface = next(filter(None, (getattr(thing, name, None) for name in names)), None)
    if interface is None:
        return None
    if interface.get("strides") or not interface.get("data"):
        raise ValueError("a window is contiguous memory, and this array is not: copy it first")
    address, read_only = interface["data"]
    return address, math.prod(interface["shape"]) * _item_bytes(interface["typestr"]), read_only


def span_of(thing: Any, written: bool = True) -> tuple[int, int]:
    """Address and bytes of a tensor, an array, a Buffer, or of a pair of these numbers.

    written: puts may change the memory, so that it must not be read-only.
    """
    if isinstance(thing, tuple):
        if len(thing) != 2:
            raise ValueError(f"a tuple of {len(thing)} parts is not memory: give (address, bytes)")
        address = _arguments.whole("address", thing[0], _ADDRESSES)
        return address, _arguments.whole("bytes", thing[1], _arguments.SIZE)
    if isinstance(thing, Buffer):
        return thing.address, thing.nbytes
    if hasattr(thing, "data_ptr") and hasattr(thing, "is_contiguous"):  # torch
        if not thing.is_contiguous():
            raise ValueError("a window is contiguous memory: call .contiguous() first")
        return thing.data_ptr(), thing.numel() * thing.element_size()
    span = _of_interface(thing)
    if span is None and hasattr(thing, "__dlpack__"):
        span = _dlpack.span(thing)
    if span is None:
        raise TypeError(
            f"a {type(thing).__name__} is neither a tensor, an array, a Buffer nor (address, bytes)"
        )
    *span, read_only = span
    if written and read_only:
        raise ValueError(
            "the array is read-only, and puts would change it: copy it, or register it with "
            "local=True as a source of puts"
        )
    return tuple(span)
