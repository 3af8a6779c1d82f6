# SPDX-License-Identifier: BSD-3-Clause
"""Wrong arguments: the exception names the argument, its value and what to give."""

import numpy as np
import pytest

import libgin

WRONG_REQUIREMENTS = [
    (dict(contexts=-1), ValueError, "contexts is -1: give 0 to 4294967295"),
    (dict(signals=2**32), ValueError, "signals is 4294967296: give 0 to 4294967295"),
    (dict(counters=1.5), TypeError, "counters is 1.5: give an integer"),
    (dict(barriers="4"), TypeError, "barriers is '4': give an integer"),
    (dict(queue_depth=None), TypeError, "queue_depth is None: give an integer"),
    (dict(timeout=-1), ValueError, "timeout is -1 seconds: give 0 or more"),
    (dict(timeout=float("nan")), ValueError, "timeout is nan seconds: give 0 or more"),
    (dict(timeout="1"), TypeError, "timeout is '1': give seconds"),
    (dict(routes=["nvlink"]), ValueError, "routes is .*nvlink.*: give a tuple of 'direct', '"),
    (dict(routes="direct"), ValueError, "routes is 'direct': give a tuple of 'direct', 'proxy'"),
]


@pytest.fixture(scope="module")
def comm():
    with libgin.Communicator(device="none") as made:
        yield made


@pytest.mark.parametrize(("given", "kind", "words"), WRONG_REQUIREMENTS)
def test_requirements(comm, given, kind, words):
    with pytest.raises(kind, match=words):
        comm.device(**given)


def test_memory(comm):
    for nbytes, kind in ((-1, ValueError), (2**63, ValueError), (1.0, TypeError), ("8", TypeError)):
        for alloc in (libgin.alloc, libgin.alloc_host):
            with pytest.raises(kind, match=f"nbytes is {nbytes!r}: give"):
                alloc(nbytes, "none")
    rows = np.zeros((8, 8), dtype=np.uint8)
    with pytest.raises(ValueError, match="contiguous memory, and this array is not: copy it first"):
        comm.register(rows[:, ::2])
    for memory, kind, words in (
        ((1, 2, 3), ValueError, "a tuple of 3 parts"),
        ((rows.ctypes.data, -1), ValueError, "bytes is -1: give 0 to"),
        ((None, 8), TypeError, "address is None: give an integer"),
        (8, TypeError, "an? int is neither a tensor"),
    ):
        with pytest.raises(kind, match=words):
            comm.register(memory)


def test_ranks(comm):
    with comm.register(comm.alloc(8)) as window:
        for call in (comm.peer, window.peer_pointer, lambda rank: comm.shrink([rank])):
            with pytest.raises(ValueError, match=r" is 4294967296: give -?\d+ to 2147483647"):
                call(2**32)
            with pytest.raises(TypeError, match=" is 'one': give an integer"):
                call("one")
        with pytest.raises(libgin.InvalidArgumentError, match="1"):
            comm.peer(1)
    with pytest.raises(ValueError, match="color is -2: give -1 to"):
        comm.split(-2)
    with pytest.raises(TypeError, match="key is None: give an integer"):
        comm.split(0, None)


def test_joining():
    with pytest.raises(ValueError, match="device 'cuda:one': give \"auto\""):
        libgin.Communicator(device="cuda:one")
    with pytest.raises(ValueError, match=r"id has 5 bytes: give all bytes of unique_id\(\)"):
        libgin.Communicator(id=b"bytes", rank=0, size=1)
    with pytest.raises(TypeError, match="rank is '0': give an integer"):
        libgin.Communicator(id=libgin.unique_id(), rank="0", size=1)
    with pytest.raises(ValueError, match="size is 4294967297: give"):
        libgin.Communicator(allgather=lambda data: [data], rank=0, size=2**32 + 1)
