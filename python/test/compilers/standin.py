# SPDX-License-Identifier: BSD-3-Clause
"""Objects that stand for a device communicator and a window, for tests of what a launch does."""

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
