# SPDX-License-Identifier: BSD-3-Clause
"""Chooses backend GIN_SYMM_INJECT (GIN or GIN_CPU) at the end of `import torch`, in every process.

For tests that know nothing of it: torch calls the entry point of the folder beside this file, if PYTHONPATH has both.
"""

import os


def choose():
    backend = os.environ.get("GIN_SYMM_INJECT")
    if not backend or "TORCH_SYMMMEM" in os.environ:
        return
    import torch
    import torch.distributed._symmetric_memory as symm_mem

    import libgin.torch_symm  # noqa: F401 - registers

    symm_mem.set_backend(backend)
    # A use: from here on set_backend() refuses another one.
    kind = torch._C._autograd.DeviceType.CPU if backend == "GIN_CPU" else torch._C._autograd.DeviceType.CUDA
    torch._C._distributed_c10d._SymmetricMemory.has_multicast_support(kind, 0)
