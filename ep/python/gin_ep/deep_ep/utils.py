# SPDX-License-Identifier: BSD-3-Clause
"""EventHandle and EventOverlap. Without a GPU they do nothing: calls on host threads have ended when they return."""

import functools
import inspect

import torch


class EventHandle:
    """An event on the stream that is current when it is made."""

    def __init__(self, stream=None):
        self.event = None
        if torch.cuda.is_available():
            self.event = torch.cuda.Event()
            self.event.record(stream or torch.cuda.current_stream())

    def current_stream_wait(self):
        if self.event is not None:
            torch.cuda.current_stream().wait_event(self.event)


class EventOverlap:
    """An EventHandle, or None, and the tensors that must live until it has happened.

    As a context manager it waits at the end of the block.
    """

    def __init__(self, event=None, extra_tensors=None):
        self.event = event
        self.extra_tensors = extra_tensors

    def current_stream_wait(self):
        assert self.event is not None, "there is no event: the call was not asynchronous"
        self.event.current_stream_wait()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if self.event is not None:
            self.event.current_stream_wait()


# Keywords of callers that are newer than DeepEP V1, and what they ask for.
NEWER = {
    "use_nvfp4": "NVFP4 rows",
    "x_global_scale": "NVFP4 rows",
    "overlap": "a combine that overlaps a GEMM",
    "packed_recv_count": "a combine that overlaps a GEMM",
    "comp_signal": "a combine that overlaps a GEMM",
    "block_m": "a combine that overlaps a GEMM",
    "threshold": "a combine that overlaps a GEMM",
    "num_sms": "a combine that overlaps a GEMM",
    "src_signals": "a combine that overlaps a GEMM",
    "src_signal_expect_value": "a combine that overlaps a GEMM",
}


def names_unknown_keywords(function):
    """A TypeError names all keywords that the function does not have, and what they ask for."""
    known = set(inspect.signature(function).parameters)

    @functools.wraps(function)
    def checked(*arguments, **keywords):
        unknown = [name for name in keywords if name not in known]
        if unknown:
            words = [f"{name} ({NEWER[name]})" if name in NEWER else name for name in unknown]
            raise TypeError(f"{function.__qualname__}() of gin_ep.deep_ep has no argument {', '.join(words)}")
        return function(*arguments, **keywords)

    return checked
