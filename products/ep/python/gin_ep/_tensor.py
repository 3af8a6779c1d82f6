# SPDX-License-Identifier: BSD-3-Clause
"""NumPy arrays and torch tensors, seen alike: descriptions for the native module, and new tensors.

The native module describes tensors of torch 2.10 and newer by itself. NumPy has neither bf16 nor e4m3: arrays of
uint16 stand for bf16 and arrays of uint8 for e4m3; the types of ml_dtypes are taken too. Bytes of mxfp8 and nvfp4 are
uint8, or torch's types for them.
"""

import functools
import sys

from . import _abi

# Names of dtypes, without "torch.".
_TYPES = {
    "bfloat16": _abi.BF16,
    "uint16": _abi.BF16,
    "float32": _abi.F32,
    "float8_e4m3fn": _abi.F8_E4M3,
    "uint8": _abi.F8_E4M3,
    "int32": _abi.I32,
    "uint32": _abi.I32,
    "int64": _abi.I64,
    "bool": _abi.U8,
    "float8_e8m0fnu": _abi.U8,
    "float4_e2m1fn_x2": _abi.U8,
}

_kinds = {}  # of dtypes that were seen


def is_torch(tensor):
    """True for a torch.Tensor; does not import torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(tensor, torch.Tensor)


def wants_gradient(tensor):
    """Would an operator of torch on the tensor be recorded for a backward?"""
    return getattr(tensor, "requires_grad", False) and sys.modules["torch"].is_grad_enabled()


def kind_of(tensor, what):
    """enum ginEpType of a tensor's elements."""
    kind = _kinds.get(tensor.dtype)
    if kind is not None:
        return kind
    name = str(tensor.dtype).rpartition(".")[2]
    if name not in _TYPES:
        raise TypeError(f"{what} has dtype {name}; known are {', '.join(_TYPES)}")
    return _kinds.setdefault(tensor.dtype, _TYPES[name])


def address(tensor):
    return tensor.data_ptr() if is_torch(tensor) else tensor.ctypes.data


def strides(tensor):
    """In elements."""
    if is_torch(tensor):
        return tensor.stride()
    return tuple(stride // tensor.itemsize for stride in tensor.strides)


def describe(tensor, what):
    """(address, enum ginEpType, GPU or -1, shape, strides in elements)."""
    if not hasattr(tensor, "dtype") or not hasattr(tensor, "shape"):
        raise TypeError(f"{what} is a {type(tensor).__name__}, not a NumPy array or a torch tensor")
    if len(tensor.shape) > 4:
        raise ValueError(f"{what} has {len(tensor.shape)} dimensions, at most 4 are possible")
    if is_torch(tensor) and tensor.device.type not in ("cpu", "cuda"):
        raise ValueError(f"{what} is on {tensor.device}: tensors are on the CPU or on a GPU of CUDA")
    gpu = tensor.get_device() if is_torch(tensor) else -1
    return address(tensor), kind_of(tensor, what), gpu, tuple(tensor.shape), tuple(strides(tensor))


def rows_ready(tensor):
    """The tensor itself, or a copy of it, with contiguous rows that are aligned to 16 bytes."""
    if tensor is None or 0 in tensor.shape:
        return tensor
    item = tensor.element_size() if is_torch(tensor) else tensor.itemsize
    *others, last = strides(tensor)
    if last == 1 and address(tensor) % 16 == 0 and all(stride * item % 16 == 0 for stride in others):
        return tensor
    return tensor.clone(memory_format=_torch().contiguous_format) if is_torch(tensor) else _numpy_copy(tensor)


def contiguous(tensor):
    if tensor is None:
        return None
    if is_torch(tensor):
        return tensor.contiguous()
    import numpy

    return numpy.ascontiguousarray(tensor)


def _torch():
    import torch

    return torch


def _numpy_copy(array):
    copy = NumpyMaker().empty(array.shape, array.dtype)
    copy[...] = array
    return copy


class NumpyMaker:
    """New arrays, aligned to 64 bytes."""

    names = {"bf16": "uint16", "e4m3": "uint8"}

    def empty(self, shape, dtype):
        import numpy

        dtype = numpy.dtype(self.names.get(dtype, dtype) if isinstance(dtype, str) else dtype)
        count = 1
        for size in shape:
            count *= int(size)
        memory = numpy.empty(count * dtype.itemsize + 64, numpy.uint8)
        skip = -memory.ctypes.data % 64
        return memory[skip : skip + count * dtype.itemsize].view(dtype).reshape(shape)

    def columns(self, shape, dtype):
        """Column-major in the last two dimensions."""
        *others, rows, columns = shape
        return self.empty((*others, columns, rows), dtype).swapaxes(-1, -2)

    def rows(self, dtype):
        """A function that makes arrays of a shape."""
        return functools.partial(self.empty, dtype=dtype)

    def over(self, memory, array, shape):
        """An array like `array` in memory, which lives as long."""
        import numpy

        return numpy.frombuffer(memory, array.dtype).reshape(shape)

    def again(self, array):
        """A function that makes arrays like `array`, which is new."""
        return functools.partial(_numpy_like, array)


def _numpy_like(array):
    make = NumpyMaker()
    return (make.empty if array.flags.c_contiguous else make.columns)(array.shape, array.dtype)


class TorchMaker:
    """New tensors on one device."""

    names = {"bf16": "bfloat16", "e4m3": "float8_e4m3fn"}

    def __init__(self, device):
        self.device = _torch().device(device)

    def _type(self, dtype):
        return getattr(_torch(), self.names.get(dtype, dtype))

    def empty(self, shape, dtype):
        """empty_strided() takes half the time of empty()."""
        shape, torch = tuple(shape), _torch()
        if len(shape) > 2:
            return torch.empty(shape, dtype=self._type(dtype), device=self.device)
        strides = (shape[1], 1) if len(shape) == 2 else (1,)
        return torch.empty_strided(shape, strides, dtype=self._type(dtype), device=self.device)

    def columns(self, shape, dtype):
        *others, rows, columns = shape
        return self.empty((*others, columns, rows), dtype).transpose(-1, -2)

    def rows(self, dtype):
        return functools.partial(_torch().empty, dtype=self._type(dtype), device=self.device)

    def over(self, memory, tensor, shape):
        return _torch().frombuffer(memory, dtype=tensor.dtype).view(shape)

    def again(self, tensor):
        """empty_like() takes half the time of empty(); the tensor that it looks at keeps no memory."""
        tensor.untyped_storage().resize_(0)
        return functools.partial(_torch().empty_like, tensor)


def current_stream(tensor):
    """CUstream of torch's current stream on the tensor's device."""
    return _torch().cuda.current_stream(tensor.device).cuda_stream
