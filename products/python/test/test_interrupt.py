# SPDX-License-Identifier: BSD-3-Clause
"""Ctrl-C while a rank waits."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from conftest import PROGRAMS, limit

import libgin
from libgin import _interrupt, host


def start(what):
    return subprocess.Popen(
        [sys.executable, str(PROGRAMS / "waits.py"), what],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def output_of(process):
    try:
        return process.communicate(timeout=limit(20))[0]
    finally:
        process.kill()


ALONE = "init", "launch", "threads"


@pytest.mark.parametrize("what", [*ALONE, "barrier", "register", "device", "close", "split"])
def test_ctrl_c_ends_a_wait(what):
    """Nothing else ends it: the other rank comes after the interrupt, if at all."""
    process = start(what)
    assert process.stdout.readline() == "waits\n"
    time.sleep(0.1)
    os.kill(process.pid, signal.SIGINT)
    output = output_of(process)
    said = [line for line in output.splitlines() if " gin " not in line]
    assert said == ["KeyboardInterrupt", "the other rank: PeerError"][: 1 + (what not in ALONE)], (
        output
    )


def test_a_handler_that_returns_lets_the_call_go_on():
    process = start("alarm")
    output = output_of(process)
    assert output.splitlines()[-2:] == ["alarm", "all ranks came"], output


def test_a_call_that_succeeds_nevertheless():
    """Other ranks must not wait for this one, and the next Ctrl-C is Python's again."""
    aborted, handler = [], signal.getsignal(signal.SIGINT)

    def interrupted_call():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)  # the handler runs

    with pytest.raises(KeyboardInterrupt):
        _interrupt.interruptible(lambda: aborted.append(True), interrupted_call)
    assert aborted == [True] and signal.getsignal(signal.SIGINT) is handler
    assert not _interrupt.poll(None)


@pytest.mark.parametrize("last", [0, 1])
def test_ctrl_c_while_threads_start(monkeypatch, last):
    """The ranks that have started end, also one that has no communicator yet."""

    def interrupted(thread):
        start_thread(thread)
        if thread.name == f"rank {last}":
            raise KeyboardInterrupt

    def wait(comm):
        with comm.device() as dc:
            host.launch(1, 1, host.ginWaitSignal, dc, 0, None, 0, 1, host.THREAD, 0)

    start_thread = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        libgin.run_threads(2, wait)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("rank ")]


def test_the_first_of_two_signals_is_raised():
    def handler(number, _frame):
        raise ValueError(number)

    def interrupted_call():
        for number in numbers:
            os.kill(os.getpid(), number)
            time.sleep(0.01)  # the handler runs

    numbers = signal.SIGUSR2, signal.SIGUSR1
    before = [signal.signal(number, handler) for number in numbers]
    with pytest.raises(ValueError, match=f"{signal.SIGUSR2:d}"):
        _interrupt.interruptible(lambda: None, interrupted_call)
    for number, earlier in zip(numbers, before, strict=True):
        signal.signal(number, earlier)
