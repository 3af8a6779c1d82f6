# SPDX-License-Identifier: BSD-3-Clause
"""Cases of torch_ranks.py: gin_ep.deep_ep.ElasticBuffer, on tensors of `device`, "cpu" or "cuda"."""

import os

import numpy as np
import torch

from gin_ep import deep_ep
from problem import refuses, same


def compact(comm, device):
    """DeepEP V2's names: the rows of V1's calls; counts, cached rows, no CPU wait, statistics."""
    experts, tokens, most, hidden, me = 3 * comm.size, 30 + comm.rank, 40, 256, comm.rank
    make = torch.Generator().manual_seed(7 + me)
    x = torch.randn(tokens, hidden, generator=make).to(torch.bfloat16).to(device)
    idx = torch.rand(tokens, experts, generator=make).topk(2, dim=1).indices
    idx[torch.rand(idx.shape, generator=make) < 0.2] = -1
    idx, weights = idx.to(device), torch.rand(idx.shape, generator=make).to(device)
    there = {"device": "none" if device == "cpu" else None}
    old = deep_ep.Buffer(comm, **there)
    per_rank, _, per_expert, in_rank, _ = old.get_dispatch_layout(idx, experts)
    layout = {"num_tokens_per_rank": per_rank, "is_token_in_rank": in_rank, "num_tokens_per_expert": per_expert}
    rows, r_idx, r_weights, counts, v1, _ = old.dispatch(x, **layout, topk_idx=idx, topk_weights=weights)
    out, sums, _ = old.combine(rows, v1, topk_weights=r_weights)
    buffer = deep_ep.ElasticBuffer(comm, num_max_tokens_per_rank=most, hidden=hidden, **there)
    domain = 1 if os.environ.get("GIN_ROUTE") == "network" else int(os.environ.get("GIN_EP_DOMAIN", comm.size))
    same("domains", buffer.get_logical_domain_size(), (comm.size // domain, domain))
    same("place", (buffer.scaleout_rank_idx, buffer.scaleup_rank_idx), divmod(me, domain))
    buffer.barrier()
    n, each = rows.shape[0], experts // comm.size
    for is_async, counted, alignment in ((False, None, 4), (True, False, 1)):
        event = {"previous_event": buffer.capture(), "allocate_on_comm_stream": True} if is_async else {}
        event["async_with_compute_stream"] = is_async

        stats = torch.arange(each, dtype=torch.int32, device=device)
        seen, s_idx, s_weights, handle, overlap = buffer.dispatch(
            x, idx, weights, stats, num_experts=experts, expert_alignment=alignment, do_cpu_sync=counted, **event
        )
        buffer._wait(overlap)
        assert torch.equal(seen[:n], rows) and torch.equal(s_idx[:n], r_idx) and bool((s_idx[n:] == -1).all())
        assert torch.equal(s_weights[:n], r_weights) and seen.shape[0] == (n if counted is None else most * comm.size)
        items = [int((r_idx == e).sum()) for e in range(each)]
        same("statistics", (stats - torch.arange(each, device=device)).tolist(), items)
        padded = [-(-count // alignment) * alignment for count in items]
        same("counts", handle.num_recv_tokens_per_expert_list, padded if counted is None else [])
        same("sums of counts", handle.psum_num_recv_tokens_per_expert.tolist(), np.cumsum(padded).tolist())
        ends = v1[0][:, me].tolist()
        rows_of_rails = np.diff([0, *ends]).reshape(-1, domain).sum(0)
        same("sums of rows", handle.psum_num_recv_tokens_per_scaleup_rank.tolist(), rows_of_rails.cumsum().tolist())
        wanted = [s * most + t for s, (b, e) in enumerate(zip([0, *ends], ends)) for t in v1[3][b:e].tolist()]
        same("sources", handle.recv_src_metadata[:n, 0].tolist(), wanted)
        padding = [-1] * (most * comm.size - n)
        places = [np.frombuffer(one, np.int32).tolist() for one in comm.allgather(np.array(wanted + padding, np.int32))]
        rows_of = [
            [places[e // each].index(me * most + t) if e >= 0 else -1 for e in row] for t, row in enumerate(idx.tolist())
        ]
        same("rows at the experts' ranks", handle.dst_buffer_slot_idx.tolist(), rows_of)
        assert handle.topk_idx is not idx and torch.equal(handle.topk_idx, idx)
        scales = torch.arange(tokens * 2, dtype=torch.float32, device=device).view(tokens, 2)
        cached = {"x": (x.to(torch.float8_e4m3fn), scales), "handle": handle, "use_tma_aligned_col_major_sf": True}
        (c_rows, c_scales), c_idx, none, again, overlap = buffer.dispatch(**cached, **event)
        buffer._wait(overlap)
        assert again is handle and none is None and c_idx is s_idx and c_scales.stride(0) == 1
        assert torch.equal(c_rows[:n].view(torch.uint8), rows.to(torch.float8_e4m3fn).view(torch.uint8))
        assert torch.equal(c_scales[:n, 1] % 2, torch.ones(n, device=device)) and c_scales.stride(1) % 4 == 0
        back, b_sums, overlap = buffer.combine(seen, handle, topk_weights=s_weights, **event)
        buffer._wait(overlap)
        assert torch.equal(back, out) and torch.equal(b_sums, sums)
    assert buffer.dispatch(x, idx, num_experts=experts)[2] is None
    few = {"num_experts": experts, "num_max_tokens_per_rank": 5}
    refuses(ValueError, "another do_expand", lambda: buffer.dispatch(x, handle=handle, do_expand=True))
    refuses(AttributeError, "no attribute 'engram_write'", lambda: buffer.engram_write(x))
    refuses(AttributeError, "no attribute 'channel_linked_list'", lambda: handle.channel_linked_list)
    refuses(ValueError, "num_max_tokens_per_rank is 5", lambda: buffer.dispatch(x, idx, **few))
    old._free()
    buffer._buffer._free()


def expand(comm, device):
    """V2's rows for each expert: each k of a token finds its row and weight, and the sums of its rows come back."""
    experts, tokens, most, hidden, me = 3 * comm.size, 9 + comm.rank, 12, 64, comm.rank
    make = torch.Generator().manual_seed(70 + me)
    x = torch.randn(tokens, hidden, generator=make).to(torch.bfloat16).to(device)
    idx = torch.rand(tokens, experts, generator=make).topk(3, dim=1).indices
    idx[torch.rand(idx.shape, generator=make) < 0.3] = -1
    idx, weights = idx.to(device), torch.rand(idx.shape, generator=make).to(device)
    buffer = deep_ep.ElasticBuffer(
        comm, num_max_tokens_per_rank=most, hidden=hidden, device="none" if device == "cpu" else None
    )
    for is_async, counted, alignment in ((False, None, 4), (True, False, 4), (True, None, 1)):
        event = {"async_with_compute_stream": is_async, "previous_event": buffer.capture() if is_async else None}
        call = {"num_experts": experts, "expert_alignment": alignment, "do_cpu_sync": counted}
        rows, r_idx, r_weights, flat, overlap = buffer.dispatch(x, idx, weights, **call, **event)
        buffer._wait(overlap)
        wide, none, w_weights, handle, overlap = buffer.dispatch(x, idx, weights, do_expand=True, **call, **event)
        buffer._wait(overlap)
        n, ends = int(flat.psum_num_recv_tokens_per_scaleup_rank[-1]), handle.psum_num_recv_tokens_per_expert.tolist()
        assert none is None and handle.num_expanded_tokens == wide.shape[0] == w_weights.shape[0]
        place, used, begin = handle.recv_src_metadata[:n, 2:], set(), 0
        for e, end in enumerate(ends):
            items = [(i, k) for i in range(n) for k in range(3) if r_idx[i, k] == e]
            same(f"rows of expert {e}", [int(place[i, k]) for i, k in items], list(range(begin, end)))
            for (i, k), row in zip(items, range(begin, end)):
                assert torch.equal(wide[row], rows[i]) and w_weights[row] == r_weights[i, k]
            used.update(range(begin, end))
            begin = -(-end // alignment) * alignment
        same("items", handle.num_unaligned_recv_tokens_per_expert.tolist(), [int((r_idx == e).sum()) for e in range(3)])
        assert bool(((place < 0) == (r_idx[:n] < 0)).all()) and counted is False or begin == wide.shape[0]
        bytes_ = x.to(torch.float8_e4m3fn), torch.ones(tokens, 1, device=device)
        (again, scales), none, c_weights, same_handle, overlap = buffer.dispatch(
            bytes_, topk_weights=weights * 2, handle=handle, do_expand=True, do_zero_padding=True, **event
        )
        buffer._wait(overlap)
        free = torch.tensor([row not in used for row in range(wide.shape[0])], device=device)
        assert same_handle is handle and torch.equal(c_weights, w_weights * 2)
        assert not again.view(torch.uint8)[free].any() and not scales[free].any() and bool(scales[~free].all())
        wanted = wide.to(torch.float8_e4m3fn).view(torch.uint8)
        assert torch.equal(again.view(torch.uint8)[~free], wanted[~free])
        answers = torch.randn(wide.shape, generator=make).to(torch.bfloat16).to(device)
        answers[free] = float("nan")
        folded = torch.zeros(rows.shape, dtype=torch.float32, device=device)
        for i, k in ((i, k) for i in range(n) for k in range(3) if place[i, k] >= 0):
            folded[i] += answers[place[i, k]].float()
        out, sums, overlap = buffer.combine(answers, handle, topk_weights=w_weights, bias=x, **event)
        buffer._wait(overlap)
        plain, _, _ = buffer.combine(folded.to(torch.bfloat16), flat, bias=x)
        assert torch.equal(out, plain) and torch.equal(sums, torch.where(idx >= 0, weights, 0.0))
    buffer.allow_multiple_reduction = False
    refuses(NotImplementedError, "allow_multiple_reduction=True", lambda: buffer.combine(answers, handle))
    refuses(ValueError, "do_zero_padding is for", lambda: buffer.dispatch(x, idx, do_zero_padding=True))
    buffer._buffer._free()


def in_order(comm, device):
    """The ranks of a token are added in the order of their last experts. Rank 0's answer is what the bias cancels."""
    buffer = deep_ep.ElasticBuffer(comm, num_max_tokens_per_rank=40, device="none" if device == "cpu" else None)
    if buffer.num_scaleout_ranks > 1:  # then sums ascend
        buffer._buffer._free()
        return
    make = torch.Generator().manual_seed(700 + comm.rank)
    idx = torch.rand(40, 3 * comm.size, generator=make).topk(3, dim=1).indices
    idx[torch.rand(idx.shape, generator=make) < 0.3] = -1
    answers = [2.0**60, *range(1, comm.size)]
    wanted = np.full(40, -(2.0**60), np.float32)
    for token, experts in enumerate(idx.tolist()):
        ranks = [expert // 3 for expert in experts if expert >= 0]
        for rank in sorted(set(ranks), key=lambda rank: max(i for i, other in enumerate(ranks) if other == rank)):
            wanted[token] += np.float32(answers[rank])
    x = torch.zeros(40, 16, dtype=torch.bfloat16, device=device)
    for wide in (idx, idx.int()):
        rows, _, _, handle, _ = buffer.dispatch(x, wide.to(device), num_experts=3 * comm.size)
        out, _, _ = buffer.combine(torch.full_like(rows, answers[comm.rank]), handle, bias=x - 2.0**60)
        same("sums", out.float().cpu().numpy(), np.repeat(wanted, 16).reshape(40, 16))
    buffer._buffer._free()
