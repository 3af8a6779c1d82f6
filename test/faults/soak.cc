/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * soak.cc - one rank of a job with endless operations; test/faults/run soak starts it and strikes
 *
 *	soak PAGE SEED		the rank is in RANK, the number of ranks in WORLD_SIZE
 *
 * Each thread of a rank makes batches of operations at the right neighbour: puts, values, gets,
 * strong and weak signals, atomics, in an order that the seed gives. After a batch it compares what
 * came from the left neighbour: each word of a put, the exact sum of the signals, the old value of
 * each atomic. An operation that is lost, repeated or early makes a wrong word. `operations` of the
 * page counts the operations of the left neighbour that this rank has compared. THREADS is the
 * number of threads of each rank: by default 1 to 3 on host threads, 64 on a GPU. CONTEXTS is 1, or
 * by default 1 or one for each thread. With HOST_MEMORY set windows are host memory, also where
 * there is a GPU. With TOGETHER set all ranks are threads of this process: what they send stays
 * within the software mlx5 device of one process, which is faster.
 *
 * The rank ends after a failed call, or when the driver asks for it. After SIGUSR1 it aborts the
 * communicator. Exit status: life.h.
 */
#include "life.h"

#include <signal.h>

#include <atomic>
#include <thread>

#define CELLS 2048u   /* operations of a batch; operation i writes cell i, a word */
#define LONG_EACH 32u /* operation i, a multiple of it, may be a long put */
#define LONG_WORDS 64u
#define LONGS (CELLS / LONG_EACH)
#define PART ((CELLS + LONGS * LONG_WORDS) * sizeof(uint64_t)) /* of a thread, in a window */

enum Kind { VALUE, PUT, VALUE_RAISES, PUT_RAISES, RAISE, VALUE_WEAK, LONG, GET, ATOMIC };

/* A thread's state between kernels, and its report. */
struct State {
	uint64_t result, wrong, operations;
	uint64_t batches, raised,
		fetched;	/* raised: by the left neighbour; fetched: by this thread */
	uint64_t firstWrong[4]; /* what, batch, index, word */
};

GIN_FN uint64_t mixed(uint64_t x)
{
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
	return x ^ x >> 32;
}

/* The operation of a rank's thread: `stream` stands for seed, rank and thread. */
GIN_FN uint64_t draw(uint64_t stream, uint64_t batch, uint32_t i)
{
	return mixed(stream + (batch * CELLS + i) * 0x9e3779b97f4a7c15u);
}

GIN_FN Kind kindOf(uint64_t drawn, uint32_t i)
{
	uint32_t chance = drawn >> 40 & 255;

	if (i % LONG_EACH == 0 && chance < 64)
		return LONG;
	if (chance < 110)
		return VALUE;
	if (chance < 180)
		return PUT;
	if (chance < 200)
		return VALUE_RAISES;
	if (chance < 220)
		return PUT_RAISES;
	if (chance < 232)
		return RAISE;
	if (chance < 244)
		return VALUE_WEAK;
	return chance < 254 ? GET : ATOMIC;
}

GIN_FN uint64_t addendOf(uint64_t drawn)
{
	return 1 + (drawn >> 50 & 3);
}

struct Soak {
	ginDevComm dc;
	ginWindow_t in, out, got, words;
	char *inAt, *outAt, *gotAt;
	uint64_t seed;
	uint32_t batches;
	State *states;

	GIN_FN uint32_t thread() const { return ginBlockIndex(); }
	GIN_FN size_t part() const { return thread() * PART; }
	GIN_FN size_t outPart(uint64_t batch) const { return (thread() * 2 + batch % 2) * PART; }
	GIN_FN uint32_t right() const { return (dc.rank + 1) % dc.nRanks; }
	GIN_FN uint32_t left() const { return (dc.rank + dc.nRanks - 1) % dc.nRanks; }
	GIN_FN uint32_t counted() const { return thread() * 2; }
	GIN_FN uint32_t arrived() const { return thread() * 2 + 1; }

	GIN_FN uint64_t streamOf(uint32_t rank) const
	{
		return mixed(seed * 0x9e3779b97f4a7c15u + rank * 65536u + thread());
	}

	GIN_FN static uint64_t longWord(uint64_t stream, uint64_t batch, uint32_t slot, uint32_t w)
	{
		return stream + (batch * LONGS + slot) * LONG_WORDS + w;
	}

	GIN_FN void operator()() const
	{
		State s = states[thread()];
		Gin gin(dc, thread() % dc.contexts);

		s.result = ginSuccess;
		for (uint32_t i = 0; i < batches && s.result == ginSuccess; i++)
			s.result = batch(gin, s);
		states[thread()] = s;
	}

	GIN_FN ginResult_t batch(const Gin &gin, State &s) const
	{
		uint64_t b = s.batches;
		ginResult_t result;

		fill(b);
		/* All ranks have filled their sources, and compared the batch before. */
		result = GinBarrier(dc, ginTeamWorld(dc), thread()).sync();
		for (uint32_t i = 0; i < CELLS && result == ginSuccess; i++)
			result = post(gin, s, b, i);
		if (result == ginSuccess)
			result = gin.flush();
		if (result == ginSuccess)
			result = gin.signal(static_cast<int>(right()), GinSignalInc{arrived()});
		if (result == ginSuccess)
			result = gin.waitSignal(arrived(), b + 1);
		if (result == ginSuccess)
			result = compare(gin, s, b);
		if (result == ginSuccess) {
			s.batches++;
			s.operations += CELLS;
		}
		return result;
	}

