# SPDX-License-Identifier: BSD-3-Clause
"""Expert parallelism on libgin: dispatch tokens to experts, combine their results. gin_ep_python(7).

gin_ep.deep_ep has the names of DeepEP; gin_ep.ops has operators for torch.compile. The library loads at the
first call, torch and NumPy when they are used.
"""

from ._abi import GinError
from ._library import LibraryNotFound
from .comm import Communicator, run_threads
from .ep import Combined, Dispatched, Ep, Failure, bytes_needed
from .ht import HtEp, HtHandle, HtReceived, Window

__version__ = "0.1.0"
__all__ = [
    "Combined",
    "Communicator",
    "Dispatched",
    "Ep",
    "Failure",
    "GinError",
    "HtEp",
    "HtHandle",
    "HtReceived",
    "LibraryNotFound",
    "Window",
    "bytes_needed",
    "run_threads",
]
