/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port.h - shared code of the ports: programs in the manner of kernels written for NCCL's ncclGin
 *
 * Each port is a functor with run(), which every thread of a launch executes and which returns the
 * first error. Data comes from a seed, so that a failure can be repeated: SEED=n, equal on all
 * ranks, chooses another seed.
 */
#ifndef GIN_TEST_PORT_H
#define GIN_TEST_PORT_H

#include "harness.h"

/*
 * Ends run() at the first failure. All threads of a coop get one result, so that no thread stays
 * alone in a later call of the coop.
 */
#define TRY(call)                                                                                  \
	do {                                                                                       \
		ginResult_t tried = (call);                                                        \
		if (tried != ginSuccess)                                                           \
			return tried;                                                              \
	} while (0)

GIN_FN uint32_t gridThread()
{
	return ginBlockIndex() * ginBlockSize() + ginThreadIndex();
}

GIN_FN uint32_t gridThreads()
{
	return ginGridSize() * ginBlockSize();
}

/* This thread's warp among all of the grid; a block's last warp may have fewer threads. */
GIN_FN uint32_t warpsPerBlock()
{
	return (ginBlockSize() - 1) / GIN_WARP_SIZE + 1;
}

GIN_FN uint32_t gridWarp()
{
	return ginBlockIndex() * warpsPerBlock() + ginThreadIndex() / GIN_WARP_SIZE;
}

GIN_FN uint32_t gridWarps()
{
	return ginGridSize() * warpsPerBlock();
}

/* Converts an unsigned rank for a team call that takes an int. */
GIN_FN int rankOf(uint32_t rank)
{
	return static_cast<int>(rank);
}

/*
 * Groups of `size` ranks: this rank's group, and the ranks with its number in each group. With the
 * NVLink domain's size they are ginTeamDomain and ginTeamRail. Smaller groups let a machine where
 * every rank is a direct peer run the code for other ranks.
 */
GIN_FN ginTeam teamInner(const ginDevComm &dc, uint32_t size)
{
	return {rankOf(size), rankOf(dc.rank % size), 1};
}

GIN_FN ginTeam teamOuter(const ginDevComm &dc, uint32_t size)
{
	return {rankOf(dc.nRanks / size), rankOf(dc.rank / size), rankOf(size)};
}

GIN_FN bool isMember(const ginDevComm &dc, ginTeam team, int world)
{
	return ginTeamFromWorld(dc, team, world) >= 0;
}

/* On a host, polling loops of the program give the core to the thread for which they wait. */
GIN_FN void relax()
{
#if !GIN_ON_GPU
	sched_yield();
#endif
}

/*
 * A counter of this rank's threads: a thread that sees the sum sees all stores before each
 * addition.
 */
GIN_FN uint32_t fetchAdd(uint32_t *word, uint32_t value)
{
#if GIN_ON_GPU
	__threadfence();
	uint32_t old = atomicAdd(word, value);
	__threadfence();
	return old;
#else
	return __atomic_fetch_add(word, value, __ATOMIC_ACQ_REL);
#endif
}

/* Pseudo-random bits from four numbers. */
GIN_FN uint64_t mix(uint64_t seed, uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t x = seed + 0x9e3779b97f4a7c15ull * (a + 1);
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull + b;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull + c;
	x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9ull;
	return x ^ x >> 29;
}

inline uint64_t portSeed()
{
	return numberOr("SEED", 20250917);
}

struct Grid {
	uint32_t blocks, threads;
};

/* Few threads on a host, not a multiple of the warp size. */
inline Grid portGrid(const Rank &r)
{
	return r.device < 0 ? Grid{2, 6} : Grid{4, 128};
}

/* A device communicator with all options. */
struct Communicator {
	Rank &rank;
	ginDevComm dc;

	Communicator(Rank &r, uint32_t contexts, uint32_t signals, uint32_t counters,
		     uint32_t barriers)
	    : rank(r)
	{
		ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
		want.contexts = contexts;
		want.signals = signals;
		want.counters = counters;
		want.barriers = barriers;
		want.timeout = 60000000000ull;
		CHECK(ginDevCommCreate(r.comm, &want, &dc));
	}

	~Communicator() { CHECK(ginDevCommDestroy(rank.comm, &dc)); }

	Communicator(const Communicator &) = delete;
	Communicator &operator=(const Communicator &) = delete;
};

/* Sizes of neighbourhoods whose ranks are all direct peers of each other. */
inline std::vector<uint32_t> innerSizes(const ginDevComm &dc)
{
	std::vector<uint32_t> sizes;
	for (uint32_t size = 1; size <= dc.domainSize; size++)
		if (dc.domainSize % size == 0)
			sizes.push_back(size);
	return sizes;
}

template <class Step> struct Reporting {
	Step step;
	uint64_t *results;

	GIN_FN void operator()() const { results[gridThread()] = step.run(); }
};

/* Launches run() and requires success of every thread; `results` has a word for each. */
template <class Step> void runOn(Rank &r, Grid grid, Results &results, Step step)
{
	results.clear();
	launch(r, grid.blocks, grid.threads, Reporting<Step>{step, results.words});
	for (size_t i = 0; i < results.count; i++) {
		if (results.words[i] == ginSuccess)
			continue;
		fprintf(stderr, "rank %d, thread %zu: %s\n", r.rank, i,
			ginGetErrorString(static_cast<ginResult_t>(results.words[i])));
		EXPECT(!"every thread of the kernel succeeds");
	}
}

template <class T> void writeTo(Buffer &to, const std::vector<T> &from)
{
	EXPECT(from.size() * sizeof(T) <= to.bytes);
	copyBytes(to.rank, to.ptr, from.data(), from.size() * sizeof(T));
}

template <class T> std::vector<T> readFrom(const Buffer &from)
{
	std::vector<T> out(from.bytes / sizeof(T));
	copyBytes(from.rank, out.data(), from.ptr, out.size() * sizeof(T));
	return out;
}

inline void portSay(const Rank &r, const char *name)
{
	if (r.rank == 0)
		printf("%s: %d ranks on %s, SEED=%llu\n", name, r.nRanks,
		       r.device < 0 ? "host threads" : "GPUs",
		       static_cast<unsigned long long>(portSeed()));
	fflush(stdout);
}

/* The main() of a port. */
inline int portMain(int argc, char **argv, int (*run)(const ginConfig_t *config))
{
	shareGpu();
	return ranksMain(argc, argv, run);
}

#endif
