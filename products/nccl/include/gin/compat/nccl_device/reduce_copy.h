/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce_copy.h - sums and copies between the parts of a domain, by the threads of a coop
 *
 * Loads and stores alone: the caller's barriers order them with what other ranks write and read.
 * One thread reads an element at all sources before it writes it anywhere, so a target may be a
 * source. Threads take 16 bytes at a time where all pointers lie alike in them. Sums of 8 and 16
 * bits of floating point are made in float. Forms with multimem end the kernel: libgin has no
 * multicast memory.
 */
#ifndef GIN_COMPAT_NCCL_REDUCE_COPY_H
#define GIN_COMPAT_NCCL_REDUCE_COPY_H

#include "coop.h"
#include "lsa_barrier.h"
#include "ptr.h"

/* A program's lambda may be for GPUs alone; then only kernels call these functions. */
#if defined(__NVCC__)
#define GIN_NCCL_ANY_LAMBDA _Pragma("nv_exec_check_disable")
#else
#define GIN_NCCL_ANY_LAMBDA
#endif

/* Before a loop over a thread's packs: they stay in registers. */
#if GIN_ON_GPU
#define GIN_NCCL_UNROLLED _Pragma("unroll")
#else
#define GIN_NCCL_UNROLLED
#endif

namespace nccl
{
namespace utility
{

template <class T> struct OpSum {
	using EltType = T;
	GIN_FN T operator()(const T &a, const T &b) const { return static_cast<T>(a + b); }
};

} // namespace utility
} // namespace nccl

/* Elements that are reduced in their own type. */
template <class T> struct ginNcclOwn {
	typedef T Wide;
	GIN_FN static Wide widen(T element) { return element; }
	GIN_FN static T narrow(Wide sum) { return sum; }
};

/* Elements that are reduced in float. */
template <class T> struct ginNcclFloat {
	typedef float Wide;
	GIN_FN static Wide widen(T element) { return static_cast<float>(element); }
	GIN_FN static T narrow(Wide sum) { return static_cast<T>(sum); }
};

/*
 * Functions of CUDA instead of the types' own conversions, which programs may have taken away with
 * __CUDA_NO_HALF_CONVERSIONS__, as PyTorch's extensions do.
 */
#ifdef __CUDA_FP16_TYPES_EXIST__
template <> struct ginNcclFloat<__half> {
	typedef float Wide;
	GIN_FN static Wide widen(__half element) { return __half2float(element); }
	GIN_FN static __half narrow(Wide sum) { return __float2half(sum); }
};
#endif
#ifdef __CUDA_BF16_TYPES_EXIST__
template <> struct ginNcclFloat<__nv_bfloat16> {
	typedef float Wide;
	GIN_FN static Wide widen(__nv_bfloat16 element) { return __bfloat162float(element); }
	GIN_FN static __nv_bfloat16 narrow(Wide sum) { return __float2bfloat16(sum); }
};
#endif

/* The type in which elements are reduced, and the operation there. */
template <class T, class Op> struct ginNcclReduction : ginNcclOwn<T> {
	typedef T Wide;
	GIN_NCCL_ANY_LAMBDA
	GIN_FN static Wide add(const Op &op, Wide sum, T element) { return op(sum, element); }
};

template <class T> struct ginNcclFloatSum : ginNcclFloat<T> {
	GIN_FN static float add(nccl::utility::OpSum<T>, float sum, T element)
	{
		return sum + ginNcclFloat<T>::widen(element);
	}
};

#ifdef __CUDA_FP16_TYPES_EXIST__
template <> struct ginNcclReduction<__half, nccl::utility::OpSum<__half>>
    : ginNcclFloatSum<__half> {
};
#endif
#ifdef __CUDA_BF16_TYPES_EXIST__
template <> struct ginNcclReduction<__nv_bfloat16, nccl::utility::OpSum<__nv_bfloat16>>
    : ginNcclFloatSum<__nv_bfloat16> {
};
#endif
#ifdef __CUDA_FP8_TYPES_EXIST__
template <> struct ginNcclReduction<__nv_fp8_e4m3, nccl::utility::OpSum<__nv_fp8_e4m3>>
    : ginNcclFloatSum<__nv_fp8_e4m3> {
};
template <> struct ginNcclReduction<__nv_fp8_e5m2, nccl::utility::OpSum<__nv_fp8_e5m2>>
    : ginNcclFloatSum<__nv_fp8_e5m2> {
};
#endif

