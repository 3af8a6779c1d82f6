# SPDX-License-Identifier: BSD-3-Clause
"""Calls as ranges of torch.profiler, with the bytes of x, while it records. Does not import torch."""

import functools
import sys


def ranged(name, x, call, /, *arguments, **named):
    """The call, as a range. The profiler records."""
    record = sys.modules["torch.autograd.profiler"].record_function
    with record(f"gin_ep.{name}, {getattr(x, 'nbytes', 0)} bytes"):
        return call(*arguments, **named)


def shown(call):
    """A method whose first argument is x."""

    @functools.wraps(call)
    def perhaps_ranged(self, *arguments, **named):
        profiler = sys.modules.get("torch.autograd.profiler")
        if not getattr(profiler, "_is_profiler_enabled", False):
            return call(self, *arguments, **named)
        x = arguments[0] if arguments else named.get("x")
        return ranged(call.__name__, x, call, self, *arguments, **named)

    return perhaps_ranged
