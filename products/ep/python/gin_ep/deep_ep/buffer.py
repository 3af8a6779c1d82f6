# SPDX-License-Identifier: BSD-3-Clause
"""Buffer; low latency."""

import atexit
import contextlib
import functools
import os
import sys
import threading

import torch

from .. import _abi, ep
from .._abi import GinError
from .._shown import ranged
from ..comm import Communicator
from ..ht import Window
from ._arguments import (
    NamesAbsent, absent, names_unknown_keywords, refuse_unknown, require, shape_of_rows, without_unknown,
)  # fmt: skip
from .normal import Normal
from .utils import EventHandle, EventOverlap

_TYPICAL_TOPK = 8
_REDUCES = {name: name for name in ep.REDUCES}
_ALL_READY = None, 0, 1, 0  # what _readiness() gives for a combine without overlap


def _dispatch_of(handle):
    """(memory of the dispatch, its Ep, whether it has sent weights): an attribute of the handle's first tensor.

    So a caller may put the handle's values into a tuple of its own.
    """
    found = getattr(handle[0], "_gin_ep_dispatch", None) if isinstance(handle, (tuple, list)) and handle else None
    if found is None:
        raise TypeError("the handle is not one of low_latency_dispatch()")
    return found


def _timeout():
    """Seconds, by GIN_EP_TIMEOUT."""
    words = os.environ.get("GIN_EP_TIMEOUT", "100")
    try:
        seconds = float(words)
    except ValueError:
        seconds = -1
    if not 0 <= seconds < 1e9:
        raise ValueError(f"GIN_EP_TIMEOUT is {words!r}: seconds that a call waits for a rank, 0 for no limit")
    return seconds


def _reduce_of(keyword, weighted):
    """combine's reduce: by the keyword, else by GIN_EP_COMBINE, which applies where dispatch had weights."""
    if keyword is None:
        return ep.choose(_REDUCES, os.environ.get("GIN_EP_COMBINE", "none"), "GIN_EP_COMBINE") if weighted else "none"
    ep.choose(_REDUCES, keyword, "reduce")
    if keyword == "rank" and not weighted:
        raise ValueError('reduce="rank" needs the weights in the dispatch: low_latency_dispatch(topk_weights=...)')
    return keyword


