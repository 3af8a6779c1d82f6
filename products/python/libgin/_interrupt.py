# SPDX-License-Identifier: BSD-3-Clause
"""Ctrl-C while a collective call or a kernel on host threads waits.

Python runs signal handlers on the main thread, between bytecodes. The library calls poll() some ten
times a second while it waits, and so lets them run. What a handler raises cannot pass through C, so
the main thread's handlers are wrapped during a call: their exceptions are kept, poll() ends the
call, and interruptible() raises the first one.
"""

import signal
import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any

from . import _abi
from .errors import GinError

# Programs end or interrupt a wait by these.
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2")

# Seconds. Python runs the handler of a signal that comes just before a wait only after the wait.
LONGEST_WAIT = 0.5

_raised: list[BaseException] = []  # by handlers, during the main thread's call


@_abi.ginPoll_t
def poll(_):
    """ginConfig_t.poll: nonzero ends the call. A signal ends calls of the main thread only."""
    return bool(_raised) and threading.current_thread() is threading.main_thread()


def _wrapped(handler):
    def keep(number, frame):
        try:
            handler(number, frame)
        except BaseException as error:
            _raised.append(error)

    return keep


def _wrap_handlers():
    """Returns the handlers, for _restore()."""
    handlers = {}
    for name in SIGNALS:
        number = getattr(signal, name)
        handler = signal.getsignal(number)
        if callable(handler):
            handlers[number] = handler
            signal.signal(number, _wrapped(handler))
    return handlers


def _restore(handlers):
    for number, handler in handlers.items():
        signal.signal(number, handler)


def on_helper(abort: Callable[[], None], function: Callable, *arguments) -> Any:
    """function(*arguments), on a helper thread, so that the main thread runs signal handlers.

    If a handler raises, abort(), which ends the function's waits, and then its exception.
    """
    if threading.current_thread() is not threading.main_thread():
        return function(*arguments)
    ended: futures.Future[Any] = futures.Future()

    def main():
        try:
            ended.set_result(function(*arguments))
        except BaseException as error:
            ended.set_exception(error)

    helper = threading.Thread(target=main, daemon=True)
    helper.start()
    try:
        while not ended.done():
            futures.wait((ended,), LONGEST_WAIT)
        return ended.result()
    except BaseException:
        if not ended.done():
            abort()
        raise
    finally:
        helper.join()


def interruptible(abort: Callable[[], None], function: Callable, *arguments) -> None:
    """function(*arguments); if a signal handler raises meanwhile, abort() and its exception."""
    if threading.current_thread() is not threading.main_thread():
        function(*arguments)
        return
    handlers = _wrap_handlers()
    try:
        function(*arguments)
    except GinError:
        if not _raised:
            raise
    finally:
        _restore(handlers)
    if _raised:
        first = _raised[0]
        _raised.clear()
        abort()
        raise first
