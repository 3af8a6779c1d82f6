# SPDX-License-Identifier: BSD-3-Clause
"""EventHandle and EventOverlap. Without a GPU they do nothing: calls on host threads have ended when they return."""

import torch

from .._arguments import require


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
        require(self.event is not None, "there is no event: the call was not asynchronous")
        self.event.current_stream_wait()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if self.event is not None:
            self.event.current_stream_wait()