def _readiness(src_info, comp_signal, block_m, threshold, num_sms, src_signals, expected):
    """(ready, ready_rows, ready_at, sms) of Ep.combine() for a combine that overlaps a GEMM."""
    require((comp_signal is None) != (src_signals is None), "overlap=True needs comp_signal or src_signals")
    if src_signals is not None:
        return src_signals, 0, expected, num_sms
    require(block_m > 0, f"block_m is {block_m}")
    experts, rows = src_info.shape
    words = -(-rows // block_m)
    if comp_signal.numel() < experts * words:
        raise ValueError(f"comp_signal has {comp_signal.numel()} words, {experts} experts need {experts * words}")
    ready = comp_signal.view(-1)[: experts * words].view(experts, words)
    return ready, block_m, threshold, num_sms


def _wants_gradient(*tensors):
    """Might one of them? Ep's check names it."""
    for tensor in tensors:
        if getattr(tensor, "requires_grad", False):
            return True
    return False


def _shown_call(call, name, x):
    """The native call, as a range of torch.profiler while it records."""
    return functools.partial(ranged, name, x, call) if torch.autograd.profiler._is_profiler_enabled else call


def _blocks_of(scales):
    """Scales in blocks of 128 rows and 4 scales, [experts, rows, scales], as FlashInfer names their dimensions."""
    experts, rows, columns = scales.shape
    blocks = scales.view(torch.float8_e4m3fn).view(experts, rows // 128, columns // 4, 32, 4, 4)
    return blocks.permute(3, 4, 1, 5, 2, 0)


_hints = {}  # {bytes: (shape, ranks)} of get_low_latency_rdma_size_hint()
_left = []  # Buffers that nobody has destroyed, in the order of their making


@atexit.register
def _destroy_left():
    """Collective: a process that ends earlier would be a lost rank for the others' last calls.

    After an exception that nobody caught the process does not wait for other ranks, nor for a Buffer that its program was
    to destroy: other ranks' calls then fail by the abort.
    """
    failed = hasattr(sys, "last_type")
    for buffer in _left:
        with contextlib.suppress(GinError):
            if failed or buffer.explicitly_destroy:
                buffer.communicator.abort()
            if not buffer.explicitly_destroy:
                buffer._free()


class Buffer(Normal, metaclass=NamesAbsent):
    """DeepEP V1's Buffer: low latency here, high throughput in Normal. Collective.

    group is a torch.distributed process group or a gin_ep.Communicator; else comm is an mpi4py communicator.
    Memory is taken here for the shape whose get_low_latency_rdma_size_hint() is num_rdma_bytes, and at the first
    dispatch of each other shape. num_nvl_bytes is stored only. window_bytes of memory are taken here for rows that high
    throughput does not copy: see gin_ep.Window. device="none" uses host threads and tensors on the CPU also where there
    is a GPU. Arguments about NVLink, queue pairs and fabric handles have no effect: libgin chooses routes.
    """

    num_sms = 20

    @names_unknown_keywords
    def __init__(
        self,
        group,
        num_nvl_bytes=0,
        num_rdma_bytes=0,
        low_latency_mode=False,
        num_qps_per_rank=24,
        allow_nvlink_for_low_latency_mode=True,
        allow_mnnvl=False,
        use_fabric=False,
        explicitly_destroy=False,
        enable_shrink=False,
        comm=None,
        device=None,
        window_bytes=0,
    ):
        self.num_nvl_bytes, self.num_rdma_bytes = num_nvl_bytes, num_rdma_bytes
        self.low_latency_mode = low_latency_mode
        self.explicitly_destroy = explicitly_destroy
        self.enable_shrink = enable_shrink
        self._eps, self._masks = {}, {}
        self._plans = {}  # what dispatches need that depends on their shapes and keywords alone
        self._ht_made, self._ht_lock = None, threading.Lock()
        self._ht_last = self._ht_none = self.window = None
        self._comm_stream = None
        self._own = not isinstance(group, Communicator)
        self.communicator = self._connect(group, comm, device)
        self.group = comm if group is None else group
        self.rank, self.group_size = self.communicator.rank, self.communicator.size
        gpu = self.communicator.device
        self._device = torch.device("cpu") if gpu is None else torch.device("cuda", gpu)
        if self._own:
            _left.append(self)
        shape, ranks = _hints.get(num_rdma_bytes, (None, None))
        if low_latency_mode and ranks == self.group_size:
            self._eps[shape] = self._make(*shape)
        if window_bytes:
            self.window = Window(self.communicator, window_bytes)

    def __getattr__(self, name):
        raise absent("Buffer", name)

    @staticmethod
    def _connect(group, comm, device):
        if isinstance(group, Communicator):
            return group
        if device is None:
            device = torch.cuda.current_device() if torch.cuda.is_available() else "none"
        if group is not None:
            return Communicator.from_torch(group, device)
        if comm is not None:
            return Communicator.from_mpi(comm, device)
        raise ValueError("Buffer needs a group, or group=None and comm")

    def destroy(self):
        """Collective. Only with explicitly_destroy=True; else the end of the process does it."""
        require(self.explicitly_destroy, "destroy() needs Buffer(explicitly_destroy=True)")
        self._free()
        if self in _left:
            _left.remove(self)

    def _free(self):
        if self._device.type == "cuda" and (self._eps or self._ht_made):
            torch.cuda.synchronize(self._device)
        for made in self._distinct():
            made.destroy()
        self._eps.clear()
        self._plans.clear()
        if self._ht_made:
            self._ht_made.destroy()
        if self.window:
            self.window.close()
        if self._own:
            self.communicator.destroy()

    @property
    def mem_pool(self):
        """A torch.cuda.MemPool: combine() does not copy an x that was made under torch.cuda.use_mem_pool() of it.

        None without window_bytes, and without a GPU.
        """
        return self.window and self.window.mem_pool

    _seconds = staticmethod(_timeout)

    @staticmethod
    def is_sm90_compiled():
        """True: fp8 rows need no special kernels."""
        return True

    @staticmethod
    def set_num_sms(new_num_sms):
        """Stored in Buffer.num_sms. Low latency uses all SMs."""
        require(new_num_sms % 2 == 0, "the number of SMs must be even")
        Buffer.num_sms = new_num_sms

    @staticmethod
    def capture():
        """An EventOverlap on the current stream."""
        return EventOverlap(EventHandle())

    @staticmethod
    def get_low_latency_rdma_size_hint(
        num_max_dispatch_tokens_per_rank, hidden, num_ranks, num_experts, num_topk=_TYPICAL_TOPK
    ):
        """Bytes of a shape, for num_topk experts a token. Buffer() takes them if it gets their number."""
        topk = min(num_topk, num_experts)
        needed = ep.bytes_needed(
            num_ranks, experts=num_experts, topk=topk, hidden=hidden, max_tokens=num_max_dispatch_tokens_per_rank
        )
        _hints[needed] = (num_max_dispatch_tokens_per_rank, hidden, num_experts, topk), num_ranks
        return needed

    def get_comm_stream(self):
        """The stream of calls with async_finish=True."""
        if self._comm_stream is None:
            self._comm_stream = torch.cuda.Stream(self._device)
        return self._comm_stream

    def get_local_buffer_tensor(self, dtype, size=None, offset=0, use_rdma_buffer=False):
        """A tensor of zeros that no call reads or writes: of shape `size`, or empty."""
        return torch.zeros((0,) if size is None else tuple(size), dtype=dtype, device=self._device)

    def _ep(self, num_tokens, hidden, num_experts, num_topk):
        """The Ep of a shape, made at its first use. An Ep for more experts a token serves, too."""
        shape = num_tokens, hidden, num_experts, num_topk
        found = self._eps.get(shape)
        if found is None:
            for made in list(self._eps):
                if made[:3] == shape[:3] and made[3] > num_topk:
                    found = self._eps[shape] = self._eps[made]
        if found is None:
            require(self.low_latency_mode, "Buffer was made without low_latency_mode=True")
            if self._device.type == "cuda" and torch.cuda.is_current_stream_capturing():
                raise RuntimeError(
                    "the first low_latency_dispatch() of a shape takes memory and cannot be captured in a graph: "
                    "call it once before the capture"
                )
            found = self._eps[shape] = self._make(*shape)
        return found

    def _distinct(self):
        """Each Ep once, in the order of their making, which is equal on all ranks."""
        return list(dict.fromkeys(self._eps.values()))

    def _make(self, num_tokens, hidden, num_experts, num_topk):
        made = ep.Ep(
            self.communicator,
            experts=num_experts,
            topk=num_topk,
            hidden=hidden,
            max_tokens=num_tokens,
            timeout=_timeout(),
            on_lost="mask" if self.enable_shrink else "error",
        )
        for rank, masked in self._masks.items():
            made.set_mask(rank, masked, self._stream())
        return made

    def _stream(self):
        return torch.cuda.current_stream(self._device).cuda_stream if self._device.type == "cuda" else None

    def clean_low_latency_buffer(self, num_max_dispatch_tokens_per_rank, hidden, num_experts):
        """Cleans nothing: no call depends on what memory holds.

        With enable_shrink=True it is a dispatch of no tokens, so that, as in DeepEP, a rank that does not call it is masked.
        """
        shape = num_max_dispatch_tokens_per_rank, hidden, num_experts
        topk = next((topk for *first, topk in self._eps if tuple(first) == shape), None)
        if self.enable_shrink and topk is not None:
            x = torch.empty(0, hidden, dtype=torch.bfloat16, device=self._device)
            index = torch.empty(0, topk, dtype=torch.int64, device=self._device)
            self.low_latency_dispatch(x, index, shape[0], num_experts)

    @without_unknown
    def low_latency_dispatch(
        self,
        x,
        topk_idx,
        num_max_dispatch_tokens_per_rank,
        num_experts,
        cumulative_local_expert_recv_stats=None,
        dispatch_wait_recv_cost_stats=None,
        use_fp8=True,
        round_scale=False,
        use_ue8m0=False,
        async_finish=False,
        return_recv_hook=False,
        topk_weights=None,
        use_nvfp4=False,
        x_global_scale=None,
        **unknown,
    ):
        """Returns (recv_x, recv_count, handle, event, hook).

        recv_x is [local experts, ranks * max_tokens, hidden], bf16, or with use_fp8 the pair of e4m3 and
        scales, which are column-major: f32 per 128 values, or with use_ue8m0 int32 of four exponents. An
        expert's rows are ordered by source rank and token. topk_weights: for combine(reduce="rank").

        use_nvfp4, with use_fp8=False: recv_x is the pair of uint8 [rows, hidden / 2, local experts], two e2m1 in a
        byte, and e4m3 scales of 16 values, [32, 4, rows / 128, 4, hidden / 64, local experts]: views of memory in the
        order of FlashInfer's masked GEMM. x_global_scale: one f32, 448 * 6 / the largest magnitude of x.
        """
        if unknown:
            refuse_unknown("Buffer.low_latency_dispatch", unknown)
        _, hidden = shape_of_rows("x", x, "[tokens, hidden] bfloat16")
        _, topk = shape_of_rows("topk_idx", topk_idx, "[tokens, top-k] int64 or int32")
        if x.dtype != torch.bfloat16:
            raise ValueError(f"x is {x.dtype}, not bfloat16")
        shape = num_max_dispatch_tokens_per_rank, hidden, num_experts, topk
        choices = use_fp8, round_scale, use_ue8m0, use_nvfp4, async_finish, return_recv_hook
        made, outputs, numbers = self._plans.get((shape, choices)) or self._plan(x, topk_idx, shape, choices)
        require(not use_nvfp4 or x_global_scale is not None, "use_nvfp4 needs x_global_scale, a tensor of one float")
        if _wants_gradient(x, topk_weights):
            ep.refuse_gradients(x=x, topk_weights=topk_weights)
        tensors, call = _shown_call(made.calls.dispatch, "dispatch", x)(
            x,
            None,
            topk_idx,
            topk_weights,
            cumulative_local_expert_recv_stats,
            dispatch_wait_recv_cost_stats,
            x_global_scale if use_nvfp4 else None,
            outputs,
            self._stream_after_current() if async_finish else None,
            *numbers,
        )
        rows, scales, count, src_info, layout_range, _, _, memory = tensors
        inputs = x, topk_idx, topk_weights, x_global_scale
        event = self._event((*inputs, tensors, call)) if async_finish else EventOverlap()
        src_info._gin_ep_dispatch = memory, made, topk_weights is not None
        handle = src_info, layout_range, num_max_dispatch_tokens_per_rank, hidden, num_experts
        recv_x = (rows, scales) if use_fp8 else rows
        if use_nvfp4:
            recv_x = rows.permute(1, 2, 0), _blocks_of(scales)
        return recv_x, count, handle, event, functools.partial(call.receive, None) if return_recv_hook else None

    def _plan(self, x, topk_idx, shape, choices):
        """(Ep, functions that make the outputs, the numbers of the native call), kept for later calls."""
        use_fp8, round_scale, use_ue8m0, use_nvfp4, async_finish, return_recv_hook = choices
        require(not (async_finish and return_recv_hook), "async_finish and return_recv_hook exclude each other")
        require(not use_ue8m0 or round_scale, "use_ue8m0 needs round_scale")
        require(not (use_nvfp4 and use_fp8), "use_nvfp4 needs use_fp8=False")
        rows = "nvfp4" if use_nvfp4 else "fp8" if use_fp8 else "bf16"
        scales = "blocks" if use_nvfp4 else "ue8m0" if use_ue8m0 else "pow2" if round_scale else "f32"
        made = self._ep(*shape)
        outputs = made.outputs(x, topk_idx, rows, scales, "expert")
        phase = _abi.SEND if return_recv_hook else _abi.BOTH
        numbers = ep.ROWS[rows], ep.scales_of(rows, scales), _abi.EXPERT_MAJOR, phase
        return self._plans.setdefault((shape, choices), (made, outputs, numbers))

    @without_unknown
    def low_latency_combine(
        self,
        x,
        topk_idx,
        topk_weights,
        handle,
        use_logfmt=False,
        zero_copy=False,
        async_finish=False,
        return_recv_hook=False,
        out=None,
        combine_wait_recv_cost_stats=None,
        reduce=None,
        overlap=False,
        packed_recv_count=None,
        comp_signal=None,
        block_m=64,
        threshold=0,
        num_sms=0,
        src_signals=None,
        src_signal_expect_value=0,
        **unknown,
    ):
        """Returns (combined_x, event, hook).

        combined_x is [tokens, hidden] bf16. reduce: "none" adds all rows at the token's rank, as DeepEP does;
        "rank" adds at each expert's rank first. None: by GIN_EP_COMBINE, else "none". zero_copy has no effect.

        overlap=True: a GEMM still writes x. Rows of an expert are sent when the word of their block of block_m
        rows in comp_signal (int32, [own experts * blocks]) is at least threshold; or, with src_signals ([own
        experts]), when the expert's word is at least src_signal_expect_value. num_sms: most blocks of the kernel.
        """
        if unknown:
            refuse_unknown("Buffer.low_latency_combine", unknown)
        require(not (async_finish and return_recv_hook), "async_finish and return_recv_hook exclude each other")
        if use_logfmt:
            raise NotImplementedError("gin_ep.deep_ep has no LogFMT combine: call with use_logfmt=False")
        memory, made, weighted = _dispatch_of(handle)
        shape_of_rows("topk_idx", topk_idx, "[tokens, top-k] int64 or int32")
        if _wants_gradient(x, topk_weights, out):
            ep.refuse_gradients(x=x, topk_weights=topk_weights, out=out)
        ready, *numbers = _ALL_READY
        if overlap:
            ready, *numbers = _readiness(
                handle[0], comp_signal, block_m, threshold, num_sms, src_signals, src_signal_expect_value
            )
        combined, call = _shown_call(made.calls.combine, "combine", x)(
            x,
            memory,
            topk_idx,
            topk_weights,
            ready,
            combine_wait_recv_cost_stats,
            out,
            made.maker_of_rows(x),
            self._stream_after_current() if async_finish else None,
            ep.REDUCES[_reduce_of(reduce, weighted)],
            _abi.EXPERT_MAJOR,
            _abi.SEND if return_recv_hook else _abi.BOTH,
            *numbers,
        )
        event = self._event((x, topk_idx, topk_weights, handle, combined, call)) if async_finish else EventOverlap()
        return combined, event, functools.partial(call.receive, None) if return_recv_hook else None

    def _stream_after_current(self):
        """The communication stream, which waits for the current stream; None on host threads."""
        if self._device.type != "cuda":
            return None
        comm_stream = self.get_comm_stream()
        comm_stream.wait_stream(torch.cuda.current_stream(self._device))
        return comm_stream.cuda_stream

    def _event(self, tensors):
        """The EventOverlap of a call on the communication stream, which uses `tensors`."""
        stream = self.get_comm_stream() if self._device.type == "cuda" else None
        return EventOverlap(EventHandle(stream), tensors)

    def get_next_low_latency_combine_buffer(self, handle):
        """A tensor for the experts' rows, [local experts, ranks * max_tokens, hidden] bf16."""
        _dispatch_of(handle)
        src_info, _, _, hidden, _ = handle
        return torch.empty(tuple(src_info.shape) + (hidden,), dtype=torch.bfloat16, device=src_info.device)

    def low_latency_update_mask_buffer(self, rank_to_mask, mask=False):
        """Leaves another rank out (mask=True), or takes it in again."""
        if not 0 <= rank_to_mask < self.group_size:
            raise ValueError(f"there is no rank {rank_to_mask}: the ranks are 0 to {self.group_size - 1}")
        if rank_to_mask == self.rank:
            if mask:
                raise ValueError(f"rank {rank_to_mask} is this rank: it cannot leave itself out")
            return
        self._masks[rank_to_mask] = bool(mask)
        for made in self._distinct():
            made.set_mask(rank_to_mask, mask, self._stream())

    def low_latency_query_mask_buffer(self, mask_status):
        """Fills mask_status, [ranks] int32: 1 for a rank that did not answer or is left out.

        Waits for the current stream: masks are set by what is on it.
        """
        if self._device.type == "cuda":
            torch.cuda.current_stream(self._device).synchronize()
        out = [int(self._masks.get(rank, False)) for rank in range(self.group_size)]
        for made in self._distinct():
            for rank, (observed, masked) in enumerate(zip(*made.masks())):
                out[rank] |= observed or masked
        require(mask_status.numel() == self.group_size, f"mask_status has {mask_status.numel()} values")
        mask_status.copy_(torch.tensor(out, dtype=mask_status.dtype, device="cpu"))

    def low_latency_clean_mask_buffer(self):
        """Forgets all masks, on this rank. A rank that has missed a call needs reset()."""
        self._masks.clear()
        for made in self._distinct():
            made.clear_masks(self._stream())

    def reset(self):
        """Takes every rank in again after losses. Collective; handles from before are void. Not in DeepEP.

        Waits for the device. A rank whose process has died makes the call fail.
        """
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        self._masks.clear()
        for made in self._distinct():
            made.reset()
        if self._ht_made:
            self._ht_made.reset()
