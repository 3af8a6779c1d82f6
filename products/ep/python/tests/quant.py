# SPDX-License-Identifier: BSD-3-Clause
"""Number formats of the reference: bf16 as uint16, e4m3 (the "fn" kind) as uint8, scales per 128 values; mxfp8, nvfp4.

NumPy has none of them. bf16 is the upper half of an f32. e4m3 has 4 exponent bits with bias 7, 3 mantissa
bits, no infinity; 0x7f and 0xff are NaN, the largest value is 448.
"""

import numpy as np

GROUP = 128  # values that share a scale
E4M3_MAX = np.float32(448)
E4M3_NAN = 0x7F
LEAST_AMAX = np.float32(1e-4)  # a group of zeros gets the scale of this value


def bf16_to_f32(bits):
    return (np.asarray(bits, np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)


def f32_to_bf16(values):
    """Rounds to nearest, ties to even. A NaN becomes 0x7fff, as the GPU's conversion makes it."""
    values = np.asarray(values, np.float32)
    bits = values.view(np.uint32)
    rounded = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FFF), rounded)


def e4m3_to_f32(codes):
    codes = np.asarray(codes, np.uint8)
    exponent = (codes >> 3 & 15).astype(np.int32)
    mantissa = (codes & 7).astype(np.float32)
    normal = np.ldexp(1 + mantissa / 8, exponent - 7)
    value = np.where(exponent == 0, np.ldexp(mantissa / 8, -6), normal)
    value = np.where(codes & 0x7F == E4M3_NAN, np.nan, value)
    return np.where(codes & 0x80, -value, value).astype(np.float32)


_POSITIVE = e4m3_to_f32(np.arange(E4M3_NAN))  # ascending: the value of code i is _POSITIVE[i]


def f32_to_e4m3(values):
    """Rounds to nearest, ties to even; larger values become 448; NaN becomes 0x7f."""
    values = np.asarray(values, np.float32)
    size = np.minimum(np.abs(values), E4M3_MAX).astype(np.float64)
    size = np.where(np.isnan(values), 0, size)
    _, exponent = np.frexp(size)  # size is below 2^exponent
    step = np.ldexp(1.0, np.maximum(exponent - 1, -6) - 3)
    codes = np.searchsorted(_POSITIVE, (np.rint(size / step) * step).astype(np.float32)).astype(np.uint8)
    codes |= np.where(np.signbit(values), np.uint8(0x80), np.uint8(0))
    return np.where(np.isnan(values), np.uint8(E4M3_NAN), codes)


def power_of_two_above(values):
    """The smallest powers of two that are not less than the positive values; NaN for infinity."""
    mantissa, exponent = np.frexp(np.asarray(values, np.float32))
    power = np.ldexp(np.float32(1), np.where(mantissa == 0.5, exponent - 1, exponent)).astype(np.float32)
    return np.where(np.isfinite(values), power, np.float32(np.nan))


