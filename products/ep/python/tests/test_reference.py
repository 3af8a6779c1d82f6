# SPDX-License-Identifier: BSD-3-Clause
"""The reference against cases that are computed by hand, and its number formats against ml_dtypes or torch."""

import unittest
import zlib
from fractions import Fraction

import numpy as np

import quant
import reference

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None
try:
    import torch
except ImportError:
    torch = None

ALL_BF16 = np.arange(65536).astype(np.uint16)

# How many bf16 are at most 448, and zlib.crc32() of the float8_e4m3fn that torch 2.11 makes of them.
OF_TORCH = (34754, 0x7F2ECB7E)


# The e4m3 of every bf16, quantized in groups of 128 that follow each other: zlib.crc32() of what torch 2.11 makes.
ALL_OF_TORCH = 0x2E9C2848


def bf16(*values):
    return quant.f32_to_bf16(np.array(values, np.float32))


class Bf16(unittest.TestCase):
    def test_round_trip_of_all(self):
        back = quant.f32_to_bf16(quant.bf16_to_f32(ALL_BF16))
        numbers = ~np.isnan(quant.bf16_to_f32(ALL_BF16))
        np.testing.assert_array_equal(back[numbers], ALL_BF16[numbers])
        self.assertTrue((back[~numbers] == 0x7FFF).all())

    def test_ties_go_to_even(self):
        ties = (ALL_BF16.astype(np.uint32) << 16 | 0x8000).view(np.float32)
        numbers = np.isfinite(quant.bf16_to_f32(ALL_BF16))
        self.assertTrue((quant.f32_to_bf16(ties)[numbers] & 1 == 0).all())

    @unittest.skipUnless(ml_dtypes, "there is no ml_dtypes")
    def test_like_ml_dtypes(self):
        values = np.random.default_rng(1).integers(0, 1 << 32, 200000, np.uint32).view(np.float32)
        values = values[~np.isnan(values)]
        theirs = values.astype(ml_dtypes.bfloat16).view(np.uint16)
        np.testing.assert_array_equal(quant.f32_to_bf16(values), theirs)


class E4m3(unittest.TestCase):
    def test_known_codes(self):
        values = np.array([0, 1, -1, 448, 1e9, -1e9, 2**-9, 2**-10, 1.5 * 2**-10, 17, 19, np.nan], np.float32)
        codes = [0, 0x38, 0xB8, 0x7E, 0x7E, 0xFE, 1, 0, 1, 0x58, 0x5A, 0x7F]
        self.assertEqual(quant.f32_to_e4m3(values).tolist(), codes)

    def test_round_trip_of_all(self):
        codes = np.arange(256).astype(np.uint8)
        numbers = codes & 0x7F != quant.E4M3_NAN
        np.testing.assert_array_equal(quant.f32_to_e4m3(quant.e4m3_to_f32(codes))[numbers], codes[numbers])

    def all_bf16_that_fit(self):
        values = quant.bf16_to_f32(ALL_BF16)
        return values[np.abs(values) <= 448]

    @unittest.skipUnless(ml_dtypes, "there is no ml_dtypes")
    def test_all_bf16_like_ml_dtypes(self):
        values = self.all_bf16_that_fit()
        theirs = values.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
        np.testing.assert_array_equal(quant.f32_to_e4m3(values), theirs)

    @unittest.skipUnless(torch, "there is no torch")
    def test_all_bf16_like_torch(self):
        values = self.all_bf16_that_fit()
        theirs = torch.from_numpy(values).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
        np.testing.assert_array_equal(quant.f32_to_e4m3(values), theirs)
        self.assertEqual((len(theirs), zlib.crc32(theirs.tobytes())), OF_TORCH)

    def test_all_bf16_like_torch_has_done(self):
        codes = quant.f32_to_e4m3(self.all_bf16_that_fit())
        self.assertEqual((len(codes), zlib.crc32(codes.astype(np.uint8).tobytes())), OF_TORCH)


