# SPDX-License-Identifier: BSD-3-Clause
"""Ep: dispatch tokens to experts and combine the results, on NumPy arrays or torch tensors."""

import contextlib
import ctypes
import functools
import itertools
import operator
import weakref
from dataclasses import dataclass
from typing import Any

from . import _abi, _library, _tensor
from ._shown import shown

GROUPS = {"fp8": 128, "mxfp8": 32, "nvfp4": 16}  # values of a row that share a scale
LAYOUTS = {"expert": _abi.EXPERT_MAJOR, "rank": _abi.RANK_MAJOR}
SCALES = {"f32": _abi.SCALE_F32, "pow2": _abi.SCALE_POW2, "ue8m0": _abi.SCALE_UE8M0}
BYTE_SCALES = {"columns": _abi.SCALE_STRIDED, "blocks": _abi.SCALE_BLOCKS}  # of mxfp8 and nvfp4
REDUCES = {"none": _abi.REDUCE_NONE, "rank": _abi.REDUCE_RANK}
PHASES = {"send": _abi.SEND, "both": _abi.BOTH}
LOST = {"error": _abi.LOST_ERROR, "mask": _abi.LOST_MASK}
ROWS = {"bf16": _abi.ROWS_BF16, "fp8": _abi.ROWS_F8, "mxfp8": _abi.ROWS_MXF8, "nvfp4": _abi.ROWS_NVF4}

_by_number = weakref.WeakValueDictionary()
_numbers = itertools.count(1)


@functools.lru_cache(maxsize=None)
def native():
    """The module gin_ep._native, bound to the library."""
    module, gin = _library.native(), _abi.library()
    calls = gin.ginEpDispatch, gin.ginEpCombine, gin.ginMemAlloc, gin.ginMemFree
    functions = (ctypes.cast(call, ctypes.c_void_p).value for call in calls)
    module.bind(
        *functions, _tensor.describe, _tensor.rows_ready, _tensor.contiguous, _tensor.current_stream, _abi.fail
    )
    return module


def choose(table, value, what):
    found = table.get(value)
    if found is None:
        raise ValueError(f"{what} is {value!r}; possible are {', '.join(map(repr, table))}")
    return found


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
    rows=tuple(ROWS), reduce="none", first_experts=None, timeout=100.0, on_lost="error", max_sms=0, contexts=0
)


def bytes_needed(ranks, **config):
    """Device memory that an Ep of so many ranks takes, by the keywords of Ep. An upper limit."""
    needed = ctypes.c_uint64()
    _abi.call("ginEpBytes", ctypes.byref(_config(ranks, **{**_DEFAULTS, **config})), ranks, ctypes.byref(needed))
    return needed.value


def scales_of(rows, scales):
    """The number of a kind of scales."""
    return choose(BYTE_SCALES if rows in ("mxfp8", "nvfp4") else SCALES, scales, "scales")


def _hidden_of(x, rows):
    """Values of a row of x; two are in a byte of nvfp4."""
    packed = rows == "nvfp4" and _tensor.kind_of(x, "x") != _abi.BF16
    return x.shape[-1] * (2 if packed else 1)


