# SPDX-License-Identifier: BSD-3-Clause
# Types of the device calls in libgin.host. Written by mk/gen_python_abi.py: `make abi`.
from typing import SupportsIndex

# An address, a window, a device communicator, or None for NULL.
Pointer = SupportsIndex | None

def ginPut(
    dc: Pointer, context: int, peer: int, dstWin: Pointer, dstOff: int, srcWin: Pointer,
    srcOff: int, bytes: int, kind: int, window: Pointer, where: int, value: int, counter: int,
    coop: int, timeout: int, /
) -> int: ...
def ginPutFrom(
    dc: Pointer, context: int, peer: int, dstWin: Pointer, dstOff: int, src: Pointer, bytes: int,
    kind: int, window: Pointer, where: int, value: int, counter: int, coop: int, timeout: int, /
) -> int: ...
def ginPutWith(
    dc: Pointer, context: int, peer: int, dstWin: Pointer, dstOff: int, srcWin: Pointer,
    srcOff: int, bytes: int, kind: int, window: Pointer, where: int, value: int, counter: int,
    coop: int, options: Pointer, /
) -> int: ...
def ginGetWith(
    dc: Pointer, context: int, peer: int, srcWin: Pointer, srcOff: int, dstWin: Pointer,
    dstOff: int, bytes: int, coop: int, options: Pointer, /
) -> int: ...
def ginSignalWith(
    dc: Pointer, context: int, peer: int, kind: int, window: Pointer, where: int, value: int,
    coop: int, options: Pointer, /
) -> int: ...
def ginWaitSignalWith(
    dc: Pointer, context: int, window: Pointer, where: int, least: int, coop: int, options: Pointer,
    /
) -> int: ...
def ginPutValue(
    dc: Pointer, context: int, peer: int, dstWin: Pointer, dstOff: int, data: int, bytes: int,
    kind: int, window: Pointer, where: int, value: int, coop: int, timeout: int, /
) -> int: ...
def ginGet(
    dc: Pointer, context: int, peer: int, srcWin: Pointer, srcOff: int, dstWin: Pointer,
    dstOff: int, bytes: int, coop: int, timeout: int, /
) -> int: ...
def ginSignal(
    dc: Pointer, context: int, peer: int, kind: int, window: Pointer, where: int, value: int,
    coop: int, timeout: int, /
) -> int: ...
def ginAtomicFetchAdd64(
    dc: Pointer, context: int, peer: int, win: Pointer, off: int, value: int, old: Pointer,
    coop: int, timeout: int, /
) -> int: ...
def ginFetchAdd64(
    dc: Pointer, context: int, peer: int, win: Pointer, off: int, value: int, coop: int,
    timeout: int, failed: Pointer, /
) -> int: ...
def ginAtomicCompareSwap64(
    dc: Pointer, context: int, peer: int, win: Pointer, off: int, compare: int, value: int,
    old: Pointer, coop: int, timeout: int, /
) -> int: ...
def ginCompareSwap64(
    dc: Pointer, context: int, peer: int, win: Pointer, off: int, compare: int, value: int,
    coop: int, timeout: int, failed: Pointer, /
) -> int: ...
def ginAtomicSwap64(
    dc: Pointer, context: int, peer: int, win: Pointer, off: int, value: int, old: Pointer,
    coop: int, timeout: int, /
) -> int: ...
def ginSwap64(
    dc: Pointer, context: int, peer: int, win: Pointer, off: int, value: int, coop: int,
    timeout: int, failed: Pointer, /
) -> int: ...
def ginAtomicFetchAdd32(
    dc: Pointer, context: int, peer: int, win: Pointer, off: int, value: int, old: Pointer,
    coop: int, timeout: int, /
) -> int: ...
def ginFetchAdd32(
    dc: Pointer, context: int, peer: int, win: Pointer, off: int, value: int, coop: int,
    timeout: int, failed: Pointer, /
) -> int: ...
def ginAtomicCompareSwap32(
    dc: Pointer, context: int, peer: int, win: Pointer, off: int, compare: int, value: int,
    old: Pointer, coop: int, timeout: int, /
) -> int: ...
def ginCompareSwap32(
    dc: Pointer, context: int, peer: int, win: Pointer, off: int, compare: int, value: int,
    coop: int, timeout: int, failed: Pointer, /
) -> int: ...
def ginAtomicSwap32(
    dc: Pointer, context: int, peer: int, win: Pointer, off: int, value: int, old: Pointer,
    coop: int, timeout: int, /
) -> int: ...
def ginSwap32(
    dc: Pointer, context: int, peer: int, win: Pointer, off: int, value: int, coop: int,
    timeout: int, failed: Pointer, /
) -> int: ...
def ginFlush(dc: Pointer, context: int, coop: int, timeout: int, /) -> int: ...
def ginFlushAsync(dc: Pointer, context: int, peer: int, coop: int, request: Pointer, /) -> None: ...
def ginWait(dc: Pointer, context: int, request: Pointer, coop: int, timeout: int, /) -> int: ...
def ginFlushTicket(dc: Pointer, context: int, peer: int, coop: int, /) -> int: ...
def ginWaitTicket(
    dc: Pointer, context: int, peer: int, ticket: int, coop: int, timeout: int, /
) -> int: ...
def ginReadSignal(dc: Pointer, context: int, window: Pointer, where: int, coop: int, /) -> int: ...
def ginResetSignal(
    dc: Pointer, context: int, window: Pointer, where: int, coop: int, /
) -> None: ...
def ginWaitSignal(
    dc: Pointer, context: int, window: Pointer, where: int, least: int, coop: int, timeout: int, /
) -> int: ...
def ginReadValue(
    dc: Pointer, context: int, win: Pointer, off: int, bytes: int, coop: int, /
) -> int: ...
def ginWaitValue(
    dc: Pointer, context: int, win: Pointer, off: int, bytes: int, least: int, coop: int,
    timeout: int, /
) -> int: ...
def ginSignalShadow(dc: Pointer, context: int, id: int, /) -> int | None: ...
def ginIncreaseSignalShadow(
    dc: Pointer, context: int, id: int, delta: int, coop: int, /
) -> None: ...
def ginWaitSignalMeetShadow(
    dc: Pointer, context: int, id: int, coop: int, timeout: int, /
) -> int: ...
def ginWaitSignalFollowShadow(
    dc: Pointer, context: int, id: int, leastDelta: int, before: Pointer, delta: Pointer, coop: int,
    timeout: int, /
) -> int: ...
def ginReadCounter(dc: Pointer, context: int, id: int, coop: int, /) -> int: ...
def ginResetCounter(dc: Pointer, context: int, id: int, coop: int, /) -> None: ...
def ginWaitCounter(
    dc: Pointer, context: int, id: int, least: int, coop: int, timeout: int, /
) -> int: ...
def ginBarrierArrive(
    dc: Pointer, nRanks: int, rank: int, stride: int, index: int, coop: int, timeout: int, /
) -> int: ...
def ginBarrierWait(
    dc: Pointer, nRanks: int, rank: int, stride: int, index: int, coop: int, timeout: int, /
) -> int: ...
def ginBarrierSync(
    dc: Pointer, nRanks: int, rank: int, stride: int, index: int, coop: int, timeout: int, /
) -> int: ...
def ginPacketsSend(
    dc: Pointer, context: int, win: Pointer, off: int, most: int, signals: int, peer: int,
    src: Pointer, bytes: int, coop: int, timeout: int, /
) -> int: ...
def ginPacketsReceive(
    dc: Pointer, context: int, win: Pointer, off: int, most: int, signals: int, peer: int,
    dst: Pointer, bytes: int, coop: int, timeout: int, /
) -> int: ...
def ginPointer(window: Pointer, offset: int, peer: int, /) -> int | None: ...
