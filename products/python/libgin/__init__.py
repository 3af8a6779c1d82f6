# SPDX-License-Identifier: BSD-3-Clause
"""GPU-initiated networking: the host side of libgin. libgin-python(7).

The library loads at the first call. libgin.torch is for PyTorch, libgin.host for kernels on host
threads; both are imported by their names.
"""

from ._abi import GIN_DEVICE_ABI
from ._library import LibraryNotFound, library_path, version
from .communicator import Communicator, UniqueId, unique_id
from .device import DeviceCommunicator
from .errors import (
    AbiError,
    AbortedError,
    BootstrapError,
    CudaError,
    GinError,
    InvalidArgumentError,
    InvalidUsageError,
    PeerError,
    SystemCallError,
    TimedOutError,
    UnsupportedError,
)
from .memory import Buffer, alloc, alloc_host
from .paths import bitcode, include_dir
from .records import (
    BackendInfo,
    CommunicatorInfo,
    DeviceInfo,
    ErrorRecord,
    Parameter,
    PeerInfo,
    devices,
    parameters,
)
from .threads import run_threads
from .window import Window

__version__ = "0.1.0"
__all__ = [
    "AbiError",
    "AbortedError",
    "BackendInfo",
    "BootstrapError",
    "Buffer",
    "Communicator",
    "CommunicatorInfo",
    "CudaError",
    "DeviceCommunicator",
    "DeviceInfo",
    "ErrorRecord",
    "GIN_DEVICE_ABI",
    "GinError",
    "InvalidArgumentError",
    "InvalidUsageError",
    "LibraryNotFound",
    "Parameter",
    "PeerError",
    "PeerInfo",
    "SystemCallError",
    "TimedOutError",
    "UniqueId",
    "UnsupportedError",
    "Window",
    "alloc",
    "alloc_host",
    "bitcode",
    "devices",
    "include_dir",
    "library_path",
    "parameters",
    "run_threads",
    "unique_id",
    "version",
]
