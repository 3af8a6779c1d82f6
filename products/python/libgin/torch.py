# SPDX-License-Identifier: BSD-3-Clause
"""libgin in programs of PyTorch."""

from typing import Any

import torch
import torch.distributed as dist

from . import _dlpack
from .communicator import Communicator, id_of, id_text
from .memory import alloc
from .window import Window


def _device(device):
    """None: torch's current GPU, or host threads without one."""
    if device is not None:
        return device
    return torch.cuda.current_device() if torch.cuda.is_available() else "none"


def communicator(
    group: dist.ProcessGroup | None = None, *, device: Any = None, **options
) -> Communicator:
    """The ranks of a process group of any backend; None: the default group. Collective over it."""
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    first = dist.get_global_rank(group, 0) if group else 0
    text, error = id_text() if rank == 0 else (None, None)
    box = [text]
    dist.broadcast_object_list(box, src=first, group=group)
    made = id_of(box[0], error)
    return Communicator(id=made, rank=rank, size=size, device=_device(device), **options)


def empty(*size: Any, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
    """A tensor in memory that every route reaches. Not collective; freed with its last view."""
    if len(size) == 1 and not isinstance(size[0], int):
        size = tuple(size[0])
    dtype = dtype or torch.get_default_dtype()
    nbytes = torch.Size(size).numel() * dtype.itemsize
    flat = torch.from_dlpack(alloc(max(nbytes, 1), _device(device)))
    return flat[:nbytes].view(dtype).view(size)


class _Part:
    """A rank's part of a window. The tensors made of it keep the window.

    By DLPack, because torch takes __cuda_array_interface__ of a peer's memory for the peer's GPU.
    """

    def __init__(self, window, address, nbytes, device):
        self.address, self.nbytes, self._window, self._device = address, nbytes, window, device

    def __dlpack_device__(self):
        if self._device.type == "cuda":
            return _dlpack.CUDA, self._device.index
        return _dlpack.CPU, 0

    def __dlpack__(self, **_):
        return _dlpack.capsule(self)


def peer_tensor(window: Window, rank: int, like: torch.Tensor) -> torch.Tensor | None:
    """The start of a rank's part of a window, as a tensor of like's shape and dtype.

    None if the route to the rank is not direct.
    """
    address = window.peer_pointer(rank)
    if address is None:
        return None
    part = _Part(window, address, like.numel() * like.element_size(), like.device)
    return torch.from_dlpack(part).view(like.dtype).view(like.shape)


def window(tensor: torch.Tensor, group: dist.ProcessGroup | None = None) -> Window:
    """The window of a tensor of symmetric memory, backend GIN; `offset` is the tensor's place.

    Collective if the group has not met over the tensor before.
    """
    from .torch_symm import window as symmetric_window  # compiles, the first time

    return symmetric_window(tensor, group)
