# SPDX-License-Identifier: BSD-3-Clause
"""Rows for each expert, made of rows for each rank: DeepEP V2's do_expand. No step waits for the GPU."""

import torch


def _align(numbers, alignment):
    return (numbers + alignment - 1) // alignment * alignment


class Expansion:
    """Where rows go that are repeated for each of their experts.

    Expert after expert; an expert's first row is at a multiple of `alignment`, and its rows are in the order of the
    received ones, then of k. recv_topk_idx: [rows, k], the own expert or -1; `experts` own ones; `room`: rows of the
    result, at least the aligned sum.
    """

    def __init__(self, recv_topk_idx, experts, alignment, room):
        made = {"dtype": torch.int64, "device": recv_topk_idx.device}
        self.room = room
        flat = recv_topk_idx.flatten().long()
        flat = torch.where(flat < 0, experts, flat)
        in_order, order = flat.sort(stable=True)
        counts = torch.zeros(experts + 1, **made).scatter_add_(0, flat, torch.ones_like(flat))
        padded = _align(counts, alignment)
        starts, firsts = padded.cumsum(0) - padded, counts.cumsum(0) - counts
        place = torch.arange(len(flat), **made) - firsts[in_order] + starts[in_order]
        place = torch.where(in_order == experts, room, place)
        self.counts = counts[:experts].int()
        self.ends = (starts + counts)[:experts].int()
        # Row `room` takes what belongs nowhere.
        self._place = torch.empty_like(flat).scatter_(0, order, place)
        self._shape = recv_topk_idx.shape
        row = torch.arange(len(flat), **made) // max(1, self._shape[1])
        self._source = torch.zeros(room + 1, **made).scatter_(0, self._place, row)[:room]
        self._used = torch.zeros(room + 1, dtype=torch.bool, device=flat.device).scatter_(0, self._place, True)[:room]

    def places(self):
        """[rows, k] int32: where each row is for its k-th expert, -1: nowhere."""
        place = self._place.view(self._shape)
        return torch.where(place == self.room, -1, place).int()

    def rows(self, tensor, zeroed):
        """The rows of a tensor, repeated; zeroed: those between experts are 0, else any."""
        if tensor.shape[0] == 0:
            return tensor.new_zeros((self.room, *tensor.shape[1:]))
        whole = tensor.view(torch.uint8) if tensor.element_size() == 1 else tensor
        out = whole[self._source]
        if zeroed:
            out.masked_fill_(~self._used[:, None], 0)
        return out.view(tensor.dtype)

    def weights(self, tensor):
        """[room]: of [rows, k]; 0 between experts."""
        out = torch.zeros(self.room + 1, dtype=tensor.dtype, device=tensor.device)
        return out.scatter_(0, self._place, tensor.flatten())[: self.room]

    def fold_weights(self, weights):
        """[rows, k] of [room]; 0 where the row has no expert."""
        more = torch.cat([weights, weights.new_zeros(1)])
        return more[self._place].view(self._shape)

    def fold(self, x):
        """The sums over k, ascending, of a row's rows in x: in f32, rounded once."""
        place = self._place.view(self._shape)
        out = torch.zeros((self._shape[0], x.shape[1]), dtype=torch.float32, device=x.device)
        for k in range(self._shape[1] if x.shape[0] else 0):
            at = place[:, k, None]
            out += torch.where(at < self.room, x[at[:, 0].clamp(max=self.room - 1)].float(), 0.0)
        return out.to(x.dtype)
