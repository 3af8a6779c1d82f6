# SPDX-License-Identifier: BSD-3-Clause
"""Communicators, with ranks as threads."""

import threading
import time

import pytest
from conftest import python

import libgin
from libgin import _abi, records


def test_ranks_find_each_other(size):
    def body(comm):
        assert comm.size == size and comm.device_index is None
        return comm.rank, comm.allgather(bytes([comm.rank] * 3)), comm.allgather(b"")

    everything = [bytes([rank] * 3) for rank in range(size)]
    expected = [(rank, everything, [b""] * size) for rank in range(size)]
    assert libgin.run_threads(size, body) == expected


def by_id(size, body):
    """Ranks that have one unique id, as threads."""
    made = libgin.unique_id()
    results = [None] * size

    def main(rank):
        with libgin.Communicator(id=made, rank=rank, size=size, device="none") as comm:
            results[rank] = body(comm)

    threads = [threading.Thread(target=main, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_a_unique_id(size):
    assert by_id(size, lambda comm: (comm.rank, comm.size)) == [(r, size) for r in range(size)]


class Store:
    """set(), get() that waits, delete_key(), which is late: what torch's stores have."""

    def __init__(self):
        self.values, self.changed = {}, threading.Condition()

    def set(self, key, value):
        with self.changed:
            self.values[key] = value.encode()
            self.changed.notify_all()

    def get(self, key):
        with self.changed:
            assert self.changed.wait_for(lambda: key in self.values, 30)
            return self.values[key]

    def delete_key(self, key):
        time.sleep(0.05)  # another rank may be at its next get()
        with self.changed:
            del self.values[key]


def test_a_store_serves_several_communicators(size):
    store, results = Store(), []

    def main(rank):
        made = [libgin.Communicator.from_store(store, rank, size, device="none") for _ in range(3)]
        for comm in made:
            with comm:
                results.append(comm.allgather(bytes([rank])))

    threads = [threading.Thread(target=main, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[bytes([rank]) for rank in range(size)]] * 3 * size
    assert not store.values


def test_the_id_is_not_printed():
    assert repr(libgin.unique_id()) == "<libgin.UniqueId>"


def test_what_is_printed():
    with libgin.Communicator(device="none") as comm:
        assert repr(comm) == "<libgin.Communicator: rank 0 of 1, host threads>"
        with comm.register(comm.alloc(64)) as window, comm.device(signals=5) as dc:
            about = f"64 bytes of rank 0, handle {window.handle:#x}"
            assert repr(window) == f"<libgin.Window: {about}>"
            about = f"contexts 1, signals 5, counters 4, handle {dc.handle:#x}"
            assert repr(dc) == f"<libgin.DeviceCommunicator: rank 0 of 1, {about}>"
        assert (repr(window), repr(dc)) == (
            "<libgin.Window: closed>",
            "<libgin.DeviceCommunicator: closed>",
        )
    assert repr(comm) == "<libgin.Communicator: closed>"


def test_queries():
    def body(comm):
        info, peer = comm.info(), comm.peer(1 - comm.rank)
        assert (info.rank, info.n_ranks, info.bootstrap) == (comm.rank, 2, "caller")
        assert (peer.backend, peer.same_process) == ("direct", True)
        assert comm.backends()[0] == libgin.BackendInfo(True, 2, "direct", "")
        assert comm.progress() is False

    libgin.run_threads(2, body)
    assert "GIN_TIMEOUT" in [parameter.name for parameter in libgin.parameters()]
    assert libgin.devices() == []


def test_statistics_of_direct_peers():
    def body(comm):
        assert comm.stats() == []
        with comm.device() as older, comm.device(contexts=2) as dc:
            numbers = ("posted", "completed", "failed", "put_bytes", "get_bytes")
            assert dc.stats()["peers"] == [{"route": "direct"} | dict.fromkeys(numbers)] * 2
            assert comm.stats() == [older.stats(), dc.stats()]
            return [context["batch"] for context in dc.stats()["contexts"]]

    assert libgin.run_threads(2, body) == [[None, None]] * 2


COUNTS = """
import libgin
from libgin import host
with libgin.Communicator(device="none") as comm, comm.register(comm.alloc(64)) as window:
    with comm.device(contexts=2) as dc:
        put = window, 0, window, 32, 24, host.STRONG, None, 0, 1, host.NO_COUNTER, host.THREAD, 0
        assert not host.ginPut(dc, 1, 0, *put) and not host.ginFlush(dc, 1, host.THREAD, 0)
        [stats] = comm.stats()
        print([context["put_bytes"] for context in stats["contexts"]], stats["peers"])
"""


def test_statistics_without_bytes():
    numbers = dict(posted=3, completed=2, failed=1, putBytes=8, counted=_abi.GIN_COUNTED_POSTS)
    seen = records.counted(_abi.ginPeerStats(**numbers))
    assert (seen["posted"], seen["completed"], seen["failed"]) == (3, 2, 1)
    assert seen["put_bytes"] is None and seen["get_bytes"] is None


def test_statistics():
    printed = python(COUNTS, GIN_ROUTE="network", GIN_BACKEND="proxy", GIN_LOG="error")
    peer = {"route": "proxy", "posted": 1, "completed": 1, "failed": 0}
    assert printed == f"[0, 24] {[peer | {'put_bytes': 24, 'get_bytes': 0}]}\n"


def test_split():
    def body(comm):
        part = comm.split(comm.rank % 2, key=-comm.rank)
        none = comm.split(None)
        with part:
            return part.rank, part.size, part.allgather(bytes([comm.rank])), none

    assert libgin.run_threads(4, body) == [
        (1, 2, [b"\2", b"\0"], None),
        (1, 2, [b"\3", b"\1"], None),
        (0, 2, [b"\2", b"\0"], None),
        (0, 2, [b"\3", b"\1"], None),
    ]


def test_errors_have_the_sentence_of_the_library():
    with pytest.raises(
        libgin.InvalidArgumentError, match="give every rank all bytes of it"
    ) as caught:
        libgin.Communicator(id=b"x" * 128, rank=0, size=2)
    assert isinstance(caught.value, ValueError)
    assert caught.value.call == "ginCommInitRank"
    with pytest.raises(ValueError, match="rank is 3"):
        libgin.Communicator(id=libgin.unique_id(), rank=3, size=2)
    with pytest.raises(TypeError, match="need rank= and size="):
        libgin.Communicator(id=libgin.unique_id())
    with pytest.raises(ValueError, match='"auto", "none"'):
        libgin.Communicator(device="tpu")


def test_an_exception_of_allgather_is_raised():
    def broken(data):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        libgin.Communicator(allgather=broken, rank=0, size=2, device="none")
    with pytest.raises(ValueError, match="parts of .* bytes, not 2 of"):
        libgin.Communicator(allgather=lambda data: [data], rank=0, size=2, device="none")


def test_the_first_exception_of_a_rank_is_raised():
    others = []

    def body(comm):
        if comm.rank == 1:
            raise RuntimeError("mine")
        try:
            comm.barrier()
        except libgin.GinError as error:
            others.append(type(error))
            raise

    with pytest.raises(RuntimeError, match="mine"):
        libgin.run_threads(3, body)
    assert others == [libgin.PeerError] * 2


def test_no_rank_waits_for_an_id_that_rank_0_cannot_make(monkeypatch):
    store, failed = Store(), {}

    def fails():
        raise libgin.SystemCallError("no descriptor is left")

    def main(rank):
        try:
            libgin.Communicator.from_store(store, rank, 2, device="none")
        except libgin.GinError as error:
            failed[rank] = error

    monkeypatch.setattr("libgin.communicator.unique_id", fails)
    threads = [threading.Thread(target=main, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert type(failed[0]) is libgin.SystemCallError and str(failed[0]) == "no descriptor is left"
    assert type(failed[1]) is libgin.BootstrapError
    assert str(failed[1]) == "rank 0 has no id: no descriptor is left"


def test_abort_ends_the_waits_of_other_ranks():
    def body(comm):
        if comm.rank == 0:
            time.sleep(0.1)
            comm.abort()
            with pytest.raises(libgin.AbortedError):
                comm.barrier()
            return
        with pytest.raises(libgin.PeerError) as caught:
            comm.barrier()
        assert isinstance(caught.value, ConnectionError)
        with pytest.raises(libgin.PeerError, match="rank 0"):
            comm.raise_async()

    libgin.run_threads(2, body)


def test_python_runs_while_a_rank_waits():
    turns = 0

    def body(comm):
        nonlocal turns
        if comm.rank:
            end = time.monotonic() + 0.2
            while time.monotonic() < end:
                turns += 1
        comm.barrier()

    libgin.run_threads(2, body)
    assert turns > 1000


def test_a_closed_communicator_is_refused():
    comm = libgin.Communicator(device="none")
    comm.close()
    comm.close()
    comm.abort()
    with pytest.raises(ValueError, match="the communicator is closed"):
        comm.barrier()


def test_a_dropped_communicator_warns():
    comm = libgin.Communicator(device="none")
    with pytest.warns(ResourceWarning, match="communicator was dropped"):
        del comm
