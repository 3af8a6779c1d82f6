# SPDX-License-Identifier: BSD-3-Clause
"""Stand-ins for a device communicator, a window and a GPU, for tests of what a launch does."""

import libgin
from libgin import _abi


def stand_ins():
    """Their handles are 77 and 1234."""
    dc = libgin.DeviceCommunicator.__new__(libgin.DeviceCommunicator)
    window = libgin.Window.__new__(libgin.Window)
    dc.struct = _abi.ginDevComm()
    dc.struct.self = 77
    window._window = _abi.ginWindow(1234)
    return dc, window


class StandInGpu:
    """A driver of Triton with one GPU, of an architecture such as "90", that launches nothing."""

    def __init__(self, architecture):
        from triton.backends.compiler import GPUTarget

        self.target = GPUTarget("cuda", int(architecture), 32)

    def get_current_target(self):
        return self.target
