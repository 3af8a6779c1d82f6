# SPDX-License-Identifier: BSD-3-Clause
"""A sitecustomize for programs that are written for GPUs: tensors are on the CPU, streams and events are nothing.

torch.distributed needs shared_gpus.py after it.
"""

import torch
from torch.overrides import TorchFunctionMode


def on_cpu(device):
    return "cpu" if "cuda" in str(device) else device


class OnCpu(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if "device" in kwargs:
            kwargs["device"] = on_cpu(kwargs["device"])
        if function is torch.Tensor.cuda:
            return args[0]
        if function is torch.Tensor.to:
            args = [on_cpu(word) if isinstance(word, (str, torch.device)) else word for word in args]
        return function(*args, **kwargs)


class Nothing:
    """A stream or an event: all work is done."""

    cuda_stream = 0

    def __init__(self, *arguments, **more):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        return False

    def done(self, *arguments):
        pass

    wait_stream = wait_event = record = synchronize = done


torch.set_default_device = lambda device: None
torch.cuda.set_device = torch.cuda.synchronize = lambda *device: None
torch.cuda.device_count = lambda: 1
torch.cuda.Stream = torch.cuda.Event = torch.cuda.stream = torch.cuda.current_stream = Nothing
OnCpu().__enter__()