class Quantize(unittest.TestCase):
    def test_every_bf16_like_torch_has_done(self):
        codes = np.stack([quant.quantize(row)[0] for row in ALL_BF16.reshape(-1, quant.GROUP)])
        self.assertEqual(zlib.crc32(codes.tobytes()), ALL_OF_TORCH)

    @unittest.skipUnless(torch, "there is no torch")
    def test_every_bf16_like_torch(self):
        values = torch.from_numpy(quant.bf16_to_f32(ALL_BF16)).reshape(-1, quant.GROUP)
        amax = values.abs().nan_to_num(0.0, float("inf")).amax(1, keepdim=True).clamp(min=1e-4)
        codes = (values * (448 / amax)).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
        codes = np.where(codes & 0x7F == quant.E4M3_NAN, np.uint8(quant.E4M3_NAN), codes)
        self.assertEqual(zlib.crc32(codes.tobytes()), ALL_OF_TORCH)

    def test_zeros_have_the_scale_of_the_margin(self):
        codes, scales = quant.quantize(np.zeros(128, np.uint16))
        self.assertFalse(codes.any())
        self.assertEqual(scales[0], np.float32(1e-4) / np.float32(448))

    def test_the_largest_value_is_448_scales(self):
        row = quant.f32_to_bf16(np.random.default_rng(2).standard_normal(256))
        codes, scales = quant.quantize(row)
        self.assertEqual(len(scales), 2)
        for group in range(2):
            self.assertEqual((codes[group * 128 : group * 128 + 128] & 0x7F).max(), 0x7E)
        worst = np.abs(quant.dequantize(codes, scales) - quant.bf16_to_f32(row))
        self.assertTrue((worst <= np.repeat(scales, 128) * 16.01).all())

    def test_rounded_scales_are_the_next_powers_of_two(self):
        for value, scale in ((448, 1), (450, 2), (224, 0.5), (896, 2), (3, 2**-7)):
            row = np.zeros(16, np.uint16)
            row[3] = bf16(value)[0]
            _, scales = quant.quantize(row, rounded=True)
            self.assertGreaterEqual(scales[0] * 448, quant.bf16_to_f32(row[3]))
            self.assertEqual(scales[0], scale, value)

    def test_a_short_last_group(self):
        row = np.concatenate([np.full(128, bf16(1)[0]), np.full(16, bf16(448)[0])])
        codes, scales = quant.quantize(row)
        self.assertEqual(scales.tolist(), [np.float32(1) / np.float32(448), 1])
        self.assertTrue((codes == 0x7E).all())

    def test_ue8m0_is_four_exponents_a_word(self):
        words = quant.pack_ue8m0(np.array([1, 2, 0.5, 4, 1], np.float32))
        self.assertEqual(words.view(np.uint32).tolist(), [127 | 128 << 8 | 126 << 16 | 129 << 24, 127])


class Fma(unittest.TestCase):
    def test_like_exact_arithmetic(self):
        rng = np.random.default_rng(3)
        a = quant.bf16_to_f32(quant.f32_to_bf16(rng.standard_normal(2000)))
        b = rng.standard_normal(2000).astype(np.float32)
        c = (-a * b * (1 + rng.integers(-3, 4, 2000) * 2.0**-23)).astype(np.float32)
        c[::2] = rng.standard_normal(1000) * 1e4
        for x, y, z, ours in zip(a, b, c, quant.fma(a, b, c)):
            exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
            near = [np.nextafter(ours, np.float32(end)) for end in (-np.inf, np.inf)]
            for other in near:
                self.assertLessEqual(abs(Fraction(float(ours)) - exact), abs(Fraction(float(other)) - exact))

    def test_no_double_rounding(self):
        # 1 + 2^-24 + 2^-60: f64 drops the last term, and the tie would go to 1.
        a, b, c = np.float32(2.0**-30), np.float32(2.0**-30), np.float32(1)
        self.assertEqual(quant.fma(a, b, c), 1)
        # (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24; plus 2^-80 it is above the tie.
        a = np.float32(1 + 2.0**-12)
        self.assertEqual(quant.fma(a, a, np.float32(2.0**-80)), np.float32(1 + 2.0**-11 + 2.0**-23))
        self.assertEqual(quant.fma(a, a, np.float32(-(2.0**-80))), np.float32(1 + 2.0**-11))


class Routing(unittest.TestCase):
    def test_experts_are_as_even_as_can_be(self):
        self.assertEqual(reference.first_experts(8, 4).tolist(), [0, 2, 4, 6, 8])
        self.assertEqual(reference.first_experts(7, 3).tolist(), [0, 3, 5, 7])
        self.assertEqual(reference.first_experts(2, 3).tolist(), [0, 1, 2, 2])

    def test_owner(self):
        first = reference.first_experts(7, 3)
        self.assertEqual([reference.owner(first, e) for e in range(7)], [0, 0, 0, 1, 1, 2, 2])

    def test_items_leave_out_none_and_second_ones(self):
        self.assertEqual(reference.items_of([4, -1, 4, 2]), [(0, 4), (3, 2)])

    def test_order_of_an_expert(self):
        topk = [np.array([[1, 0], [2, 1]]), np.array([[-1, -1], [1, 3]])]
        self.assertEqual(reference.rows_of_expert(topk, 1), [(0, 0, 0), (0, 1, 1), (1, 1, 0)])


