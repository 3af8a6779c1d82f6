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

import copy
import functools
import inspect
from typing import Any

import triton
from triton.language import core
from triton.runtime.jit import KernelInterface

from . import _interrupt, _table, host, paths
from ._resource import Resource

__all__ = ["after", "jit", "peer_pointer", *_table.ROWS]

LIBRARY: str = "libgin_device"
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
    kinds = _table.prototype(name)[1].values()
    masked = zip(numbers, kinds, strict=True)
    numbers = [n & 2**64 - 1 if kind in ("ptr", "u64") else n for n, kind in masked]
    value = function(*numbers) or 0
    kind = _TYPES[result]
    array = np.array([value & (1 << kind.primitive_bitwidth) - 1], dtype=np.uint64)
    array = array.astype(np.int64 if kind.primitive_bitwidth == 64 else np.int32)
    return core.tensor(TensorHandle(array, kind), kind)


def _call(name, semantic, **values):
    """Calls a function of gin_functions(3); each operand is cast to what the function takes."""
    result, arguments = _table.prototype(name)
    if "coop" in arguments:
        values["coop"] = host.CTA
    operands, kinds = [], [_TYPES[kind] for kind in arguments.values()]
    for argument, kind in zip(arguments, kinds, strict=True):
        value = _plain(values.pop(argument))
        if value is None:
            value = _table.NO_COUNTER if argument == "counter" else 0
        value = semantic.to_tensor(value)
        if value.type.is_block():
            raise TypeError(f"{name}: {argument} is a block: give a scalar")
        if value.dtype.is_floating():
            raise TypeError(f"{name}: {argument} is {value.dtype}: give an integer or a pointer")
        operands.append(semantic.cast(value, kind))
    assert not values, f"{name} takes no {', '.join(values)}"
    if _is_interpreted(semantic):
        return _interpreted(name, result, operands)
    symbols = {tuple(kinds): (name, _TYPES[result])}
    return core.extern_elementwise(
        LIBRARY, "", operands, symbols, is_pure=False, _semantic=semantic
    )


def _kind(signal, weak):
    return _table.kind(_plain(signal), _plain(weak))


def _parameters(row):
    """A call is always one of the whole block. No counter is None."""
    for parameter in inspect.signature(row).parameters.values():
        if parameter.default == _table.NO_COUNTER:
            parameter = parameter.replace(default=None)
        if parameter.name != "coop":
            yield parameter
    yield inspect.Parameter("_semantic", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)


def _define(row):
    """The row's function for kernels. _call() gives the coop."""
    values = [f"{name}={value}" for name, value in _table.operands(row).items() if name != "coop"]
    call = f"_call({row.function!r}, _semantic, {', '.join(values)})"
    globals()[row.__name__] = _builtin(_table.define(row, globals(), call, list(_parameters(row))))


for _row in _table.ROWS.values():
    _define(_row)


@_builtin
def peer_pointer(window: Any, peer: Any, dtype: Any, offset: Any = 0, _semantic=None) -> Any:
    """Where this rank loads and stores the peer's part of a window; NULL if it is not direct."""
    address = _call("ginPointer", _semantic, window=window, offset=offset, peer=peer)
    return _semantic.cast(address, core.pointer_type(_plain(dtype)))


@_builtin
def after(pointer: Any, status: Any, align: int = 16, _semantic=None) -> Any:
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


def _linked_binder(create_binder):
    """What Triton keeps of a kernel for a GPU, with a backend that links libgin_device.bc.

    Triton asks the backend for the options of a compilation only. The option extern_libs of a
    launch would be compared in each launch.
    """
    *kept, backend, binder = create_binder()
    linked = copy.copy(backend)

    def parse_options(options):
        libraries = {**dict(options.get("extern_libs") or {}), LIBRARY: paths.bitcode()}
        return backend.parse_options({**options, "extern_libs": libraries})

    linked.parse_options = parse_options
    return (*kept, linked, binder)


def _numbers(arguments):
    """With handles for objects: a launch asks less of a number than of a pointer."""
    return [a.data_ptr() if isinstance(a, Resource) else a for a in arguments]


class _Linked(KernelInterface):
    """A compiled kernel, linked with libgin_device.bc.

    It is no JITFunction: torch.compile would compile one again, without libgin_device.bc.
    """

    def __init__(self, kernel):
        self.kernel = kernel
        self.__name__, self.__doc__ = kernel.__name__, kernel.__doc__
        kernel.device_caches.default_factory = functools.partial(
            _linked_binder, kernel.create_binder
        )

    def run(self, *args, **kwargs):
        return self.kernel.run(*_numbers(args), **kwargs)

    def __getitem__(self, grid):
        run = self.kernel.run
        return lambda *args, **kwargs: run(*_numbers(args), grid=grid, warmup=False, **kwargs)

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
            kernel = functools.partial(self.kernel[grid], *numbers, **rest)
            return _interrupt.on_helper(lambda: host.abort_waits(args), kernel)

        return run


def jit(function: Any = None, **options) -> Any:
    """triton.jit for kernels that make libgin's calls."""
    if function is None:
        return functools.partial(jit, **options)
    from triton.runtime.jit import JITFunction

    kernel = triton.jit(function, **options)
    return _Linked(kernel) if isinstance(kernel, JITFunction) else _Interpreted(kernel)
