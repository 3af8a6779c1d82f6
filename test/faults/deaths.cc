/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deaths.cc - one rank of a job whose ranks die one after another; test/faults/run deaths starts it
 * and kills
 *
 *	deaths PAGE	the rank is in RANK, the number of ranks in WORLD_SIZE
 *
 * In each step the driver names ranks that will die. All others wait for a signal of one of them,
 * without a limit below GIN_TIMEOUT: the wait ends with ginErrorPeer. Then waits for and puts to
 * each dead rank fail, and a ring of signals shows that no other rank is given up. After the last
 * step the ranks that live go on by ginCommShrink().
 *
 * `laps` of a rank's line is 2 * step - 1 when it waits, 2 * step when the step is over; `failedAt`
 * is the end of the wait. `wrong` counts living ranks that were given up, `falseLaps` calls on dead
 * ranks that succeeded.
 */
#include "life.h"

#define BYTES 64
enum { RING, NEVER, SIGNALS }; /* NEVER: a signal that no rank raises */

/* The driver's word: what happens in a step. A step without target ends the job. */
struct Step {
	uint64_t word;

	uint64_t number() const { return word >> 40; }
	int target() const { return static_cast<int>(word >> 32 & 255); }
	uint64_t dying() const { return word & 0xffffffff; }
	bool isLast() const { return !dying(); }
};

struct WaitFor {
	ginDevComm dc;
	int peer;
	uint64_t timeout;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		ginOptions options;

		options.from = {static_cast<uint32_t>(peer), 1, 1};
		options.timeout = timeout;
		results[0] = Gin(dc, 0).waitSignal(NEVER, 1, GinThread{}, options);
	}
};

struct PutTo {
	ginDevComm dc;
	ginWindow_t window;
	int peer;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		ginResult_t result =
			gin.put(peer, window, 0, window, 0, BYTES, GinSignalInc{NEVER});

		results[0] = result == ginSuccess ? gin.flush() : result;
	}
};

/* Among the ranks that live. */
struct Ring {
	ginDevComm dc;
	int right, left;
	uint64_t round, timeout;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		ginOptions options;
		ginResult_t result = gin.signal(right, GinSignalInc{RING});

		options.from = {static_cast<uint32_t>(left), 1, 1};
		options.timeout = timeout;
		if (result == ginSuccess)
			result = gin.waitSignal(RING, round, GinThread{}, options);
		results[0] = result;
	}
};

struct Deaths : Life {
	uint64_t dead = 0, patience = 0;

	template <class Kernel> uint64_t resultOf(Results &results, const Kernel &kernel)
	{
		EXPECT(run(1, kernel));
		return results.words[0];
	}

	bool isDead(int rank) const { return dead >> rank & 1; }

	int next(int by) const
	{
		int rank = r.rank;

		do
			rank = (rank + by + r.nRanks) % r.nRanks;
		while (isDead(rank));
		return rank;
	}

	Step await(uint64_t number) const
	{
		Step step = {0};

		while (step.word = look(&page->operations), step.number() < number)
			usleep(500);
		return step;
	}

	void report(const char *what, int rank, uint64_t result)
	{
		fprintf(stderr, "%s rank %d: %s\n", what, rank,
			ginGetErrorString(static_cast<ginResult_t>(result)));
	}

	/* Kernels may see that a wait ends a moment before they see that puts fail. */
	void expectLost(Results &results, int rank)
	{
		uint64_t until = nowNs() + 1000000000, result;

		result = resultOf(results, WaitFor{dc, rank, patience, results.words});
		if (result != ginErrorPeer)
			report("waited for", rank, result);
		line->falseLaps += result != ginErrorPeer;
		do
			result = resultOf(results, PutTo{dc, window[0], rank, results.words});
		while (result == ginSuccess && nowNs() < until);
		if (result != ginErrorPeer)
			report("put to", rank, result);
		line->falseLaps += result != ginErrorPeer;
	}

	void expectLiving(Results &results, uint64_t round)
	{
		uint64_t result = resultOf(
			results, Ring{dc, next(1), next(-1), round, patience, results.words});

		if (result != ginSuccess)
			report("ring after", next(-1), result);
		line->wrong += result != ginSuccess;
	}

	void step(const Step &s)
	{
		Results results(r, 1);
		WaitFor wait = {dc, s.target(), patience, results.words};

		__atomic_store_n(&line->laps, 2 * s.number() - 1, __ATOMIC_RELEASE);
		uint64_t result = resultOf(results, wait);
		line->failedAt = nowNs();
		if (result != ginErrorPeer)
			report("waited first for", s.target(), result);
		line->falseLaps += result != ginErrorPeer;
		dead |= s.dying();
		for (int rank = 0; rank < r.nRanks; rank++)
			if (s.dying() >> rank & 1)
				expectLost(results, rank);
		expectLiving(results, s.number());
		line->failedAt = line->wrong || line->falseLaps ? 0 : line->failedAt;
		__atomic_store_n(&line->laps, 2 * s.number(), __ATOMIC_RELEASE);
	}

	void goOn()
	{
		ginComm_t comm = nullptr;
		int ranks = 0;

		line->failedAt = 0; /* from here on a failed call counts */
		if (!ok(ginCommShrink(r.comm, nullptr, 0, &comm)))
			return;
		CHECK(ginCommSize(comm, &ranks));
		line->wrong += ranks != r.nRanks - __builtin_popcountll(dead);
		ok(ginCommAllgather(comm, nullptr, nullptr, 0));
		half = comm;
	}

	void live()
	{
		ginConfig_t config = GIN_CONFIG_INIT;
		ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
		uint64_t number = 1;

		want.signals = SIGNALS;
		if (!open(&config) || !makeObjects({{BYTES, ginMemAlloc}}, want) ||
		    !ok(ginCommAllgather(r.comm, nullptr, nullptr, 0)))
			return;
		patience = strtoull(getenv("GIN_TIMEOUT"), nullptr, 10) * 1000000000u;
		enter(KERNELS);
		for (Step s = await(number); !s.isLast(); s = await(++number))
			step(s);
		goOn();
	}
};

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "deaths PAGE: see deaths.cc\n");
		return 2;
	}
	loadDriver();
	int files = countOwnFiles();
	lifeMap(argv[1]);
	lifeBegin(rankOfEnvironment());
	Deaths life;
	life.live();
	life.end();
	return lifeOver(files);
}
