# SPDX-License-Identifier: BSD-3-Clause
"""Rank 0, the main thread, waits in a collective call for rank 1, a thread that does not come."""

import sys
import threading

import libgin

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


def main(what):
    made, interrupted = libgin.unique_id(), threading.Event()
    thread = threading.Thread(target=other, args=(made, interrupted))
    thread.start()
    comm = libgin.Communicator(id=made, rank=0, size=2, device="none")
    print("waits", flush=True)
    try:
        WAITS[what](comm)
    except KeyboardInterrupt:
        print("KeyboardInterrupt", flush=True)
    interrupted.set()
    thread.join()
    comm.close()


main(sys.argv[1])
