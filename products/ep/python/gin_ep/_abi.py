# SPDX-License-Identifier: BSD-3-Clause
"""The structs and calls of gin.h and gin_ep.h, for ctypes. tests/test_abi.py compares them with the headers."""

import ctypes
from ctypes import POINTER, Structure, c_char, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

from . import _library

DEVICE_AUTO = -1
DEVICE_NONE = -2

BF16, F32, F8_E4M3, UE8M0X4, I32, I64, U8 = range(7)
LL, HT = 1, 2
ROWS_BF16, ROWS_F8, ROWS_MXF8, ROWS_NVF4 = 1, 2, 4, 8
REDUCE_RANK, REDUCE_NONE = 1, 2
LOST_ERROR, LOST_MASK = 0, 1
SEND, RECV, BOTH = 1, 2, 3
EXPERT_MAJOR, RANK_MAJOR = 0, 1
SCALE_F32, SCALE_POW2, SCALE_UE8M0, SCALE_BLOCKS = 0, 1, 2, 3
SCALE_STRIDED = 0
CALLS = ("", "dispatch send", "dispatch receive", "combine send", "combine receive", "notify", "dispatch", "combine")

# Values of ginResult_t that Python code looks at.
SUCCESS = 0

Allgather = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_size_t)


class Config(Structure):
    """ginConfig_t"""

    _fields_ = [
        ("size", c_size_t),
        ("device", c_int),
        ("allgather", Allgather),
        ("allgatherArg", c_void_p),
        ("rank", c_int),
        ("nRanks", c_int),
        ("name", c_char_p),
        ("backend", c_char_p),
        ("copyEngines", c_int),
        ("poll", c_void_p),
        ("pollArg", c_void_p),
    ]


class EpConfig(Structure):
    """ginEpConfig_t"""

    _fields_ = [
        ("size", c_size_t),
        ("modes", c_uint32),
        ("experts", c_uint32),
        ("firstExpert", POINTER(c_uint32)),
        ("topk", c_uint32),
        ("hidden", c_uint32),
        ("maxTokens", c_uint32),
        ("htTokens", c_uint32),
        ("htRecvTokens", c_uint32),
        ("rowTypes", c_uint32),
        ("reduce", c_uint32),
        ("contexts", c_uint32),
        ("maxSms", c_uint32),
        ("timeout", c_uint64),
        ("onLost", c_uint32),
        ("sendBuffer", c_uint32),
        ("htRowBytes", c_uint32),
        ("htScaleBytes", c_uint32),
        ("htSms", c_uint32),
        ("pad", c_uint32),
        ("htWindow", c_void_p),
        ("htWindowBytes", c_uint64),
    ]


class EpInfo(Structure):
    """ginEpInfo_t"""

    _fields_ = [
        ("size", c_size_t),
        ("rank", c_int32),
        ("nRanks", c_int32),
        ("device", c_int32),
        ("directPeers", c_int32),
        ("experts", c_uint32),
        ("firstExpert", c_uint32),
        ("localExperts", c_uint32),
        ("topk", c_uint32),
        ("hidden", c_uint32),
        ("maxTokens", c_uint32),
        ("recvRows", c_uint32),
        ("contexts", c_uint32),
        ("handleBytes", c_uint64),
        ("bytes", c_uint64),
        ("kernels", c_char * 32),
        ("htTokens", c_uint32),
        ("htRecvTokens", c_uint32),
    ]


class Tensor(Structure):
    """ginEpTensor_t"""

    _fields_ = [
        ("data", c_void_p),
        ("type", c_int32),
        ("nDims", c_int32),
        ("shape", c_int64 * 4),
        ("stride", c_int64 * 4),
    ]


class HtLayoutArgs(Structure):
    """ginEpHtLayoutArgs_t"""

    tensors = ("topkIdx", "tokensPerRank", "tokensPerExpert", "isTokenInRank")
    _fields_ = [("size", c_size_t), ("experts", c_uint32), ("pad", c_uint32)] + [(name, Tensor) for name in tensors]


class HtNotifyArgs(Structure):
    """ginEpHtNotifyArgs_t"""

    tensors = ("isTokenInRank", "tokensPerExpert", "rankPrefix", "recvCounts")
    _fields_ = [
        ("size", c_size_t),
        ("expertAlignment", c_uint32),
        ("pad", c_uint32),
        ("handle", c_void_p),
    ] + [(name, Tensor) for name in tensors]


