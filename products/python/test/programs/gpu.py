# SPDX-License-Identifier: BSD-3-Clause
"""One rank on a GPU: windows over torch tensors, kernels, memory of libgin as tensors.

gpu.py own|group [CASE...]: the ranks find each other by the launcher, or by torch.distributed.
GIN_ROUTE=network sends everything through the proxy.
"""

import ctypes
import gc
import os
import random
import sys

import torch
from programs.kernels import Kernel, compile_cubin

import libgin
from libgin import torch as gin_torch

SHIFT = """
#include "gin_device.cuh"
extern "C" __global__ void shift(ginDevComm dc, ginWindow_t inbox, ginWindow_t outbox,
                                 unsigned long long bytes, unsigned long long round, int *status)
{
    Gin gin(dc, 0);
    int right = (dc.rank + 1) % dc.nRanks;
    GinSignalInc arrived{0};
    ginResult_t result = gin.put(right, inbox, 0, outbox, 0, bytes, arrived, GinNone{}, GinCta{});
    if (result == ginSuccess)
        result = gin.waitSignal(0, round, GinCta{}, ginTimeout(10000000000ull));
    if (threadIdx.x == 0)
        *status = result;
}
extern "C" __global__ void lost(ginDevComm dc, int *status)
{
    *status = Gin(dc, 0).waitSignal(1, 1, GinThread{}, ginTimeout(50000000ull));
}
"""
_cubin = None


def cubin():
    global _cubin
    if _cubin is None:
        major, minor = torch.cuda.get_device_capability()
        _cubin = compile_cubin(SHIFT, f"sm_{major}{minor}")
    return _cubin


def stream():
    return torch.cuda.current_stream().cuda_stream


def numbers(comm, count):
    return torch.arange(count, dtype=torch.int32, device="cuda") + 1000003 * comm.rank


def ring(comm, outbox, inbox, rounds=2):
    """The kernel on two tensors that are registered as windows; checks every value."""
    kernel = Kernel(cubin(), "shift")
    status = torch.full((1,), -1, dtype=torch.int32, device="cuda")
    with comm.register(inbox) as target, comm.register(outbox) as source, comm.device() as dc:
        for turn in range(1, rounds + 1):
            outbox.add_(turn)
            torch.cuda.synchronize()
            comm.barrier()
            kernel(
                *(1, 256, stream(), dc.struct, target.struct, source.struct),
                *map(ctypes.c_uint64, (outbox.nbytes, turn, status.data_ptr())),
            )
            torch.cuda.synchronize()
            dc.raise_for(status.item())
            comm.barrier()
            left = (comm.rank - 1) % comm.size
            expected = outbox - 1000003 * comm.rank + 1000003 * left
            assert torch.equal(inbox, expected), (inbox, expected)


def case_torch_tensors(comm):
    """Tensors of torch's caching allocator; two of them lie in one segment of it."""
    outbox = numbers(comm, 1000)
    ring(comm, outbox, torch.zeros_like(outbox))
    large = numbers(comm, 5 << 20)
    ring(comm, large, torch.zeros_like(large))
    ring(comm, large[4096:-3000], torch.zeros_like(large[4096:-3000]))


def case_libgin_tensors(comm):
    outbox = gin_torch.empty(1 << 20, dtype=torch.int32)
    assert outbox.is_cuda and outbox.device.index == comm.device_index
    outbox.copy_(numbers(comm, 1 << 20))
    inbox = torch.from_dlpack(comm.alloc(4 << 20)).view(torch.int32)
    inbox.zero_()
    ring(comm, outbox, inbox)
    view = torch.as_tensor(comm.alloc(4096), device="cuda")
    assert view.is_cuda and view.dtype == torch.uint8 and len(view) == 4096


