# SPDX-License-Identifier: BSD-3-Clause
"""Wrong arguments: the exception names the argument, its value and what to give."""

import copy
import pickle
import types

import numpy as np
import pytest

import libgin
from libgin import _abi, host

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
    (dict(traffic_class=256), ValueError, "traffic_class is 256: give -1 to 255"),
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


def test_seconds(comm):
    assert host.seconds(0.5) == 500_000_000
    with comm.device(timeout=0.25) as dc:
        assert dc.struct.timeout == 250_000_000


def test_traffic_class(comm, monkeypatch):
    """No NIC is here: what ginDevCommCreate() is given is compared."""
    made = []
    def collective(_call, want, *_rest):
        made.append(want._obj.trafficClass)

    monkeypatch.setattr(comm, "_collective", collective)
    monkeypatch.setattr(libgin.DeviceCommunicator, "_opened", lambda *_: None)
    for given in ({}, {"traffic_class": 0}, {"traffic_class": 96}):
        libgin.DeviceCommunicator(comm, **given)
    assert made == [-1, 0, 96]  # -1: GIN_NIC_TC decides


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


@pytest.fixture
def objects(comm):
    with comm.register(comm.alloc(256)) as window, comm.device() as dc:
        yield dc, window


def put(dc, window, offset=0, peer=0, signal=0, coop=host.THREAD, context=0):
    signalled = host.STRONG, None, signal, 1
    place = window, offset, window, 64, 8
    rest = host.NO_COUNTER, coop, host.seconds(5)
    return host.ginPut(dc, context, peer, *place, *signalled, *rest)


def test_objects_of_host_calls(objects):
    """Nothing but an open object, or its number, reaches C."""
    dc, window = objects
    assert put(dc, window) == put(int(dc), int(window)) == 0
    for given in (5, 0, None, "dc", window, int(window)):
        with pytest.raises(TypeError, match="dc is .*: give an open libgin.DeviceCommunicator"):
            put(given, window)
    for given in (0x5A5A, 0, None, "w", dc, int(dc)):
        with pytest.raises(TypeError, match="dstWin is .*: give an open libgin.Window"):
            put(dc, given)
    for number, kind in (("1", TypeError), (None, TypeError), (2**31, ValueError)):
        with pytest.raises(kind, match=f"peer is {number!r}: give"):
            put(dc, window, peer=number)
    with pytest.raises(TypeError, match=r"ginFlush\(dc, context, coop, timeout\) got 2 arg"):
        host.ginFlush(dc, 0)
    with pytest.raises(TypeError, match="src is <libgin.Window.*: give an address"):
        host.ginPutFrom(dc, 0, 0, window, 0, window, 8, 0, None, 0, 0, 0, 0, 0)
    handles = int(dc), int(window)
    window.close()
    dc.close()
    for given in ((dc, window), handles):
        with pytest.raises(ValueError, match="the device communicator is closed"):
            put(*given)
    for number in (window.data_ptr, lambda: int(dc), lambda: window.struct):
        with pytest.raises(ValueError, match="is closed"):
            number()


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        (dict(offset=1 << 40), "target ends at"),
        (dict(signal=1 << 20), "signal is 1048576"),
        (dict(peer=5), "peer is 5"),
        (dict(context=9), "context is 9"),
        (dict(coop=77), "coop"),
    ],
)
def test_numbers_of_host_calls(comm, given, argument):
    """The device code checks them, on all threads of the coop."""
    statuses = []
    with comm.register(comm.alloc(256)) as window, comm.device() as dc:
        host.launch(1, 2, lambda dc: statuses.append(put(dc, window, **given)), dc)
        assert statuses == [_abi.ginErrorInvalidArgument] * 2
        with pytest.raises(libgin.InvalidArgumentError, match=argument):
            dc.raise_for(statuses[0])


def test_an_atomic_that_fails_is_no_item_of_work(objects):
    dc, window = objects
    limit = host.THREAD, 0, None
    assert host.ginFetchAdd64(dc, 0, 0, window, 1 << 40, 1, *limit) == 2**63 - 1
    assert host.ginCompareSwap32(dc, 0, 0, window, 1 << 40, 0, 1, *limit) == 2**31 - 1
    assert host.ginFetchAdd64(dc, 0, 0, window, 0, 1, *limit) == 0