def quantize(row, rounded=False):
    """One row of bf16: (e4m3 of the row, f32 scale of each group). value = code * scale.

    rounded: each scale is a power of two. The last group may be short.
    """
    groups = -(-len(row) // GROUP)
    codes = np.empty(len(row), np.uint8)
    scales = np.empty(groups, np.float32)
    for group in range(groups):
        part = slice(group * GROUP, (group + 1) * GROUP)
        values = bf16_to_f32(row[part])
        amax = np.fmax(np.fmax.reduce(np.abs(values)), LEAST_AMAX)
        with np.errstate(all="ignore"):
            if rounded:
                scales[group] = power_of_two_above(amax / E4M3_MAX)
                factor = np.float32(1) / scales[group]
            else:
                scales[group] = amax / E4M3_MAX
                factor = E4M3_MAX / amax
            codes[part] = f32_to_e4m3(values * factor)
    return codes, scales


def pack_ue8m0(scales):
    """Exponents of scales that are powers of two, four to a 32-bit word, the first in the lowest byte."""
    exponents = (np.asarray(scales, np.float32).view(np.uint32) >> 23).astype(np.uint32)
    words = np.zeros(-(-len(exponents) // 4), np.uint32)
    for i, exponent in enumerate(exponents):
        words[i // 4] |= exponent << np.uint32(8 * (i % 4))
    return words.view(np.int32)


def dequantize(codes, scales):
    """f32 values of one row."""
    spread = np.repeat(np.asarray(scales, np.float32), GROUP)[: len(codes)]
    return e4m3_to_f32(codes) * spread


def _groups(rows, size):
    """f32 values of rows of bf16 by groups, and the largest magnitude of each group; NaN is ignored."""
    values = bf16_to_f32(rows).reshape(len(rows), -1, size)
    return values, np.where(np.isnan(values), np.float32(0), np.abs(values)).max(axis=2, keepdims=True)


def mxfp8(rows):
    """Rows of bf16: (e4m3, exponents of UE8M0 of 32 values): the rule of OCP MX 1.0, 6.3."""
    values, amax = _groups(rows, 32)
    _, above = np.frexp(np.where(np.isfinite(amax), amax, 1))  # amax is below 2^above
    shared = np.where(np.isinf(amax), 128, np.where(amax == 0, -127, above - 1)) - 8
    shared = np.maximum(shared, -127)
    with np.errstate(all="ignore"):
        codes = f32_to_e4m3((values / np.ldexp(1.0, shared)).astype(np.float32))
    return codes.reshape(len(rows), -1), (shared + 127).astype(np.uint8)[..., 0]


_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)


def f32_to_e2m1(values):
    """Rounds to nearest, ties to even; larger values and NaN become 6."""
    size = np.fmin(np.abs(values), np.float32(6)).astype(np.float64)
    _, above = np.frexp(size)
    step = np.ldexp(1.0, np.maximum(above - 1, 0) - 1)
    codes = np.searchsorted(_E2M1, (np.rint(size / step) * step).astype(np.float32)).astype(np.uint8)
    return codes | np.where(np.signbit(values) & ~np.isnan(values), np.uint8(8), np.uint8(0))


def nvfp4(rows, scale):
    """Rows of bf16: (pairs of e2m1, e4m3 scales of 16 values), by the global scale."""
    values, amax = _groups(rows, 16)
    scale = np.float32(scale)
    with np.errstate(all="ignore"):
        scales = f32_to_e4m3(amax / np.float32(6) * scale)
        factor = np.where(scales == 0, np.float32(0), scale / e4m3_to_f32(scales))
        codes = f32_to_e2m1(values * factor).reshape(len(rows), -1)
    return codes[:, ::2] | codes[:, 1::2] << 4, scales[..., 0]


def from_blocks(memory, rows, scales):
    """[rows, scales] of bytes that are in blocks of 128 rows and 4 scales."""
    blocks = memory.reshape(-1, memory.shape[-1] // 4, 32, 4, 4)  # block, r % 32, r / 32 % 4, s % 4
    return blocks.transpose(0, 3, 2, 1, 4).reshape(-1, memory.shape[-1])[:rows, :scales]


def fma(a, b, c):
    """f32 a * b + c, rounded once.

    a * b is exact in f64. The sum is rounded to odd in f64, so that the rounding to f32 is the only one
    that counts: f64 has more than two bits beyond f32.
    """
    product = np.asarray(a, np.float64) * np.asarray(b, np.float64)
    c = np.asarray(c, np.float64)
    with np.errstate(invalid="ignore"):
        total = product + c
        back = total - product
        error = (product - (total - back)) + (c - back)  # total + error is the exact sum
    bits = np.atleast_1d(total).view(np.int64).copy()
    error = np.atleast_1d(error)
    inexact = np.isfinite(error) & (error != 0) & (bits & 1 == 0)
    away = (error > 0) == (np.atleast_1d(total) > 0)
    bits[inexact & away] += 1
    bits[inexact & ~away] -= 1
    return bits.view(np.float64).reshape(np.shape(total)).astype(np.float32)