/* A copy: there is one source, and its bits do not change. */
struct ginNcclNoReduction {
};
template <class T> struct ginNcclReduction<T, ginNcclNoReduction> : ginNcclOwn<T> {
	GIN_FN static T add(ginNcclNoReduction, T first, T) { return first; }
};

/* Where the elements are: number i of the sources or targets. */
template <class T> struct ginNcclAt {
	T *first;
	size_t distance; /* in elements; 0: there is one */
	GIN_FN T *operator()(int i) const { return first + static_cast<size_t>(i) * distance; }
};

template <class T> struct ginNcclAtTeam {
	ncclSymPtr<T> part;
	ncclTeam_t team;
	GIN_FN T *operator()(int i) const { return part.peerPtr(team, i); }
};

/* `n` neighbouring elements, which one access loads or stores. */
template <class T, int n> struct ginNcclPack {
	T element[n];

	GIN_FN static ginNcclPack load(const T *from)
	{
		ginNcclPack pack;
#if GIN_ON_GPU
		if constexpr (n > 1) {
			const uint4 words = *reinterpret_cast<const uint4 *>(from);
			memcpy(static_cast<void *>(&pack), &words, sizeof(pack));
			return pack;
		}
#endif
		memcpy(static_cast<void *>(&pack), from, sizeof(pack));
		return pack;
	}

	GIN_FN void store(T *to) const
	{
#if GIN_ON_GPU
		if constexpr (n > 1) {
			uint4 words;
			memcpy(&words, this, sizeof(*this));
			*reinterpret_cast<uint4 *>(to) = words;
			return;
		}
#endif
		memcpy(static_cast<void *>(to), this, sizeof(*this));
	}
};

/* One thread's share of `packs` packs from element `first` on, `depth` packs at a time. */
template <class T, int n, int depth, class Coop, class From, class To, class Op>
struct ginNcclMove {
	typedef ginNcclReduction<T, Op> Reduction;
	typedef typename Reduction::Wide Wide;
	typedef ginNcclPack<T, n> Pack;

	From from;
	To to;
	int nFrom, nTo;
	Op op;

	/* Reads `depth` packs, `stride` elements apart, of which the first `have` exist. */
	GIN_NCCL_ANY_LAMBDA
	GIN_FN void read(Pack (&packs)[depth], int i, size_t at, size_t stride, size_t have) const
	{
		const T *source = from(i) + at;
		GIN_NCCL_UNROLLED
		for (int d = 0; d < depth; d++)
			if (static_cast<size_t>(d) < have)
				packs[d] = Pack::load(source + static_cast<size_t>(d) * stride);
	}

	GIN_NCCL_ANY_LAMBDA
	GIN_FN void add(Wide (&sums)[depth][n], const Pack (&packs)[depth], bool isFirst) const
	{
		GIN_NCCL_UNROLLED
		for (int d = 0; d < depth; d++)
			GIN_NCCL_UNROLLED
		for (int e = 0; e < n; e++)
			sums[d][e] = isFirst ? Reduction::widen(packs[d].element[e])
					     : Reduction::add(op, sums[d][e], packs[d].element[e]);
	}

	/* Loads from two sources are under way at a time. */
	GIN_FN void reduce(Wide (&sums)[depth][n], size_t at, size_t stride, size_t have) const
	{
		Pack packs[depth] = {}, others[depth] = {};

		GIN_NO_UNROLL
		for (int i = 0; i < nFrom; i += 2) {
			const bool two = i + 1 < nFrom;
			read(packs, i, at, stride, have);
			if (two)
				read(others, i + 1, at, stride, have);
			add(sums, packs, i == 0);
			if (two)
				add(sums, others, false);
		}
	}

