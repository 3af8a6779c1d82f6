# SPDX-License-Identifier: BSD-3-Clause
"""libgin's device calls in Triton kernels.

    @libgin.triton.jit                        # triton.jit, with libgin_device.bc at every launch
    def kernel(dc, inbox, outbox, right, n):  # dc: DeviceCommunicator, inbox and outbox: Window
        status = gin.put(dc, right, inbox, 0, outbox, 0, n, signal=0)

All threads of a program make a call together and get one result: a call is one of the whole thread
block, which meets in it. The compiled module has no state of libgin, so nothing has to be
initialised in it. Calls are not for warp-specialised partitions of a kernel.

A status is 0, or the ginResult_t of the failure: or several together, store the result, and give it
to DeviceCommunicator.raise_for().

With TRITON_INTERPRET=1 the kernels run on host threads, without a GPU. Programs run one after
the other there, by one thread each: that shows logic, not orders of memory.
"""

import functools
from typing import Any

import triton
from triton.language import core
from triton.runtime.jit import KernelInterface

from . import _abi, host, paths

__all__ = [
    "after",
    "barrier",
    "compare_swap",
    "fetch_add",
    "flush",
    "flush_ticket",
    "get",
    "jit",
    "peer_pointer",
    "put",
    "put_value",
    "read_counter",
    "read_signal",
    "read_value",
    "reset_counter",
    "reset_signal",
    "signal",
    "swap",
    "wait_counter",
    "wait_signal",
    "wait_ticket",
    "wait_value",
]

LIBRARY = "libgin_device"
_NO_COUNTER = 0xFFFFFFFF
# Operands and results are numbers: a pointer is one of 64 bits.
_TYPES = {
    "ptr": core.int64,
    "u64": core.int64,
    "u32": core.uint32,
    "i32": core.int32,
    "none": core.int32,
}


def _builtin(function):
    """A function that kernels call. The interpreter passes no _semantic to builtins of others."""
    compiled = core.extern(function)
    if not triton.knobs.runtime.interpret:
        return compiled

    @functools.wraps(function)
    def interpreted(*args, _semantic=None, **kwargs):
        from triton.runtime.interpreter import interpreter_semantic

        return function(*args, **kwargs, _semantic=_semantic or interpreter_semantic)

    return interpreted


def _plain(value):
    return core._unwrap_if_constexpr(value)


def _is_interpreted(semantic):
    return type(semantic.builder).__name__ == "InterpreterBuilder"


def _interpreted(name, result, operands):
    import numpy as np
    from triton.runtime.interpreter import TensorHandle

    function = getattr(host, name)
    numbers = [int(operand.handle.data.item()) for operand in operands]
    value = function(*numbers) or 0
    kind = _TYPES[result]
    array = np.array([value & (1 << kind.primitive_bitwidth) - 1], dtype=np.uint64)
    array = array.astype(np.int64 if kind.primitive_bitwidth == 64 else np.int32)
    return core.tensor(TensorHandle(array, kind), kind)


def _call(name, semantic, **values):
    """Calls a function of gin_functions(3); each operand is cast to what the function takes."""
    result, arguments = _abi.DEVICE_FUNCTIONS[name]
    if "coop:u32" in arguments:
        values["coop"] = host.CTA
    operands, kinds = [], []
    for part in arguments.split():
        argument, _, kind = part.partition(":")
        value = _plain(values.pop(argument))
        value = semantic.to_tensor(0 if value is None else value)
        if value.dtype.is_floating():
            raise TypeError(f"{name}: {argument} is {value.dtype}: give an integer or a pointer")
        operands.append(semantic.cast(value, _TYPES[kind]))
        kinds.append(_TYPES[kind])
    assert not values, f"{name} takes no {', '.join(values)}"
    if _is_interpreted(semantic):
        return _interpreted(name, result, operands)
    symbols = {tuple(kinds): (name, _TYPES[result])}
    return core.extern_elementwise(
        LIBRARY, "", operands, symbols, is_pure=False, _semantic=semantic
    )


def _action(signal, add, weak, signal_window):
    """The operands of a remote action. signal None: none."""
    signal = _plain(signal)
    kind = host.WEAK if _plain(weak) else host.STRONG
    return {
        "kind": host.NONE if signal is None else kind,
        "window": signal_window,
        "where": signal,
        "value": add,
    }


