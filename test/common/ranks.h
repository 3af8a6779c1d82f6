/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ranks.h - how a test gets its ranks
 *
 *	test --threads N	ranks are threads of this process
 *	test --forks N		ranks are child processes, started here
 *	test			by the launcher (mpirun), or alone
 *
 * Threads and forks find each other by config.allgather over memory that they share. A child that
 * is killed is reported and does not end its siblings: tests of failures need that. C11 and C++17.
 */
#ifndef GIN_TEST_RANKS_H
#define GIN_TEST_RANKS_H

#include <gin.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS_MOST 64
#define RANKS_BYTES 4096

/* Shared by all ranks of the test. */
struct ranksShared {
	pthread_barrier_t barrier;
	unsigned char slot[RANKS_MOST][RANKS_BYTES];
	int result[RANKS_MOST];
};

struct ranksOne {
	struct ranksShared *shared;
	int rank, nRanks;
	int (*run)(const ginConfig_t *config);
};

static inline int ranksAllgather(void *arg, const void *in, void *out, size_t bytes)
{
	struct ranksOne *one = (struct ranksOne *)arg;

	if (bytes > RANKS_BYTES)
		return -1;
	memcpy(one->shared->slot[one->rank], in, bytes);
	pthread_barrier_wait(&one->shared->barrier);
	for (int r = 0; r < one->nRanks; r++)
		memcpy((char *)out + (size_t)r * bytes, one->shared->slot[r], bytes);
	pthread_barrier_wait(&one->shared->barrier);
	return 0;
}

static inline void *ranksRun(void *arg)
{
	struct ranksOne *one = (struct ranksOne *)arg;
	ginConfig_t config = GIN_CONFIG_INIT;

	config.allgather = ranksAllgather;
	config.allgatherArg = one;
	config.rank = one->rank;
	config.nRanks = one->nRanks;
	one->shared->result[one->rank] = one->run(&config);
	return NULL;
}

static inline struct ranksShared *ranksShare(int nRanks)
{
	pthread_barrierattr_t attr;
	void *at = mmap(NULL, sizeof(struct ranksShared), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct ranksShared *shared = (struct ranksShared *)at;

	if (at == MAP_FAILED || nRanks < 1 || nRanks > RANKS_MOST) {
		fprintf(stderr, "ranks: 1 to %d, and memory to share\n", RANKS_MOST);
		exit(1);
	}
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&shared->barrier, &attr, (unsigned)nRanks);
	return shared;
}

static inline void ranksStartThreads(struct ranksOne *ones, int n)
{
	pthread_t thread[RANKS_MOST];

	for (int r = 0; r < n; r++)
		if (pthread_create(&thread[r], NULL, ranksRun, &ones[r]))
			abort();
	for (int r = 0; r < n; r++)
		pthread_join(thread[r], NULL);
}

/* A child that dies of a signal leaves result 128 + signal. */
static inline void ranksStartForks(struct ranksOne *ones, int n)
{
	pid_t child[RANKS_MOST];
	int status;

	fflush(NULL); /* or each child prints it again */
	for (int r = 0; r < n; r++) {
		child[r] = fork();
		if (child[r] < 0)
			abort();
		if (!child[r]) {
			ranksRun(&ones[r]);
			exit(ones[r].shared->result[r] != 0); /* with atexit: sanitizers report */
		}
	}
	for (int r = 0; r < n; r++) {
		waitpid(child[r], &status, 0);
		if (WIFSIGNALED(status))
			ones[r].shared->result[r] = 128 + WTERMSIG(status);
		else if (WEXITSTATUS(status) && !ones[r].shared->result[r])
			ones[r].shared->result[r] = WEXITSTATUS(status);
	}
}

/* Runs n ranks and returns their results, in memory that is never freed. */
static inline const int *ranksStart(int n, int asThreads, int (*run)(const ginConfig_t *config))
{
	static struct ranksOne ones[RANKS_MOST];
	struct ranksShared *shared = ranksShare(n);

	for (int r = 0; r < n; r++) {
		ones[r].shared = shared;
		ones[r].rank = r;
		ones[r].nRanks = n;
		ones[r].run = run;
	}
	if (asThreads)
		ranksStartThreads(ones, n);
	else
		ranksStartForks(ones, n);
	return shared->result;
}

/* main() of a test that any kind of ranks can run: 0 when every rank returned 0. */
static inline int ranksMain(int argc, char **argv, int (*run)(const ginConfig_t *config))
{
	ginConfig_t config = GIN_CONFIG_INIT;
	int failed = 0;

	if (argc != 3)
		return run(&config);
	int n = atoi(argv[2]);
	const int *result = ranksStart(n, !strcmp(argv[1], "--threads"), run);
	for (int r = 0; r < n; r++)
		if (result[r]) {
			fprintf(stderr, "rank %d returned %d\n", r, result[r]);
			failed = 1;
		}
	return failed;
}

#endif
