# SPDX-License-Identifier: BSD-3-Clause
"""Events, and what DeepEP's own tests import: envs, math and testing."""

from .event import EventHandle, EventOverlap

__all__ = ["EventHandle", "EventOverlap"]
