# SPDX-License-Identifier: BSD-3-Clause
"""Operators gin_ep::dispatch and gin_ep::combine for torch.compile and torch.export.

An Ep is passed by its number, ep.number. `state` is any tensor that all calls of a program share: each call
counts as a write to it, so that the compiler neither reorders nor merges calls. The operators have no
gradients. Needs torch 2.4.

    state = torch.zeros(1)
    x, scales, count, src_info, layout_range, handle = dispatch(state, x, topk_idx, None, ep.number, False, "f32")
    y = combine(state, experts(x, count), handle, topk_idx, topk_weights, ep.number, "none")
"""

from typing import Optional, Tuple

import torch

from . import ep as _ep

_Tensors = Tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def _outputs(received):
    """Without fp8 there are no scales: an empty tensor."""
    scales = received.scales
    if scales is None:
        scales = torch.empty((0,), dtype=torch.float32, device=received.x.device)
    return received.x, scales, received.count, received.src_info, received.layout_range, received.handle


@torch.library.custom_op("gin_ep::dispatch", mutates_args={"state"})
def dispatch(
    state: torch.Tensor,
    x: torch.Tensor,
    topk_idx: torch.Tensor,
    topk_weights: Optional[torch.Tensor],
    ep: int,
    fp8: bool,
    scales: str,
) -> _Tensors:
    """(x, scales, count, src_info, layout_range, handle), expert-major, as Ep.dispatch()."""
    return _outputs(_ep.by_number(ep).dispatch(x, topk_idx, topk_weights, fp8=fp8, scales=scales))


@dispatch.register_fake
def _(state, x, topk_idx, topk_weights, ep, fp8, scales):
    return _outputs(_ep.by_number(ep).empty_like_received(x, topk_idx.shape[1], fp8, scales))


# A combine writes its epoch into the handle.
@torch.library.custom_op("gin_ep::combine", mutates_args={"state", "handle"})
def combine(
    state: torch.Tensor,
    x: torch.Tensor,
    handle: torch.Tensor,
    topk_idx: torch.Tensor,
    topk_weights: Optional[torch.Tensor],
    ep: int,
    reduce: str,
) -> torch.Tensor:
    """[tokens, hidden] bf16, as Ep.combine()."""
    return _ep.by_number(ep).combine(x, handle, topk_idx, topk_weights, reduce=reduce).out


@combine.register_fake
def _(state, x, handle, topk_idx, topk_weights, ep, reduce):
    return x.new_empty((topk_idx.shape[0], x.shape[-1]))