def _made_scales(make, rows, hidden, kind, scales):
    """New scales of received rows."""
    groups = -(-hidden // GROUPS[kind])
    if scales == "blocks":
        return make.empty((rows[0], -(-rows[1] // 128) * 128, -(-groups // 4) * 4), "uint8")
    if kind != "fp8":
        return make.columns(rows + (groups,), "uint8")
    words, of = (-(-groups // 4), "int32") if scales == "ue8m0" else (groups, "float32")
    return make.columns(rows + (words,), of)


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

    x: Any  # expert-major [own experts, ranks * max_tokens, hidden], rank-major [ranks, max_tokens, hidden]; nvfp4: / 2
    scales: Any  # None for bf16
    count: Any
    src_info: Any
    layout_range: Any  # expert-major only
    topk_idx: Any  # rank-major only
    topk_weights: Any  # rank-major only
    handle: Any  # memory for combine()
    _call: Any = None  # keeps the tensors that the call reads

    def receive(self, stream=None):
        """Receives, after phase="send". Once."""
        if self._call is None:
            raise RuntimeError("nothing is left to receive")
        self._call.receive(stream)

    def _tensors(self):
        """In the order of the native module."""
        rows = self.x, self.scales, self.count, self.src_info
        return (*rows, self.layout_range, self.topk_idx, self.topk_weights, self.handle)


@dataclass
class Combined:
    """What a combine gives. With phase="send" `out` is valid after receive()."""

    out: Any
    _call: Any = None

    receive = Dispatched.receive


class Ep:
    """The state of one shape of MoE layer on a communicator. Collective.

    experts         of all ranks, as even as can be, or by first_experts: rank r has the experts
                    first_experts[r] to first_experts[r + 1] - 1
    topk, hidden, max_tokens    the most experts of a token, elements of a row, tokens of a rank
    rows            the kinds of rows that will be sent: "bf16", "fp8", "mxfp8", "nvfp4"
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
        gpu = -1 if comm.device is None else comm.device
        self.calls = native().Calls(self._ep.value, gpu, self.info.handleBytes)
        self._outputs = {}  # functions that make a dispatch's outputs, by what they depend on
        self._rows = {}  # functions that make a combine's output, by the type of tensors
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
            self.calls.close()
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

    @shown
    def dispatch(
        self,
        x,
        topk_idx,
        topk_weights=None,
        *,
        x_scales=None,
        x_global_scale=None,
        fp8=False,
        rows=None,
        scales=None,
        layout="expert",
        phase="both",
        stats=None,
        wait_cost=None,
        out=None,
        stream=None,
    ):
        """Sends each token to the ranks of its experts. Collective, in one order on all ranks.

        x             [tokens, hidden] bf16; or e4m3, or nvfp4 [tokens, hidden / 2], with x_scales
        topk_idx      [tokens, K] int32 or int64, -1: none
        topk_weights  [tokens, K] f32, for combine(reduce="rank")
        fp8           rows="fp8"
        rows          "bf16"; "fp8": e4m3 with one scale for 128 values: scales="f32", "pow2" or "ue8m0"; "mxfp8",
                      "nvfp4": scales="columns", or "blocks" of 128 rows and 4 scales. None: fp8 if there are x_scales
        x_global_scale    one f32, for bf16 x that becomes nvfp4
        layout        "expert" or "rank"
        phase         "send": the caller calls receive() on the result
        stats         [own experts] int32, to which the counts are added
        wait_cost     [ranks] int64, to which nanoseconds of waiting are added
        out           a Dispatched whose tensors are written, instead of new ones
        """
        refuse_gradients(x=x, topk_weights=topk_weights, x_scales=x_scales)
        rows = rows or ("fp8" if fp8 or x_scales is not None else "bf16")
        scales = scales or ("columns" if rows in ("mxfp8", "nvfp4") else "f32")
        made, call = self.calls.dispatch(
            x,
            x_scales,
            topk_idx,
            topk_weights,
            stats,
            wait_cost,
            x_global_scale,
            out._tensors() if out else self.outputs(x, topk_idx, rows, scales, layout),
            stream,
            choose(ROWS, rows, "rows"),
            scales_of(rows, scales),
            choose(LAYOUTS, layout, "layout"),
            choose(PHASES, phase, "phase"),
        )
        received = out or Dispatched(*made)
        received._call = call
        return received

    def outputs(self, x, topk_idx, rows, scales, layout):
        """Functions that make the outputs of a dispatch, or None, in the order of Dispatched._tensors()."""
        try:
            key = type(x), _hidden_of(x, rows), topk_idx.shape[-1], rows, scales, layout
        except (AttributeError, IndexError):
            _tensor.describe(x, "x"), _tensor.describe(topk_idx, "topk_idx")
            raise ValueError(f"x and topk_idx need 2 dimensions; their shapes are {_shape(x)} and {_shape(topk_idx)}")
        found = self._outputs.get(key)
        if found is None:
            choose(LAYOUTS, layout, "layout"), choose(ROWS, rows, "rows"), scales_of(rows, scales)
            make = self._maker(x)
            made = self._made(make, *key[1:])
            found = self._outputs[key] = tuple(make.again(one) if one is not None else None for one in made)
        return found

    def _maker(self, x):
        if not _tensor.is_torch(x):
            return _tensor.NumpyMaker()
        return _tensor.TorchMaker("cpu" if self.comm.device is None else f"cuda:{self.comm.device}")

    def _made(self, make, hidden, topk, kind, scales, layout):
        """New outputs of a dispatch."""
        info, expert_major = self.info, layout == "expert"
        rows = (info.localExperts, info.recvRows) if expert_major else (info.nRanks, info.maxTokens)
        values, of = {"bf16": (hidden, "bf16"), "nvfp4": (hidden // 2, "uint8")}.get(kind, (hidden, "e4m3"))
        return (
            make.empty(rows + (values,), of),
            _made_scales(make, rows, hidden, kind, scales) if kind in GROUPS else None,
            make.empty(rows[:1], "int32"),
            make.empty(rows, "int32"),
            make.empty((info.localExperts, info.nRanks), "int64") if expert_major else None,
            None if expert_major else make.empty(rows + (topk,), "int32"),
            None if expert_major else make.empty(rows + (topk,), "float32"),
            make.empty((info.handleBytes,), "uint8"),
        )

    def empty_like_received(self, x, topk, fp8=False, scales="f32", layout="expert", rows=None):
        """A Dispatched with new tensors of the kind of x, on the ranks' device. Scales are column-major."""
        rows = rows or ("fp8" if fp8 else "bf16")
        return Dispatched(*self._made(self._maker(x), _hidden_of(x, rows), topk, rows, scales, layout))

    @shown
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
        ready=None,
        ready_rows=0,
        ready_at=1,
        sms=0,
    ):
        """Sends the experts' rows back; out[t] is the sum of weight * row over the experts of token t.

        x             bf16, in the shape of the dispatch's x
        handle        the dispatch's, or the Dispatched itself
        topk_idx, topk_weights    as in dispatch(); weights are 1 if there are none
        reduce        "none": the token's rank adds all rows, in f32, rounded once. "rank": each rank adds its
                      rows by the weights that dispatch() has sent, rounds to bf16, and sends one row
        ready         int32 words, zeros when the call is made, if a GEMM on another stream still writes x:
                      [own experts, words], row i of an expert is complete when its word i // ready_rows is at
                      least ready_at; or [own experts] with ready_rows=0
        sms           most blocks of the kernel, so that a GEMM finds free SMs; 0: all
        """
        refuse_gradients(x=x, topk_weights=topk_weights, out=out)
        out, call = self.calls.combine(
            x,
            _memory_of(handle),
            topk_idx,
            topk_weights,
            ready,
            wait_cost,
            out,
            self.maker_of_rows(x),
            stream,
            choose(REDUCES, reduce, "reduce"),
            choose(LAYOUTS, layout, "layout"),
            choose(PHASES, phase, "phase"),
            ready_rows,
            ready_at,
            sms,
        )
        return Combined(out, call)

    def maker_of_rows(self, x):
        """A function that makes the output of a combine, of a shape."""
        return self._rows.get(type(x)) or self._rows.setdefault(type(x), self._maker(x).rows("bf16"))

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


def refuse_gradients(**tensors):
    """The results have no gradients: a model would not learn, and nobody would see it."""
    for name, tensor in tensors.items():
        if tensor is not None and _tensor.wants_gradient(tensor):
            raise ValueError(
                f"{name} requires a gradient, and the call has none: make it in an autograd.Function, as "
                f"gin_ep_python(7) shows, or in torch.no_grad()"
            )


def _memory_of(handle):
    return handle.handle if isinstance(handle, Dispatched) else handle


def _shape(tensor):
    return tuple(tensor.shape)


def by_number(number):
    """The Ep whose `number` this is: torch operators pass numbers."""
    if number not in _by_number:
        raise ValueError(f"there is no Ep with number {number}")
    return _by_number[number]
