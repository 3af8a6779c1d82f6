# SPDX-License-Identifier: BSD-3-Clause
"""DLPack: memory of this package as arrays, and the memory of other packages' arrays."""

import ctypes
import math
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p

CPU, CUDA = 1, 2  # DLDeviceType
UNSIGNED = 1  # DLDataTypeCode


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class DLManagedTensor(ctypes.Structure):
    pass


Deleter = ctypes.CFUNCTYPE(None, POINTER(DLManagedTensor))
Destructor = ctypes.PYFUNCTYPE(None, c_void_p)
DLManagedTensor._fields_ = [
    ("tensor", DLTensor),
    ("context", c_void_p),
    ("deleter", Deleter),
]

_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, (c_void_p, c_char_p, Destructor)
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = c_int, (c_void_p, c_char_p)
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = c_void_p, (c_void_p, c_char_p)
# For a living capsule; the one above is for a capsule that is being destroyed.
_pointer_of = ctypes.pythonapi["PyCapsule_GetPointer"]
_pointer_of.restype, _pointer_of.argtypes = c_void_p, (ctypes.py_object, c_char_p)

_lent: dict[int, tuple] = {}  # by address of the struct: the struct, its shape, the buffer


@Deleter
def _delete(managed):
    """The consumer is done."""
    _lent.pop(ctypes.addressof(managed.contents), None)


@Destructor
def _forget(capsule):
    """The capsule is gone. A consumer has renamed it; else nobody has taken the memory."""
    if _is_valid(capsule, b"dltensor"):
        _lent.pop(_pointer(capsule, b"dltensor"), None)


# Tensors may be freed while the interpreter ends, after this module's objects.
for _callback in (_delete, _forget):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_callback))


def span(thing):
    """Address and bytes of an object with __dlpack__(), which the caller keeps."""
    lent = thing.__dlpack__()
    tensor = DLTensor.from_address(_pointer_of(lent, b"dltensor"))
    shape = tensor.shape[: tensor.ndim]
    strides = tensor.strides[: tensor.ndim] if tensor.strides else None
    nbytes = math.prod(shape) * tensor.bits * tensor.lanes // 8
    if nbytes and strides and strides != _contiguous(shape, strides):
        raise ValueError("a window is contiguous memory, and this array is not: copy it first")
    return (tensor.data or 0) + tensor.byte_offset, nbytes


def _contiguous(shape, strides):
    """The strides of contiguous memory. The stride of a dimension of one element is any number."""
    steps = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    return [s if n == 1 else step for n, s, step in zip(shape, strides, steps, strict=True)]


def capsule(buffer):
    """A capsule "dltensor" of an object with address, nbytes and __dlpack_device__()."""
    shape = (c_int64 * 1)(buffer.nbytes)
    kind, index = buffer.__dlpack_device__()
    tensor = DLTensor(buffer.address, kind, index, 1, UNSIGNED, 8, 1, shape)
    managed = DLManagedTensor(tensor, None, _delete)
    _lent[ctypes.addressof(managed)] = (managed, shape, buffer)
    return _new(ctypes.addressof(managed), b"dltensor", _forget)