def test_objects_of_a_closed_communicator():
    comm = libgin.Communicator(device="none")
    window, dc = comm.register(comm.alloc(256)), comm.device()
    comm.close()
    with pytest.raises(ValueError, match="the device communicator is closed"):
        put(dc, window)
    for use in (comm.__enter__, lambda: comm.alloc(8), lambda: comm.alloc_host(8)):
        with pytest.raises(ValueError, match="the communicator is closed"):
            use()


def test_what_is_of_this_process_is_not_copied(comm, objects):
    for thing in (comm, *objects, comm.alloc(8)):
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match=r"libgin\.\w+ cannot be copied or pickled: \w+"):
                copied(thing)


def test_a_read_only_array_is_no_target(comm):
    text = b"Python believes that it does not change."
    array = np.frombuffer(text, dtype=np.uint8)
    with pytest.raises(ValueError, match="the array is read-only, and puts would change it"):
        comm.register(array)
    with comm.register(array, local=True) as source:
        assert source.nbytes == len(text)


def test_memory_of_what_is_no_number(comm):
    with pytest.raises(TypeError, match="an array of type '|O' is not memory of numbers"):
        comm.register(np.array([object()]))
    for array in (np.array(["ab"]), np.zeros(3, "M8[ns]"), np.zeros(3, "V5"), np.zeros(2, "?")):
        with comm.register(array) as window:
            assert window.nbytes == array.nbytes


def test_other_calls(comm):
    for data in ("abc", 5, None):
        with pytest.raises(TypeError, match=f"data is {data!r}: give bytes"):
            comm.allgather(data)
    assert comm.allgather(bytearray(b"ab")) == [b"ab"]
    with pytest.raises(TypeError, match="window is 'w': give a Window"):
        comm.inherited("w")
    with pytest.raises(TypeError, match=r"a dict has no set\(\): give a store"):
        libgin.Communicator.from_store({}, 0, 1)
    with comm.device() as dc:
        for status, kind in (("x", TypeError), (None, TypeError), (-1, ValueError)):
            with pytest.raises(kind, match=f"status is {status!r}: give"):
                dc.raise_for(status)
    for shape, kind in ((("1", 1), TypeError), ((1, -1), ValueError), ((2**32, 1), ValueError)):
        with pytest.raises(kind, match="(grid|block) is .*: give"):
            host.launch(*shape, print)
    with pytest.raises(libgin.InvalidArgumentError, match="grid is 0 and block 1: give 1 or more"):
        host.launch(0, 1, print)
    numbers = iter(("first", "second"))
    order = []

    def fails():
        order.append(next(numbers))
        raise ValueError(order[-1])

    with pytest.raises(ValueError, match="first"):
        host.launch(1, 2, fails)
    assert order == ["first", "second"]
    with pytest.raises(ValueError, match="size is 0: give 1 to"):
        libgin.run_threads(0, print)


def test_joining():
    for numbers in (dict(rank=1, size=4), dict(size=4), dict(rank=0)):
        with pytest.raises(TypeError, match="rank= and size= need id= or allgather="):
            libgin.Communicator(device="none", **numbers)
    with pytest.raises(TypeError, match="allgather is 5: give a function"):
        libgin.Communicator(allgather=5, rank=0, size=1)
    with pytest.raises(ValueError, match="device 'cuda:one': give \"auto\""):
        libgin.Communicator(device="cuda:one")
    with pytest.raises(ValueError, match=r"id has 5 bytes: give all bytes of unique_id\(\)"):
        libgin.Communicator(id=b"bytes", rank=0, size=1)
    with pytest.raises(TypeError, match="rank is '0': give an integer"):
        libgin.Communicator(id=libgin.unique_id(), rank="0", size=1)
    with pytest.raises(ValueError, match="size is 4294967297: give"):
        libgin.Communicator(allgather=lambda data: [data], rank=0, size=2**32 + 1)


def test_a_gpu_is_no_host_thread():
    dc = libgin.DeviceCommunicator.__new__(libgin.DeviceCommunicator)
    dc._comm = types.SimpleNamespace(device_index=0)
    with pytest.raises(ValueError, match="dc is of GPU 0: host threads cannot use it"):
        host._handle(libgin.DeviceCommunicator, "dc", dc)
