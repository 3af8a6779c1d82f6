# SPDX-License-Identifier: BSD-3-Clause
"""The names and arguments of DeepEP on libgin: `import gin_ep.deep_ep as deep_ep`. Buffer is V1's, ElasticBuffer V2's.

docs/from-deepep.md says what is equal and what differs. Needs torch; tensors may be on the CPU.
"""

from . import utils
from ._arguments import absent
from .buffer import Buffer
from .config import Config
from .elastic import ElasticBuffer, EPHandle
from .utils import EventHandle, EventOverlap

__all__ = ["Buffer", "Config", "EPHandle", "ElasticBuffer", "EventHandle", "EventOverlap", "topk_idx_t", "utils"]


def __getattr__(name):
    if name == "topk_idx_t":
        import torch

        return torch.int64
    raise absent("the module", name)
