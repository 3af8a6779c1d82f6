# SPDX-License-Identifier: BSD-3-Clause
"""Types of libgin.triton: arguments are numbers, tensors or libgin's objects of a kernel."""

from typing import Any

LIBRARY: str

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
    timeout: Any = ...,
) -> Any: ...
def wait_signal(
    dc: Any,
    signal: Any,
    least: Any,
    signal_window: Any = ...,
    context: Any = ...,
    timeout: Any = ...,
) -> Any: ...
def read_signal(dc: Any, signal: Any, signal_window: Any = ..., context: Any = ...) -> Any: ...
def reset_signal(dc: Any, signal: Any, signal_window: Any = ..., context: Any = ...) -> None: ...
def read_value(dc: Any, window: Any, offset: Any, nbytes: Any = ..., context: Any = ...) -> Any: ...
def wait_value(
    dc: Any,
    window: Any,
    offset: Any,
    least: Any,
    nbytes: Any = ...,
    context: Any = ...,
    timeout: Any = ...,
) -> Any: ...
def read_counter(dc: Any, counter: Any, context: Any = ...) -> Any: ...
def reset_counter(dc: Any, counter: Any, context: Any = ...) -> None: ...
def wait_counter(
    dc: Any,
    counter: Any,
    least: Any,
    context: Any = ...,
    timeout: Any = ...,
) -> Any: ...
def flush(dc: Any, context: Any = ..., timeout: Any = ...) -> Any: ...
def flush_ticket(dc: Any, peer: Any, context: Any = ...) -> Any: ...
def wait_ticket(dc: Any, peer: Any, ticket: Any, context: Any = ..., timeout: Any = ...) -> Any: ...
def barrier(
    dc: Any,
    size: Any,
    rank: Any,
    stride: Any = ...,
    index: Any = ...,
    timeout: Any = ...,
) -> Any: ...
def fetch_add(
    dc: Any,
    peer: Any,
    window: Any,
    offset: Any,
    value: Any,
    context: Any = ...,
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
    timeout: Any = ...,
    failed: Any = ...,
) -> Any: ...
def peer_pointer(window: Any, peer: Any, dtype: Any, offset: Any = ...) -> Any: ...
def after(pointer: Any, status: Any, align: int = ...) -> Any: ...
def jit(function: Any = ..., **options: Any) -> Any: ...
