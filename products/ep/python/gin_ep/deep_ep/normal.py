# SPDX-License-Identifier: BSD-3-Clause
"""Buffer, high throughput: get_dispatch_layout(), dispatch(), combine()."""

import contextlib

import torch

from .. import ht
from ._arguments import names_unknown_keywords, require
from .config import Config
from .utils import EventHandle, EventOverlap

_TOKENS = 65536  # of a rank, at most: they take words of 8 bytes, no rows
_TOPK = 32
_FIRST_ROWS = 4096
_NODE = 8  # ranks of what DeepEP calls an RDMA rank


def _nodes_of(ranks):
    """DeepEP's RDMA ranks: nodes of 8 consecutive ranks; 0: it has one node, and a handle of six tensors."""
    return ranks // _NODE if ranks > _NODE and ranks % _NODE == 0 else 0


def _tokens_of_nodes(in_rank):
    """Of is_token_in_rank: the tokens of each node, where a token counts once."""
    return in_rank.view(-1, _nodes_of(in_rank.shape[1]), _NODE).any(-1).sum(0, dtype=torch.int32)


def _between_nodes(handle, rank):
    """The ten tensors of a handle between DeepEP's nodes: callers read [-4], rows of the sources 0 to s, and [-3]."""
    prefix, none, _, src_info, in_rank, _ = handle
    if not _nodes_of(prefix.shape[0]):
        return handle
    first = in_rank.view(in_rank.shape)  # it gets an attribute, and in_rank is the caller's
    first._gin_ep_ht = prefix._gin_ep_ht
    return first, none, none, none, none, none, prefix[:, rank], src_info, none, none


def _handle_of(handle):
    found = getattr(handle[0], "_gin_ep_ht", None) if isinstance(handle, (tuple, list)) and handle else None
    if found is None:
        raise TypeError("the handle is not one of dispatch()")
    return found