	GIN_NCCL_ANY_LAMBDA
	GIN_FN void write(const Wide (&sums)[depth][n], size_t at, size_t stride, size_t have) const
	{
		Pack packs[depth];

		GIN_NCCL_UNROLLED
		for (int d = 0; d < depth; d++)
			GIN_NCCL_UNROLLED
		for (int e = 0; e < n; e++)
			packs[d].element[e] = Reduction::narrow(sums[d][e]);
		GIN_NO_UNROLL
		for (int i = 0; i < nTo; i++) {
			T *target = to(i) + at;
			GIN_NCCL_UNROLLED
			for (int d = 0; d < depth; d++)
				if (static_cast<size_t>(d) < have)
					packs[d].store(target + static_cast<size_t>(d) * stride);
		}
	}

	GIN_FN void run(Coop coop, size_t first, size_t packs) const
	{
		const size_t threads = static_cast<size_t>(coop.size());

		GIN_NO_UNROLL
		for (size_t p = static_cast<size_t>(coop.thread_rank()); p < packs;
		     p += depth * threads) {
			const size_t have = (packs - p + threads - 1) / threads;
			Wide sums[depth][n] = {};
			reduce(sums, first + p * n, threads * n, have);
			write(sums, first + p * n, threads * n, have);
		}
	}
};

/* Elements before a multiple of 16 bytes, at all pointers alike; `none`: there is no such place. */
template <class T, class From, class To> struct ginNcclAlignment {
	static constexpr size_t none = ~size_t{0};

	GIN_NCCL_ANY_LAMBDA
	GIN_FN static size_t head(const From &from, int nFrom, const To &to, int nTo)
	{
		const uintptr_t first = reinterpret_cast<uintptr_t>(from(0));
		uintptr_t differ = first % sizeof(T);

		for (int i = 1; i < nFrom; i++)
			differ |= first ^ reinterpret_cast<uintptr_t>(from(i));
		for (int i = 0; i < nTo; i++)
			differ |= first ^ reinterpret_cast<uintptr_t>(to(i));
		return differ & 15 ? none : ((0 - first) & 15) / sizeof(T);
	}
};

template <class T, int unroll, class Coop, class From, class To, class Op>
GIN_FN void ginNcclReduceCopy(Coop coop, From from, int nFrom, To to, int nTo, Op op, size_t count)
{
	constexpr int n = 16 % sizeof(T) == 0 ? static_cast<int>(16 / sizeof(T)) : 1;
	constexpr int depth = unroll / n > 4 ? 4 : unroll / n > 0 ? unroll / n : 1;
	typedef ginNcclAlignment<T, From, To> Alignment;
	const ginNcclMove<T, 1, 1, Coop, From, To, Op> one{from, to, nFrom, nTo, op};
	const ginNcclMove<T, n, depth, Coop, From, To, Op> many{from, to, nFrom, nTo, op};

	if (nFrom <= 0 || nTo <= 0 || !count)
		return;
	const size_t head = n > 1 ? Alignment::head(from, nFrom, to, nTo) : Alignment::none;
	const size_t packs = head < count ? (count - head) / n : 0;
	const size_t end = packs ? head + packs * n : 0;
	if (packs) {
		one.run(coop, 0, head);
		many.run(coop, head, packs);
	}
	one.run(coop, end, count - end);
}

/* Elements that a thread has in flight, unless the program says otherwise. */
#define GIN_NCCL_UNROLL(T) static_cast<int>(64 / sizeof(T))

/*
 * Any sources to any targets. `from(i)`, `to(i)`: a pointer that this rank's kernels can use; `op`
 * is applied in the order of the sources.
 */
template <class T, class Coop, class From, class To, class Op, class Count,
	  int UNROLL = GIN_NCCL_UNROLL(T)>
GIN_FN void ncclLsaReduceLsaCopy(Coop coop, From from, int nFrom, To to, int nTo, Op const &op,
				 Count count)
{
	ginNcclReduceCopy<T, UNROLL>(coop, from, nFrom, to, nTo, op, static_cast<size_t>(count));
}

