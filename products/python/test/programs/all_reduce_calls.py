# SPDX-License-Identifier: BSD-3-Clause
"""all_reduce_calls.py [CALLS | late | lost] - calls of the GEMM + all-reduce for direct peers.

Ranks as for the examples, whose folder has to be in PYTHONPATH. CALLS: so many calls and a few
more, with operands that change from call to call. All bits of each result are compared with those
of the first call with its operands, and these with torch's; so are infinities and NaNs. late: rank
0 makes no call. lost: rank 0 exits while the others wait for it.
"""

import os
import random
import sys
import time

import parts
import torch
import torch.distributed as dist
import triton.language as tl
from common import by_all_direct, device, dtype, on_gpus, operand, ranks
from compare import checked
from gemm_ar import ByStores

import libgin

OPERANDS = 7
BATCH = 3 * OPERANDS  # an odd number: each operand meets both halves of the window
# Infinities, the NaN that marks an empty place, and others.
NANS = (0x7FFF, 0xFFFF, 0x7FC1, 0xFFC1)
SPECIAL = {
    torch.bfloat16: (0x7F80, 0xFF80, parts.EMPTY[torch.bfloat16], *NANS),
    torch.float16: (0x7C00, 0xFC00, parts.EMPTY[torch.float16], *NANS),
}


def made(comm):
    shape = (64, 8192, 1024) if on_gpus() else (16, 64, 48)
    operation = ByStores(comm, *shape, *(() if on_gpus() else (32, 16)))
    M, N, K = shape
    torch.manual_seed(comm.rank)
    return operation, [operand(M, K, K**-0.5) for _ in range(OPERANDS)], operand(K, N)


def result(a, b):
    return torch.empty(a.shape[0], b.shape[1], dtype=dtype(), device=device())


def first(operation, a, b):
    """The result of a call, compared with torch's."""
    out, want = result(a, b), a.float() @ b.float()
    dist.all_reduce(want)
    checked(operation, lambda: operation(a, b, out), want)
    same = out.float()
    dist.broadcast(same, 0)
    assert torch.equal(same, out.float()), "ranks have different bits"
    return out


def batch(operation, a, b, outs):
    for i, out in enumerate(outs):
        operation(a[i % OPERANDS], b, out)


def captured(function):
    """The function itself on host threads."""
    if not on_gpus():
        return function
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph.replay


def delay():
    """Ranks start a batch at different times. On host threads they do so anyway."""
    if on_gpus():
        torch.cuda._sleep(random.randrange(200_000))


def many(operation, a, b, calls):
    """Returns the number of calls. On GPUs a batch is one CUDA graph."""
    want = [first(operation, operands, b) for operands in a]
    outs = [result(a[0], b) for _ in range(BATCH)]
    launch = captured(lambda: batch(operation, a, b, outs))
    batches = -(-calls // BATCH)
    for number in range(batches):
        delay()
        launch()
        operation.raise_error()
        wrong = [i for i, out in enumerate(outs) if not torch.equal(out, want[i % OPERANDS])]
        assert not wrong, f"batch {number}: calls {wrong} have other bits than the first ones"
    return batches * BATCH


def special(operation, a, b, owner):
    """Rows of the rank `owner` with an infinity or a NaN: the result has them as torch's has."""
    bits = torch.tensor(SPECIAL[dtype()], dtype=torch.int32).to(torch.int16)
    a = a.clone()
    if operation.comm.rank == owner:
        a[: len(bits), 0] = bits.view(dtype()).to(a.device)
    want = (a.float() @ b.float()).to(dtype()).float()
    dist.all_reduce(want)
    got = operation(a, b, result(a, b))
    operation.raise_error()
    assert want.isnan().any() and want.isinf().any()
    torch.testing.assert_close(got.float(), want, rtol=0.02, atol=0.1, equal_nan=True)


def check_calls(comm, calls):
    operation, a, b = made(comm)
    calls = many(operation, a, b, calls)
    for owner in range(comm.size):
        special(operation, a[owner], b, owner)
    print(f"rank {comm.rank} of {comm.size}: {calls} calls right", flush=True)
    comm.barrier()
    operation.close()


def fails(operation, a, b, want):
    """A call whose wait for rank 0 has to end."""
    operation(a[0], b, result(a[0], b))
    try:
        operation.raise_error()
    except want as error:
        rank, size = operation.comm.rank, operation.comm.size
        print(f"rank {rank} of {size}: {type(error).__name__}", flush=True)
    else:
        raise AssertionError("the call has not failed")


def late(comm):
    parts.POLLS = tl.constexpr(100)
    operation, a, b = made(comm)
    if comm.rank > 0:
        fails(operation, a, b, libgin.TimedOutError)
    comm.barrier()
    operation.close()


def lost(comm):
    operation, a, b = made(comm)
    if comm.rank > 0:
        fails(operation, a, b, libgin.PeerError)
    else:
        wait_for_parts(operation)
    os._exit(0)  # no collective call follows


def wait_for_parts(operation):
    """Until all other ranks are in their first call."""
    parts_of_others = operation.inbox.view(torch.int16)[1, 1:].flatten(1)
    while not (parts_of_others != parts.EMPTY[dtype()]).any(1).all():
        time.sleep(0.01)


def main(what="2000"):
    with ranks() as comm:
        if not by_all_direct(comm):
            raise SystemExit("peers are not direct")
        if what in ("late", "lost"):
            {"late": late, "lost": lost}[what](comm)
        else:
            check_calls(comm, int(what))


if __name__ == "__main__":
    main(*sys.argv[1:])
