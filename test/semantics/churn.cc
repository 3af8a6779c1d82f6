/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * churn.cc - communicators are made and destroyed; in most rounds a rank is killed, or aborts, at a
 * random moment of the communicator's life: all other ranks end by themselves, and nothing is left
 *
 *	churn --forks N		ranks are processes, which meet at GIN_ROOT: kills and aborts
 *	churn --threads N	ranks are threads: aborts
 *
 * ROUNDS lives, 20 by default. SEED determines the moments; a run prints it.
 */
#include "files.h"
#include "test/launch/bootstrap.h"

#include <signal.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

enum { BYTES = 4099, LAPS = 20, LAUNCHES = 4 };

enum What { CALM, KILL, ABORT };

struct Plan {
	What what;
	int victim;
	uint64_t delay; /* nanoseconds from the start of the life */
};

static uint64_t seed, calmTime = 20000000;
static uint32_t currentRound;
static Plan plan; /* of the round */
static bool asThreads;

#ifdef __CUDACC__
static const bool hasDriver = true; /* of CUDA, which has descriptors of its own */
#else
static const bool hasDriver = false;
#endif

static uint64_t randomNumber()
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return seed >> 33;
}

/* Every fourth round has no fault; it measures the duration of a life. */
static Plan makePlan(int nRanks)
{
	Plan made = {CALM, 0, 0};

	if (currentRound % 4)
		made.what = asThreads || randomNumber() % 3 == 0 ? ABORT : KILL;
	made.victim = static_cast<int>(randomNumber() % static_cast<uint64_t>(nRanks));
	made.delay = randomNumber() % (calmTime + calmTime / 5);
	return made;
}

/* Ends the life of the victim from another thread. */
class Disturber
{
	std::atomic<ginComm_t> comm{nullptr};
	std::atomic<bool> over{false};
	std::thread thread;

	void run()
	{
		uint64_t end = nowNs() + plan.delay;
		while (!over && (nowNs() < end || (plan.what == ABORT && !comm)))
			usleep(100);
		if (over)
			return;
		if (plan.what == KILL)
			raise(SIGKILL);
		CHECK(ginCommAbort(comm));
	}

public:
	explicit Disturber(int rank)
	{
		if (plan.what != CALM && rank == plan.victim)
			thread = std::thread([this] { run(); });
	}

	void opened(ginComm_t it) { comm = it; }

	/* Before the communicator is destroyed. */
	void stop()
	{
		over = true;
		if (thread.joinable())
			thread.join();
	}
};

/* Puts to the right neighbour alternate with a barrier of all ranks. */
struct Laps {
	ginDevComm dc;
	ginWindow_t inbox, outbox;
	uint64_t before; /* signals of earlier launches */
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		GinBarrier barrier(dc, ginTeamWorld(dc), 0);
		ginResult_t result = ginSuccess;
		for (uint64_t lap = 1; lap <= LAPS && result == ginSuccess; lap++) {
			result = gin.put(static_cast<int>((dc.rank + 1) % dc.nRanks), inbox, 0,
					 outbox, 0, BYTES, GinSignalInc{0});
			if (result == ginSuccess)
				result = gin.waitSignal(0, before + lap);
			if (result == ginSuccess)
				result = barrier.sync();
		}
		results[0] = result;
	}
};

static std::vector<unsigned char> patternOf(int rank, uint32_t number)
{
	std::vector<unsigned char> bytes(BYTES);

	for (size_t i = 0; i < BYTES; i++)
		bytes[i] = exchangedByte(currentRound * LAUNCHES + number, rank, 0, i);
	return bytes;
}

/* One communicator with all kinds of objects, until the first call that fails. */
struct Life {
	Disturber disturber;
	Rank r = {};
	void *memory[2] = {};
	ginWindow_t window[2] = {};
	ginDevComm dc = {};
	ginComm_t half = nullptr;
	int windows = 0, devComms = 0;
	bool isSplitting = false;
	ginResult_t result = ginSuccess;
	std::string why;