template <class T, class Coop, class From, class To, class Count, int UNROLL = GIN_NCCL_UNROLL(T)>
GIN_FN void ncclLsaReduceSumLsaCopy(Coop coop, From from, int nFrom, To to, int nTo, Count count)
{
	ginNcclReduceCopy<T, UNROLL>(coop, from, nFrom, to, nTo, nccl::utility::OpSum<T>(),
				     static_cast<size_t>(count));
}

/* The sum of all sources, at one target. */
template <class T, class Coop, class From, class Count, int UNROLL = GIN_NCCL_UNROLL(T)>
GIN_FN void ncclLsaReduceSum(Coop coop, From from, int nFrom, T *to, Count count)
{
	ginNcclReduceCopy<T, UNROLL>(coop, from, nFrom, ginNcclAt<T>{to, 0}, 1,
				     nccl::utility::OpSum<T>(), static_cast<size_t>(count));
}

template <class T, class Coop, class Count, int UNROLL = GIN_NCCL_UNROLL(T)>
GIN_FN void ncclLsaReduceSum(Coop coop, ncclSymPtr<T> from, T *to, Count count, ncclTeam_t team)
{
	ncclLsaReduceSum<T, Coop, ginNcclAtTeam<T>, Count, UNROLL>(
		coop, ginNcclAtTeam<T>{from, team}, team.nRanks, to, count);
}

template <class T, class Coop, class Count, int UNROLL = GIN_NCCL_UNROLL(T)> GIN_FN void
ncclLsaReduceSum(Coop coop, ncclSymPtr<T> from, T *to, Count count, ncclDevComm const &dc)
{
	ncclLsaReduceSum<T, Coop, Count, UNROLL>(coop, from, to, count, ncclTeamLsa(dc));
}

/* `place`: an ncclTeam_t or an ncclDevComm. */
template <class T, class Coop, class Count, int UNROLL = GIN_NCCL_UNROLL(T), class Place>
GIN_FN void ncclLsaReduceSum(Coop coop, ncclWindow_t window, size_t offset, T *to, Count count,
			     Place const &place)
{
	ncclLsaReduceSum<T, Coop, Count, UNROLL>(coop, ncclSymPtr<T>(window, offset), to, count,
						 place);
}

template <class T, class Coop, class From, class Count, int UNROLL = GIN_NCCL_UNROLL(T)>
GIN_FN void ncclLocalReduceSum(Coop coop, From from, int nFrom, T *to, Count count)
{
	ncclLsaReduceSum<T, Coop, From, Count, UNROLL>(coop, from, nFrom, to, count);
}

/* Distances in elements. */
template <class T, class Coop, class Count, int UNROLL = GIN_NCCL_UNROLL(T)>
GIN_FN void ncclLocalReduceSum(Coop coop, int nFrom, T *from, size_t distance, T *to, Count count)
{
	ncclLsaReduceSum<T, Coop, ginNcclAt<T>, Count, UNROLL>(coop, ginNcclAt<T>{from, distance},
							       nFrom, to, count);
}

/*
 * One source, copied to all targets. The result type excludes a team or ncclDevComm as `count`:
 * they belong to the forms below.
 */
template <class T, class Coop, class To, class Count, int UNROLL = GIN_NCCL_UNROLL(T)>
GIN_FN auto ncclLsaCopy(Coop coop, T *from, To to, int nTo, Count count)
	-> decltype(static_cast<void>(static_cast<size_t>(count)))
{
	ginNcclReduceCopy<T, UNROLL>(coop, ginNcclAt<T>{from, 0}, 1, to, nTo, ginNcclNoReduction(),
				     static_cast<size_t>(count));
}

template <class T, class Coop, class Count, int UNROLL = GIN_NCCL_UNROLL(T)>
GIN_FN void ncclLsaCopy(Coop coop, T *from, ncclSymPtr<T> to, Count count, ncclTeam_t team)
{
	ncclLsaCopy<T, Coop, ginNcclAtTeam<T>, Count, UNROLL>(
		coop, from, ginNcclAtTeam<T>{to, team}, team.nRanks, count);
}

