/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host_launch.h - host threads in the place of GPU threads
 *
 * ginHostLaunch(grid, block, fn, arg) runs fn(arg) on grid x block threads, each of which knows its
 * block and thread number, and returns when all have ended. Device calls made there, coops
 * included, mean what they mean in a kernel, so that one source serves as both. Public: use it for
 * tests of your own kernels on machines without a GPU. Needs pthreads; C++17.
 *
 * A thread that ginHostLaunch() did not start is a block of one.
 */
#ifndef GIN_HOST_LAUNCH_H
#define GIN_HOST_LAUNCH_H

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "abi.h"

/* Threads of a warp on the host: any number; the same in every file of a program. */
#ifndef GIN_HOST_WARP
#define GIN_HOST_WARP 4u
#endif

/*
 * Threads that synchronise with each other: a warp or a block. A vote is a flag of one phase;
 * three phases exist because while some threads read the flag of phase k, others may already set
 * that of k + 1, and that of k + 2 must be clear before anybody can get there.
 */
struct ginHostGroup {
	uint32_t size;
	uint32_t vote[3];
	pthread_barrier_t barrier;
};

/* What a host thread knows of itself. */
struct ginHostThread {
	uint32_t thread;
	uint32_t blockIndex;
	uint32_t gridSize;
	uint32_t blockPhase;
	uint32_t warpPhase;
	struct ginHostGroup *block;
	struct ginHostGroup *warp;
};

inline ginHostThread *ginHostSelf()
{
	static ginHostGroup alone = {1, {0, 0, 0}, {}};
	static thread_local ginHostThread self = {0, 0, 1, 0, 0, &alone, &alone};
	return &self;
}

inline uint64_t ginHostNow()
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

inline void ginHostSync(ginHostGroup *group)
{
	if (group->size > 1)
		pthread_barrier_wait(&group->barrier);
}

/* Has any thread of the group a true `mine`? The barrier orders the relaxed accesses. */
inline bool ginHostAny(ginHostGroup *group, uint32_t *phase, bool leader, bool mine)
{
	if (group->size == 1)
		return mine;
	uint32_t now = (*phase)++ % 3;
	if (mine)
		__atomic_store_n(&group->vote[now], 1u, __ATOMIC_RELAXED);
	pthread_barrier_wait(&group->barrier);
	if (leader)
		__atomic_store_n(&group->vote[(now + 2) % 3], 0u, __ATOMIC_RELAXED);
	return __atomic_load_n(&group->vote[now], __ATOMIC_RELAXED) != 0;
}

/* One call of ginHostLaunch(): its threads wait for `go`, because coops need all or none. */
struct ginHostGrid {
	uint32_t gridSize, blockSize, warpsPerBlock;
	void (*fn)(void *);
	void *arg;
	ginHostGroup *blocks, *warps;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int go; /* 0 wait, 1 run, -1 leave */
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
	ginHostThread *self = ginHostSelf();
	uint32_t block = start->index / grid->blockSize;
	uint32_t thread = start->index % grid->blockSize;

	*self = {thread,
		 block,
		 grid->gridSize,
		 0,
		 0,
		 &grid->blocks[block],
		 &grid->warps[static_cast<size_t>(block) * grid->warpsPerBlock +
			      thread / GIN_HOST_WARP]};
	if (ginHostGridWait(grid))
		grid->fn(grid->arg);
	return nullptr;
}

inline void ginHostGroupInit(ginHostGroup *group, uint32_t size)
{
	*group = {size, {0, 0, 0}, {}};
	pthread_barrier_init(&group->barrier, nullptr, size);
}

inline void ginHostGridGroups(ginHostGrid *grid)
{
	for (uint32_t b = 0; b < grid->gridSize; b++) {
		ginHostGroupInit(&grid->blocks[b], grid->blockSize);
		for (uint32_t w = 0; w < grid->warpsPerBlock; w++) {
			uint32_t left = grid->blockSize - w * GIN_HOST_WARP;
			ginHostGroupInit(
				&grid->warps[static_cast<size_t>(b) * grid->warpsPerBlock + w],
				left < GIN_HOST_WARP ? left : GIN_HOST_WARP);
		}
	}
}

/* Start every thread, or none: returns how many run, after they have been told what to do. */
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

/*
 * Run fn(arg) on grid x block host threads and wait for all of them. ginErrorSystem when that many
 * threads cannot be had: fn has not run then.
 */
inline ginResult_t ginHostLaunch(uint32_t grid, uint32_t block, void (*fn)(void *), void *arg)
{
	if (!grid || !block || !fn || block > UINT32_MAX / grid)
		return ginErrorInvalidArgument;
	uint32_t count = grid * block, warps = (block - 1) / GIN_HOST_WARP + 1;
	size_t groups = static_cast<size_t>(grid) * (1 + static_cast<size_t>(warps));
	ginHostGroup *all = static_cast<ginHostGroup *>(calloc(groups, sizeof(*all)));
	ginHostStart *starts = static_cast<ginHostStart *>(calloc(count, sizeof(*starts)));
	uint32_t made = 0;

	if (all && starts) {
		ginHostGrid state = {grid,
				     block,
				     warps,
				     fn,
				     arg,
				     all,
				     all + grid,
				     PTHREAD_MUTEX_INITIALIZER,
				     PTHREAD_COND_INITIALIZER,
				     0};
		ginHostGridGroups(&state);
		made = ginHostGridStart(&state, starts, count);
		for (uint32_t i = 0; i < made; i++)
			pthread_join(starts[i].thread, nullptr);
		for (size_t i = 0; i < groups; i++)
			pthread_barrier_destroy(&all[i].barrier);
	}
	free(starts);
	free(all);
	return made == count ? ginSuccess : ginErrorSystem;
}

#endif
