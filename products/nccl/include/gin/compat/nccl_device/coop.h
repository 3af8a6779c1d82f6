/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coop.h - cooperative groups in NCCL's words
 *
 * Each has thread_rank(), size(), num_threads() and sync(). ginNcclCoop() gives the coop of libgin
 * with these threads.
 */
#ifndef GIN_COMPAT_NCCL_COOP_H
#define GIN_COMPAT_NCCL_COOP_H

#include "gin/core/coop.cuh"

/* An aligned tile of 1, 2, 4, 8, 16 or 32 lanes of a warp; 32 is a whole warp. */
template <int lanes> struct ncclCoopTile;
typedef ncclCoopTile<1> ncclCoopThread;
typedef ncclCoopTile<32> ncclCoopWarp;

/* libgin's coop of a tile. */
template <int lanes> struct ginNcclTile {
	typedef GinTile<lanes> type;
};
template <> struct ginNcclTile<1> {
	typedef GinThread type;
};
template <> struct ginNcclTile<32> {
	typedef GinWarp type;
};

template <int lanes> struct ncclCoopTile {
	typedef typename ginNcclTile<lanes>::type Gin;

	GIN_FN int thread_rank() const { return static_cast<int>(Gin{}.thread_rank()); }

	/* A warp of host threads has GIN_HOST_WARP threads. */
	GIN_FN constexpr int size() const
	{
		return lanes < 32 || GIN_ON_GPU ? lanes : static_cast<int>(Gin{}.size());
	}

	GIN_FN constexpr int num_threads() const { return size(); }
	GIN_FN void sync() const { Gin{}.sync(); }

	GIN_FN uint32_t laneMask() const
	{
		uint32_t first = ginLane() / lanes * lanes;
		return (0xffffffffu >> (32 - lanes)) << (first & 31);
	}
};

/* Lanes of one warp. */
struct ncclCoopLanes {
	uint32_t lmask;

	GIN_FN constexpr ncclCoopLanes(uint32_t mask = 0xffffffffu) : lmask(mask) {}

	GIN_FN int thread_rank() const { return static_cast<int>(GinLanes{lmask}.thread_rank()); }
	GIN_FN int size() const { return static_cast<int>(GinLanes{lmask}.size()); }
	GIN_FN int num_threads() const { return size(); }
	GIN_FN void sync() const { GinLanes{lmask}.sync(); }
};

/*
 * Whole warps of the block. `id`, from 0, differs from the ids of other spans in use: barrier 1 +
 * id.
 */
struct ncclCoopWarpSpan {
	uint32_t warp0 : 8, nWarps : 8, id : 8;

	GIN_FN constexpr ncclCoopWarpSpan(int firstWarp, int warps, int spanId)
	    : warp0(static_cast<uint8_t>(firstWarp)), nWarps(static_cast<uint8_t>(warps)),
	      id(static_cast<uint8_t>(spanId))
	{
	}

	GIN_FN GinWarpSpan span() const { return {warp0, nWarps, id + 1u}; }
	GIN_FN int thread_rank() const { return static_cast<int>(span().thread_rank()); }
	GIN_FN int size() const { return static_cast<int>(span().size()); }
	GIN_FN int num_threads() const { return size(); }
	GIN_FN void sync() const { span().sync(); }
};

/* A thread block. */
struct ncclCoopCta {
	GIN_FN int thread_rank() const { return static_cast<int>(GinCta{}.thread_rank()); }
	GIN_FN int size() const { return static_cast<int>(GinCta{}.size()); }
	GIN_FN int num_threads() const { return size(); }
	GIN_FN void sync() const { GinCta{}.sync(); }
};

/* libgin's coop with the threads of one of these. */
template <int lanes> GIN_FN typename ginNcclTile<lanes>::type ginNcclCoop(ncclCoopTile<lanes>)
{
	return {};
}

GIN_FN GinLanes ginNcclCoop(ncclCoopLanes coop)
{
	return {coop.lmask};
}

GIN_FN GinWarpSpan ginNcclCoop(ncclCoopWarpSpan coop)
{
	return coop.span();
}

GIN_FN GinCta ginNcclCoop(ncclCoopCta)
{
	return {};
}

/* One of the coops above, chosen at run time. */
struct ncclCoopAny {
	enum Kind : uint32_t { tile, lanes, span, cta };

	Kind kind;
	uint32_t a, b, c; /* lanes of the tile; mask; or first warp, warps and id */

	ncclCoopAny() = default;
	template <int n> GIN_FN ncclCoopAny(ncclCoopTile<n>) : kind(tile), a(n), b(0), c(0) {}
	GIN_FN ncclCoopAny(ncclCoopLanes coop) : kind(lanes), a(coop.lmask), b(0), c(0) {}
	GIN_FN ncclCoopAny(ncclCoopWarpSpan coop)
	    : kind(span), a(coop.warp0), b(coop.nWarps), c(coop.id)
	{
	}
	GIN_FN ncclCoopAny(ncclCoopCta) : kind(cta), a(0), b(0), c(0) {}