class HtCounts(Structure):
    """ginEpHtCounts_t"""

    _fields_ = [("size", c_size_t), ("rows", c_uint32), ("mostRows", c_uint32), ("perExpert", POINTER(c_uint32))]


class HtDispatchArgs(Structure):
    """ginEpHtDispatchArgs_t"""

    tensors = (
        ("x", "scales", "topkIdx", "topkWeights")
        + ("recvX", "recvScales", "recvTopkIdx", "recvTopkWeights", "srcInfo")
    )  # fmt: skip
    _fields_ = [("size", c_size_t), ("sms", c_uint32), ("pad", c_uint32), ("handle", c_void_p)] + [
        (name, Tensor) for name in tensors
    ]


class HtCombineArgs(Structure):
    """ginEpHtCombineArgs_t"""

    tensors = ("x", "topkWeights", "bias0", "bias1", "out", "outWeights", "topkIdx")
    _fields_ = [
        ("size", c_size_t),
        ("sms", c_uint32),
        ("pad", c_uint32),
        ("handle", c_void_p),
        ("x", Tensor),
        ("topkWeights", Tensor),
        ("bias", Tensor * 2),
        ("out", Tensor),
        ("outWeights", Tensor),
        ("topkIdx", Tensor),
    ]


class Record(Structure):
    """ginEpRecord_t"""

    _fields_ = [
        ("size", c_size_t),
        ("valid", c_uint32),
        ("result", c_uint32),
        ("call", c_uint32),
        ("rank", c_int32),
        ("epoch", c_uint64),
        ("expected", c_uint64),
        ("seen", c_uint64),
    ]


# C names of the structs and constants above, for the test.
STRUCTS = {
    "ginConfig_t": Config,
    "ginEpConfig_t": EpConfig,
    "ginEpInfo_t": EpInfo,
    "ginEpRecord_t": Record,
    "ginEpTensor_t": Tensor,
    "ginEpHtLayoutArgs_t": HtLayoutArgs,
    "ginEpHtNotifyArgs_t": HtNotifyArgs,
    "ginEpHtCounts_t": HtCounts,
    "ginEpHtDispatchArgs_t": HtDispatchArgs,
    "ginEpHtCombineArgs_t": HtCombineArgs,
}
CONSTANTS = {
    "GIN_DEVICE_AUTO": DEVICE_AUTO,
    "GIN_DEVICE_NONE": DEVICE_NONE,
    "ginEpBf16": BF16,
    "ginEpF32": F32,
    "ginEpF8E4m3": F8_E4M3,
    "ginEpUe8m0x4": UE8M0X4,
    "ginEpI32": I32,
    "ginEpI64": I64,
    "ginEpU8": U8,
    "GIN_EP_LL": LL,
    "GIN_EP_ROWS_BF16": ROWS_BF16,
    "GIN_EP_ROWS_F8": ROWS_F8,
    "GIN_EP_ROWS_MXF8": ROWS_MXF8,
    "GIN_EP_ROWS_NVF4": ROWS_NVF4,
    "GIN_EP_REDUCE_RANK": REDUCE_RANK,
    "GIN_EP_REDUCE_NONE": REDUCE_NONE,
    "GIN_EP_LOST_ERROR": LOST_ERROR,
    "GIN_EP_LOST_MASK": LOST_MASK,
    "GIN_EP_SEND": SEND,
    "GIN_EP_RECV": RECV,
    "GIN_EP_BOTH": BOTH,
    "GIN_EP_EXPERT_MAJOR": EXPERT_MAJOR,
    "GIN_EP_RANK_MAJOR": RANK_MAJOR,
    "GIN_EP_SCALE_F32": SCALE_F32,
    "GIN_EP_SCALE_POW2": SCALE_POW2,
    "GIN_EP_SCALE_UE8M0": SCALE_UE8M0,
    "GIN_EP_SCALE_STRIDED": SCALE_STRIDED,
    "GIN_EP_SCALE_BLOCKS": SCALE_BLOCKS,
    "ginSuccess": SUCCESS,
    "ginEpCallDispatchSend": CALLS.index("dispatch send"),
    "ginEpCallDispatchRecv": CALLS.index("dispatch receive"),
    "ginEpCallCombineSend": CALLS.index("combine send"),
    "ginEpCallCombineRecv": CALLS.index("combine receive"),
}

