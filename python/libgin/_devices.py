# SPDX-License-Identifier: BSD-3-Clause
"""Which GPU: ordinals, "auto", "none", torch devices."""

import ctypes
import os
from typing import Any

from . import _abi
from .records import devices

CUDA_SUCCESS = 0


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
