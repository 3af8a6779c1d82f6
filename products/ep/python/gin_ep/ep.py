# SPDX-License-Identifier: BSD-3-Clause
"""Ep: dispatch tokens to experts and combine the results, on NumPy arrays or torch tensors."""

import contextlib
import ctypes
import itertools
import operator
import weakref
from dataclasses import dataclass
from typing import Any

from . import _abi, _tensor

GROUP = 128  # values of a row that share a scale
LAYOUTS = {"expert": _abi.EXPERT_MAJOR, "rank": _abi.RANK_MAJOR}
SCALES = {"f32": _abi.SCALE_F32, "pow2": _abi.SCALE_POW2, "ue8m0": _abi.SCALE_UE8M0}
REDUCES = {"none": _abi.REDUCE_NONE, "rank": _abi.REDUCE_RANK}
PHASES = {"send": _abi.SEND, "both": _abi.BOTH}
LOST = {"error": _abi.LOST_ERROR, "mask": _abi.LOST_MASK}
ROWS = {"bf16": _abi.ROWS_BF16, "fp8": _abi.ROWS_F8}

_by_number = weakref.WeakValueDictionary()
_numbers = itertools.count(1)


def choose(table, value, what):
    if value not in table:
        raise ValueError(f"{what} is {value!r}; possible are {', '.join(map(repr, table))}")
    return table[value]


