# SPDX-License-Identifier: BSD-3-Clause
"""HtEp: high throughput, thousands of tokens of a rank, on NumPy arrays or torch tensors."""

import contextlib
import ctypes
import functools
import math
import operator
import weakref
from dataclasses import dataclass
from typing import Any

from . import _abi, _tensor, ep
from ._shown import shown


def _gpu(comm):
    return -1 if comm.device is None else comm.device


def _stream(comm, stream, like):
    if stream is not None or comm.device is None:
        return stream
    return _tensor.current_stream(like)


def _describe(args, comm, objects, **numbers):
    """Fills in a struct of _abi, whose tensors follow each other."""
    kind = type(args)
    args.size = ctypes.sizeof(kind)
    for name, value in numbers.items():
        setattr(args, name, value if name == "handle" else ep._number(name, value))
    first = getattr(kind, kind.tensors[0]).offset
    ep.native().tensors(ctypes.addressof(args) + first, _gpu(comm), kind.tensors, objects)
    return ctypes.byref(args)


def _maker(comm, like):
    return _maker_of(comm.device, _tensor.is_torch(like))


@functools.lru_cache(maxsize=None)
def _maker_of(device, is_torch):
    if not is_torch:
        return _tensor.NumpyMaker()
    return _tensor.TorchMaker("cpu" if device is None else f"cuda:{device}")


def layout(comm, topk_idx, experts, stream=None):
    """(tokens per rank, tokens per expert, is token in rank [tokens, ranks] bool), on this rank alone."""
    make = _maker(comm, topk_idx)
    topk_idx = _tensor.contiguous(topk_idx)
    out = (
        make.empty((comm.size,), "int32"),
        make.empty((experts,), "int32"),
        make.empty((topk_idx.shape[0], comm.size), "bool"),
    )
    args = _describe(_abi.HtLayoutArgs(), comm, (topk_idx, *out), experts=experts)
    _abi.call("ginEpHtLayout", comm.pointer, args, _stream(comm, stream, topk_idx))
    return out


@dataclass
class HtHandle:
    """What a notify gives: the places of rows, for any number of dispatches and combines."""

    memory: Any
    rank_prefix: Any  # [ranks, ranks] int32: [s][r]: rows that the ranks 0 to s send to rank r
    counts: Any  # [1 + own experts] int32: rows, items of the own experts
    tokens: int
    ticket: int  # 0: none


@dataclass
class HtReceived:
    """What a dispatch gives."""

    x: Any
    scales: Any
    topk_idx: Any
    topk_weights: Any
    src_info: Any


def rounded(rows):
    """A little more: memory for rows whose number changes has few sizes."""
    step = 1 << max(0, rows.bit_length() - 3)
    return (rows + step - 1) // step * step