template <class T, class Coop, class Count, int UNROLL = GIN_NCCL_UNROLL(T)>
GIN_FN void ncclLsaCopy(Coop coop, T *from, ncclSymPtr<T> to, Count count, ncclDevComm const &dc)
{
	ncclLsaCopy<T, Coop, Count, UNROLL>(coop, from, to, count, ncclTeamLsa(dc));
}

template <class T, class Coop, class Count, int UNROLL = GIN_NCCL_UNROLL(T), class Place>
GIN_FN void ncclLsaCopy(Coop coop, T *from, ncclWindow_t window, size_t offset, Count count,
			Place const &place)
{
	ncclLsaCopy<T, Coop, Count, UNROLL>(coop, from, ncclSymPtr<T>(window, offset), count,
					    place);
}

template <class T, class Coop, class To, class Count, int UNROLL = GIN_NCCL_UNROLL(T)>
GIN_FN void ncclLocalCopy(Coop coop, T *from, To to, int nTo, Count count)
{
	ncclLsaCopy<T, Coop, To, Count, UNROLL>(coop, from, to, nTo, count);
}

template <class T, class Coop, class Count, int UNROLL = GIN_NCCL_UNROLL(T)>
GIN_FN void ncclLocalCopy(Coop coop, T *from, int nTo, T *to, size_t distance, Count count)
{
	ncclLsaCopy<T, Coop, ginNcclAt<T>, Count, UNROLL>(coop, from, ginNcclAt<T>{to, distance},
							  nTo, count);
}

/* The sum of all sources, at all targets. */
template <class T, class Coop, class Count, int UNROLL = GIN_NCCL_UNROLL(T)>
GIN_FN void ncclLsaReduceSumCopy(Coop coop, ncclSymPtr<T> from, ncclTeam_t fromTeam,
				 ncclSymPtr<T> to, ncclTeam_t toTeam, Count count)
{
	ncclLsaReduceSumLsaCopy<T, Coop, ginNcclAtTeam<T>, ginNcclAtTeam<T>, Count, UNROLL>(
		coop, ginNcclAtTeam<T>{from, fromTeam}, fromTeam.nRanks,
		ginNcclAtTeam<T>{to, toTeam}, toTeam.nRanks, count);
}

template <class T, class Coop, class Count, int UNROLL = GIN_NCCL_UNROLL(T)> GIN_FN void
ncclLsaReduceSumCopy(Coop coop, ncclSymPtr<T> from, ncclSymPtr<T> to, Count count, ncclTeam_t team)
{
	ncclLsaReduceSumCopy<T, Coop, Count, UNROLL>(coop, from, team, to, team, count);
}

template <class T, class Coop, class Count, int UNROLL = GIN_NCCL_UNROLL(T)>
GIN_FN void ncclLsaReduceSumCopy(Coop coop, ncclSymPtr<T> from, ncclSymPtr<T> to, Count count,
				 ncclDevComm const &dc)
{
	ncclLsaReduceSumCopy<T, Coop, Count, UNROLL>(coop, from, to, count, ncclTeamLsa(dc));
}

template <class T, class Coop, class Count, int UNROLL = GIN_NCCL_UNROLL(T), class Place>
GIN_FN void ncclLsaReduceSumCopy(Coop coop, ncclWindow_t fromWindow, size_t fromOffset,
				 ncclWindow_t toWindow, size_t toOffset, Count count,
				 Place const &place)
{
	ncclLsaReduceSumCopy<T, Coop, Count, UNROLL>(coop, ncclSymPtr<T>(fromWindow, fromOffset),
						     ncclSymPtr<T>(toWindow, toOffset), count,
						     place);
}

template <class T, class Coop, class Count, int UNROLL = GIN_NCCL_UNROLL(T)>
GIN_FN void ncclLocalReduceSumCopy(Coop coop, int nFrom, T *from, size_t fromDistance, int nTo,
				   T *to, size_t toDistance, Count count)
{
	ncclLsaReduceSumLsaCopy<T, Coop, ginNcclAt<T>, ginNcclAt<T>, Count, UNROLL>(
		coop, ginNcclAt<T>{from, fromDistance}, nFrom, ginNcclAt<T>{to, toDistance}, nTo,
		count);
}

