# SPDX-License-Identifier: BSD-3-Clause
"""Windows, device communicators and device calls, with ranks as threads."""

import gc
import random
import threading
import weakref

import numpy as np
import pytest
from programs.ring import ring

import libgin
from libgin import _abi, _library, communicator, host
from libgin.errors import CLASSES


def test_ring(size):
    assert libgin.run_threads(size, ring) == ["direct"] * size


def test_values_atomics_and_get():
    def body(comm):
        memory = np.asarray(comm.alloc(64)).view(np.uint64)
        peer = 1 - comm.rank
        with comm.register(memory) as window, comm.device() as dc:
            word = window.handle, 8 * comm.rank
            assert not host.ginPutValue(
                *(dc, 0, peer, *word, 77 + comm.rank, 8),
                *(host.STRONG, None, 0, 1, host.THREAD, 0),
            )
            assert not host.ginWaitSignal(dc, 0, None, 0, 1, host.THREAD, host.seconds(10))
            assert memory[peer] == 77 + peer
            comm.barrier()
            assert not host.ginGet(
                dc, 0, peer, window, 8 * comm.rank, window, 32, 8, host.THREAD, 0
            )
            assert not host.ginFlush(dc, 0, host.THREAD, 0)
            assert memory[4] == 77 + comm.rank
        return dc.struct.rank

    assert libgin.run_threads(2, body) == [0, 1]


def test_a_wait_that_times_out():
    def body(comm):
        with comm.device(signals=1) as dc:
            dc.raise_for(0)
            assert dc.error() is None
            status = host.ginWaitSignal(dc, 0, None, 0, 5, host.THREAD, host.seconds(0.05))
            with pytest.raises(TimeoutError, match="signal") as caught:
                dc.raise_for(status)
            assert isinstance(caught.value, libgin.TimedOutError)
            record = dc.error()
            assert (record.call, record.seen, record.expected) == (_abi.ginCallWaitSignal, 0, 5)
            assert str(caught.value) == record.sentence
            assert caught.value.record == record

    libgin.run_threads(2, body)


def test_a_status_is_raised_though_another_failed_first():
    """A wait times out, and may be repeated; then the peer aborts."""
    waited = threading.Barrier(2)

    def body(comm):
        def wait():
            return host.ginWaitSignal(dc, 0, None, 0, 1, host.THREAD, host.seconds(0.05))

        with comm.device() as dc:
            first = wait()
            waited.wait(60)
            if comm.rank == 1:
                comm.abort()
            while wait() == first:
                pass
            kind = [libgin.PeerError, libgin.AbortedError][comm.rank]
            with pytest.raises(kind, match=["rank 1 ", "ginCommAbort"][comm.rank]):
                dc.raise_for(wait())
            with pytest.raises(libgin.TimedOutError, match="signal 0: expected at least 1"):
                dc.raise_for(first)
            with pytest.raises(libgin.TimedOutError):
                dc.raise_for(first | wait())
            for status, kind in CLASSES.items():
                with pytest.raises(kind):
                    dc.raise_for(status)
        with pytest.raises(libgin.PeerError):
            dc.raise_for(_abi.ginErrorPeer)

    libgin.run_threads(2, body)


def test_the_default_timeout_and_the_requirements():
    with libgin.Communicator(device="none") as comm:
        with comm.device(contexts=3, signals=7, counters=2, barriers=1, timeout=0.02) as dc:
            struct = dc.struct
            assert (struct.contexts, struct.signals, struct.counters) == (3, 7, 2)
            assert host.ginWaitSignal(dc, 2, None, 6, 1, host.THREAD, 0) == _abi.ginErrorTimeout
            assert len(bytes(dc)) == struct.size
        with pytest.raises(libgin.UnsupportedError, match="requirements.routes"):
            comm.device(routes=["gdaki"])
        comm.device(routes=["direct", "proxy"]).close()
        comm.device(routes=["direct", "direct"]).close()


def test_an_exception_in_a_kernel_is_raised():
    def kernel():
        if host.thread() == 2:
            raise KeyError(host.block())

    with pytest.raises(KeyError, match="1"):
        host.launch(2, 3, lambda: kernel() if host.block() else None)
    with pytest.raises(libgin.InvalidArgumentError):
        host.launch(0, 1, kernel)


def test_peer_pointers():
    def body(comm):
        memory = np.asarray(comm.alloc(4096))
        memory[:] = comm.rank
        with comm.register(memory) as window:
            comm.barrier()
            pointer = window.peer_pointer(1 - comm.rank)
            seen = (
                None if pointer is None else (host.ctypes.c_uint8 * 4096).from_address(pointer)[7]
            )
            comm.barrier()
        return seen

    assert libgin.run_threads(2, body) == [1, 0]


def test_windows_over_arrays():
    def body(comm):
        buffer = comm.alloc(4096)
        array = np.asarray(buffer).view(np.float32).reshape(4, 256)
        kinds = [buffer, array, array[1:3], (buffer.address, 128), None]
        for memory, nbytes in zip(kinds, (4096, 4096, 2048, 128, 0), strict=True):
            with comm.register(memory) as window:
                assert window.nbytes == nbytes
        for wrong, error in ((array[:, 1], ValueError), ("text", TypeError)):
            with pytest.raises(error):
                comm.register(wrong)
        with comm.register(np.zeros(64), local=True) as window:
            assert window.handle

    libgin.run_threads(2, body)