@_builtin
def put(
    dc,
    peer,
    dst,
    dst_off,
    src,
    src_off,
    nbytes,
    signal=None,
    add=1,
    weak=False,
    signal_window=None,
    counter=None,
    context=0,
    timeout=0,
    _semantic=None,
):
    """gin_put(3): writes nbytes bytes into the peer's part of dst, then adds `add` to the signal.

    signal is the number of a signal, or with signal_window an offset in that window. Returns a
    status.
    """
    counter = _NO_COUNTER if _plain(counter) is None else counter
    return _call(
        "ginPut",
        _semantic,
        dc=dc,
        context=context,
        peer=peer,
        dstWin=dst,
        dstOff=dst_off,
        srcWin=src,
        srcOff=src_off,
        bytes=nbytes,
        counter=counter,
        timeout=timeout,
        **_action(signal, add, weak, signal_window),
    )


@_builtin
def put_value(
    dc,
    peer,
    dst,
    dst_off,
    value,
    nbytes=8,
    signal=None,
    add=1,
    weak=False,
    signal_window=None,
    context=0,
    timeout=0,
    _semantic=None,
):
    """gin_putValue(3): writes the low 1, 2, 4 or 8 bytes of an integer. Returns a status."""
    action = _action(signal, add, weak, signal_window)
    return _call(
        "ginPutValue",
        _semantic,
        dc=dc,
        context=context,
        peer=peer,
        dstWin=dst,
        dstOff=dst_off,
        data=value,
        bytes=nbytes,
        timeout=timeout,
        **action,
    )


@_builtin
def get(dc, peer, src, src_off, dst, dst_off, nbytes, context=0, timeout=0, _semantic=None):
    """gin_get(3): the bytes are there after flush(). Returns a status."""
    return _call(
        "ginGet",
        _semantic,
        dc=dc,
        context=context,
        peer=peer,
        srcWin=src,
        srcOff=src_off,
        dstWin=dst,
        dstOff=dst_off,
        bytes=nbytes,
        timeout=timeout,
    )


@_builtin
def signal(
    dc,
    peer,
    signal,
    add=1,
    weak=False,
    signal_window=None,
    context=0,
    timeout=0,
    _semantic=None,
):
    """gin_signal(3). Returns a status."""
    action = _action(signal, add, weak, signal_window)
    return _call(
        "ginSignal", _semantic, dc=dc, context=context, peer=peer, timeout=timeout, **action
    )


@_builtin
def wait_signal(dc, signal, least, signal_window=None, context=0, timeout=0, _semantic=None):
    """gin_waitSignal(3): waits until this rank's signal is at least `least`. Returns a status.

    Loads of what the signal covers must depend on the status where Triton pipelines them: after().
    """
    return _call(
        "ginWaitSignal",
        _semantic,
        dc=dc,
        context=context,
        window=signal_window,
        where=signal,
        least=least,
        timeout=timeout,
    )


@_builtin
def read_signal(dc, signal, signal_window=None, context=0, _semantic=None):
    """gin_readSignal(3): the value of this rank's signal."""
    return _call(
        "ginReadSignal",
        _semantic,
        dc=dc,
        context=context,
        window=signal_window,
        where=signal,
    )


@_builtin
def reset_signal(dc, signal, signal_window=None, context=0, _semantic=None):
    """gin_resetSignal(3)."""
    _call(
        "ginResetSignal",
        _semantic,
        dc=dc,
        context=context,
        window=signal_window,
        where=signal,
    )


@_builtin
def read_value(dc, window, offset, nbytes=8, context=0, _semantic=None):
    """gin_readValue(3): a word of 4 or 8 bytes of this rank's part of a window."""
    return _call(
        "ginReadValue", _semantic, dc=dc, context=context, win=window, off=offset, bytes=nbytes
    )


@_builtin
def wait_value(dc, window, offset, least, nbytes=8, context=0, timeout=0, _semantic=None):
    """gin_waitValue(3). Returns a status."""
    return _call(
        "ginWaitValue",
        _semantic,
        dc=dc,
        context=context,
        win=window,
        off=offset,
        bytes=nbytes,
        least=least,
        timeout=timeout,
    )


@_builtin
def read_counter(dc, counter, context=0, _semantic=None):
    """gin_readCounter(3)."""
    return _call("ginReadCounter", _semantic, dc=dc, context=context, id=counter)


@_builtin
def reset_counter(dc, counter, context=0, _semantic=None):
    """gin_resetCounter(3)."""
    _call("ginResetCounter", _semantic, dc=dc, context=context, id=counter)


@_builtin
def wait_counter(dc, counter, least, context=0, timeout=0, _semantic=None):
    """gin_waitCounter(3). Returns a status."""
    return _call(
        "ginWaitCounter",
        _semantic,
        dc=dc,
        context=context,
        id=counter,
        least=least,
        timeout=timeout,
    )


@_builtin
def flush(dc, context=0, timeout=0, _semantic=None):
    """gin_flush(3). Returns a status."""
    return _call("ginFlush", _semantic, dc=dc, context=context, timeout=timeout)