	explicit Life(int rank) : disturber(rank) {}

	bool ok(ginResult_t seen)
	{
		if (seen != ginSuccess && result == ginSuccess) {
			result = seen;
			why = ginGetLastError();
		}
		return seen == ginSuccess;
	}

	bool open(const ginConfig_t *config)
	{
		ginComm_t comm = nullptr;

		if (!ok(ginCommInit(config, &comm)))
			return false;
		r = rankTake(comm);
		disturber.opened(comm);
		return true;
	}

	bool makeObjects()
	{
		ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;

		want.timeout = 40000000000u;
		for (; windows < 2; windows++)
			if (!ok(ginMemAlloc(r.comm, BYTES, &memory[windows])) ||
			    !ok(ginWindowRegister(r.comm, memory[windows], BYTES, 0,
						  &window[windows])))
				return false;
		if (!ok(ginDevCommCreate(r.comm, &want, &dc)))
			return false;
		devComms = 1;
		return true;
	}

	bool transfer(uint32_t number)
	{
		std::vector<unsigned char> bytes = patternOf(r.rank, number);
		Results results(r, 1);

		copyBytes(r, memory[1], bytes.data(), BYTES);
		if (!ok(ginCommAllgather(r.comm, nullptr, nullptr, 0)))
			return false;
		launch(r, 1, 1,
		       Laps{dc, window[0], window[1], uint64_t{number} * LAPS, results.words});
		if (results.words[0] != ginSuccess) {
			ginResult_t error = ginSuccess;
			CHECK(ginCommGetAsyncError(r.comm, &error));
			result = static_cast<ginResult_t>(results.words[0]);
			why = ginGetLastError();
			return false;
		}
		copyBytes(r, bytes.data(), memory[0], BYTES);
		EXPECT(bytes == patternOf((r.rank + r.nRanks - 1) % r.nRanks, number));
		return ok(ginCommAllgather(r.comm, nullptr, nullptr, 0));
	}

	bool split()
	{
		isSplitting = true;
		return ok(ginCommSplit(r.comm, r.rank % 2, 0, &half)) &&
		       ok(ginCommAllgather(half, nullptr, nullptr, 0));
	}

	void live(const ginConfig_t *config)
	{
		if (!open(config) || !makeObjects())
			return;
		for (uint32_t i = 0; i < LAUNCHES; i++)
			if (!transfer(i))
				return;
		split();
	}

	/* None of these calls may hang or crash, at any stage of the life. */
	void end()
	{
		if (half)
			ok(ginCommDestroy(half));
		if (devComms)
			ok(ginDevCommDestroy(r.comm, &dc));
		for (int i = 0; i < windows; i++)
			ok(ginWindowDeregister(r.comm, window[i]));
		for (void *at : memory)
			CHECK(r.comm ? ginMemFree(r.comm, at) : ginSuccess);
		disturber.stop();
		if (r.comm)
			ok(ginCommDestroy(r.comm));
	}
};

/*
 * A rank may have ended before the disturbance. While a communicator opens, errors have several
 * results, and ranks of a part have other numbers.
 */
static bool isExpected(const Life &life, int rank)
{
	char victim[32];

	if (life.result == ginSuccess)
		return true;
	if (plan.what == CALM)
		return false;
	if (rank == plan.victim && !life.isSplitting)
		return life.result == ginErrorAborted;
	if (!life.r.comm)
		return life.result == ginErrorPeer || life.result == ginErrorBootstrap ||
		       life.result == ginErrorTimeout;
	if (life.isSplitting)
		return life.result == ginErrorPeer || life.result == ginErrorBootstrap ||
		       (life.result == ginErrorAborted && rank == plan.victim);
	snprintf(victim, sizeof(victim), "rank %d ", plan.victim);
	return life.result == ginErrorPeer && life.why.find(victim) != std::string::npos;
}