class Window:
    """`size` bytes of memory into which other ranks store rows. Collective; each rank has its size.

    HtEp(window=) receives rows there, without a copy, as long as there is room. An x of its combine() that is there
    is not copied, either: one that a dispatch has received, or a tensor of torch that was made under
    torch.cuda.use_mem_pool(window.mem_pool).
    """

    def __init__(self, comm, size):
        if not 0 < operator.index(size) < 2**47:
            raise ValueError(f"size is {size}: give bytes, more than 0")
        self.comm, self.size = comm, size
        self._window, self._number, self._pools = ctypes.c_void_p(), None, None
        memory, failure = ctypes.c_void_p(), None
        try:
            _abi.call("ginMemAlloc", comm.pointer, size, ctypes.byref(memory))
            self._number = ep.native().window_open(memory.value, size)
        except RuntimeError as error:  # the other ranks must not wait for this one
            failure = error
        self.address = memory.value or 0
        failed = [rank for rank, none in enumerate(comm.allgather(bytes([failure is not None]))) if none != b"\0"]
        if failed:
            self._free(memory)
            raise failure or RuntimeError(f"rank {failed[0]} has no memory for a window")
        _abi.call("ginWindowRegister", comm.pointer, memory, size, 0, ctypes.byref(self._window))

    def _free(self, memory):
        if self._number is not None:
            ep.native().window_close(self._number)
        elif memory:
            _abi.call("ginMemFree", self.comm.pointer, memory)

    @property
    def pointer(self):
        """The ginWindow_t."""
        if self._window.value is None:
            raise ValueError("the window is closed")
        return self._window

    def close(self):
        """Collective, after the HtEp is destroyed. A second call does nothing.

        The memory is freed when no tensor is in it.
        """
        if self._window.value is not None:
            closed, self._window = self._window, ctypes.c_void_p()
            _abi.call("ginWindowDeregister", self.comm.pointer, closed)
            ep.native().window_close(self._number)

    @property
    def mem_pool(self):
        """A torch.cuda.MemPool, whose tensors are in the window as long as there is room. None without a GPU."""
        return self._mem_pools()[0] if self.comm.device is not None else None

    def _mem_pools(self):
        """The caller's, and the one of received rows: torch refuses to use a pool twice at a time."""
        if self._pools is None:
            from torch.cuda import MemPool

            allocator = _allocator(self._number).allocator()
            self._pools = MemPool(allocator), MemPool(allocator)
        return self._pools

    def renew(self):
        """torch gives back memory that it keeps for tensors of the sizes until now."""
        self._pools = None

    def empty(self, make, shape, dtype):
        """A new tensor, in the window if that has room and no graph is captured, whose pool must have its tensors."""
        if self.comm.device is None:
            return self._empty_on_host(make, shape, dtype)
        from torch import cuda

        captured = cuda.is_current_stream_capturing()
        with contextlib.nullcontext() if captured else cuda.use_mem_pool(self._mem_pools()[1], self.comm.device):
            return make.empty(shape, dtype)

    def _empty_on_host(self, make, shape, dtype):
        native, like = ep.native(), make.empty((1,), dtype)
        count = math.prod(shape) * like.itemsize
        address = native.window_take(self._number, count)
        if not address:
            return make.empty(shape, dtype)
        memory = (ctypes.c_char * count).from_address(address)
        weakref.finalize(memory, native.window_give, self._number, address).atexit = False
        return make.over(memory, like, shape)


@functools.lru_cache(maxsize=None)
def _allocator(number):
    """Of a window's number; torch needs it as long as the process lives."""
    from torch.cuda.memory import CUDAPluggableAllocator

    return CUDAPluggableAllocator(ep.native().__file__, f"gin_ep_malloc_{number:03o}", f"gin_ep_free_{number:03o}")