@_builtin
def flush_ticket(dc, peer, context=0, _semantic=None):
    """gin_flushAsync(3): a ticket for wait_ticket()."""
    return _call("ginFlushTicket", _semantic, dc=dc, context=context, peer=peer)


@_builtin
def wait_ticket(dc, peer, ticket, context=0, timeout=0, _semantic=None):
    """Waits for the operations that flush_ticket() of this peer has counted. Returns a status."""
    return _call(
        "ginWaitTicket",
        _semantic,
        dc=dc,
        context=context,
        peer=peer,
        ticket=ticket,
        timeout=timeout,
    )


@_builtin
def barrier(dc, size, rank, stride=1, index=0, timeout=0, _semantic=None):
    """GinBarrier(3) of `size` ranks, `stride` apart, this one number `rank`. Returns a status."""
    return _call(
        "ginBarrierSync",
        _semantic,
        dc=dc,
        nRanks=size,
        rank=rank,
        stride=stride,
        index=index,
        timeout=timeout,
    )


@_builtin
def fetch_add(dc, peer, window, offset, value, context=0, timeout=0, failed=None, _semantic=None):
    """gin_atomicFetchAdd(3) on 8 bytes, by one thread: the old value.

    failed is a pointer to a word that gets the status of a failure, or None.
    """
    return _call(
        "ginFetchAdd64",
        _semantic,
        failed=failed,
        dc=dc,
        context=context,
        peer=peer,
        win=window,
        off=offset,
        value=value,
        timeout=timeout,
    )


@_builtin
def compare_swap(
    dc, peer, window, offset, compare, value, context=0, timeout=0, failed=None, _semantic=None
):
    """gin_atomicCompareSwap(3) on 8 bytes, by one thread: the old value. As fetch_add()."""
    return _call(
        "ginCompareSwap64",
        _semantic,
        failed=failed,
        dc=dc,
        context=context,
        peer=peer,
        win=window,
        off=offset,
        compare=compare,
        value=value,
        timeout=timeout,
    )


@_builtin
def swap(dc, peer, window, offset, value, context=0, timeout=0, failed=None, _semantic=None):
    """gin_atomicSwap(3) on 8 bytes, by one thread: the old value. As fetch_add()."""
    return _call(
        "ginSwap64",
        _semantic,
        failed=failed,
        dc=dc,
        context=context,
        peer=peer,
        win=window,
        off=offset,
        value=value,
        timeout=timeout,
    )


@_builtin
def peer_pointer(window, peer, dtype, offset=0, _semantic=None):
    """Where this rank loads and stores the peer's part of a window; NULL if it is not direct."""
    address = _call("ginPointer", _semantic, window=window, offset=offset, peer=peer)
    return _semantic.cast(address, core.pointer_type(_plain(dtype)))


@_builtin
def after(pointer, status, align=16, _semantic=None):
    """`pointer`, known only after `status`: loads through it come after the wait.

    Triton's software pipeliner moves loads of later iterations above calls in the loop, also above
    the wait for the bytes that they load. A load whose pointer depends on the wait comes after it.
    """
    if _is_interpreted(_semantic):
        return pointer
    address = _semantic.cast(pointer, core.int64)
    address = core.inline_asm_elementwise(
        "mov.b64 $0, $1; // after $2",
        "=l,l,r",
        [address, status],
        core.int64,
        is_pure=True,
        pack=1,
        _semantic=_semantic,
    )
    pointer = _semantic.cast(address, pointer.dtype)
    return core.multiple_of(pointer, core.constexpr(_plain(align)), _semantic=_semantic)


class _Linked(KernelInterface):
    """A compiled kernel, linked with libgin_device.bc."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.__name__, self.__doc__ = kernel.__name__, kernel.__doc__

    def run(self, *args, **kwargs):
        return self.kernel.run(*args, extern_libs={LIBRARY: paths.bitcode()}, **kwargs)

    def __getattr__(self, name):
        return getattr(self.kernel, name)


class _Interpreted:
    """A kernel of the interpreter, which takes tensors and numbers only."""

    OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")

    def __init__(self, kernel):
        self.kernel = kernel

    def __getitem__(self, grid):
        def run(*args, **kwargs):
            numbers = [int(a) if hasattr(a, "handle") else a for a in args]
            rest = {k: v for k, v in kwargs.items() if k not in self.OPTIONS}
            return self.kernel[grid](*numbers, **rest)

        return run


def jit(function: Any = None, **options) -> Any:
    """triton.jit for kernels that make libgin's calls."""
    if function is None:
        return functools.partial(jit, **options)
    from triton.runtime.jit import JITFunction

    kernel = triton.jit(function, **options)
    return _Linked(kernel) if isinstance(kernel, JITFunction) else _Interpreted(kernel)
