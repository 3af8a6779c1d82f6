# SPDX-License-Identifier: BSD-3-Clause
"""Casts and comparisons that DeepEP's tests make, by their names."""

import torch

_GROUP = 128  # values that share a scale
_MOST = 448.0  # of e4m3


def ceil_div(x, y):
    return -(-x // y)


def align(x, y):
    """The next multiple of y."""
    return ceil_div(x, y) * y


def safe_div(x, y):
    """x / y; 0 / 0 is 0."""
    return 0 if x == 0 and y == 0 else x / y


def count_bytes(*tensors):
    """Of tensors, None, and tuples or lists of them."""
    tensors = [one for one in tensors if one is not None]
    return sum(count_bytes(*one) if isinstance(one, (tuple, list)) else one.nbytes for one in tensors)


def calc_diff(x, y):
    """1 - cosine-like similarity of x + 1 and y + 1: 0 for equal tensors."""
    x, y = x.double() + 1, y.double() + 1
    return (1 - 2 * (x * y).sum() / (x.square() + y.square()).sum()).item()


def _groups(x):
    """[rows, groups, 128], padded with zeros."""
    rows, columns = x.shape
    padded = torch.nn.functional.pad(x, (0, align(columns, _GROUP) - columns))
    return padded.view(rows, -1, _GROUP)


def per_token_cast_to_fp8(x):
    """(e4m3 [rows, columns], f32 scales [rows, groups]) of a tensor of two dimensions."""
    groups = _groups(x)
    most = groups.abs().float().amax(dim=2).clamp(1e-4)
    codes = (groups * (_MOST / most.unsqueeze(2))).to(torch.float8_e4m3fn)
    return codes.view(x.shape[0], -1)[:, : x.shape[1]].contiguous(), most / _MOST


def per_token_cast_back(x, scales):
    """bf16 of e4m3 and its scales: f32, or int32 of four exponents (UE8M0)."""
    if x.numel() == 0:
        return x.to(torch.bfloat16)
    if scales.dtype == torch.int32:
        scales = (scales.contiguous().view(torch.uint8).to(torch.int32) << 23).view(torch.float32)
    groups = _groups(x.float())
    values = groups * scales[:, : groups.shape[1]].unsqueeze(2)
    return values.view(x.shape[0], -1)[:, : x.shape[1]].to(torch.bfloat16).contiguous()


def inplace_unique(x, num_slots):
    """Each row gets its distinct values, from 0 to num_slots - 1, the most frequent ones if they do not fit; then -1."""
    count = torch.zeros((x.size(0), num_slots + 1), dtype=x.dtype, device=x.device)
    count.scatter_add_(1, x.masked_fill(x < 0, num_slots), torch.ones_like(x))
    count, value = count[:, :num_slots].sort(dim=-1, descending=True)
    value = value.masked_fill(count == 0, -1).sort(dim=-1, descending=True).values
    most = min(num_slots, x.size(1))
    x.fill_(-1)
    x[:, :most] = value[:, :most]


def create_grouped_scores(scores, group_idx, num_groups):
    """Scores of experts whose group is not in group_idx become 0."""
    tokens, experts = scores.shape
    chosen = torch.zeros((tokens, num_groups), dtype=torch.bool, device=scores.device).scatter_(1, group_idx, True)
    return (scores.view(tokens, num_groups, -1) * chosen.unsqueeze(2)).view(tokens, experts)


def hash_tensor(tensor):
    """The sum of its 32-bit words."""
    return tensor.view(torch.int).sum().item()
