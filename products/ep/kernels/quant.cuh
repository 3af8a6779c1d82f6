/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * quant.cuh - bf16, e4m3, e2m1 and scales, for GPU threads and host threads, with equal results
 * bit by bit
 *
 * amax is the largest magnitude of the elements of a scale; NaN is ignored. GIN_EP_ROWS_F8: of 128
 * elements, at least 1e-4.
 *	GIN_EP_SCALE_F32          scale = amax / 448, an element becomes e4m3(x * (448 / amax))
 *	GIN_EP_SCALE_POW2, UE8M0  scale = 2^ceil(log2(amax / 448)), e4m3(x / scale)
 * GIN_EP_ROWS_MXF8: of 32 elements. scale = 2^(floor(log2(amax)) - 8), at least 2^-127,
 * e4m3(x / scale).
 * GIN_EP_ROWS_NVF4: of 16 elements, and a global scale g. scale = e4m3((amax / 6) * g),
 * e2m1(x * (g / scale)); 0 where the scale is 0.
 */
#ifndef GIN_EP_QUANT_CUH
#define GIN_EP_QUANT_CUH

#include "gin_device.cuh"

#if GIN_ON_GPU && __CUDA_ARCH__ >= 890
#define EP_HAS_E4M3 1
#else
#define EP_HAS_E4M3 0
#endif

/* Before a short loop. */
#if GIN_ON_GPU
#define EP_UNROLL _Pragma("unroll")
#else
#define EP_UNROLL
#endif

GIN_FN float epFloatOf(uint32_t bits)
{
#if GIN_ON_GPU
	return __uint_as_float(bits);
#else
	float value;
	memcpy(&value, &bits, sizeof(value));
	return value;
#endif
}

GIN_FN uint32_t epBitsOf(float value)
{
#if GIN_ON_GPU
	return __float_as_uint(value);
#else
	uint32_t bits;
	memcpy(&bits, &value, sizeof(bits));
	return bits;
#endif
}

/* The two bf16 of a word. */
GIN_FN float epLow(uint32_t pair)
{
	return epFloatOf(pair << 16);
}
GIN_FN float epHigh(uint32_t pair)
{
	return epFloatOf(pair & 0xffff0000u);
}

/* To bf16, to nearest, ties to even. NaN becomes 0x7fff. */
GIN_FN uint32_t epToBf16(float value)
{
	uint32_t bits = epBitsOf(value);
	if ((bits & 0x7fffffffu) > 0x7f800000u)
		return 0x7fff;
	return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

GIN_FN uint32_t epBf16Pair(float low, float high)
{
#if GIN_ON_GPU
	uint32_t pair;
	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
	return pair;
#else
	return epToBf16(low) | epToBf16(high) << 16;
#endif
}

/* sum + a * b, rounded once. */
GIN_FN float epFma(float a, float b, float sum)
{
#if GIN_ON_GPU
	return __fmaf_rn(a, b, sum);
#else
	return __builtin_fmaf(a, b, sum);
#endif
}

/* sum + a, which no compiler may contract with the caller's product. */
GIN_FN float epPlus(float sum, float a)
{
#if GIN_ON_GPU
	return __fadd_rn(sum, a);
#else
	return sum + a;
#endif
}

GIN_FN float epTimes(float a, float b)
{
#if GIN_ON_GPU
	return __fmul_rn(a, b);
#else
	return a * b;
#endif
}

GIN_FN float epDivide(float a, float b)
{
#if GIN_ON_GPU
	return __fdiv_rn(a, b);
#else
	return a / b;
#endif
}

/* Magnitude bits of a float as e4m3: to nearest, ties to even, at most 448. */
GIN_FN uint32_t epMagnitudeToE4m3(uint32_t bits)
{
	if (bits > 0x7f800000u)
		return 0x7f; /* NaN */
	if (bits >= 0x43e80000u)
		return 0x7e; /* 464 and more; 464 is a tie, which goes to 448 too */
	if (bits < 0x3c800000u) {
		/*
		 * Below 2^-6: multiples of 2^-9. Adding 2^14 leaves 9 bits below the point; the
		 * addition rounds.
		 */
		return epBitsOf(epPlus(epFloatOf(bits), 16384.0f)) - 0x46800000u;
	}
	bits += 0x7ffff + (bits >> 20 & 1);
	return (bits >> 20) - (120u << 3);
}

GIN_FN uint32_t epToE4m3(float value)
{
	uint32_t bits = epBitsOf(value), magnitude = bits & 0x7fffffffu;
	uint32_t e4m3 = epMagnitudeToE4m3(magnitude);
	return e4m3 == 0x7f ? 0x7f : e4m3 | (bits >> 31) << 7;
}

/* Four e4m3 in a word, `a` in the low byte. */
GIN_FN uint32_t epE4m3Quad(float a, float b, float c, float d)
{
#if EP_HAS_E4M3
	uint16_t low, high;
	asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(b), "f"(a));
	asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(d), "f"(c));
	return low | static_cast<uint32_t>(high) << 16;
