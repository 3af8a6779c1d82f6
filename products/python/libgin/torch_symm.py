# SPDX-License-Identifier: BSD-3-Clause
"""Backend "GIN" of torch.distributed._symmetric_memory. libgin-python(7).

Importing this module registers the backend; "GIN_CPU" is for tensors of the CPU.

    import libgin.torch_symm
    symm_mem.set_backend("GIN")  # before anything asks for symmetric memory
    t = symm_mem.empty(1 << 20, device="cuda")
    handle = symm_mem.rendezvous(t, group)
    handle.barrier()

The operators gin_symm::put_signal, wait_signal and all_gather are for torch.compile: copies by
the copy engine, which takes no SM, and signals.
"""

import ctypes
import os
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem

from . import _abi, _build_torch, _library
from .communicator import Communicator
from .window import Window

NAME = "libgin-symm.so.0"


def candidates() -> list[str]:
    """Where libgin-symm.so is looked for: LIBGIN_SYMM alone if it is set."""
    forced = os.environ.get("LIBGIN_SYMM")
    return [forced] if forced else [os.path.join(_library.BESIDE, NAME)]


def _load():
    """libgin.so first, so that libgin-symm.so finds the one that the package uses."""
    _library.load()
    remedy = "Set LIBGIN_SYMM to its path; `make symm` builds it."
    library = _library.first_of(candidates(), "libgin-symm.so is not found", remedy)
    torch.ops.load_library(_build_torch.adapter(library._name))


_load()
_host = torch.ops.gin_symm_host


def _name(group):
    return group if isinstance(group, str) else (group or dist.group.WORLD).group_name


def _device(device):
    if device is None:
        device = torch.cuda.current_device() if torch.cuda.is_available() else "cpu"
    return torch.device(device)


class _GroupCommunicator(Communicator):
    """Of a group's symmetric memory, which destroys it."""

    def close(self) -> None:
        raise ValueError("the communicator is the symmetric memory's: libgin.torch_symm.close()")

    def __del__(self):
        pass


class SymmetricWindow(Window):
    """The window of a symmetric tensor. `offset`: bytes from the window's start to the tensor.

    The tensor's symmetric memory owns it: close() ends the use of this object only.
    """

    def __init__(self, comm: Communicator, tensor: torch.Tensor, table: int, offset: int):
        self.memory, self.offset, self.local = tensor, offset, False
        self.nbytes = tensor.numel() * tensor.element_size()
        self._window = _abi.ginWindow(table)
        self._opened(comm, table)

    def _release(self):
        pass

    def _drop(self):
        pass


_communicators: dict[int, Communicator] = {}


def _of_handle(handle):
    if handle not in _communicators:
        _communicators[handle] = _GroupCommunicator._made(ctypes.c_void_p(handle))
    return _communicators[handle]


def _handles(name, device):
    """Pairs: this rank's device, and the handle of a communicator."""
    numbers = iter(_host.communicators(name, device))
    return list(zip(numbers, numbers, strict=True))


def communicator(group: Any = None, device: Any = None) -> Communicator:
    """The communicator of a group's symmetric memory, for device communicators of its kernels.

    The newest one of `device`, if ranks have met with memory of several devices. Between its
    collectives and rendezvous() of the group the program keeps one order on all ranks.
    """
    name, device = _name(group), _device(device)
    handles = _handles(name, device)
    fits = [handle for ordinal, handle in handles if device.type == "cpu" or ordinal == device.index]
    if not fits:
        raise ValueError(f"group {name} has no symmetric memory on {device}")
    return _of_handle(fits[-1])


def window(tensor: torch.Tensor, group: Any = None) -> SymmetricWindow:
    """The window of a symmetric tensor. Collective if the group has not met over it before."""
    name = _name(group)
    table, offset, handle = _host.window(tensor, name)
    return SymmetricWindow(_of_handle(handle), tensor, table, offset)


def check(group: Any = None, device: Any = None) -> None:
    """Raises what a call has failed with that did not wait, or that a rank has died."""
    _host.check(_name(group), _device(device))


def close(group: Any = None, device: Any = None) -> None:
    """Ends a group's symmetric memory, on GPUs or the CPU as `device` is. Collective.

    Peers' buffers are not valid any more. A rank that ends without it is a dead rank for the
    others.
    """
    name, device = _name(group), _device(device)
    ended = [handle for _, handle in _handles(name, device)]
    _host.close(name, device)
    for known in filter(None, (_communicators.pop(handle, None) for handle in ended)):
        for resource in known._resources:
            resource.is_open = False
        known.is_open = False


def _handle(symmetric, group):
    handle = symm_mem.rendezvous(symmetric, group)
    if handle is None:
        raise ValueError("the tensor is not symmetric memory: allocate it by symm_mem.empty()")
    return handle


def _at(handle, peer, symmetric, source, first):
    """The elements of a peer's tensor from `first`, in the shape of `source`."""
    base = handle.get_buffer(handle.rank, (1,), symmetric.dtype).data_ptr()
    start = (symmetric.data_ptr() - base) // symmetric.element_size() + first
    return handle.get_buffer(peer, source.shape, symmetric.dtype, start)


def _copy(handle, peer, symmetric, source, first, group):
    """By a copy engine, or by a put where the peer has no direct route to this rank."""
    if handle.buffer_ptrs[peer]:
        _at(handle, peer, symmetric, source, first).copy_(source)
    else:
        _host.put(symmetric, source, peer, first, group)


@torch.library.custom_op("gin_symm::put_signal", mutates_args={"symmetric"})
def put_signal(
    symmetric: torch.Tensor, source: torch.Tensor, peer: int, first: int, channel: int, group: str
) -> None:
    """Copies `source` into a peer's tensor, from element `first`, then signals the peer.

    If the peer has no direct route to this rank, `source` is symmetric memory of the group.
    """
    handle = _handle(symmetric, group)
    _copy(handle, peer, symmetric, source, first, group)
    handle.put_signal(peer, channel)


@torch.library.custom_op("gin_symm::wait_signal", mutates_args={"symmetric"})
def wait_signal(symmetric: torch.Tensor, peer: int, channel: int, group: str) -> None:
    """Waits for a peer's signal; what it has put into `symmetric` is there."""
    _handle(symmetric, group).wait_signal(peer, channel)


@torch.library.custom_op("gin_symm::all_gather", mutates_args={"symmetric"})
def all_gather(symmetric: torch.Tensor, source: torch.Tensor, channel: int, group: str) -> None:
    """Copies `source` to its place in the tensor of every rank, and waits for the others' parts.

    `symmetric` has a row for each rank. The ranks have read the result of the call before it when
    they make this one.
    """
    handle = _handle(symmetric, group)
    rank, size = handle.rank, handle.world_size
    symmetric[rank].copy_(source)
    for step in range(1, size):
        peer = (rank + step) % size
        _copy(handle, peer, symmetric, symmetric[rank], rank * source.numel(), group)
        handle.put_signal(peer, channel)
    for step in range(1, size):
        handle.wait_signal((rank - step) % size, channel)


def _nothing(symmetric, *arguments):
    """The operators return nothing, and write into a tensor that is there."""


for _operator in put_signal, wait_signal, all_gather:
    _operator.register_fake(_nothing)
