# SPDX-License-Identifier: BSD-3-Clause
"""Ctrl-C while a collective call waits.

Python runs signal handlers on the main thread between bytecodes, not while a call of C runs. So
another thread makes the call, and the main thread waits for that thread.
"""

import threading
from collections.abc import Callable


class _Call(threading.Thread):
    def __init__(self, function, arguments):
        super().__init__(name="libgin call", daemon=True)
        self._function, self._arguments = function, arguments
        self.error = None
        self.done = threading.Event()

    def run(self):
        try:
            self._function(*self._arguments)
        except BaseException as error:
            self.error = error
        self.done.set()


def interruptible(abort: Callable[[], None], function: Callable, *arguments) -> None:
    """function(*arguments); if a signal handler raises meanwhile, abort() and its exception."""
    if threading.current_thread() is not threading.main_thread():
        function(*arguments)
        return
    made = _Call(function, arguments)
    made.start()
    try:
        made.done.wait()
    except BaseException:
        abort()
        made.join()
        raise
    if made.error:
        raise made.error