/* Connections to the root, a thread of rank 0, are closed soon, not at once. */
static void expectFilesSoon(int most)
{
	for (int i = 0; i < 10000 && countFiles() > most; i++)
		usleep(1000);
	int now = countFiles();
	if (now > most) {
		fprintf(stderr, "churn.cc:%d: round %u: %d descriptors, expected %d\n", __LINE__,
			currentRound, now, most);
		printFiles();
	}
	EXPECT(now <= most);
}

static int oneLife(const ginConfig_t *config)
{
	ginConfig_t mine = *config;

	if (!asThreads)
		mine.allgather = nullptr;
	alarm(100);
	Life life(config->rank);
	life.live(&mine);
	life.end();
	if (!isExpected(life, config->rank)) {
		fprintf(stderr, "churn.cc:%d: round %u, what %d, victim %d: rank %d: %d %s\n",
			__LINE__, currentRound, plan.what, plan.victim, config->rank, life.result,
			life.why.c_str());
		return 1;
	}
	return 0;
}

/*
 * A child has its rank in its environment. The root of GIN_ROOT stays for a second: a listener and
 * an epoll descriptor of rank 0.
 */
static int oneProcess(const ginConfig_t *config)
{
	int files = countFiles(), root = config->rank == 0 ? 2 : 0;

	setenv("RANK", std::to_string(config->rank).c_str(), 1);
	int failed = oneLife(config);
	if (!failed && !hasDriver)
		expectFilesSoon(files + root);
	return failed;
}

static void oneRound(int nRanks)
{
	uint64_t start = nowNs();

	plan = makePlan(nRanks);
	setenv("GIN_ROOT", ("127.0.0.1:" + std::to_string(freePort())).c_str(), 1);
	const int *result = ranksStart(nRanks, asThreads, asThreads ? oneLife : oneProcess);
	for (int r = 0; r < nRanks; r++)
		if (result[r] &&
		    !(plan.what == KILL && r == plan.victim && result[r] == 128 + SIGKILL)) {
			fprintf(stderr, "churn.cc:%d: round %u: rank %d returned %d\n", __LINE__,
				currentRound, r, result[r]);
			exit(1);
		}
	if (plan.what == CALM)
		calmTime = nowNs() - start;
}

int main(int argc, char **argv)
{
	int nRanks = argc == 3 ? atoi(argv[2]) : 4, files = 0, counts[3] = {};
	const char *rounds = getenv("ROUNDS"), *given = getenv("SEED");
	char directory[] = "/tmp/churn-XXXXXX";
	uint64_t longest = 0;

	asThreads = argc == 3 && !strcmp(argv[1], "--threads");
	seed = given ? strtoull(given, nullptr, 0) : nowNs();
	printf("seed %llu\n", static_cast<unsigned long long>(seed));
	fflush(stdout);
	EXPECT(mkdtemp(directory) != nullptr);
	setenv("TMPDIR", directory, 1);
	setenv("GIN_LOG", "none", 0);
	setenv("GIN_TIMEOUT", "20", 1);
	setenv("WORLD_SIZE", std::to_string(nRanks).c_str(), 1);
	for (currentRound = 0; currentRound < (rounds ? strtoul(rounds, nullptr, 0) : 20);
	     currentRound++) {
		uint64_t start = nowNs();
		oneRound(nRanks);
		longest = std::max(longest, nowNs() - start);
		counts[plan.what]++;
		EXPECT(countEntries(directory) == 0);
		if (currentRound == 3)
			files = countFiles();
	}
	if (currentRound >= 4)
		expectFilesSoon(files);
	EXPECT(!rmdir(directory));
	printf("churn: %d calm rounds, %d with a kill, %d with an abort; the longest took %llu "
	       "ms\n",
	       counts[CALM], counts[KILL], counts[ABORT],
	       static_cast<unsigned long long>(longest / 1000000));
	return 0;
}
