# SPDX-License-Identifier: BSD-3-Clause
from gin_ep.deep_ep.utils.math import *  # noqa: F403
