# SPDX-License-Identifier: BSD-3-Clause
"""Changes torch at the end of `import torch`, in every process, for programs that do not know it.

torch calls the entry point of the folder beside this file, if PYTHONPATH has both.

    SYMM_BACKEND=GIN         chooses the backend: GIN or GIN_CPU
    SYMM_FEWER_GPUS=1        tests that want more GPUs than there are run with a rank for each GPU
    SYMM_STACKS=TIME:FOLDER  what runs at TIME, in seconds since 1970, writes its stacks to a file
                             of FOLDER
"""

import faulthandler
import os
import sys
import time


def choose_backend(name):
    import torch
    import torch.distributed._symmetric_memory as symm_mem

    import libgin.torch_symm  # noqa: F401 - registers

    symm_mem.set_backend(name)
    # A use: from here on set_backend() refuses another one.
    types = torch._C._autograd.DeviceType
    kind = types.CPU if name == "GIN_CPU" else types.CUDA
    torch._C._distributed_c10d._SymmetricMemory.has_multicast_support(kind, 0)


def accept_fewer_gpus():
    """But two at least: one rank tests nothing."""
    import torch
    from torch.testing._internal import common_distributed as common

    base, skip = common.MultiProcessTestCase, common.skip_if_lt_x_gpu
    gpus = max(torch.cuda.device_count(), 2)

    def limit_ranks(cls, **options):
        super(base, cls).__init_subclass__(**options)
        size = vars(cls).get("world_size")
        if isinstance(size, property):
            cls.world_size = property(lambda self: min(size.fget(self), gpus))

    base.__init_subclass__ = classmethod(limit_ranks)
    common.skip_if_lt_x_gpu = lambda wanted, **options: skip(min(wanted, gpus), **options)


def write_stacks(when, folder):
    if when > time.time() and os.path.isdir(folder):
        name = f"{os.getpid()}-{os.path.basename(sys.argv[0])}"
        file = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        faulthandler.dump_traceback_later(when - time.time(), file=file)


def choose():
    when, _, folder = os.environ.get("SYMM_STACKS", "").partition(":")
    if when:
        write_stacks(float(when), folder)
    backend = os.environ.get("SYMM_BACKEND")
    if backend and "TORCH_SYMMMEM" not in os.environ:
        choose_backend(backend)
    if os.environ.get("SYMM_FEWER_GPUS") == "1":
        accept_fewer_gpus()