/* Forms with multimem end the kernel, as an LSA barrier with multimem does. */
#define GIN_NCCL_NO_MULTIMEM(name, ...)                                                            \
	template <class T, class Coop, class Count, int UNROLL = GIN_NCCL_UNROLL(T)>               \
	GIN_FN void name(Coop, __VA_ARGS__)                                                        \
	{                                                                                          \
		ginNcclNoMulticast();                                                              \
	}
GIN_NCCL_NO_MULTIMEM(ncclMultimemReduceSum, ncclSymPtr<T>, T *, Count, ncclMultimemHandle_t)
GIN_NCCL_NO_MULTIMEM(ncclMultimemReduceSum, T *, T *, Count)
GIN_NCCL_NO_MULTIMEM(ncclMultimemReduceSum, ncclWindow_t, size_t, T *, Count, ncclMultimemHandle_t)
GIN_NCCL_NO_MULTIMEM(ncclMultimemCopy, T *, ncclSymPtr<T>, Count, ncclMultimemHandle_t)
GIN_NCCL_NO_MULTIMEM(ncclMultimemCopy, T *, T *, Count)
GIN_NCCL_NO_MULTIMEM(ncclMultimemCopy, T *, ncclWindow_t, size_t, Count, ncclMultimemHandle_t)
GIN_NCCL_NO_MULTIMEM(ncclMultimemReduceSumCopy, ncclSymPtr<T>, ncclMultimemHandle_t, ncclSymPtr<T>,
		     ncclMultimemHandle_t, Count)
GIN_NCCL_NO_MULTIMEM(ncclMultimemReduceSumCopy, T *, T *, Count)
GIN_NCCL_NO_MULTIMEM(ncclMultimemReduceSumCopy, ncclWindow_t, size_t, ncclMultimemHandle_t,
		     ncclWindow_t, size_t, ncclMultimemHandle_t, Count)
GIN_NCCL_NO_MULTIMEM(ncclLsaReduceSumMultimemCopy, ncclSymPtr<T>, ncclTeam_t, ncclSymPtr<T>,
		     ncclMultimemHandle_t, Count)
GIN_NCCL_NO_MULTIMEM(ncclLsaReduceSumMultimemCopy, ncclSymPtr<T>, ncclTeam_t, T *, Count)
GIN_NCCL_NO_MULTIMEM(ncclMultimemReduceSumLsaCopy, ncclSymPtr<T>, ncclMultimemHandle_t,
		     ncclSymPtr<T>, ncclTeam_t, Count)
GIN_NCCL_NO_MULTIMEM(ncclMultimemReduceSumLsaCopy, T *, ncclSymPtr<T>, ncclTeam_t, Count)
#undef GIN_NCCL_NO_MULTIMEM

#define GIN_NCCL_NO_MULTIMEM(name)                                                                 \
	template <class T, class Coop, class From, class To, class Count,                          \
		  int UNROLL = GIN_NCCL_UNROLL(T)>                                                 \
	GIN_FN void name(Coop, From, int, To, int, Count)                                          \
	{                                                                                          \
		ginNcclNoMulticast();                                                              \
	}
GIN_NCCL_NO_MULTIMEM(ncclLsaReduceSumMultimemCopy)
GIN_NCCL_NO_MULTIMEM(ncclMultimemReduceSumLsaCopy)
GIN_NCCL_NO_MULTIMEM(ncclMultimemReduceSumMultimemCopy)
#undef GIN_NCCL_NO_MULTIMEM

template <class T, class Coop, class From, class To, class Op, class Count,
	  int UNROLL = GIN_NCCL_UNROLL(T)>
GIN_FN void ncclLsaReduceMultimemCopy(Coop, From, int, To, int, Op const &, Count)
{
	ginNcclNoMulticast();
}

#endif
