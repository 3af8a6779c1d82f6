# SPDX-License-Identifier: BSD-3-Clause
"""DLPack: memory of this package as arrays, and the memory of other packages' arrays."""

import ctypes
import math
from ctypes import (
    POINTER,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)

CPU, CUDA = 1, 2  # DLDeviceType
READ_ONLY = 1  # of DLManagedTensorVersioned.flags
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



class DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", DLTensor),
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


def _capsule_of(thing):
    try:
        return thing.__dlpack__(max_version=(1, 0))
    except TypeError:  # a package from before DLPack 1.0
        return thing.__dlpack__()


def _lent_by(thing):
    """A capsule, the tensor in it, and its flags, which older capsules do not have."""
    try:
        lent = _capsule_of(thing)
    except BufferError as error:  # in an older capsule NumPy lends nothing that is read-only
        raise ValueError(f"the array does not lend its memory: {error}") from None
    if not _is_valid(id(lent), b"dltensor_versioned"):
        return lent, DLTensor.from_address(_pointer_of(lent, b"dltensor")), 0
    managed = DLManagedTensorVersioned.from_address(_pointer_of(lent, b"dltensor_versioned"))
    return lent, managed.tensor, managed.flags


def span(thing):
    """Address, bytes and whether it is read-only, of an object that has __dlpack__().

    The caller keeps the object.
    """
    _capsule, tensor, flags = _lent_by(thing)  # the capsule keeps the tensor
    shape = tensor.shape[: tensor.ndim]
    strides = tensor.strides[: tensor.ndim] if tensor.strides else None
    nbytes = math.prod(shape) * tensor.bits * tensor.lanes // 8
    address = (tensor.data or 0) + tensor.byte_offset
    if nbytes and strides and strides != _contiguous(shape, strides):
        raise ValueError("a window is contiguous memory, and this array is not: copy it first")
    return address, nbytes, bool(flags & READ_ONLY)


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
