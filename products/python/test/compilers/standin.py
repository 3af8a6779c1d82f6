# SPDX-License-Identifier: BSD-3-Clause
"""Stand-ins for a device communicator, a window and a GPU, for tests of what a launch does."""

import contextlib
import os
import sys
import types
import weakref

import libgin
from libgin import _abi


def _opened(kind, handle):
    comm = types.SimpleNamespace(_resources=weakref.WeakSet(), _ending=contextlib.nullcontext())
    made = kind.__new__(kind)
    made._opened(comm, handle)
    made._drop, made._about = (lambda: None), (lambda: f"handle {handle}")
    return made


def stand_ins():
    """Their handles are 77 and 1234."""
    dc, window = _opened(libgin.DeviceCommunicator, 77), _opened(libgin.Window, 1234)
    dc.struct, window._window = _abi.ginDevComm(), _abi.ginWindow(1234)
    dc.struct.self = 77
    return dc, window


_watched: list[str] | None = None  # paths of files that are opened


def _watch(event, arguments):
    if event == "open" and _watched is not None:
        _watched.append(str(arguments[0]))


sys.addaudithook(_watch)


def asked_at_launch(launch):
    """The functions of libgin that a second launch calls. It opens no file."""
    global _watched
    names, package = set(), os.path.dirname(libgin.__file__) + os.sep

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(package):
            names.add(frame.f_code.co_name)

    launch()
    _watched = []
    sys.setprofile(note)
    launch()
    sys.setprofile(None)
    opened, _watched = _watched, None
    assert not opened, opened
    return names


class StandInGpu:
    """A driver of Triton with one GPU, of an architecture such as "90", that launches nothing.

    `launched` are the arguments of the last launch, as the driver would get them.
    """

    launched = ()

    def __init__(self, architecture):
        from triton.backends.compiler import GPUTarget

        self.target = GPUTarget("cuda", int(architecture), 32)
        self.utils = self

    def get_current_target(self):
        return self.target

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0

    def get_device_properties(self, device):
        return {"max_shared_mem": 1 << 17}

    def load_binary(self, *_):
        module, function, registers, spills, most_threads = "module", 1, 0, 0, 1024
        return module, function, registers, spills, most_threads

    def launcher_cls(self, source, metadata):
        def launch(*given):
            self.launched = [a if isinstance(a, int) else a.data_ptr() for a in given[9:]]

        return launch