class Layers(unittest.TestCase):
    """Two ranks, four experts, rows of 16 values that say rank and token."""

    def setUp(self):
        self.first = reference.first_experts(4, 2)
        self.topk = [np.array([[0, 1], [2, 3], [-1, 0]]), np.array([[0, 2]])]
        self.x = [
            np.stack([np.full(16, bf16(10 * rank + token)[0]) for token in range(len(t))])
            for rank, t in enumerate(self.topk)
        ]
        self.weights = [np.full(t.shape, 0.5, np.float32) for t in self.topk]

    def values(self, rows):
        return quant.bf16_to_f32(rows)[:, 0].tolist()

    def test_expert_major(self):
        at0, at1 = reference.dispatch(self.x, self.topk, self.first, 3)
        self.assertEqual(at0.count.tolist(), [3, 1])
        self.assertEqual(at1.count.tolist(), [2, 1])
        self.assertEqual(self.values(at0.x[0, :3]), [0, 2, 10])
        self.assertEqual(self.values(at1.x[0, :2]), [1, 10])
        self.assertEqual(at0.src_info[0, :3].tolist(), [0, 2, 0])
        self.assertEqual(at0.layout_range.tolist(), [[2, 2 << 32 | 1], [1, 1 << 32]])
        self.assertEqual(at0.x.shape, (2, 6, 16))

    def test_rank_major(self):
        at0, at1 = reference.dispatch_rank_major(self.x, self.topk, self.weights, self.first, 3)
        self.assertEqual(at0.count.tolist(), [2, 1])
        self.assertEqual(at1.count.tolist(), [1, 1])
        self.assertEqual(at0.src_info[0, :2].tolist(), [0, 2])
        self.assertEqual(self.values(at0.x[0, :2]), [0, 2])
        self.assertEqual(at0.x.shape, (2, 3, 16))
        self.assertEqual(at0.topk_idx[0].tolist(), [[0, 1], [-1, 0], [-1, -1]])
        self.assertEqual(at0.topk_weights[0].tolist(), [[0.5, 0.5], [0, 0.5], [0, 0]])
        self.assertEqual(at1.topk_idx[1, 0].tolist(), [-1, 0])
        out = reference.combine_rank_major([at0.x, at1.x], self.topk, self.first)
        self.assertEqual(self.values(out[0]), [0, 1, 2])
        self.assertEqual(self.values(out[1]), [20])

    def test_both_combines_of_exact_sums(self):
        received = reference.dispatch(self.x, self.topk, self.first, 3)
        y = [rank.x for rank in received]
        for combine in (reference.combine, reference.combine_rank):
            out = combine(y, self.topk, self.weights, self.first)
            self.assertEqual(self.values(out[0]), [0, 1, 1])  # token 2 has one expert: half of 2
            self.assertEqual(self.values(out[1]), [10])

    def test_partials_are_rounded_once_more(self):
        y = [np.zeros((2, 6, 16), np.uint16) for _ in range(2)]
        y[0][0, 0], y[0][1, 0] = bf16(1, 2.0**-9)
        y[1][0, 0], y[1][1, 0] = bf16(2.0**-9, 2.0**-10)
        topk = [np.array([[0, 1, 2, 3]]), np.zeros((0, 4), int)]
        weights = [np.ones((1, 4), np.float32), np.ones((0, 4), np.float32)]
        exact = reference.combine(y, topk, weights, self.first)[0]
        partial = reference.combine_rank(y, topk, weights, self.first)[0]
        self.assertEqual(self.values(exact), [1 + 2.0**-7])  # 1 + 2^-8 + 2^-10 is above the tie
        self.assertEqual(self.values(partial), [1])  # rank 0's partial is 1, and 1 + 2^-9 + 2^-10 is below it

    def test_rank_is_within_its_bound_of_none(self):
        rng = np.random.default_rng(4)
        first = reference.first_experts(8, 3)
        topk = [np.stack([rng.permutation(8)[:4] for _ in range(5)]) for _ in range(3)]
        weights = [rng.random(t.shape).astype(np.float32) for t in topk]
        y = [quant.f32_to_bf16(np.abs(rng.standard_normal((first[r + 1] - first[r], 15, 32)))) for r in range(3)]
        exact = reference.combine(y, topk, weights, first)
        partial = reference.combine_rank(y, topk, weights, first)
        for a, b in zip(exact, partial):
            a, b = quant.bf16_to_f32(a), quant.bf16_to_f32(b)
            self.assertTrue((np.abs(a - b) <= 4 * 2.0**-9 * a + 2.0**-8 * a).all())


if __name__ == "__main__":
    unittest.main()
