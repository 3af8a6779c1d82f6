// SPDX-License-Identifier: BSD-3-Clause
// ranks.h - ranks as threads of this process
#ifndef GIN_PERF_RANKS_H
#define GIN_PERF_RANKS_H

#include <pthread.h>
#include <string.h>

#include <vector>

#include <gin.h>

// State of threadAllgather(), which the threads use as config.allgather.
struct ThreadRanks {
	pthread_barrier_t barrier;
	std::vector<const void *> slot;
	size_t count;

	explicit ThreadRanks(uint32_t n) : slot(n), count(n)
	{
		pthread_barrier_init(&barrier, nullptr, n);
	}

	~ThreadRanks() { pthread_barrier_destroy(&barrier); }
};

struct ThreadRank {
	ThreadRanks *ranks;
	int rank;
	int (*body)(const ginConfig_t &config, void *arg);
	void *arg;
	int status;
	pthread_t thread;
};

static inline int threadAllgather(void *arg, const void *in, void *out, size_t bytes)
{
	ThreadRank *one = static_cast<ThreadRank *>(arg);
	ThreadRanks *ranks = one->ranks;

	ranks->slot[static_cast<size_t>(one->rank)] = in;
	pthread_barrier_wait(&ranks->barrier);
	for (size_t r = 0; r < ranks->count; r++)
		memcpy(static_cast<char *>(out) + r * bytes, ranks->slot[r], bytes);
	pthread_barrier_wait(&ranks->barrier);
	return 0;
}

static inline void *threadRankMain(void *arg)
{
	ThreadRank *one = static_cast<ThreadRank *>(arg);
	ginConfig_t config = GIN_CONFIG_INIT;

	config.allgather = threadAllgather;
	config.allgatherArg = one;
	config.rank = one->rank;
	config.nRanks = static_cast<int>(one->ranks->count);
	one->status = one->body(config, one->arg);
	return nullptr;
}

// Runs `body` on n threads, one per rank, or on this thread if n is 0: then a launcher started the
// ranks. Returns the largest return value.
static inline int runRanks(uint32_t n, int (*body)(const ginConfig_t &config, void *arg), void *arg)
{
	ginConfig_t config = GIN_CONFIG_INIT;
	if (!n)
		return body(config, arg);
	ThreadRanks ranks(n);
	std::vector<ThreadRank> all(n);
	int status = 0;

	for (uint32_t r = 0; r < n; r++) {
		all[r] = {&ranks, static_cast<int>(r), body, arg, 0, {}};
		if (pthread_create(&all[r].thread, nullptr, threadRankMain, &all[r]))
			return 1;
	}
	for (ThreadRank &one : all) {
		pthread_join(one.thread, nullptr);
		status = one.status > status ? one.status : status;
	}
	return status;
}

#endif