class HtEp:
    """The state of high throughput on a communicator. Collective.

    experts         of all ranks, as even as can be
    topk, tokens    the most experts of a token, tokens of a rank
    row_bytes, scale_bytes    the most bytes of a row, and of its scales
    recv_tokens     rows of the pool, 0: the most that can come
    window          a Window, for rows that are received without a copy
    """

    def __init__(
        self, comm, *, experts, topk, tokens, row_bytes, scale_bytes=0, recv_tokens=0, sms=0, timeout=100.0, window=None
    ):
        self.comm, self.window = comm, window
        self._ep = ctypes.c_void_p()
        config = _abi.EpConfig(ctypes.sizeof(_abi.EpConfig), _abi.HT)
        config.experts, config.topk, config.hidden = ep._number("experts", experts), ep._number("topk", topk), 16
        config.htTokens, config.htRecvTokens = ep._number("tokens", tokens), ep._number("recv_tokens", recv_tokens)
        config.htRowBytes = ep._number("row_bytes", row_bytes)
        config.htScaleBytes, config.htSms = ep._number("scale_bytes", scale_bytes), ep._number("sms", sms)
        config.rowTypes, config.reduce = _abi.ROWS_BF16, _abi.REDUCE_RANK
        config.timeout = ep._nanoseconds("timeout", timeout)
        if window is not None:
            config.htWindow, config.htWindowBytes = window.pointer, window.size
        _abi.call("ginEpCreate", comm.pointer, ctypes.byref(config), ctypes.byref(self._ep))
        self.info = _abi.EpInfo(ctypes.sizeof(_abi.EpInfo))
        self._query()
        self._bytes_of = {}  # tokens: bytes of a handle

    pointer, failure, reset = ep.Ep.pointer, ep.Ep.failure, ep.Ep.reset

    def destroy(self):
        """Collective. A second call does nothing."""
        if self._ep.value is not None:
            made, self._ep = self._ep, ctypes.c_void_p()
            _abi.call("ginEpDestroy", made)

    def _query(self):
        _abi.call("ginEpQuery", self._ep, ctypes.byref(self.info))

    def grow(self, rows):
        """A pool of so many rows. Collective; no kernel of the HtEp may run."""
        _abi.call("ginEpHtGrow", self.pointer, ep._number("rows", rows))
        self._query()

    def notify(self, is_token_in_rank, tokens_per_expert, *, alignment=1, counted=True, stream=None):
        """Exchanges counts. counted: counts() can wait for them."""
        make = _maker(self.comm, is_token_in_rank)
        tokens, ticket = is_token_in_rank.shape[0], ctypes.c_uint32()
        memory = make.empty((self._handle_bytes(tokens),), "uint8")
        prefix = make.empty((self.comm.size, self.comm.size), "int32")
        counts = make.empty((1 + self.info.localExperts,), "int32")
        args = _describe(
            _abi.HtNotifyArgs(),
            self.comm,
            (is_token_in_rank, tokens_per_expert, prefix, counts),
            expertAlignment=alignment,
            handle=_tensor.address(memory),
        )
        stream = _stream(self.comm, stream, is_token_in_rank)
        _abi.call("ginEpHtNotify", self.pointer, args, stream, ctypes.byref(ticket) if counted else None)
        return HtHandle(memory, prefix, counts, tokens, ticket.value)

    def _handle_bytes(self, tokens):
        if tokens not in self._bytes_of:
            found = ctypes.c_uint64()
            _abi.call("ginEpHtHandleBytes", self.pointer, tokens, ctypes.byref(found))
            self._bytes_of[tokens] = found.value
        return self._bytes_of[tokens]

    def counts(self, handle, timeout=0.0):
        """(rows, most rows of any rank, items of each own expert). Waits for them on the CPU."""
        items = (ctypes.c_uint32 * max(1, self.info.localExperts))()
        out = _abi.HtCounts(ctypes.sizeof(_abi.HtCounts), 0, 0, items)
        _abi.call("ginEpHtCounts", self.pointer, handle.ticket, ep._nanoseconds("timeout", timeout), ctypes.byref(out))
        return out.rows, out.mostRows, items[: self.info.localExperts]

    @shown
    def dispatch(self, x, handle, rows, *, scales=None, topk_idx=None, topk_weights=None, sms=0, stream=None):
        """Sends rows to the ranks of their tokens; `rows`: room for received ones. Collective."""
        make, dtype = _maker(self.comm, x), _dtype(x)
        topk = topk_idx.shape[1] if topk_idx is not None else 0
        received = HtReceived(
            self._rows(make, rows, x.shape[1], dtype),
            None if scales is None else make.empty((rows, scales.shape[1]), _dtype(scales)),
            make.empty((rows, topk), _dtype(topk_idx)) if topk else None,
            make.empty((rows, topk), "float32") if topk else None,
            make.empty((rows,), "int32"),
        )
        outputs = (received.x, received.scales, received.topk_idx, received.topk_weights, received.src_info)
        args = _describe(
            _abi.HtDispatchArgs(),
            self.comm,
            (x, scales, topk_idx, topk_weights, *outputs),
            handle=_tensor.address(handle.memory),
            sms=sms,
        )
        _abi.call("ginEpHtDispatch", self.pointer, args, _stream(self.comm, stream, x))
        return received

    def _rows(self, make, rows, hidden, dtype):
        if self.window is None or not rows:
            return make.empty((rows, hidden), dtype)
        return self.window.empty(make, (rounded(rows), hidden), dtype)[:rows]

    @shown
    def combine(self, x, handle, *, topk_weights=None, bias=(None, None), topk_idx=None, sms=0, stream=None):
        """(out [tokens, hidden], sums of weights or None). Collective.

        Ranks are added ascending; with topk_idx in the order of their last experts there, as DeepEP V2 does.
        """
        make = _maker(self.comm, x)
        out = make.empty((handle.tokens, x.shape[1]), "bf16")
        weights = None if topk_weights is None else make.empty((handle.tokens, topk_weights.shape[1]), "float32")
        args = _describe(
            _abi.HtCombineArgs(),
            self.comm,
            (x, topk_weights, *bias, out, weights, topk_idx),
            handle=_tensor.address(handle.memory),
            sms=sms,
        )
        _abi.call("ginEpHtCombine", self.pointer, args, _stream(self.comm, stream, x))
        return out, weights


def _dtype(tensor):
    return str(tensor.dtype).rpartition(".")[2]
