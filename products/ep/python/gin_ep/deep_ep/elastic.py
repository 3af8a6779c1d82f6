# SPDX-License-Identifier: BSD-3-Clause
"""ElasticBuffer and EPHandle: DeepEP V2's names for high throughput."""

import functools

import torch

from ._arguments import NamesAbsent, absent, names_unknown_keywords, require
from ._expand import Expansion
from .buffer import Buffer
from .config import Config
from .utils import EventHandle, EventOverlap

_ALIGNMENT = 2 << 20  # of get_buffer_size_hint()


def _overlap(event):
    """An event as Buffer takes it."""
    return EventOverlap(event) if isinstance(event, EventHandle) else event


def _after(events, is_async, on_comm_stream):
    """The keywords of Buffer's calls. An event before V2's epilogue is one before the whole call."""
    first, before_epilogue = events
    if before_epilogue is not None:
        before_epilogue.current_stream_wait()
    return {
        "previous_event": _overlap(first),
        "async_finish": is_async,
        "allocate_on_comm_stream": bool(on_comm_stream and first is not None and is_async),
    }


def _column_major(scales):
    """A copy whose columns are contiguous and begin at multiples of 16 bytes."""
    rows, columns = scales.shape
    each = 16 // scales.element_size()
    made = torch.empty_strided(
        (rows, columns), (1, -(-rows // each) * each), dtype=scales.dtype, device=scales.device
    )
    return made.copy_(scales)


class EPHandle:
    """What dispatch() gives: for combine(), and for dispatches of other rows to the same ranks.

    The fields of DeepEP V2's handle whose meaning exists here. Tensors that need a computation are made at their
    first use.
    """

    _expansion = None

    def __init__(self, rank, v1, **fields):
        self._rank, self._v1 = rank, v1
        self.__dict__.update(fields)

    def _expand(self, room):
        self._expansion = made = Expansion(self._recv_topk_idx, len(self._counts) - 1, self.expert_alignment, room)
        self.num_expanded_tokens, self.num_unaligned_recv_tokens_per_expert = room, made.counts

    @property
    def do_expand(self):
        return self._expansion is not None

    def __getattr__(self, name):
        raise absent("EPHandle", name)

    @property
    def _ends(self):
        """[ranks] int32: where the rows of each source end."""
        return self._v1[0][:, self._rank]

    @functools.cached_property
    def psum_num_recv_tokens_per_scaleup_rank(self):
        """[ranks of a domain] int32: rows of the sources up to each; those of its rails in other domains count, too."""
        if self._domain == len(self._ends):
            return self._ends
        rows = self._ends.diff(prepend=self._ends.new_zeros(1))
        return rows.view(-1, self._domain).sum(0).cumsum(0, dtype=torch.int32)

    @functools.cached_property
    def psum_num_recv_tokens_per_expert(self):
        """[own experts] int32: items of the own experts up to each, which are rounded up to expert_alignment.

        With do_expand, where the rows of each own expert end.
        """
        if self._expansion:
            return self._expansion.ends
        return self._counts[1:].cumsum(0, dtype=torch.int32)

    @functools.cached_property
    def recv_src_metadata(self):
        """[rows, 2] int32: rank * num_max_tokens_per_rank + token of each row, and the row.

        With do_expand k more columns: where the row is for its k-th expert, -1: nowhere.
        """
        tokens = self._v1[3]
        rows = torch.arange(tokens.shape[0], dtype=torch.int32, device=tokens.device)
        ends = self._ends.contiguous()
        source = torch.bucketize(rows, ends, right=True, out_int32=True)
        both = torch.stack([source * self.num_max_tokens_per_rank + tokens, rows], dim=1)
        return torch.cat([both, self._expansion.places()], dim=1) if self._expansion else both

    @functools.cached_property
    def dst_buffer_slot_idx(self):
        """[tokens, k] int32: the token's row at the rank of its expert, -1: none."""
        prefix, in_rank = self._v1[0], self._v1[4]
        first = prefix[self._rank - 1] if self._rank else torch.zeros_like(prefix[0])
        slots = in_rank.cumsum(0, dtype=torch.int32) - 1 + first
        each, more = divmod(self.num_experts, len(prefix))  # the first ranks have one more
        expert = self.topk_idx.long()
        rank = torch.where(expert < more * (each + 1), expert // (each + 1), (expert - more) // max(1, each))
        found = (expert >= 0) & (expert < self.num_experts)
        return torch.where(found, slots.gather(1, torch.where(found, rank, 0)), -1).int()


class ElasticBuffer(metaclass=NamesAbsent):
    """DeepEP V2's ElasticBuffer, for dispatch and combine. Collective.

    group is a torch.distributed process group or a gin_ep.Communicator. Memory is taken at need: of the shape only
    num_max_tokens_per_rank has a meaning, as dispatch()'s default. device="none" uses host threads and tensors on the
    CPU. Arguments about queue pairs, hybrid mode and service levels have no effect: libgin chooses routes. Rows are
    always in the order of source rank and token, so `deterministic` holds.
    """

    @names_unknown_keywords
    def __init__(
        self,
        group,
        num_bytes=None,
        num_cpu_bytes=0,
        num_max_tokens_per_rank=0,
        hidden=0,
        num_topk=0,
        use_fp8_dispatch=False,
        deterministic=False,
        allow_hybrid_mode=True,
        allow_multiple_reduction=True,
        prefer_overlap_with_compute=True,
        sl_idx=3,
        num_allocated_qps=0,
        num_cpu_timeout_secs=300,
        num_gpu_timeout_secs=100,
        explicitly_destroy=False,
        device=None,
    ):
        require(num_cpu_bytes == 0, "num_cpu_bytes is for Engram, which gin_ep.deep_ep does not have")
        if num_bytes is None:
            num_bytes = self.get_buffer_size_hint(group, num_max_tokens_per_rank, hidden, num_topk, use_fp8_dispatch)
        self._buffer = Buffer(group, num_bytes, 0, explicitly_destroy=explicitly_destroy, device=device)
        self.communicator, self.group = self._buffer.communicator, group
        self.num_bytes, self.num_max_tokens_per_rank = num_bytes, num_max_tokens_per_rank
        self.deterministic = deterministic
        self.allow_hybrid_mode, self.allow_multiple_reduction = allow_hybrid_mode, allow_multiple_reduction
        self.prefer_overlap_with_compute = prefer_overlap_with_compute
        self.num_allocated_qps = num_allocated_qps or 1
        self.rank_idx, self.num_ranks = self.communicator.rank, self.communicator.size
        self.num_scaleout_ranks, self.num_scaleup_ranks = self.get_logical_domain_size()
        self.scaleout_rank_idx, self.scaleup_rank_idx = divmod(self.rank_idx, self.num_scaleup_ranks)

    def __getattr__(self, name):
        raise absent("ElasticBuffer", name)

    def destroy(self):
        """Collective. Only with explicitly_destroy=True; else the end of the process does it."""
        self._buffer.destroy()

    @staticmethod
    def get_buffer_size_hint(
        group,
        num_max_tokens_per_rank,
        hidden,
        num_topk=0,
        use_fp8_dispatch=False,
        allow_hybrid_mode=True,
        allow_multiple_reduction=True,
    ):
        """The bytes of the most rows that a rank can receive; a pool takes less until so many come."""
        ranks = group.size if isinstance(group.size, int) else group.size()
        return -(-num_max_tokens_per_rank * ranks * hidden * 2 // _ALIGNMENT) * _ALIGNMENT

    capture = staticmethod(EventHandle)

    def get_comm_stream(self):
        return self._buffer.get_comm_stream()

    def get_logical_domain_size(self):
        """(domains, ranks of a domain)."""
        ranks = self.communicator.domain()
        return self.communicator.size // ranks, ranks

    def get_theoretical_num_sms(self, num_experts, num_topk, *_, **__):
        return Buffer.num_sms

    def get_theoretical_num_qps(self, num_sms):
        return 1

    def barrier(self, use_comm_stream=True, with_cpu_sync=False, sequential=True):
        """Waits for this rank's GPU, then for all ranks: always on the CPU."""
        if self._buffer._device.type == "cuda":
            torch.cuda.synchronize(self._buffer._device)
        self.communicator.barrier()

    def _config(self, num_sms):
        return Config(num_sms or Buffer.num_sms)

    @names_unknown_keywords
    def dispatch(
        self,
        x,
        topk_idx=None,
        topk_weights=None,
        cumulative_local_expert_recv_stats=None,
        num_experts=None,
        num_max_tokens_per_rank=None,
        expert_alignment=None,
        num_sms=0,
        num_qps=0,
        previous_event=None,
        previous_event_before_epilogue=None,
        async_with_compute_stream=False,
        allocate_on_comm_stream=False,
        handle=None,
        do_handle_copy=True,
        do_cpu_sync=None,
        do_expand=False,
        do_zero_padding=False,
        use_tma_aligned_col_major_sf=False,
    ):
        """(recv_x, recv_topk_idx, recv_topk_weights, handle, event).

        Rows are ordered by source rank and token. Without do_cpu_sync tensors have room for num_max_tokens_per_rank
        tokens of each rank, and indices beyond the rows are -1. With a handle rows go where the handle's went.
        do_expand: rows are repeated for each own expert, weights are those of rows, and there are no indices; it is a
        copy after the dispatch, by the current stream.
        """
        require(do_expand or not do_zero_padding, "do_zero_padding is for do_expand=True")
        require(handle is None or handle.do_expand == do_expand, "the handle was made with another do_expand")
        events = previous_event, previous_event_before_epilogue
        copies = do_expand or use_tma_aligned_col_major_sf
        is_async = async_with_compute_stream and not copies
        after = _after(events, is_async, allocate_on_comm_stream)
        if handle is None:
            made = self._first(
                x, topk_idx, topk_weights, num_experts, num_max_tokens_per_rank, expert_alignment or 1,
                do_cpu_sync is None or do_cpu_sync, do_handle_copy, self._config(num_sms), after,
            )  # fmt: skip
        else:
            require(topk_idx is None and not do_cpu_sync, "with a handle: no topk_idx, no do_cpu_sync")
            idx = None if topk_weights is None else handle.topk_idx
            recv_x, _, recv_topk_weights, _, _, event = self._buffer._dispatch(
                x, handle._v1, None, None, idx, topk_weights, 1, 0, self._config(num_sms), **after
            )
            made = recv_x, handle._recv_topk_idx, recv_topk_weights, handle, event
        recv_x, recv_topk_idx, recv_topk_weights, handle, event = made
        if cumulative_local_expert_recv_stats is not None:
            self._count(cumulative_local_expert_recv_stats, recv_topk_idx, event)
        if do_expand:
            if not handle.do_expand:
                handle._expand(self._expanded_room(handle))
            recv_x, recv_topk_idx = self._expanded(recv_x, handle._expansion, do_zero_padding), None
            if recv_topk_weights is not None:
                recv_topk_weights = handle._expansion.weights(recv_topk_weights)
        if use_tma_aligned_col_major_sf and isinstance(recv_x, tuple):
            recv_x = recv_x[0], _column_major(recv_x[1])
        if async_with_compute_stream and copies:
            event = EventOverlap(EventHandle())
        return recv_x, recv_topk_idx, recv_topk_weights, handle, event

    def _expanded_room(self, handle):
        """Rows for all own experts: the counted ones, or the most that can come."""
        items, alignment = handle.num_recv_tokens_per_expert_list, handle.expert_alignment
        if items:
            return sum(items)
        experts = len(handle._counts) - 1
        most = self.num_ranks * handle.num_max_tokens_per_rank * min(handle.topk_idx.shape[1], experts)
        return -(-(most + (alignment - 1) * experts) // alignment) * alignment

    @staticmethod
    def _expanded(recv_x, expansion, zeroed):
        if isinstance(recv_x, tuple):
            return tuple(expansion.rows(part, zeroed) for part in recv_x)
        return expansion.rows(recv_x, zeroed)

    def _first(self, x, topk_idx, topk_weights, num_experts, most, alignment, counted, copies, config, after):
        """A dispatch without a handle."""
        require(topk_idx is not None and num_experts, "dispatch needs topk_idx and num_experts, or a handle")
        most = most or self.num_max_tokens_per_rank
        tokens = topk_idx.shape[0]
        require(tokens <= most, f"x has {tokens} tokens, num_max_tokens_per_rank is {most}")
        weights = topk_weights
        if weights is None:
            weights = torch.zeros(topk_idx.shape, dtype=torch.float32, device=topk_idx.device)
        _, _, per_expert, in_rank, _ = self._buffer.get_dispatch_layout(
            topk_idx, num_experts, previous_event=after["previous_event"]
        )
        worst = 0 if counted else most * self.num_ranks
        recv_x, recv_topk_idx, recv_weights, items, v1, event = self._buffer._dispatch(
            x, None, in_rank, per_expert, topk_idx, weights, alignment, worst, config, **after
        )
        handle = EPHandle(
            self.rank_idx,
            v1,
            num_experts=num_experts,
            expert_alignment=alignment,
            num_max_tokens_per_rank=most,
            num_sms=config.num_sms,
            topk_idx=topk_idx.clone() if copies else topk_idx,
            num_recv_tokens=recv_topk_idx.shape[0],
            num_recv_tokens_per_expert_list=items,
            num_expanded_tokens=0,
            num_unaligned_recv_tokens_per_expert=None,
            _domain=self.num_scaleup_ranks,
            _recv_topk_idx=recv_topk_idx,
            _counts=v1[0]._gin_ep_ht[0].counts,
        )
        return recv_x, recv_topk_idx, None if topk_weights is None else recv_weights, handle, event

    @staticmethod
    def _wait(event):
        if event is not None and (not isinstance(event, EventOverlap) or event.event is not None):
            event.current_stream_wait()

    def _count(self, stats, recv_topk_idx, event):
        """Adds the items of each own expert."""
        self._wait(event)
        index = (recv_topk_idx + 1).flatten().long()
        items = torch.zeros(stats.numel() + 1, dtype=stats.dtype, device=stats.device)
        items.scatter_add_(0, index, torch.ones_like(index, dtype=stats.dtype))
        stats += items[1:]

    @names_unknown_keywords
    def combine(
        self,
        x,
        handle,
        topk_weights=None,
        bias=None,
        num_sms=0,
        num_qps=0,
        previous_event=None,
        previous_event_before_epilogue=None,
        async_with_compute_stream=False,
        allocate_on_comm_stream=False,
    ):
        """(out [tokens, hidden], sums of topk_weights or None, event): bias + rows, in f32.

        Ranks are added in the order of their last experts in topk_idx, as V2's kernels do; with several domains ranks
        and domains ascend. With a handle of do_expand a rank first adds a token's rows, k ascending, in f32, and rounds
        the sum; topk_weights are those of rows.
        """
        events = previous_event, previous_event_before_epilogue
        if handle.do_expand:
            if not self.allow_multiple_reduction:
                raise NotImplementedError("do_expand adds the rows of a rank first: use allow_multiple_reduction=True")
            for event in events:
                self._wait(event)
            events = None, None
            x = handle._expansion.fold(x)
            topk_weights = None if topk_weights is None else handle._expansion.fold_weights(topk_weights)
        return self._buffer._combine(
            x, handle._v1, topk_weights, bias, self._config(num_sms or handle.num_sms),
            **_after(events, async_with_compute_stream, allocate_on_comm_stream),
            topk_idx=handle.topk_idx if self.num_scaleout_ranks == 1 else None,
        )  # fmt: skip