class Normal:
    """The methods of Buffer for high throughput."""

    @staticmethod
    def get_dispatch_config(num_ranks):
        """Of Buffer.num_sms. Other numbers have no meaning here."""
        from .buffer import Buffer

        return Config(Buffer.num_sms)

    get_combine_config = get_dispatch_config

    @names_unknown_keywords
    def get_dispatch_layout(
        self, topk_idx, num_experts, previous_event=None, async_finish=False, allocate_on_comm_stream=False
    ):
        """(tokens of each rank, of each node, of each expert, [tokens, ranks] bool, event). On this rank alone.

        Of each node of 8 ranks, where a token counts once; None for up to 8 ranks.
        """
        with self._work(previous_event, async_finish, allocate_on_comm_stream, is_local=True) as work:
            per_rank, per_expert, in_rank = ht.layout(self.communicator, topk_idx, num_experts, work.stream)
            per_node = None
            if _nodes_of(in_rank.shape[1]):
                with work.current():
                    per_node = _tokens_of_nodes(in_rank)
        return per_rank, per_node, per_expert, in_rank, work.event(topk_idx, per_rank, per_node, per_expert, in_rank)

    @names_unknown_keywords
    def dispatch(
        self,
        x,
        handle=None,
        num_tokens_per_rank=None,
        num_tokens_per_rdma_rank=None,
        is_token_in_rank=None,
        num_tokens_per_expert=None,
        topk_idx=None,
        topk_weights=None,
        expert_alignment=1,
        num_worst_tokens=0,
        config=None,
        previous_event=None,
        async_finish=False,
        allocate_on_comm_stream=False,
    ):
        """(recv_x, recv_topk_idx, recv_topk_weights, tokens of each own expert, handle, event).

        Rows are ordered by source rank and token. With num_worst_tokens the CPU does not wait, the list is
        empty, and tensors have so many rows. With a handle only rows are sent, as they were before.
        """
        require(handle is None or topk_idx is None, "a dispatch with a handle takes no topk_idx")
        require((topk_idx is None) == (topk_weights is None), "topk_idx and topk_weights come together")
        require(num_worst_tokens == 0 or handle is not None or topk_idx is not None, "num_worst_tokens needs topk_idx")
        *received, made, event = self._dispatch(
            x, handle, is_token_in_rank, num_tokens_per_expert, topk_idx, topk_weights, expert_alignment,
            num_worst_tokens, config, previous_event, async_finish, allocate_on_comm_stream,
        )  # fmt: skip
        return *received, made and _between_nodes(made, self.rank), event

    def _dispatch(
        self, x, handle, is_token_in_rank, num_tokens_per_expert, topk_idx, topk_weights, expert_alignment,
        num_worst_tokens, config, previous_event, async_finish, allocate_on_comm_stream,
    ):  # fmt: skip
        """dispatch(), with the handle of one node for any number of ranks.

        A handle's topk_idx may be given with other weights, which are sent again.
        """
        rows, scales = x if isinstance(x, tuple) else (x, None)
        row_bytes = rows.shape[1] * rows.element_size()
        counts, cached = [], handle is not None
        with self._ht_lock, self._work(previous_event, async_finish, allocate_on_comm_stream) as work:
            if cached:
                found, room, experts = _handle_of(handle)
                made = self._ht(experts, row_bytes, scales)
            else:
                require(num_tokens_per_expert is not None, "dispatch needs num_tokens_per_expert")
                require(is_token_in_rank is not None, "dispatch needs is_token_in_rank")
                experts, room = num_tokens_per_expert.numel(), num_worst_tokens
                made = self._ht(experts, row_bytes, scales)
                found = made.notify(
                    is_token_in_rank,
                    num_tokens_per_expert,
                    alignment=expert_alignment,
                    counted=not room,
                    stream=work.stream,
                )
                most = room
                if not room:
                    room, most, counts = made.counts(found)
                self._ht_grow(made, most)
            received = made.dispatch(
                rows,
                found,
                room,
                scales=scales,
                topk_idx=topk_idx,
                topk_weights=topk_weights,
                sms=config.num_sms if config else self.num_sms,
                stream=work.stream,
            )
        event = work.event(
            rows, scales, is_token_in_rank, num_tokens_per_expert, topk_idx, topk_weights,
            found.memory, found.rank_prefix, received.x, received.scales, received.topk_idx, received.topk_weights,
        )  # fmt: skip
        recv_x = received.x if scales is None else (received.x, received.scales)
        if cached:
            return recv_x, received.topk_idx, received.topk_weights, None, None, event
        # `found` must not lead back to the tensor: such a cycle keeps memory until Python looks for cycles.
        prefix, found.rank_prefix = found.rank_prefix, None
        prefix._gin_ep_ht = found, room, experts
        if self._ht_none is None:
            self._ht_none = torch.empty((self.group_size, 0), dtype=torch.int32, device=self._device)
        none = self._ht_none
        handle = prefix, none, none, received.src_info, is_token_in_rank, none
        return recv_x, received.topk_idx, received.topk_weights, counts, handle, event

    @names_unknown_keywords
    def combine(
        self,
        x,
        handle,
        topk_weights=None,
        bias=None,
        config=None,
        previous_event=None,
        async_finish=False,
        allocate_on_comm_stream=False,
    ):
        """(out [tokens, hidden], sums of topk_weights or None, event): bias + rows, ranks ascending, in f32."""
        return self._combine(x, handle, topk_weights, bias, config, previous_event, async_finish, allocate_on_comm_stream)

    def _combine(
        self, x, handle, topk_weights, bias, config, previous_event, async_finish, allocate_on_comm_stream, topk_idx=None
    ):  # fmt: skip
        """combine(). With topk_idx ranks are added in the order of their last experts there."""
        found, _, experts = _handle_of(handle)
        given = bias if isinstance(bias, (tuple, list)) else (bias, None)
        with self._ht_lock, self._work(previous_event, async_finish, allocate_on_comm_stream) as work:
            made = self._ht(experts, x.shape[1] * x.element_size(), None)
            out, weights = made.combine(
                x,
                found,
                topk_weights=topk_weights,
                bias=tuple(given),
                topk_idx=topk_idx,
                sms=config.num_sms if config else self.num_sms,
                stream=work.stream,
            )
        return out, weights, work.event(x, topk_weights, *given, topk_idx, found.memory, out, weights)

    def _ht(self, experts, row_bytes, scales):
        """The HtEp of the Buffer; a larger one at need, which all ranks need at one call."""
        made, scale_bytes = self._ht_made, 0 if scales is None else (scales.shape[1] * scales.element_size() + 3) // 4 * 4
        if made and made.experts == experts and row_bytes <= made.row_bytes and scale_bytes <= made.scale_bytes:
            return made
        self._ht_may_change("the first dispatch() of a shape")
        rows = made.info.htRecvTokens if made else _FIRST_ROWS
        if made:
            row_bytes, scale_bytes = max(row_bytes, made.row_bytes), max(scale_bytes, made.scale_bytes)
            made.destroy()
        scale_bytes = max(scale_bytes, row_bytes // 64 * 4)
        self._ht_made = made = ht.HtEp(
            self.communicator,
            experts=experts,
            topk=_TOPK,
            tokens=_TOKENS,
            row_bytes=row_bytes,
            scale_bytes=scale_bytes,
            recv_tokens=rows,
            timeout=self._seconds(),
            window=self.window,
        )
        made.experts, made.row_bytes, made.scale_bytes = experts, row_bytes, scale_bytes
        return made

    def _ht_grow(self, made, most):
        """`most` is equal on all ranks."""
        if most <= made.info.htRecvTokens:
            return
        self._ht_may_change("a dispatch() of more rows than before")
        if self.window:
            self.window.renew()
        made.grow(min(ht.rounded(most + most // 4), _TOKENS * self.group_size))

    def _ht_may_change(self, what):
        if self._device.type != "cuda":
            return
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError(f"{what} takes memory and cannot be captured in a graph: call it once before")
        torch.cuda.synchronize(self._device)

    @contextlib.contextmanager
    def _work(self, previous_event, is_async, on_comm_stream, is_local=False):
        """A call on the communication stream, after previous_event, or after the current stream if there is none.

        A call that neither waits for an event nor makes one runs on the current stream, so that the CPU spends no
        time on events. Calls run one after the other, on whatever streams, unless they are local.
        """
        require(not on_comm_stream or (previous_event is not None and is_async),
                "allocate_on_comm_stream needs previous_event and async_finish")  # fmt: skip
        if self._device.type != "cuda":
            yield _Work(None, None, is_async)
            return
        current = torch.cuda.current_stream(self._device)
        if previous_event is None and not is_async and not torch.cuda.is_current_stream_capturing():
            self._follow(current, is_local)
            yield _Work(current, current, False)
            return
        comm = self.get_comm_stream()
        if not torch.cuda.is_current_stream_capturing():
            self._follow(comm, is_local)
        before = previous_event.event if previous_event is not None else None
        if before is not None and before.event is not None:
            comm.wait_event(before.event)
        else:
            comm.wait_stream(current)
        with torch.cuda.stream(comm) if on_comm_stream else contextlib.nullcontext():
            yield _Work(comm, current, is_async)
        if not is_async:
            current.wait_stream(comm)

    def _follow(self, stream, is_local):
        """The stream waits for the call before, if that is on another one."""
        if is_local:
            return
        last, self._ht_last = self._ht_last, stream
        if last is not None and last != stream:
            stream.wait_stream(last)


class _Work:
    def __init__(self, comm, current, is_async):
        self.stream = comm.cuda_stream if comm is not None else None
        self._comm, self._current, self._is_async = comm, current, is_async

    def current(self):
        """torch's kernels go on the communication stream."""
        return contextlib.nullcontext() if self._comm is None else torch.cuda.stream(self._comm)

    def event(self, *tensors):
        """The call's EventOverlap. The tensors live until the communication stream is done."""
        if not self._is_async:
            return EventOverlap()
        tensors = [tensor for tensor in tensors if tensor is not None]
        for tensor in tensors if self._comm is not None else ():
            tensor.record_stream(self._comm)
            tensor.record_stream(self._current)
        return EventOverlap(EventHandle(self._comm), tensors)
