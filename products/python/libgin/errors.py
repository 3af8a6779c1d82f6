# SPDX-License-Identifier: BSD-3-Clause
"""One exception per ginResult_t. The text is the library's sentence, see gin_errors(7)."""

from typing import Any

from . import _abi


class GinError(RuntimeError):
    """A call of libgin has failed.

    `result` is the ginResult_t, `call` the name of the C function. `record` is the ErrorRecord of
    the device call that failed first: call, context, peer, expected and seen value; else None.
    """

    result = -1
    call = ""
    record: Any = None


class InvalidArgumentError(GinError, ValueError):
    """ginErrorInvalidArgument"""


class InvalidUsageError(GinError):
    """ginErrorInvalidUsage"""


class UnsupportedError(GinError):
    """ginErrorUnsupported"""


class BootstrapError(GinError, ConnectionError):
    """ginErrorBootstrap: the ranks did not find each other."""


class SystemCallError(GinError, OSError):
    """ginErrorSystem"""


class CudaError(GinError):
    """ginErrorCuda"""


class TimedOutError(GinError, TimeoutError):
    """ginErrorTimeout"""


class AbortedError(GinError):
    """ginErrorAborted: this rank has aborted."""


class PeerError(GinError, ConnectionError):
    """ginErrorPeer: another rank has failed, aborted or ended."""


class AbiError(GinError, ImportError):
    """ginErrorAbi: parts of different versions of libgin."""


CLASSES = {
    _abi.ginErrorInvalidArgument: InvalidArgumentError,
    _abi.ginErrorInvalidUsage: InvalidUsageError,
    _abi.ginErrorUnsupported: UnsupportedError,
    _abi.ginErrorBootstrap: BootstrapError,
    _abi.ginErrorSystem: SystemCallError,
    _abi.ginErrorCuda: CudaError,
    _abi.ginErrorTimeout: TimedOutError,
    _abi.ginErrorAborted: AbortedError,
    _abi.ginErrorPeer: PeerError,
    _abi.ginErrorAbi: AbiError,
}
for _result, _class in CLASSES.items():
    _class.result = _result
