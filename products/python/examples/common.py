# SPDX-License-Identifier: BSD-3-Clause
"""What the GEMM examples share: ranks, operands, and the memory of an operation."""

import os
import sys
from contextlib import contextmanager

import torch
import torch.distributed as dist

import libgin.torch


def on_gpus():
    return torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1"


def one_gpu_each():
    """NCCL, and the times, need a GPU for each rank. Ranks that share one only check their data."""
    return on_gpus() and int(os.environ["WORLD_SIZE"]) <= torch.cuda.device_count()


@contextmanager
def ranks(**options):
    """A communicator of the ranks that torchrun, or RANK and WORLD_SIZE, started."""
    if not torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1":
        raise SystemExit("there is no GPU: TRITON_INTERPRET=1 runs the kernels on host threads")
    if on_gpus():
        torch.cuda.set_device(int(os.environ["RANK"]) % torch.cuda.device_count())
    dist.init_process_group("nccl" if one_gpu_each() else "gloo")
    device = torch.cuda.current_device() if on_gpus() else "none"
    with libgin.torch.communicator(device=device, **options) as comm:
        yield comm
    dist.destroy_process_group()


def main(run, on_gpus_shapes, on_host_shapes, **options):
    """Calls run(comm, M, N, K) for each shape of the command line, such as 64,8192,4096."""
    with ranks(**options) as comm:
        for shape in sys.argv[1:] or (on_gpus_shapes if on_gpus() else on_host_shapes):
            run(comm, *map(int, shape.split(",")))


def device():
    return torch.device("cuda", torch.cuda.current_device()) if on_gpus() else torch.device("cpu")


def dtype():
    """Triton's interpreter multiplies no bfloat16."""
    return torch.bfloat16 if on_gpus() else torch.float16


def operand(rows, columns, scale=1.0):
    return (torch.randn(rows, columns, device=device()) * scale).to(dtype())


def by_all_direct(comm):
    """Whether kernels reach every peer by loads and stores."""
    return all(comm.peer(rank).backend == "direct" for rank in range(comm.size))


class Operation:
    """What the operations have in common. Making an operation and close() are collective."""

    form = "puts"  # how data goes to the other ranks

    def __init__(self, comm, signals, **memory):
        """memory: shapes of tensors. inbox=(4, 5) makes self.inbox and its self.inbox_window."""
        self.comm, self.windows = comm, []
        for name, shape in memory.items():
            tensor = libgin.torch.empty(*shape, dtype=dtype(), device=device())
            self.windows.append(comm.register(tensor))
            setattr(self, name, tensor)
            setattr(self, f"{name}_window", self.windows[-1])
        self.dc = comm.device(signals=signals)
        self.rounds = torch.zeros(signals, dtype=torch.int64, device=device())
        self.status = torch.zeros(1, dtype=torch.int32, device=device())
        self.side = torch.cuda.Stream() if on_gpus() else None

    def others(self):
        """The other ranks; the right neighbour first."""
        return [(self.comm.rank + i) % self.comm.size for i in range(1, self.comm.size)]

    def end_kernels(self):
        """Waits until this rank's kernels have ended.

Goes before the first launch of a kernel, which CUDA has to load, and before a copy to
        memory that is not pinned. CUDA may wait for running kernels in both, and delay the proxy's
        copies meanwhile. A kernel that waits for these copies would wait until its timeout:
        gin_proxy(7).
        """
        if on_gpus():
            torch.cuda.synchronize()

    def raise_error(self):
        """Waits for the kernels, and raises the error of a device call."""
        self.end_kernels()
        self.dc.raise_for(self.status.item())

    def routes(self):
        """The routes to the other ranks, such as "direct"."""
        return " and ".join(sorted({self.comm.peer(rank).backend for rank in self.others()}))

    def close(self):
        for resource in (self.dc, *self.windows):
            resource.close()
