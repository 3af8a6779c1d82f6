/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * utility.h - nccl::utility: the arithmetic that programs take from NCCL's headers
 *
 * Divisors of alignUp() and alignDown() are powers of two.
 */
#ifndef GIN_COMPAT_NCCL_UTILITY_H
#define GIN_COMPAT_NCCL_UTILITY_H

#include "core.h"

#ifdef __cplusplus

#include "gin/core/target.cuh"

namespace nccl
{
namespace utility
{

template <class X, class Y, class Z = decltype(X() + Y())> GIN_FN constexpr Z divUp(X x, Y y)
{
	return (x + y - 1) / y;
}

template <class X, class Y, class Z = decltype(X() + Y())> GIN_FN constexpr Z roundUp(X x, Y y)
{
	return divUp(x, y) * y;
}

template <class X, class Y, class Z = decltype(X() + Y())> GIN_FN constexpr Z roundDown(X x, Y y)
{
	return x - x % y;
}

template <class X, class Y, class Z = decltype(X() + Y())> GIN_FN constexpr Z alignUp(X x, Y a)
{
	return (x + a - 1) & -static_cast<Z>(a);
}

template <class X, class Y, class Z = decltype(X() + Y())> GIN_FN constexpr Z alignDown(X x, Y a)
{
	return x & -static_cast<Z>(a);
}

template <class T> GIN_FN T *alignUp(T *x, size_t a)
{
	static_assert(sizeof(T) == 1, "a pointer to bytes");
	return reinterpret_cast<T *>(alignUp(reinterpret_cast<uintptr_t>(x), a));
}

template <class T> GIN_FN T *alignDown(T *x, size_t a)
{
	static_assert(sizeof(T) == 1, "a pointer to bytes");
	return reinterpret_cast<T *>(alignDown(reinterpret_cast<uintptr_t>(x), a));
}

template <class Int> GIN_FN constexpr bool isPow2(Int x)
{
	return (x & (x - 1)) == 0;
}

/* Is a at or before b, where both roll over at 2^nBits? */
template <class Uint> GIN_FN bool rollingLessEq(Uint a, Uint b, int nBits = 8 * sizeof(Uint))
{
	static_assert(Uint(0) < static_cast<Uint>(-1), "an unsigned type");
	const Uint mask = static_cast<Uint>(-1) >> (8 * sizeof(Uint) - nBits);
	return ((b - a) & mask) <= mask >> 1;
}

template <class Uint> GIN_FN bool rollingLessThan(Uint a, Uint b, int nBits = 8 * sizeof(Uint))
{
	return !rollingLessEq(b, a, nBits);
}

/* For idivFast32(), imodFast32() and idivmodFast32(): 2^32 / x, rounded down; 0 for x = 1. */
GIN_FN constexpr uint32_t idivRcp32(uint32_t x)
{
	return static_cast<uint32_t>((1ull << 32) / x);
}

GIN_FN void idivmodFast32(uint32_t *quotient, uint32_t *rest, uint32_t x, uint32_t y, uint32_t rcp)
{
	uint32_t q = rcp ? static_cast<uint32_t>(static_cast<uint64_t>(x) * rcp >> 32) : x;
	uint32_t r = x - y * q;
	if (r >= y) {
		q++;
		r -= y;
	}
	*quotient = q;
	*rest = r;
}

GIN_FN uint32_t idivFast32(uint32_t x, uint32_t y, uint32_t rcp)
{
	uint32_t q, r;
	idivmodFast32(&q, &r, x, y, rcp);
	return q;
}

GIN_FN uint32_t imodFast32(uint32_t x, uint32_t y, uint32_t rcp)
{
	uint32_t q, r;
	idivmodFast32(&q, &r, x, y, rcp);
	return r;
}

/* Of the calling thread in its warp. */
GIN_FN int lane()
{
	return static_cast<int>(ginLane());
}

/* The bits of the lanes before it. */
GIN_FN unsigned lanemask_lt()
{
	return (1u << ginLane()) - 1;
}

/* A load of memory that no thread writes while the kernel runs. */
template <class T> GIN_FN T loadConst(const T *from)
{
	return *from;
}

} // namespace utility
} // namespace nccl

#endif /* __cplusplus */

#endif
