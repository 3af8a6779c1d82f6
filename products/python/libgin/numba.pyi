# SPDX-License-Identifier: BSD-3-Clause
"""Types of libgin.numba: arguments are numbers or libgin's objects of a kernel."""

from typing import Any

from .window import Window

THREAD: int
WARP: int
CTA: int

def jit(*args: Any, **options: Any) -> Any: ...
def put(
    dc: Any,
    peer: Any,
    dst: Any,
    dst_off: Any,
    src: Any,
    src_off: Any,
    nbytes: Any,
    signal: Any = ...,
    add: Any = ...,
    weak: bool = ...,
    signal_window: Any = ...,
    counter: Any = ...,
    context: Any = ...,
    coop: Any = ...,
    timeout: Any = ...,
) -> Any: ...
def put_value(
    dc: Any,
    peer: Any,
    dst: Any,
    dst_off: Any,
    value: Any,
    nbytes: Any = ...,
    signal: Any = ...,
    add: Any = ...,
    weak: bool = ...,
    signal_window: Any = ...,
    context: Any = ...,
    coop: Any = ...,
    timeout: Any = ...,
) -> Any: ...
def get(
    dc: Any,
    peer: Any,
    src: Any,
    src_off: Any,
    dst: Any,
    dst_off: Any,
    nbytes: Any,
    context: Any = ...,
    coop: Any = ...,
    timeout: Any = ...,
) -> Any: ...
def signal(
    dc: Any,
    peer: Any,
    signal: Any,
    add: Any = ...,
    weak: bool = ...,
    signal_window: Any = ...,
    context: Any = ...,
    coop: Any = ...,
    timeout: Any = ...,
) -> Any: ...
def wait_signal(
    dc: Any,
    signal: Any,
    least: Any,
    signal_window: Any = ...,
    context: Any = ...,
    coop: Any = ...,
    timeout: Any = ...,
) -> Any: ...
def read_signal(
    dc: Any,
    signal: Any,
    signal_window: Any = ...,
    context: Any = ...,
    coop: Any = ...,
) -> Any: ...
def reset_signal(
    dc: Any,
    signal: Any,
    signal_window: Any = ...,
    context: Any = ...,
    coop: Any = ...,
) -> None: ...
def read_value(
    dc: Any,
    window: Any,
    offset: Any,
    nbytes: Any = ...,
    context: Any = ...,
    coop: Any = ...,
) -> Any: ...
def wait_value(
    dc: Any,
    window: Any,
    offset: Any,
    least: Any,
    nbytes: Any = ...,
    context: Any = ...,
    coop: Any = ...,
    timeout: Any = ...,
) -> Any: ...
def read_counter(dc: Any, counter: Any, context: Any = ..., coop: Any = ...) -> Any: ...
def reset_counter(dc: Any, counter: Any, context: Any = ..., coop: Any = ...) -> None: ...
def wait_counter(
    dc: Any,
    counter: Any,
    least: Any,
    context: Any = ...,
    coop: Any = ...,
    timeout: Any = ...,
) -> Any: ...
def flush(dc: Any, context: Any = ..., coop: Any = ..., timeout: Any = ...) -> Any: ...
def flush_ticket(dc: Any, peer: Any, context: Any = ..., coop: Any = ...) -> Any: ...
def wait_ticket(
    dc: Any,
    peer: Any,
    ticket: Any,
    context: Any = ...,
    coop: Any = ...,
    timeout: Any = ...,
) -> Any: ...
def barrier(
    dc: Any,
    size: Any,
    rank: Any,
    stride: Any = ...,
    index: Any = ...,
    coop: Any = ...,
    timeout: Any = ...,
) -> Any: ...
def fetch_add(
    dc: Any,
    peer: Any,
    window: Any,
    offset: Any,
    value: Any,
    context: Any = ...,
    coop: Any = ...,
    timeout: Any = ...,
    failed: Any = ...,
) -> Any: ...
def compare_swap(
    dc: Any,
    peer: Any,
    window: Any,
    offset: Any,
    compare: Any,
    value: Any,
    context: Any = ...,
    coop: Any = ...,
    timeout: Any = ...,
    failed: Any = ...,
) -> Any: ...
def swap(
    dc: Any,
    peer: Any,
    window: Any,
    offset: Any,
    value: Any,
    context: Any = ...,
    coop: Any = ...,
    timeout: Any = ...,
    failed: Any = ...,
) -> Any: ...
def peer_pointer(window: Any, peer: Any, offset: Any = ...) -> Any: ...
def peer_array(window: Window, rank: int, shape: tuple[int, ...], dtype: Any) -> Any: ...
