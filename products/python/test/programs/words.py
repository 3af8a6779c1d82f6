# SPDX-License-Identifier: BSD-3-Clause
"""words.py numba|cute - each call of libgin.numba or libgin.cute once, on host threads.

The functions run as Python; their calls of libgin_device.bc go to libgin-ffi.so instead. Ranks are
threads, with two threads of a block each. Shows that operands go where they belong.
"""

import ast
import importlib
import inspect
import sys
import types
from pathlib import Path

import numpy as np

import libgin
from libgin import _table, host

LIMIT = host.seconds(20)
WORDS, VALUE, GOT, COUNT = 96, 96, 97, 98  # as in triton_words.py
THREADS = 2


def check_signatures(name, gin):
    """The functions of a module, which it makes of the table, are those of its stub."""
    for node in ast.parse(Path(libgin.__file__).with_name(f"{name}.pyi").read_text()).body:
        if getattr(node, "name", None) in _table.ROWS:
            function = getattr(gin, node.name)
            parameters = dict(inspect.signature(function).parameters)
            parameters.pop("_semantic", None)
            assert list(parameters) == [argument.arg for argument in node.args.args], node.name
            defaults = [p for p in parameters.values() if p.default is not p.empty]
            assert len(defaults) == len(node.args.defaults), node.name
            assert function.__doc__ == _table.ROWS[node.name].__doc__, node.name
            assert function.__name__ in inspect.getsource(function)


def numba_calls():
    """The functions of libgin.numba, before Numba compiles them."""
    gin = importlib.import_module("libgin.numba")
    calls = types.SimpleNamespace(THREAD=gin.THREAD)
    for name, value in list(vars(gin).items()):
        if name.startswith("_") and str(getattr(value, "name", "")).startswith("libgin_gin"):
            setattr(gin, name, getattr(host, value.name.removeprefix("libgin_")))
    for name, value in list(vars(gin).items()):
        if hasattr(value, "py_func"):
            setattr(calls, name, value.py_func)
    gin._kind, gin._number = calls._kind, calls._number
    return calls


def cute_calls():
    """The functions of libgin.cute, with numbers as operands."""
    gin = importlib.import_module("libgin.cute")
    gin._TYPES = dict.fromkeys(gin._TYPES, int)
    gin._extern = lambda name: getattr(host, name)
    gin.cute = types.SimpleNamespace(
        make_ptr=lambda dtype, address, space, assumed_align: address,
        AddressSpace=gin.cute.AddressSpace,
    )
    return gin


def every(gin, dc, inbox, outbox, target, rank, right, left, size, results):
    """Every thread of a block runs it. The status and the values that it has seen."""
    limit = {"timeout": LIMIT}
    status = gin.put(dc, right, inbox, 0, outbox, 0, WORDS * 8, signal=0, counter=0, **limit)
    status |= gin.wait_signal(dc, 0, 1, **limit) | gin.wait_counter(dc, 0, 1, **limit)
    seen = {"sum of the put": int(target[:WORDS].sum())}
    status |= gin.put_value(dc, right, inbox, VALUE * 8, 7000 + rank, signal=1, add=4, **limit)
    status |= gin.wait_signal(dc, 1, 4, **limit)
    status |= gin.wait_value(dc, inbox, VALUE * 8, 1, **limit)
    seen["value"] = gin.read_value(dc, inbox, VALUE * 8)
    status |= gin.get(dc, left, outbox, 8, inbox, GOT * 8, 8, **limit)
    status |= gin.flush(dc, **limit)
    seen["got"] = int(target[GOT])
    seen["fetch_add"] = gin.fetch_add(dc, right, inbox, COUNT * 8, 5, **limit)
    status |= gin.barrier(dc, size, rank, **limit)
    seen["compare_swap"] = gin.compare_swap(dc, right, inbox, COUNT * 8, 5, 50, **limit)
    status |= gin.barrier(dc, size, rank, **limit)
    seen["swap"] = gin.swap(dc, right, inbox, COUNT * 8, 500 + rank, **limit)
    where = (COUNT + 1) * 8
    status |= gin.signal(dc, right, where, add=3, weak=True, signal_window=inbox, **limit)
    status |= gin.wait_ticket(dc, right, gin.flush_ticket(dc, right), **limit)
    status |= gin.wait_signal(dc, where, 3, signal_window=inbox, **limit)
    seen["signal"] = gin.read_signal(dc, where, signal_window=inbox)
    seen["counter"] = gin.read_counter(dc, 0, coop=gin.THREAD)
    gin.reset_signal(dc, 1)
    gin.reset_counter(dc, 0)
    seen["after resets"] = gin.read_signal(dc, 1), gin.read_counter(dc, 0)
    pointer = (right, None, 8) if gin.__name__ == "libgin.cute" else (right, 8)
    seen["pointer"] = gin.peer_pointer(inbox, *pointer)
    results[host.thread()] = status, seen


def expected(comm, window, right, left):
    total = sum(range(WORDS)) + WORDS * 1000 * left
    values = {"sum of the put": total, "value": 7000 + left, "got": 1 + 1000 * left}
    values |= {"fetch_add": 0, "compare_swap": 5, "swap": 50, "signal": 3, "counter": 1}
    address = window.peer_pointer(right)
    return {**values, "after resets": (0, 0), "pointer": address and address + 8}


def rank_main(comm, gin):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    target, source = (np.asarray(comm.alloc(8 * 128)).view(np.int64) for _ in range(2))
    target[:] = 0
    source[:] = np.arange(128) + 1000 * comm.rank
    results = [None] * THREADS
    with (
        comm.register(target) as inbox,
        comm.register(source) as outbox,
        comm.device(signals=4, counters=2, barriers=1) as dc,
    ):
        numbers = comm.rank, right, left, comm.size
        handles = int(dc), int(inbox), int(outbox)
        host.launch(1, THREADS, every, gin, *handles, target, *numbers, results)
        for status, _ in results:
            dc.raise_for(status)
        comm.barrier()
        want = expected(comm, inbox, right, left)
        for _, seen in results:
            seen["pointer"] = seen["pointer"] or None
            assert seen == want, (seen, want)
        assert target[COUNT] == 500 + left
    return "right"


def main():
    name = sys.argv[1]
    gin = numba_calls() if name == "numba" else cute_calls()
    check_signatures(name, gin)
    gin.__name__ = f"libgin.{name}"
    for size in (1, 2, 3):
        print(f"libgin.{name}, {size} ranks: {libgin.run_threads(size, rank_main, gin)}")


if __name__ == "__main__":
    main()