	GIN_FN void fill(uint64_t b) const
	{
		uint64_t stream = streamOf(dc.rank);
		char *at = outAt + outPart(b);

		for (uint32_t i = 0; i < CELLS; i++) {
			uint64_t drawn = draw(stream, b, i);
			ginDataStore(at + i * 8, drawn);
			if (kindOf(drawn, i) != LONG)
				continue;
			for (uint32_t w = 0, slot = i / LONG_EACH; w < LONG_WORDS; w++)
				ginDataStore(at + (CELLS + slot * LONG_WORDS + w) * 8,
					     longWord(stream, b, slot, w));
		}
	}

	GIN_FN ginResult_t post(const Gin &gin, State &s, uint64_t b, uint32_t i) const
	{
		int peer = static_cast<int>(right());
		uint64_t drawn = draw(streamOf(dc.rank), b, i);
		size_t cell = part() + i * 8, from = outPart(b) + i * 8;
		size_t slot = (CELLS + i / LONG_EACH * LONG_WORDS) * 8;

		switch (kindOf(drawn, i)) {
		case VALUE:
			return gin.putValue(peer, in, cell, drawn);
		case PUT:
			return gin.put(peer, in, cell, out, from, 8);
		case VALUE_RAISES:
			return gin.putValue(peer, in, cell, drawn, GinSignalInc{counted()});
		case PUT_RAISES:
			return gin.put(peer, in, cell, out, from, 8,
				       GinSignalAdd{counted(), addendOf(drawn)});
		case RAISE:
			return gin.signal(peer, GinSignalAdd{counted(), addendOf(drawn)});
		case VALUE_WEAK:
			return gin.putValue(peer, in, cell, drawn, GinWeakSignalInc{counted()});
		case LONG:
			return gin.put(peer, in, part() + slot, out, outPart(b) + slot,
				       LONG_WORDS * 8);
		case GET:
			return gin.get(peer, out, from, got, cell, 8);
		default:
			return fetch(gin, s, b, i);
		}
	}

	/* Only this thread changes the word. */
	GIN_FN ginResult_t fetch(const Gin &gin, State &s, uint64_t b, uint32_t i) const
	{
		uint64_t old = 0;
		ginResult_t result =
			gin.atomicFetchAdd(static_cast<int>(right()), words, thread() * 8,
					   static_cast<uint64_t>(1), &old);

		if (result == ginSuccess)
			expect(s, ATOMIC, b, i, old, s.fetched++);
		return result;
	}

	GIN_FN static void expect(State &s, uint64_t what, uint64_t b, uint64_t i, uint64_t seen,
				  uint64_t expected)
	{
		if (seen == expected)
			return;
		if (!s.wrong++) {
			s.firstWrong[0] = what, s.firstWrong[1] = b;
			s.firstWrong[2] = i, s.firstWrong[3] = seen;
		}
	}

	/*
	 * Checks puts from the left, gets from the right, and the sum of the signals. The arrival
	 * covers puts; signals may come later.
	 */
	GIN_FN ginResult_t compare(const Gin &gin, State &s, uint64_t b) const
	{
		uint64_t stream = streamOf(left()), own = streamOf(dc.rank);

		for (uint32_t i = 0; i < CELLS; i++) {
			compareOne(s, stream, b, i);
			if (kindOf(draw(own, b, i), i) == GET)
				expect(s, GET, b, i, ginDataLoad<uint64_t>(gotAt + part() + i * 8),
				       draw(streamOf(right()), b, i));
		}
		ginResult_t result = gin.waitSignal(counted(), s.raised);
		if (result == ginSuccess)
			expect(s, RAISE, b, 0, gin.readSignal(counted()), s.raised);
		return result;
	}

	GIN_FN void compareOne(State &s, uint64_t stream, uint64_t b, uint32_t i) const
	{
		uint64_t drawn = draw(stream, b, i);
		const char *at = inAt + part();
		Kind kind = kindOf(drawn, i);

		if (kind == VALUE_RAISES || kind == VALUE_WEAK)
			s.raised++;
		if (kind == PUT_RAISES || kind == RAISE)
			s.raised += addendOf(drawn);
		if (kind < LONG && kind != RAISE)
			expect(s, kind, b, i, ginDataLoad<uint64_t>(at + i * 8), drawn);
		if (kind != LONG)
			return;
		for (uint32_t w = 0, slot = i / LONG_EACH; w < LONG_WORDS; w++)
			expect(s, LONG, b, i,
			       ginDataLoad<uint64_t>(at + (CELLS + slot * LONG_WORDS + w) * 8),
			       longWord(stream, b, slot, w));
	}
};