def test_a_window_that_all_ranks_drop_is_deregistered():
    def body(comm):
        buffer = comm.alloc(64)
        window, free = comm.register(buffer), buffer._finalizer
        comm.barrier()
        if comm.rank == 0:
            del window, buffer
        comm.barrier()
        comm.register(None).close()
        assert free.alive  # rank 1 may still put
        if comm.rank == 1:
            del window, buffer
        comm.barrier()
        comm.register(None).close()
        assert not free.alive

    libgin.run_threads(2, body)


def test_memory_of_a_dropped_window_stays_until_the_communicator_is_closed():
    def body(comm):
        buffer = comm.alloc(64)
        comm.register(buffer)
        free = buffer._finalizer
        del buffer
        gc.collect()
        assert free.alive
        return free

    assert not libgin.run_threads(1, body)[0].alive


def test_a_dropped_device_communicator_warns():
    with libgin.Communicator(device="none") as comm:
        dc = comm.device()
        with pytest.warns(ResourceWarning, match="device communicator was dropped"):
            del dc


@pytest.mark.parametrize("what", [lambda c: c.register(c.alloc(64)), lambda c: c.device()])
def test_an_exception_in_a_with_block_ends_the_waits_of_other_ranks(what):
    ended = threading.Event()

    def body(comm):
        with what(comm):
            if comm.rank == 0:
                with pytest.raises(libgin.PeerError):
                    comm.barrier()
                ended.set()
            raise RuntimeError("mine")

    def caught(comm):
        with pytest.raises(RuntimeError, match="mine"):
            body(comm)
        assert ended.wait(10)  # before the end of the communicator's own block
        comm.abort()

    libgin.run_threads(2, caught)


def test_an_exception_in_a_with_block_keeps_the_memory():
    comm = libgin.Communicator(device="none")
    buffer = comm.alloc(64)
    free = buffer._finalizer
    with pytest.raises(RuntimeError, match="mine"), comm.register(buffer):
        raise RuntimeError("mine")
    del buffer
    gc.collect()
    assert free.alive  # another rank may not have noticed
    comm.close()
    assert not free.alive


def drops(comm, rounds):
    """Ranks drop windows and arrays at random moments, and the collector runs at random moments."""
    rng = random.Random(comm.rank)
    held, memory = [], weakref.WeakSet()
    for _ in range(rounds):
        buffer = comm.alloc(rng.choice((16, 4096, 100000)))
        memory.add(buffer)
        window = comm.register(np.asarray(buffer))
        fate = rng.randrange(3)
        if fate == 0:
            held.append((window, buffer))
        elif fate == 1:
            held.append(np.from_dlpack(comm.alloc(32)))
        rng.shuffle(held)
        del held[rng.randrange(4) :], window, buffer
        if rng.randrange(8) == 0:
            gc.collect()
        comm.barrier()
    held.clear()
    gc.collect()
    comm.barrier()
    for _ in range(rounds):
        if not memory:
            break
        comm.barrier()
    return len(memory)


def test_random_drops(request):
    assert libgin.run_threads(4, drops, request.config.getoption("--drops")) == [0] * 4


def test_shrink_and_inherited_windows():
    """Rank 1 is left out; ranks 0 and 2 go on with the memory of their windows."""
    ended = threading.Barrier(3)

    def go_on(comm, window, memory):
        with comm.shrink([1]) as part:
            part.barrier()
            with part.inherited(window) as again, part.device() as dc:
                assert again.handle != window.handle and again.memory is memory
                word = again, 8 * part.rank, 70 + part.rank, 8
                signal = host.STRONG, None, 0, 1, host.THREAD, 0
                assert not host.ginPutValue(dc, 0, 1 - part.rank, *word, *signal)
                assert not host.ginWaitSignal(dc, 0, None, 0, 1, host.THREAD, host.seconds(10))
            return part.rank, part.size, memory.tolist()[:2]

    def body(comm):
        memory = np.asarray(comm.alloc(64)).view(np.uint64)
        memory[:] = 0
        with comm.register(memory) as window:
            seen = None if comm.rank == 1 else go_on(comm, window, memory)
            ended.wait(60)
        return seen

    assert libgin.run_threads(3, body) == [(0, 2, [0, 71]), None, (1, 2, [70, 0])]


def test_memory_of_inherited_windows_is_kept(monkeypatch):
    with libgin.Communicator(device="none") as comm:
        memory = np.asarray(comm.alloc(4096))
        closed = np.asarray(comm.alloc(64))
        kept, freed = weakref.ref(memory), weakref.ref(closed)
        window, other = comm.register(memory), comm.register(closed)
        other.close()
        part = comm.shrink()
        window.close()
        del window, memory, other, closed
        gc.collect()
        assert kept() is not None and freed() is None

        def call(name, *arguments):
            _library.call(name, *arguments)
            gc.collect()
            ends.append((name, kept() is not None))

        ends = []
        monkeypatch.setattr(communicator, "call", call)
        part.close()
        assert ends == [("ginCommDestroy", True)]
        monkeypatch.undo()
        gc.collect()
        assert kept() is None
