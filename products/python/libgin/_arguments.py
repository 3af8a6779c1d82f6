# SPDX-License-Identifier: BSD-3-Clause
"""Arguments as C takes them: numbers, times and GPUs.

ctypes takes any integer and drops the bits that do not fit.
"""

import ctypes
import operator
import os
from typing import Any

from . import _abi
from .records import devices

CUDA_SUCCESS = 0
UINT32, INT32, SIZE = (0, 2**32 - 1), (-(2**31), 2**31 - 1), (0, 2**63 - 1)


def whole(name: str, value: Any, limits: tuple[int, int]) -> int:
    """The integer `value` of the argument `name`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}: give an integer") from None
    least, most = limits
    if not least <= number <= most:
        raise ValueError(f"{name} is {number}: give {least} to {most}")
    return number


def nanoseconds(name: str, seconds: Any) -> int:
    """The time `seconds` of the argument `name`, as C takes it."""
    try:
        fits = 0 <= seconds < 2**64 / 1e9
    except TypeError:
        raise TypeError(f"{name} is {seconds!r}: give seconds") from None
    if not fits:
        raise ValueError(f"{name} is {seconds!r} seconds: give 0 or more, at most 18e9")
    return round(seconds * 1e9)


def device_number(device: Any) -> int:
    """ginConfig_t.device of what a user writes.

    That is None, "auto", "none", "cpu", "cuda", "cuda:1", an ordinal or a torch device.
    """
    if device is None or device == "auto":
        return _abi.GIN_DEVICE_AUTO
    if isinstance(device, int):
        return device
    kind, _, index = str(device).partition(":")
    if kind in ("none", "cpu"):
        return _abi.GIN_DEVICE_NONE
    if kind == "cuda" and (not index or index.isdigit()):
        return int(index) if index else _abi.GIN_DEVICE_AUTO
    raise ValueError(f'device {device!r}: give "auto", "none", an ordinal or a torch device')


def _driver():
    """The CUDA driver, if this process has loaded it."""
    try:
        return ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOW | os.RTLD_NOLOAD)
    except OSError:
        return None


def current_device() -> int | None:
    """The ordinal of the calling thread's CUDA context; None without one."""
    driver, ordinal = _driver(), ctypes.c_int()
    if driver is None or driver.cuCtxGetDevice(ctypes.byref(ordinal)) != CUDA_SUCCESS:
        return None
    return ordinal.value


def resolved(device: Any) -> int:
    """An ordinal or GIN_DEVICE_NONE. "auto" is the current context's GPU, else GPU 0, else none."""
    number = device_number(device)
    if number != _abi.GIN_DEVICE_AUTO:
        return number
    current = current_device()
    if current is not None:
        return current
    return 0 if devices() else _abi.GIN_DEVICE_NONE
