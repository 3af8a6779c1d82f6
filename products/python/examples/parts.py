# SPDX-License-Identifier: BSD-3-Clause
"""Parts of a product that peers store into a window, and that say themselves that they are there.

No signal follows them. Bits that no product has mark each element that has not arrived; nothing is
assumed about the order in which elements arrive. Marks that a kernel leaves behind are in memory
when it ends, before later kernels of its rank store parts: a peer that has got such a part may
store into the place again.
"""

import torch
import triton
import triton.language as tl

import libgin.triton as gin

# Signalling NaNs. Arithmetic, and conversions of its results, make quiet ones only.
EMPTY = {torch.bfloat16: 0x7F81, torch.float16: 0x7C01}
POLLS = tl.constexpr(1 << 25)  # before a wait ends by TIMEOUT: by estimate 30 s on a GPU
TIMEOUT = tl.constexpr(7)  # ginErrorTimeout


@triton.jit
def take(dc, peer, place, result, EMPTY: tl.constexpr):
    """The bits of a part when no element of it is EMPTY any more, and a status.

    result: a status too; unless it is 0, there is no wait. Marks the place as empty again.
    """
    words = tl.full(place.shape, EMPTY, tl.int16)
    missing, polls = 1, 0
    while (missing != 0) & (result == 0):
        words = tl.load(place, volatile=True)
        missing = tl.max((words == EMPTY).to(tl.int32))
        polls += 1
        if polls % 4096 == 0:  # adds nothing; fails if the peer is lost or this rank has aborted
            result = gin.signal(dc, peer, 0, add=0, weak=True)
        if polls == POLLS:
            result |= TIMEOUT
    tl.store(place, tl.full(place.shape, EMPTY, tl.int16))
    return words, result
