# SPDX-License-Identifier: BSD-3-Clause
"""Numbers for C. ctypes takes any integer and drops the bits that do not fit."""

import operator
from typing import Any

UINT32, INT32, SIZE = (0, 2**32 - 1), (-(2**31), 2**31 - 1), (0, 2**63 - 1)


def whole(name: str, value: Any, limits: tuple[int, int]) -> int:
    """The integer `value` of the argument `name`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}: give an integer") from None
    least, most = limits
    if not least <= number <= most:
        raise ValueError(f"{name} is {number}: give {least} to {most}")
    return number


def nanoseconds(name: str, seconds: Any) -> int:
    """The time `seconds` of the argument `name`, as C takes it."""
    try:
        fits = 0 <= seconds < 2**64 / 1e9
    except TypeError:
        raise TypeError(f"{name} is {seconds!r}: give seconds") from None
    if not fits:
        raise ValueError(f"{name} is {seconds!r} seconds: give 0 or more, at most 18e9")
    return round(seconds * 1e9)