def case_symmetric_memory(comm):
    """Tensors of PyTorch's symmetric memory, backend CUDA: windows without a backend of libgin."""
    import torch.distributed._symmetric_memory as symm_mem

    outbox, inbox = (symm_mem.empty(1 << 16, dtype=torch.int32, device="cuda") for _ in range(2))
    outbox.copy_(numbers(comm, 1 << 16))
    ring(comm, outbox, inbox)


def case_host_memory(comm):
    array = torch.from_dlpack(comm.alloc_host(4096))
    assert not array.is_cuda and not array.any()
    with comm.register(array):
        pass


def case_peer_tensor(comm):
    own = gin_torch.empty(100, dtype=torch.float32)
    own.fill_(comm.rank)
    torch.cuda.synchronize()
    peer = (comm.rank + 1) % comm.size
    with comm.register(own) as window:
        comm.barrier()
        other = gin_torch.peer_tensor(window, peer, own)
        if comm.peer(peer).backend == "direct":
            assert other.device == own.device and torch.equal(other, torch.full_like(own, peer))
            other[comm.rank] = -1  # a store into the peer's memory
        else:
            assert other is None
        torch.cuda.synchronize()
        comm.barrier()
        left = (comm.rank - 1) % comm.size
        assert (own[left] == -1) == (other is not None), own[:4]


def case_errors(comm):
    status = torch.full((1,), -1, dtype=torch.int32, device="cuda")
    with comm.device() as dc:
        Kernel(cubin(), "lost")(1, 1, stream(), dc.struct, ctypes.c_uint64(status.data_ptr()))
        torch.cuda.synchronize()
        try:
            dc.raise_for(status.item())
        except TimeoutError as error:
            assert "signal" in str(error), error
        else:
            raise AssertionError(f"status {status.item()}")
        comm.barrier()


def case_drops(comm):
    """Ranks drop tensors and windows at random moments; all memory is released at last."""
    rng, held = random.Random(comm.rank), []
    for _ in range(200):
        kind = rng.choice((gin_torch.empty, torch.empty))
        tensor = kind(rng.choice((16, 4096, 300000)), dtype=torch.float32, device="cuda")
        held.append((comm.register(tensor), tensor))
        rng.shuffle(held)
        del held[rng.randrange(4) :], tensor
        if rng.randrange(8) == 0:
            gc.collect()
        comm.barrier()
    del held
    gc.collect()
    for _ in range(10):
        comm.barrier()
    assert not libgin.window._retired, len(libgin.window._retired)


def case_segments(comm):
    """Tensors over expandable segments work, or are refused on all ranks with a sentence."""
    outbox = numbers(comm, 5 << 20)
    pad = torch.zeros(1 << 20, device="cuda")
    inbox = torch.zeros(12 << 20, dtype=torch.int32, device="cuda")[: 5 << 20]
    del pad
    try:
        ring(comm, outbox, inbox)
    except libgin.GinError as error:
        print(f"rank {comm.rank}: refused: {type(error).__name__}: {error}", flush=True)
        assert "ginMemAlloc" in str(error), error


CASES = {name[5:]: case for name, case in list(globals().items()) if name.startswith("case_")}


def communicator(how):
    if how == "own":
        local = int(os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", os.environ.get("RANK", 0)))
        torch.cuda.set_device(local % torch.cuda.device_count())
        return libgin.Communicator()
    import torch.distributed as dist

    torch.cuda.set_device(int(os.environ["RANK"]) % torch.cuda.device_count())
    dist.init_process_group(how)
    return gin_torch.communicator()


def main(how, *names):
    comm = communicator(how)
    with comm:
        assert comm.device_index == torch.cuda.current_device(), comm.device_index
        route = comm.peer((comm.rank + 1) % comm.size).backend
        for name in names or CASES:
            CASES[name](comm)
            comm.barrier()
            if comm.rank == 0:
                print(
                    f"ok: {name}, {comm.size} ranks, {route}, {comm.info().bootstrap}", flush=True
                )
            if not comm.is_open:
                break
    if how != "own":
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