_U32S = POINTER(c_uint32)
_PROTOTYPES = {
    "ginCommInit": (POINTER(Config), POINTER(c_void_p)),
    "ginCommShrink": (c_void_p, POINTER(c_int), c_int, POINTER(c_void_p)),
    "ginCommDestroy": (c_void_p,),
    "ginCommAbort": (c_void_p,),
    "ginCommRank": (c_void_p, POINTER(c_int)),
    "ginCommSize": (c_void_p, POINTER(c_int)),
    "ginCommDevice": (c_void_p, POINTER(c_int)),
    "ginCommAllgather": (c_void_p, c_void_p, c_void_p, c_size_t),
    "ginMemAlloc": (c_void_p, c_size_t, POINTER(c_void_p)),
    "ginMemFree": (c_void_p, c_void_p),
    "ginWindowRegister": (c_void_p, c_void_p, c_size_t, c_int, POINTER(c_void_p)),
    "ginWindowDeregister": (c_void_p, c_void_p),
    "ginEpCreate": (c_void_p, POINTER(EpConfig), POINTER(c_void_p)),
    "ginEpDestroy": (c_void_p,),
    "ginEpBytes": (POINTER(EpConfig), c_int, POINTER(c_uint64)),
    "ginEpQuery": (c_void_p, POINTER(EpInfo)),
    "ginEpMaskQuery": (c_void_p, _U32S, _U32S),
    "ginEpMaskSet": (c_void_p, c_int, c_int, c_void_p),
    "ginEpMaskClear": (c_void_p, c_void_p),
    "ginEpGetAsyncError": (c_void_p, POINTER(Record)),
    "ginEpReset": (c_void_p,),
    "ginEpHtLayout": (c_void_p, POINTER(HtLayoutArgs), c_void_p),
    "ginEpHtDomain": (c_void_p, _U32S),
    "ginEpHtHandleBytes": (c_void_p, c_uint32, POINTER(c_uint64)),
    "ginEpHtNotify": (c_void_p, POINTER(HtNotifyArgs), c_void_p, POINTER(c_uint32)),
    "ginEpHtCounts": (c_void_p, c_uint32, c_uint64, POINTER(HtCounts)),
    "ginEpHtDispatch": (c_void_p, POINTER(HtDispatchArgs), c_void_p),
    "ginEpHtCombine": (c_void_p, POINTER(HtCombineArgs), c_void_p),
    "ginEpHtGrow": (c_void_p, c_uint32),
    "ginEpShrink": (c_void_p, c_void_p, POINTER(EpConfig), POINTER(c_void_p)),
}
_WORDS = ("ginGetLastError", "ginEpGetLastError", "ginGetErrorString")

_library_with_prototypes = None


class GinError(RuntimeError):
    """A call of libgin or libgin-ep failed. `call` is its name, `result` the ginResult_t."""

    def __init__(self, call, result, sentence):
        super().__init__(f"{call}: {sentence}")
        self.call, self.result = call, result


def library():
    """libgin-ep.so with prototypes; loads it at the first call."""
    global _library_with_prototypes
    if _library_with_prototypes is None:
        _library_with_prototypes = _declare(_library.load())
    return _library_with_prototypes


def _declare(found):
    try:
        for name, arguments in _PROTOTYPES.items():
            function = getattr(found, name)
            function.argtypes, function.restype = arguments, c_int
        for name in _WORDS:
            getattr(found, name).restype = c_char_p
    except AttributeError as error:
        raise _library.LibraryNotFound(f"gin_ep needs another version of libgin-ep.so: {error}") from None
    return found


def call(name, *arguments):
    """Calls a function that returns a ginResult_t; raises GinError with the library's sentence."""
    result = getattr(library(), name)(*arguments)
    if result != SUCCESS:
        fail(name, result)


def fail(name, result):
    """Raises the GinError of a call that has returned `result` in this thread."""
    gin = library()
    words = gin.ginEpGetLastError() if name.startswith("ginEp") else gin.ginGetLastError()
    raise GinError(name, result, (words or gin.ginGetErrorString(result)).decode(errors="replace"))
