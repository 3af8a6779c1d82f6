# SPDX-License-Identifier: BSD-3-Clause
"""programs/rings.py, which the rings on GPUs share, with a kernel on host threads."""

import numpy as np
import pytest
from programs import rings

from libgin import host


def kernel(dc, inbox, outbox, target, source, copy, status, rank, right, round):
    """What the kernels on GPUs do, by one thread."""
    n = len(copy)
    source[:] = rings.word(np.arange(n, dtype=np.int64), rank, round)
    signal, limit = (host.STRONG, None, 0, 1, host.NO_COUNTER, host.CTA, 0), host.seconds(20)
    result = host.ginPut(dc, 0, right, inbox, 0, outbox, 0, n * 4, *signal)
    result |= host.ginWaitSignal(dc, 0, None, 0, round, host.CTA, limit)
    copy[:] = target + 1
    status[0] = result | host.ginFlush(dc, 0, host.CTA, limit)


def maker(spoil):
    """make() of rings.run(). spoil(copy, round) may change words after the kernel has ended."""

    def make(comm, n):
        inbox, outbox = comm.alloc(4 * n), comm.alloc(4 * n)
        target, source = (np.asarray(memory).view(np.int32) for memory in (inbox, outbox))
        copy, status, rounds = np.zeros(n, np.int32), [-1], []

        def launch(dc, to, source_window, right, round):
            arguments = target, source, copy, status, comm.rank, right, round
            host.launch(1, 1, kernel, dc, to, source_window, *arguments)
            rounds.append(round)

        def done():
            spoil(copy, rounds[-1])
            return copy, status[0]

        return inbox, outbox, launch, done

    return make


@pytest.fixture
def alone(monkeypatch):
    monkeypatch.setattr(rings, "ROUNDS", 3)
    for name in ("RANK", "WORLD_SIZE", "GIN_ROOT"):
        monkeypatch.delenv(name, raising=False)


def test_a_ring(alone, capsys):
    rings.run("host", maker(lambda copy, round: None))
    printed = capsys.readouterr().out
    for n in rings.SIZES:
        assert f"{n} words: 3 rounds right" in printed


def test_wrong_words_are_counted(alone, capsys):
    def spoil(copy, round):
        if round == 2:
            copy[7:9] = 1

    with pytest.raises(AssertionError, match="2 of 3 rounds right"):
        rings.run("host", maker(spoil))
    n = rings.SIZES[0]
    first = f"word 7 is 1 instead of {rings.word(7, 0, 2) + 1}"
    assert f"round 2: 2 of {n} words wrong: {first}" in capsys.readouterr().out