	/* Calls `call` with libgin's coop. A tile within a warp is its lanes. */
	template <class Call> GIN_FN auto with(Call call) const -> decltype(call(GinCta{}))
	{
		if (kind == cta)
			return call(GinCta{});
		if (kind == span)
			return call(GinWarpSpan{a, b, c + 1});
		if (kind == lanes)
			return call(GinLanes{a});
		if (a == 32)
			return call(GinWarp{});
		return call(GinLanes{(0xffffffffu >> (32 - a)) << (ginLane() / a * a & 31)});
	}

	GIN_FN int thread_rank() const
	{
		return with([](auto coop) { return static_cast<int>(coop.thread_rank()); });
	}
	GIN_FN int size() const
	{
		return with([](auto coop) { return static_cast<int>(coop.size()); });
	}
	GIN_FN int num_threads() const { return size(); }
	GIN_FN void sync() const
	{
		with([](auto coop) { return coop.any(false); });
	}
};

/* A coop chosen at run time, or of a type of the program's own, in libgin's words. */
struct ginNcclAnyCoop {
	static constexpr bool anyIsSync = true;
	ncclCoopAny coop;

	GIN_FN uint32_t thread_rank() const { return static_cast<uint32_t>(coop.thread_rank()); }
	GIN_FN uint32_t size() const { return static_cast<uint32_t>(coop.size()); }
	GIN_FN void sync() const { coop.sync(); }
	GIN_FN bool any(bool mine) const
	{
		return coop.with([mine](auto own) { return own.any(mine); });
	}
};

template <class Coop> struct ginNcclOwnCoop {
	Coop coop;

	GIN_FN uint32_t thread_rank() const { return static_cast<uint32_t>(coop.thread_rank()); }
	GIN_FN uint32_t size() const { return static_cast<uint32_t>(coop.size()); }

	/* sync() of a program's coop need not be const. */
	GIN_FN void sync() const
	{
		Coop copy = coop;
		copy.sync();
	}
};

GIN_FN ginNcclAnyCoop ginNcclCoop(ncclCoopAny coop)
{
	return {coop};
}

template <class Coop> GIN_FN ginNcclOwnCoop<Coop> ginNcclCoop(Coop coop)
{
	return {coop};
}

/* The lanes of the calling thread's warp that belong to the coop. */
template <int lanes> GIN_FN uint32_t ncclCoopGetLaneMask(ncclCoopTile<lanes> coop)
{
	return coop.laneMask();
}

GIN_FN uint32_t ncclCoopGetLaneMask(ncclCoopLanes coop)
{
	return coop.lmask;
}

template <class Coop> GIN_FN uint32_t ncclCoopGetLaneMask(Coop)
{
	return 0xffffffffu;
}

/* Does the type say that the coop is one thread, or within one warp? */
template <int lanes> GIN_FN constexpr bool ncclCoopIsThread(ncclCoopTile<lanes>)
{
	return lanes == 1;
}

template <class Coop> GIN_FN constexpr bool ncclCoopIsThread(Coop)
{
	return false;
}

template <int lanes> GIN_FN constexpr bool ncclCoopWithinWarp(ncclCoopTile<lanes>)
{
	return true;
}

GIN_FN constexpr bool ncclCoopWithinWarp(ncclCoopLanes)
{
	return true;
}

template <class Coop> GIN_FN constexpr bool ncclCoopWithinWarp(Coop)
{
	return false;
}

/* Lanes of the warp that can make a call together: the active lanes. Host threads: one. */
GIN_FN ncclCoopLanes ncclCoopCoalesced()
{
#if GIN_ON_GPU
	return {__activemask()};
#else
	return {1u << ginLane()};
#endif
}

template <int lanes> GIN_FN ncclCoopTile<lanes> ncclCoopCoalesced(ncclCoopTile<lanes> coop)
{
	return coop;
}

GIN_FN ncclCoopLanes ncclCoopCoalesced(ncclCoopLanes coop)
{
	return coop;
}

template <class Coop> GIN_FN ncclCoopWarp ncclCoopCoalesced(Coop)
{
	return {};
}

/*
 * `value` of the coop's thread `root`, on every thread. One bit at a time, by votes: it works on
 * every coop and on the host, but is slow.
 */
template <class Coop, class Value>
GIN_FN Value ncclCoopBcast(Coop coop, Value value, int root, bool entrySync = true)
{
	const auto own = ginNcclCoop(coop);
	const bool mine = coop.thread_rank() == root;
	unsigned char bytes[sizeof(Value)], got[sizeof(Value)] = {};

	(void)entrySync;
	memcpy(bytes, &value, sizeof(value));
	GIN_NO_UNROLL
	for (uint32_t i = 0; i < 8 * sizeof(Value); i++)
		if (own.any(mine && bytes[i / 8] >> i % 8 & 1))
			got[i / 8] = static_cast<unsigned char>(got[i / 8] | 1u << i % 8);
	memcpy(&value, got, sizeof(value));
	return value;
}

#endif
