# SPDX-License-Identifier: BSD-3-Clause
"""Checks of what callers pass."""

import functools
import inspect

# Keywords of callers that are newer than DeepEP V1, and what they ask for.
NEWER = {
    "use_nvfp4": "NVFP4 rows",
    "x_global_scale": "NVFP4 rows",
    "overlap": "a combine that overlaps a GEMM",
    "packed_recv_count": "a combine that overlaps a GEMM",
    "comp_signal": "a combine that overlaps a GEMM",
    "block_m": "a combine that overlaps a GEMM",
    "threshold": "a combine that overlaps a GEMM",
    "num_sms": "a combine that overlaps a GEMM",
    "src_signals": "a combine that overlaps a GEMM",
    "src_signal_expect_value": "a combine that overlaps a GEMM",
}


def require(condition, words):
    """A ValueError if the caller has not kept a rule."""
    if not condition:
        raise ValueError(words)


def names_unknown_keywords(function):
    """A TypeError names all keywords that the function does not have, and what they ask for."""
    known = set(inspect.signature(function).parameters)

    @functools.wraps(function)
    def checked(*arguments, **keywords):
        unknown = [name for name in keywords if name not in known]
        if unknown:
            words = [f"{name} ({NEWER[name]})" if name in NEWER else name for name in unknown]
            raise TypeError(f"{function.__qualname__}() of gin_ep.deep_ep has no argument {', '.join(words)}")
        return function(*arguments, **keywords)

    return checked
