# SPDX-License-Identifier: BSD-3-Clause
"""gin_ep.deep_ep by the name that programs look for. With this folder's parent in PYTHONPATH it hides DeepEP."""

from gin_ep.deep_ep import *  # noqa: F401, F403
