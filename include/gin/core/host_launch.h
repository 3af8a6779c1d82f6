/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host_launch.h - host threads that act as GPU threads
 *
 * ginHostLaunch(grid, block, fn, arg) runs fn(arg) on grid x block threads and returns when all
 * have ended. Each thread knows its block and thread number. Device calls and coops mean there what
 * they mean in a kernel, so that one source serves as kernel and as host function. Public: use it
 * to test your own kernels on machines without a GPU. Needs pthreads and C++17.
 *
 * A thread that ginHostLaunch() did not start is a block of one thread.
 */
#ifndef GIN_HOST_LAUNCH_H
#define GIN_HOST_LAUNCH_H

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "abi.h"

/* Threads of a warp on the host, 1 to 32. Every file of a program must use one value. */
#ifndef GIN_HOST_WARP
#define GIN_HOST_WARP 4u
#endif

/*
 * A group of threads that synchronise with each other. `vote` has a flag for this meeting and a
 * flag for the next. No thread can set the flag of the next meeting before every thread has arrived
 * at this meeting; the last thread to arrive clears it.
 */
struct ginHostGroup {
	uint64_t key;	  /* which threads; 0: a free entry */
	uint32_t arrived; /* threads at this meeting */
	uint32_t meeting; /* number of this meeting */
	uint32_t vote[2];
};

/* A block, with a table of the groups that its coops use. */
struct ginHostBlock {
	uint32_t size; /* threads */
	uint32_t groupsMax;
	ginHostGroup *groups; /* [groupsMax], a hash table by key */
};

/* Position of a host thread in its launch. */
struct ginHostThread {
	uint32_t thread;
	uint32_t blockIndex;
	uint32_t gridSize;
	ginHostBlock *block;
};

inline ginHostThread *ginHostSelf()
{
	static ginHostBlock alone = {1, 0, nullptr};
	static thread_local ginHostThread self = {0, 0, 1, &alone};
	return &self;
}

inline uint64_t ginHostNow()
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

/* The group of `key`, which is not 0, in the calling thread's block. */
inline ginHostGroup *ginHostFind(uint64_t key)
{
	ginHostBlock *block = ginHostSelf()->block;
	for (uint32_t i = 0; i < block->groupsMax; i++) {
		ginHostGroup *group = &block->groups[(key + i) % block->groupsMax];
		uint64_t none = 0;
		if (__atomic_compare_exchange_n(&group->key, &none, key, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED) ||
		    none == key)
			return group;
	}
	abort(); /* the block uses more coops than its table has room for */
}

/*
 * The `size` threads of group `which` of a kind of coop meet: all writes before the meeting are
 * visible to every thread after it, and each call returns whether one of them passed a true `mine`.
 * H, both ends: the last thread to arrive releases what the others acquire.
 */
inline bool ginHostMeet(uint64_t kind, uint64_t which, uint32_t size, bool mine)
{
	if (size == 1)
		return mine;
	ginHostGroup *group = ginHostFind(kind << 60 | which);
	uint32_t now = __atomic_load_n(&group->meeting, __ATOMIC_RELAXED);
	if (mine)
		__atomic_store_n(&group->vote[now % 2], 1u, __ATOMIC_RELAXED);
	if (__atomic_add_fetch(&group->arrived, 1u, __ATOMIC_ACQ_REL) == size) {
		__atomic_store_n(&group->vote[(now + 1) % 2], 0u, __ATOMIC_RELAXED);
		__atomic_store_n(&group->arrived, 0u, __ATOMIC_RELAXED);
		__atomic_store_n(&group->meeting, now + 1, __ATOMIC_RELEASE); /* H */
	} else {
		while (__atomic_load_n(&group->meeting, __ATOMIC_ACQUIRE) == now) /* H */
			sched_yield();
	}
	return __atomic_load_n(&group->vote[now % 2], __ATOMIC_RELAXED) != 0;
}

/* One call of ginHostLaunch(). Its threads wait for `go`: coops need every thread or none. */
struct ginHostGrid {
	uint32_t gridSize;
	void (*fn)(void *);
	void *arg;
	ginHostBlock *blocks;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int go; /* 0: wait, 1: run, -1: return */
};

struct ginHostStart {
	ginHostGrid *grid;
	uint32_t index;
	pthread_t thread;
};

inline bool ginHostGridWait(ginHostGrid *grid)
{
	pthread_mutex_lock(&grid->lock);
	while (grid->go == 0)
		pthread_cond_wait(&grid->changed, &grid->lock);
	bool run = grid->go > 0;
	pthread_mutex_unlock(&grid->lock);
	return run;
}

inline void ginHostGridGo(ginHostGrid *grid, int go)
{
	pthread_mutex_lock(&grid->lock);
	grid->go = go;
	pthread_cond_broadcast(&grid->changed);
	pthread_mutex_unlock(&grid->lock);
}

inline void *ginHostThreadMain(void *arg)
{
	ginHostStart *start = static_cast<ginHostStart *>(arg);
	ginHostGrid *grid = start->grid;
	uint32_t size = grid->blocks->size, block = start->index / size;

	*ginHostSelf() = {start->index % size, block, grid->gridSize, &grid->blocks[block]};
	if (ginHostGridWait(grid))
		grid->fn(grid->arg);
	return nullptr;
}

/* Starts every thread. Returns the number that was started: fn runs if that is `count`. */
inline uint32_t ginHostGridStart(ginHostGrid *grid, ginHostStart *starts, uint32_t count)
{
	uint32_t made = 0;
	for (; made < count; made++) {
		starts[made] = {grid, made, {}};
		if (pthread_create(&starts[made].thread, nullptr, ginHostThreadMain, &starts[made]))
			break;
	}
	ginHostGridGo(grid, made == count ? 1 : -1);
	return made;
}

/* Allocates the blocks, followed by their groups. NULL: no memory. */
inline ginHostBlock *ginHostBlocks(uint32_t grid, uint32_t block)
{
	/* Room for tiles of 2, 4, 8, ... threads, and for other coops. */
	size_t most = 4 * static_cast<size_t>(block) + 16;
	size_t bytes = grid * (sizeof(ginHostBlock) + most * sizeof(ginHostGroup));
	ginHostBlock *blocks = static_cast<ginHostBlock *>(calloc(1, bytes));
	ginHostGroup *groups = reinterpret_cast<ginHostGroup *>(blocks + grid);

	for (uint32_t b = 0; blocks && b < grid; b++, groups += most)
		blocks[b] = {block, static_cast<uint32_t>(most), groups};
	return blocks;
}

/*
 * Runs fn(arg) on grid x block host threads and waits for all of them. ginErrorInvalidArgument:
 * grid, block or fn is 0. ginErrorSystem: the system did not give that many threads; fn has not
 * run.
 */
inline ginResult_t ginHostLaunch(uint32_t grid, uint32_t block, void (*fn)(void *), void *arg)
{
	if (!grid || !block || !fn || block > UINT32_MAX / grid)
		return ginErrorInvalidArgument;
	uint32_t count = grid * block, made = 0;
	ginHostBlock *blocks = ginHostBlocks(grid, block);
	ginHostStart *starts = static_cast<ginHostStart *>(calloc(count, sizeof(*starts)));

	if (blocks && starts) {
		ginHostGrid state = {
			grid, fn, arg, blocks, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER,
			0};
		made = ginHostGridStart(&state, starts, count);
		for (uint32_t i = 0; i < made; i++)
			pthread_join(starts[i].thread, nullptr);
	}
	free(starts);
	free(blocks);
	return made == count ? ginSuccess : ginErrorSystem;
}

#endif