#else
	return epToE4m3(a) | epToE4m3(b) << 8 | epToE4m3(c) << 16 | epToE4m3(d) << 24;
#endif
}

/* The larger; `value` NaN: `most`. */
GIN_FN float epLarger(float most, float value)
{
	return value > most ? value : most;
}

GIN_FN float epMagnitude(float value)
{
	return epFloatOf(epBitsOf(value) & 0x7fffffffu);
}

/* An exponent of UE8M0, 2^(e - 127), as float. 255 is NaN. */
GIN_FN float epFromUe8m0(uint32_t exponent)
{
	if (exponent == 0)
		return epFloatOf(0x00400000u);
	return exponent == 255 ? epFloatOf(0x7fc00000u) : epFloatOf(exponent << 23);
}

/* The exponent of a scale that is a power of two, or of the next one. */
GIN_FN uint32_t epToUe8m0(float scale)
{
	uint32_t bits = epBitsOf(scale) & 0x7fffffffu;
	if (bits >= 0x7f800000u)
		return 255;
	if (bits <= 0x00400000u) /* 2^-127, which has exponent 0 though it is denormal */
		return 0;
	return (bits >> 23) + ((bits & 0x7fffff) != 0);
}

/* Magnitude bits of an e4m3 that is no NaN, as float. */
GIN_FN float epFromE4m3(uint32_t e4m3)
{
	if (e4m3 < 8)
		return epTimes(static_cast<float>(e4m3), 0.001953125f); /* multiples of 2^-9 */
	return epFloatOf((e4m3 << 20) + (120u << 23));
}

/*
 * e2m1: 0, 0.5, 1, 1.5, 2, 3, 4 and 6, to nearest, ties to even, at most 6. NaN becomes 6, as the
 * conversion of newer GPUs makes it.
 */
GIN_FN uint32_t epToE2m1(float value)
{
	const float size = epMagnitude(value);
	const uint32_t sign = size != size ? 0 : epBitsOf(value) >> 31;
	return sign << 3 | (!(size <= 0.25f) + !(size < 0.75f) + !(size <= 1.25f) +
			    !(size < 1.75f) + !(size <= 2.5f) + !(size < 3.5f) + !(size <= 5.0f));
}

/* The exponent of the scale of 32 mxfp8 elements: 8 is the exponent of e4m3's largest binade. */
GIN_FN uint32_t epMxExponent(float amax)
{
	const uint32_t exponent = epBitsOf(amax) >> 23;
	return exponent < 8 ? 0 : exponent - 8;
}

/* The scale of 16 nvfp4 elements as e4m3, at most 448. */
GIN_FN uint32_t epNvScale(float amax, float global)
{
	return epToE4m3(epTimes(epDivide(amax, 6.0f), global));
}

GIN_FN float epNvFactor(uint32_t scale, float global)
{
	return scale ? epDivide(global, epFromE4m3(scale)) : 0.0f;
}

/* A scale, and the factor by which elements are multiplied. */
struct epScale {
	float scale, factor;
};

GIN_FN epScale epScaleOf(float amax, bool pow2)
{
	float scale = epDivide(amax, 448.0f);
	if (!pow2)
		return {scale, epDivide(448.0f, amax)};
	uint32_t exponent = epToUe8m0(scale);
	return {epFromUe8m0(exponent), epFromUe8m0(254 - (exponent > 254 ? 254 : exponent))};
}

#endif