def _number(name, value):
    """A uint32_t. ctypes takes any integer and drops the bits that do not fit."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}: give an integer") from None
    if not 0 <= number < 2**32:
        raise ValueError(f"{name} is {number}: give 0 to {2**32 - 1}")
    return number


def _nanoseconds(name, seconds):
    try:
        fits = 0 <= seconds < 18e9
    except TypeError:
        raise TypeError(f"{name} is {seconds!r}: give seconds") from None
    if not fits:
        raise ValueError(f"{name} is {seconds!r}: give seconds, less than 18e9; 0: no limit")
    return int(seconds * 1e9)


def _config(
    ranks, *, experts, topk, hidden, max_tokens, rows, reduce, first_experts, timeout, on_lost, max_sms, contexts
):
    config = _abi.EpConfig(ctypes.sizeof(_abi.EpConfig), _abi.LL)
    config.experts, config.topk = _number("experts", experts), _number("topk", topk)
    config.hidden, config.maxTokens = _number("hidden", hidden), _number("max_tokens", max_tokens)
    config.rowTypes = sum(choose(ROWS, kind, "rows") for kind in set(rows))
    config.reduce = choose(REDUCES, reduce, "reduce")
    config.timeout = _nanoseconds("timeout", timeout)
    config.onLost = choose(LOST, on_lost, "on_lost")
    config.maxSms, config.contexts = _number("max_sms", max_sms), _number("contexts", contexts)
    if first_experts is not None:
        if len(first_experts) != ranks + 1:
            raise ValueError(f"first_experts has {len(first_experts)} numbers, {ranks} ranks need {ranks + 1}")
        first = [_number("first_experts", number) for number in first_experts]
        config.firstExpert = (ctypes.c_uint32 * len(first))(*first)
    return config


_DEFAULTS = dict(
    rows=("bf16", "fp8"), reduce="none", first_experts=None, timeout=100.0, on_lost="error", max_sms=0, contexts=0
)


def bytes_needed(ranks, **config):
    """Device memory that an Ep of so many ranks takes, by the keywords of Ep. An upper limit."""
    needed = ctypes.c_uint64()
    _abi.call("ginEpBytes", ctypes.byref(_config(ranks, **{**_DEFAULTS, **config})), ranks, ctypes.byref(needed))
    return needed.value


@dataclass(frozen=True)
class Failure:
    """The first failure of a kernel: ginEpRecord_t."""

    result: int
    call: str
    rank: int  # the rank that the kernel waited for, or -1
    epoch: int
    expected: int
    seen: int
    sentence: str


@dataclass
class Dispatched:
    """What a dispatch gives. With phase="send" the tensors are valid after receive()."""

    x: Any  # expert-major [own experts, ranks * max_tokens, hidden], rank-major [ranks, max_tokens, hidden]
    scales: Any  # None for bf16
    count: Any
    src_info: Any
    layout_range: Any  # expert-major only
    topk_idx: Any  # rank-major only
    topk_weights: Any  # rank-major only
    handle: Any  # memory for combine()
    _receive: Any = None
    _keep: Any = None  # tensors that the send reads

    def receive(self, stream=None):
        """Receives, after phase="send". Once."""
        if self._receive is None:
            raise RuntimeError("nothing is left to receive")
        receive, self._receive = self._receive, None
        receive(stream)


@dataclass
class Combined:
    """What a combine gives. With phase="send" `out` is valid after receive()."""

    out: Any
    _receive: Any = None
    _keep: Any = None

    receive = Dispatched.receive


class Ep:
    """The state of one shape of MoE layer on a communicator. Collective.

    experts         of all ranks, as even as can be, or by first_experts: rank r has the experts
                    first_experts[r] to first_experts[r + 1] - 1
    topk, hidden, max_tokens    the most experts of a token, elements of a row, tokens of a rank
    rows            the kinds of rows that will be sent: "bf16", "fp8"
    reduce          "none": both kinds of combine; "rank": combine(reduce="rank") only, with less memory
    timeout         seconds that a call waits for a rank; 0: no limit
    on_lost         "error" or "mask": what a call does when a rank does not answer
    """

    def __init__(self, comm, *, experts, topk, hidden, max_tokens, **more):
        unknown = sorted(set(more) - set(_DEFAULTS))
        if unknown:
            raise TypeError(f"Ep has no keyword {', '.join(unknown)}")
        shape = dict(experts=experts, topk=topk, hidden=hidden, max_tokens=max_tokens)
        self._make(comm, {**_DEFAULTS, **more, **shape})

    def _make(self, comm, config, old=None):
        """A new ginEp_t; in the memory of the Ep `old`, if there is one."""
        self.comm, self.config = comm, config
        self._ep = ctypes.c_void_p()
        plain, out = ctypes.byref(_config(comm.size, **config)), ctypes.byref(self._ep)
        if old is None:
            _abi.call("ginEpCreate", comm.pointer, plain, out)
        else:
            _abi.call("ginEpShrink", old.pointer, comm.pointer, plain, out)
        self.info = _abi.EpInfo(ctypes.sizeof(_abi.EpInfo))
        _abi.call("ginEpQuery", self._ep, ctypes.byref(self.info))
        self.number = next(_numbers)  # for gin_ep.ops
        _by_number[self.number] = self

    @property
    def pointer(self):
        """The ginEp_t."""
        if self._ep.value is None:
            raise ValueError("the Ep is destroyed")
        return self._ep

    def destroy(self):
        """Collective. A second call does nothing."""
        if self._ep.value is not None:
            ep, self._ep = self._ep, ctypes.c_void_p()
            _abi.call("ginEpDestroy", ep)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.destroy()
            return
        with contextlib.suppress(ValueError):
            self.comm.abort()  # ginEpDestroy() must not wait for ranks that go on
        with contextlib.suppress(_abi.GinError):
            self.destroy()

    def dispatch(
        self,
        x,
        topk_idx,
        topk_weights=None,
        *,
        x_scales=None,
        fp8=False,
        scales="f32",
        layout="expert",
        phase="both",
        stats=None,
        wait_cost=None,
        out=None,
        stream=None,
    ):
        """Sends each token to the ranks of its experts. Collective, in one order on all ranks.

        x             [tokens, hidden] bf16; or e4m3 with x_scales
        topk_idx      [tokens, K] int32 or int64, -1: none
        topk_weights  [tokens, K] f32, for combine(reduce="rank")
        fp8           send bf16 as e4m3 with one scale for 128 values: "f32", "pow2" or "ue8m0"
        layout        "expert" or "rank"
        phase         "send": the caller calls receive() on the result
        stats         [own experts] int32, to which the counts are added
        wait_cost     [ranks] int64, to which nanoseconds of waiting are added
        out           a Dispatched whose tensors are written, instead of new ones
        """
        _tensor.describe(x, "x")
        if len(x.shape) != 2 or len(topk_idx.shape) != 2:
            raise ValueError(f"x and topk_idx need 2 dimensions; their shapes are {_shape(x)} and {_shape(topk_idx)}")
        self._check_memory(x=x, topk_idx=topk_idx, topk_weights=topk_weights, x_scales=x_scales)
        args = _abi.DispatchArgs(ctypes.sizeof(_abi.DispatchArgs), _abi.LL, choose(PHASES, phase, "phase"))
        fp8 = fp8 or x_scales is not None
        args.rows = _abi.ROWS_F8 if fp8 else _abi.ROWS_BF16
        args.layout = choose(LAYOUTS, layout, "layout")
        args.scaleKind = choose(SCALES, scales, "scales")
        args.hidden = x.shape[1]
        received = out or self.empty_like_received(x, topk_idx.shape[1], fp8, scales, layout)
        keep = (
            _tensor.rows_ready(x),
            _tensor.contiguous(x_scales),
            _tensor.contiguous(topk_idx),
            _tensor.contiguous(topk_weights),
        )
        self._describe_send(args, *keep)
        self._describe_received(args, received, scales, stats, wait_cost)
        self._launch("ginEpDispatch", args, x, stream)
        received._keep = _kept(stream, phase, keep, stats, wait_cost)
        if phase == "send":
            received._receive = self._receive("ginEpDispatch", args, x, received)
        return received

    def _describe_send(self, args, x, x_scales, topk_idx, topk_weights):
        args.x = _tensor.describe(x, "x")
        if x_scales is not None:
            packed = _tensor.kind_of(x_scales, "x_scales") == _abi.I32
            args.scales = _tensor.describe(x_scales, "x_scales", _abi.UE8M0X4 if packed else None)
        args.topkIdx = _tensor.describe(topk_idx, "topk_idx")
        args.topkWeights = _tensor.describe(topk_weights, "topk_weights")

    def _describe_received(self, args, received, scales, stats, wait_cost):
        args.handle = _tensor.address(received.handle)
        args.recvX = _tensor.describe(received.x, "out.x")
        kind = _abi.UE8M0X4 if scales == "ue8m0" else _abi.F32
        args.recvScales = _tensor.describe(received.scales, "out.scales", kind)
        args.recvCount = _tensor.describe(received.count, "out.count")
        args.srcInfo = _tensor.describe(received.src_info, "out.src_info")
        args.layoutRange = _tensor.describe(received.layout_range, "out.layout_range")
        args.recvTopkIdx = _tensor.describe(received.topk_idx, "out.topk_idx")
        args.recvTopkWeights = _tensor.describe(received.topk_weights, "out.topk_weights")
        args.recvStats = _tensor.describe(stats, "stats")
        args.waitCost = _tensor.describe(wait_cost, "wait_cost")

    def empty_like_received(self, x, topk, fp8=False, scales="f32", layout="expert"):
        """A Dispatched with new tensors of the kind of x, on the device of x. Scales are column-major."""
        make, info = _tensor.maker_like(x), self.info
        expert_major = layout == "expert"
        rows = (info.localExperts, info.recvRows) if expert_major else (info.nRanks, info.maxTokens)
        out_scales = None
        if fp8:
            groups = -(-x.shape[1] // GROUP)
            words, kind = (-(-groups // 4), "int32") if scales == "ue8m0" else (groups, "float32")
            out_scales = make.swap_last(make.empty((rows[0], words, rows[1]), kind))
        return Dispatched(
            x=make.empty(rows + (x.shape[1],), "e4m3" if fp8 else "bf16"),
            scales=out_scales,
            count=make.empty(rows[:1], "int32"),
            src_info=make.empty(rows, "int32"),
            layout_range=make.empty((info.localExperts, info.nRanks), "int64") if expert_major else None,
            topk_idx=None if expert_major else make.empty(rows + (topk,), "int32"),
            topk_weights=None if expert_major else make.empty(rows + (topk,), "float32"),
            handle=make.empty((info.handleBytes,), "uint8"),
        )

    def combine(
        self,
        x,
        handle,
        topk_idx,
        topk_weights=None,
        *,
        reduce="none",
        layout="expert",
        phase="both",
        wait_cost=None,
        out=None,
        stream=None,
    ):
        """Sends the experts' rows back; out[t] is the sum of weight * row over the experts of token t.

        x             bf16, in the shape of the dispatch's x
        handle        the dispatch's, or the Dispatched itself
        topk_idx, topk_weights    as in dispatch(); weights are 1 if there are none
        reduce        "none": the token's rank adds all rows, in f32, rounded once. "rank": each rank adds its
                      rows by the weights that dispatch() has sent, rounds to bf16, and sends one row
        """
        self._check_memory(x=x, handle=_memory_of(handle), topk_idx=topk_idx, topk_weights=topk_weights, out=out)
        args = _abi.CombineArgs(ctypes.sizeof(_abi.CombineArgs), _abi.LL, choose(PHASES, phase, "phase"))
        args.reduce = choose(REDUCES, reduce, "reduce")
        args.layout = choose(LAYOUTS, layout, "layout")
        hidden = x.shape[-1]
        args.hidden = hidden
        handle = _memory_of(handle)
        args.handle = _tensor.address(handle)
        if out is None:
            out = _tensor.maker_like(x).empty((topk_idx.shape[0], hidden), "bf16")
        keep = _tensor.rows_ready(x), _tensor.contiguous(topk_idx), _tensor.contiguous(topk_weights), handle, wait_cost
        args.x = _tensor.describe(keep[0], "x")
        args.topkIdx = _tensor.describe(keep[1], "topk_idx")
        args.topkWeights = _tensor.describe(keep[2], "topk_weights")
        args.out = _tensor.describe(out, "out")
        args.waitCost = _tensor.describe(wait_cost, "wait_cost")
        self._launch("ginEpCombine", args, x, stream)
        combined = Combined(out, _keep=_kept(stream, phase, keep))
        if phase == "send":
            combined._receive = self._receive("ginEpCombine", args, x, combined)
        return combined

    def _check_memory(self, **tensors):
        """The library would read addresses of the CPU on the GPU, or the reverse."""
        gpu = self.comm.device is not None
        for name, tensor in tensors.items():
            if tensor is not None and _tensor.is_torch(tensor) and tensor.is_cuda != gpu:
                raise ValueError(f"{name} is on {tensor.device}, the ranks use {self._where()}")
            if tensor is not None and gpu and not _tensor.is_torch(tensor):
                raise ValueError(f"{name} is a NumPy array, the ranks use {self._where()}")

    def _where(self):
        gpu = self.comm.device
        return f"GPU {gpu}" if gpu is not None else "host threads"

    def _launch(self, call, args, like, stream):
        stream = _tensor.current_stream(like) if stream is None else stream
        _abi.call(call, self.pointer, ctypes.byref(args), stream)

    def _receive(self, call, args, like, result):
        args.phase = _abi.RECV

        def receive(stream):
            self._launch(call, args, like, stream)
            result._keep = _kept(stream, "both", result._keep)

        return receive

    def masks(self):
        """(observed, masked): lists of bool, one of each rank. Did not answer; is left out."""
        observed, masked = ((ctypes.c_uint32 * self.info.nRanks)() for _ in range(2))
        _abi.call("ginEpMaskQuery", self.pointer, observed, masked)
        return list(map(bool, observed)), list(map(bool, masked))

    def set_mask(self, rank, masked, stream=None):
        """Leaves a rank out of sends and waits, or takes it in again."""
        _abi.call("ginEpMaskSet", self.pointer, rank, int(masked), stream)

    def clear_masks(self, stream=None):
        """Forgets both masks, on this rank."""
        _abi.call("ginEpMaskClear", self.pointer, stream)

    def failure(self):
        """The first failure of a kernel, or None. Any thread."""
        record = _abi.Record(ctypes.sizeof(_abi.Record))
        _abi.call("ginEpGetAsyncError", self.pointer, ctypes.byref(record))
        if not record.valid:
            return None
        words = _abi.library().ginEpGetLastError().decode(errors="replace")
        call = _abi.CALLS[record.call] if record.call < len(_abi.CALLS) else str(record.call)
        return Failure(record.result, call, record.rank, record.epoch, record.expected, record.seen, words)

    def reset(self):
        """Starts anew after losses. Collective; handles from before are void."""
        _abi.call("ginEpReset", self.pointer)

    def shrink(self, comm, **changes):
        """An Ep on `comm`, which Communicator.shrink() has made, in the memory of this one.

        `changes` replace keywords of Ep(). This Ep can only be destroyed then. Kernels of it must have ended.
        """
        unknown = sorted(set(changes) - set(self.config))
        if unknown:
            raise TypeError(f"Ep has no keyword {', '.join(unknown)}")
        made = object.__new__(type(self))
        made._make(comm, {**self.config, **changes}, self)
        return made


def _memory_of(handle):
    return handle.handle if isinstance(handle, Dispatched) else handle


def _kept(stream, phase, *tensors):
    """What a result keeps alive. Torch frees memory in the order of its current stream, so nothing is kept there."""
    return tensors if stream is not None or phase == "send" else None


def _shape(tensor):
    return tuple(tensor.shape)


def by_number(number):
    """The Ep whose `number` this is: torch operators pass numbers."""
    if number not in _by_number:
        raise ValueError(f"there is no Ep with number {number}")
    return _by_number[number]
