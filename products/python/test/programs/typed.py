# SPDX-License-Identifier: BSD-3-Clause
"""For mypy, never run: a type checker has to report each line with the comment `wrong`."""

import libgin
from libgin import host


def body(comm: libgin.Communicator) -> int:
    buffer = comm.alloc(64)
    with comm.register(buffer) as window, comm.device(signals=2) as dc:
        status: int = host.ginSignal(dc, 0, 1, host.STRONG, None, 0, 1, host.CTA, 0)
        status |= host.ginSignal(dc, 0, "1", host.STRONG, None, 0, 1, host.CTA, 0)  # wrong
        host.ginSignals(dc)  # wrong
        window.close(1)  # wrong
        dc.raise_for(status)
        error = dc.error()
        sentence: str = error.sentence  # wrong
        print(sentence)
    return comm.rank


results: list[int] = libgin.run_threads(2, body)
texts: list[str] = libgin.run_threads(2, body)  # wrong