/* Aborts after SIGUSR1, which all threads block. `isOver`: the communicator will be destroyed. */
static void abortOnSignal(ginComm_t comm, const std::atomic<bool> *isOver)
{
	const timespec pause = {0, 20000000};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	while (!*isOver)
		if (sigtimedwait(&set, nullptr, &pause) == SIGUSR1) {
			CHECK(ginCommAbort(comm));
			return;
		}
}

static void blockSignal()
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

/* Rank 0 says how long the next lap is, and whether there is one. */
struct Agreement {
	uint32_t batches, ends;
};

struct SoakLife : Life {
	uint32_t threads = 1, batches = 1;
	uint64_t seed = 0;

	bool agree(uint64_t lapNs)
	{
		std::vector<Agreement> all(static_cast<size_t>(r.nRanks));
		Agreement own = {batches, look(&page->laps) != 0};

		if (lapNs < 40000000 && batches < 4096)
			own.batches *= 2;
		if (lapNs > 160000000 && batches > 1)
			own.batches /= 2;
		if (!ok(ginCommAllgather(r.comm, &own, all.data(), sizeof(own))))
			return false;
		batches = all[0].batches;
		return !all[0].ends;
	}

	bool lap(Results &results)
	{
		State *states = reinterpret_cast<State *>(results.words);
		uint64_t begun = nowNs(), result = ginSuccess, operations = 0, wrong = 0;

		if (!run(threads, Soak{dc, window[0], window[1], window[2], window[3], at(0), at(1),
				       at(2), seed, batches, states}))
			return false;
		for (uint32_t t = 0; t < threads; t++) {
			result = result == ginSuccess ? states[t].result : result;
			operations += states[t].operations;
			wrong += states[t].wrong;
			describe(t, states[t]);
		}
		line->operations = operations;
		line->wrong = wrong;
		line->laps++;
		if (wrong || !kernelOk(result))
			return false;
		countAfter(begun);
		return agree(nowNs() - begun);
	}

	static void describe(uint32_t thread, const State &s)
	{
		if (s.wrong)
			fprintf(stderr,
				"thread %u: %llu wrong; kind %llu, batch %llu, operation %llu: "
				"%llx\n",
				thread, (unsigned long long)s.wrong,
				(unsigned long long)s.firstWrong[0],
				(unsigned long long)s.firstWrong[1],
				(unsigned long long)s.firstWrong[2],
				(unsigned long long)s.firstWrong[3]);
	}

	char *at(int i) const { return static_cast<char *>(memory[i]); }

	uint32_t threadsWanted() const
	{
		const char *text = getenv("THREADS");

		if (text)
			return static_cast<uint32_t>(atoi(text));
		return r.device < 0 ? 1 + static_cast<uint32_t>(seed % 3) : 64;
	}

	void live(const ginConfig_t *config)
	{
		ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;

		if (!open(config))
			return;
		threads = threadsWanted();
		want.contexts = getenv("CONTEXTS") || seed / 3 % 2 ? 1 : threads;
		want.signals = want.barriers = 2 * threads;
		Allocator *alloc = getenv("HOST_MEMORY") ? ginMemAllocHost : ginMemAlloc;
		if (!makeObjects({{threads * PART, alloc},
				  {threads * PART * 2, alloc},
				  {threads * PART, alloc},
				  {threads * 8, wordsAllocator(r)}},
				 want) ||
		    !clearWords())
			return;
		std::atomic<bool> isOver(false);
		std::thread aborter(abortOnSignal, r.comm, &isOver);
		enter(KERNELS);
		Results results(r, threads * sizeof(State) / sizeof(uint64_t));
		memset(results.words, 0, threads * sizeof(State));
		while (lap(results))
			;
		isOver = true;
		aborter.join();
	}

	/* Atomics begin at 0 on all ranks. */
	bool clearWords()
	{
		std::vector<uint64_t> zeros(threads);

		copyBytes(r, memory[3], zeros.data(), threads * 8);
		return ok(ginCommAllgather(r.comm, nullptr, nullptr, 0));
	}
};

static uint64_t seed;
static int files; /* descriptors at the beginning */

static int lifeOf(const ginConfig_t *config, int rank)
{
	SoakLife life;

	lifeBegin(rank);
	life.seed = seed;
	life.live(config);
	life.end();
	return lifeOver(files);
}

static int lifeOfThread(const ginConfig_t *config)
{
	return lifeOf(config, config->rank);
}

int main(int argc, char **argv)
{
	ginConfig_t config = GIN_CONFIG_INIT;
	int status = 0;

	if (argc != 3) {
		fprintf(stderr, "soak PAGE SEED: see soak.cc\n");
		return 2;
	}
	blockSignal(); /* before the driver's threads */
	loadDriver();
	files = countOwnFiles();
	seed = strtoull(argv[2], nullptr, 10);
	lifeMap(argv[1]);
	if (!getenv("TOGETHER"))
		return lifeOf(&config, rankOfEnvironment());
	shareGpu();
	int ranks = atoi(getenv("WORLD_SIZE"));
	const int *result = ranksStart(ranks, 1, lifeOfThread);
	for (int r = 0; r < ranks; r++)
		status = result[r] > status ? result[r] : status;
	return status;
}
