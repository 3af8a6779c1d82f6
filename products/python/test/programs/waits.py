# SPDX-License-Identifier: BSD-3-Clause
"""Rank 0, the main thread, waits in a collective call for rank 1, a thread that does not come."""

import signal
import sys
import threading
import time

import libgin
from libgin import host

WAITS = {
    "barrier": lambda comm: comm.barrier(),
    "register": lambda comm: comm.register(None),
    "device": lambda comm: comm.device(),
    "split": lambda comm: comm.split(0),
    "close": lambda comm: comm.close(),
}


def other(made, interrupted):
    comm = libgin.Communicator(id=made, rank=1, size=2, device="none")
    interrupted.wait()
    try:
        comm.barrier()
    except libgin.GinError as error:
        print(f"the other rank: {type(error).__name__}")
    comm.close()


def wait(function):
    print("waits", flush=True)
    try:
        function()
    except KeyboardInterrupt:
        print("KeyboardInterrupt", flush=True)


def wait_for_other(what):
    made, interrupted = libgin.unique_id(), threading.Event()
    thread = threading.Thread(target=other, args=(made, interrupted))
    thread.start()
    comm = libgin.Communicator(id=made, rank=0, size=2, device="none")
    wait(lambda: WAITS[what](comm))
    interrupted.set()
    thread.join()
    comm.close()


def wait_in_init():
    made = libgin.unique_id()
    wait(lambda: libgin.Communicator(id=made, rank=0, size=2, device="none"))


def wait_for_signal(comm):
    with comm.device() as dc:
        host.launch(1, 2, host.ginWaitSignal, dc, 0, None, 0, 1, host.CTA, 0)


def wait_in_launch():
    with libgin.Communicator(device="none") as comm:
        wait(lambda: wait_for_signal(comm))
        comm.abort()  # the block of the device communicator has done so


def wait_in_threads():
    """All ranks wait in kernels, on threads that get no signal."""
    wait(lambda: libgin.run_threads(2, wait_for_signal))


ALONE = {"init": wait_in_init, "launch": wait_in_launch, "threads": wait_in_threads}


def late(made):
    with libgin.Communicator(id=made, rank=1, size=2, device="none") as comm:
        time.sleep(0.4)
        comm.barrier()


def wait_with_alarm():
    """A handler runs while the rank waits, and the wait goes on."""
    made = libgin.unique_id()
    thread = threading.Thread(target=late, args=(made,))
    thread.start()
    signal.signal(signal.SIGALRM, lambda *_: print("alarm", flush=True))
    with libgin.Communicator(id=made, rank=0, size=2, device="none") as comm:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        comm.barrier()
    print("all ranks came", flush=True)
    thread.join()


def main(what):
    if what in ALONE:
        ALONE[what]()
    elif what == "alarm":
        wait_with_alarm()
    else:
        wait_for_other(what)


main(sys.argv[1])
