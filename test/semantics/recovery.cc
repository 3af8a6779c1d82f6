/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * recovery.cc - kernels that wait past a timeout, in an aborted communicator or for a killed rank
 * return; the GPU stays usable, and the processes make a new communicator and go on
 *
 *	recovery [--threads]	three ranks, which are processes by default; threads are not killed
 *
 * Every communicator exchanges data that the host checks, before a fault and after it.
 */
#include "suite.h"

#include <signal.h>
#include <time.h>

enum { RANKS = 3, VICTIM = 1, BYTES = 5000, BLOCK = 4, NEVER = 56 };

/* How blocks wait; wayPuts goes on until it fails. The victim does not come to the barrier. */
enum Way { waySignal, wayValue, wayPackets, wayBarrier, wayPuts, WAYS };
enum { TIMED_WAYS = (1 << wayPuts) - 1, ALL_WAYS = (1 << WAYS) - 1 };

/* Each block waits in one way for an event that does not come, if `ways` has the bit. */
struct Wait {
	ginDevComm dc;
	uint32_t ways;
	ginWindow_t window;
	ginPacketBox box;
	uint64_t timeout;
	uint64_t *results; /* [way][thread] */

	/* Another rank: the victim, unless this is the victim. */
	GIN_FN int peer() const { return dc.rank == VICTIM ? 0 : VICTIM; }

	GIN_FN ginResult_t puts(const Gin &gin, const ginOptions &options) const
	{
		GinCta all;
		ginResult_t result = ginSuccess;
		while (result == ginSuccess) {
			result = gin.put(peer(), window, 8, window, 16, 8, GinNone{}, GinNone{},
					 all, options);
			if (result == ginSuccess)
				result = gin.flush(all, options);
		}
		return result;
	}

	GIN_FN ginResult_t wait(uint32_t way) const
	{
		GinCta all;
		Gin gin(dc, way == wayPuts);
		const ginOptions options = ginTimeout(timeout);
		uint64_t message[BLOCK];

		if (way == waySignal)
			return gin.waitSignal(1, 1, all, options);
		if (way == wayValue)
			return gin.waitValue(window, NEVER, 1, all, options);
		if (way == wayPackets)
			return GinPackets(dc, 0, box, peer()).receive(message, 8, all, options);
		if (way == wayBarrier)
			return GinBarrier(dc, ginTeamWorld(dc), 0).sync(all, options);
		return puts(gin, options);
	}

	GIN_FN void operator()() const
	{
		const uint32_t way = ginBlockIndex();
		if (ways >> way & 1)
			results[way * ginBlockSize() + ginThreadIndex()] = wait(way);
	}
};

/* Puts bytes to every rank, itself included, and waits for the bytes of every rank. */
struct PutToAll {
	ginDevComm dc;
	ginWindow_t out, in;
	uint64_t round;
	uint64_t *results;

	GIN_FN ginResult_t put() const
	{
		GinCta all;
		Gin gin(dc, 0);
		ginResult_t result = ginSuccess;
		for (uint32_t p = 0; p < dc.nRanks && result == ginSuccess; p++)
			result = gin.put(static_cast<int>(p), in, dc.rank * BYTES, out, 0, BYTES,
					 GinSignalInc{0}, GinNone{}, all);
		if (result == ginSuccess)
			result = gin.waitSignal(0, round * dc.nRanks, all);
		return result;
	}

	GIN_FN void operator()() const { results[ginThreadIndex()] = put(); }
};

struct Barrier {
	ginDevComm dc;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		results[ginThreadIndex()] = GinBarrier(dc, ginTeamWorld(dc), 0).sync(GinCta{});
	}
};

/* A communicator with all objects that a test needs. */
struct Job {
	Rank &r;
	Device device;
	Buffer out, in, window, boxes;
	uint32_t rounds;

	explicit Job(Rank &rank)
	    : r(rank), device(r, 2, 2 + 2 * RANKS), out(r, BYTES),
	      in(r, static_cast<size_t>(BYTES) * RANKS), window(r, 64),
	      boxes(r, ginPacketBoxBytes(RANKS, 8)), rounds(0)
	{
		window.write(std::vector<unsigned char>(window.bytes, 0));
		boxes.write(std::vector<unsigned char>(boxes.bytes, 0));
	}

	/* Every rank gets every rank's bytes, whole. */
	void exchange()
	{
		std::vector<unsigned char> bytes(BYTES);
		Results results(r, BLOCK);

		rounds++;
		for (size_t i = 0; i < BYTES; i++)
			bytes[i] = pattern(static_cast<uint32_t>(r.rank), rounds, i);
		out.write(bytes);
		in.poison();
		meet(r);
		launch(r, 1, BLOCK,
		       PutToAll{device.dc, out.window, in.window, rounds, results.words});
		EXPECT(results.all(ginSuccess));
		bytes = in.read();
		for (int p = 0; p < r.nRanks; p++)
			for (size_t i = 0; i < BYTES; i++)
				EXPECT(bytes[static_cast<size_t>(p) * BYTES + i] ==
				       pattern(static_cast<uint32_t>(p), rounds, i));
		meet(r);
	}

	/* Blocks wait in some ways, and return `expected`. */
	void wait(uint32_t ways, uint64_t timeout, ginResult_t expected)
	{
		Results results(r, WAYS * BLOCK);
		launch(r, WAYS, BLOCK,
		       Wait{device.dc, ways, window.window, ginPacketBox{boxes.window, 0, 8, 2},
			    timeout, results.words});
		for (uint32_t i = 0; i < WAYS * BLOCK; i++)
			if (ways >> i / BLOCK & 1 && results.words[i] != expected) {
				fprintf(stderr, "rank %d: way %u returned %d, expected %d\n",
					r.rank, i / BLOCK, static_cast<int>(results.words[i]),
					expected);
				EXPECT(!"the expected result");
			}
	}

	/* The ways of this rank. */
	uint32_t own(uint32_t ways) const
	{
		return r.rank == VICTIM ? ways & ~(1u << wayBarrier) : ways;
	}
};

/* The GPU runs work without libgin. */
static void expectUsableGpu(Rank &r)
{
#ifdef __CUDACC__
	const size_t bytes = 1 << 20;
	std::vector<unsigned char> seen(bytes);
	void *memory;

	if (r.device < 0)
		return;
	CUDA(cudaMalloc(&memory, bytes));
	CUDA(cudaMemsetAsync(memory, 0x3c, bytes, r.stream));
	copyBytes(r, seen.data(), memory, bytes);
	EXPECT(seen == std::vector<unsigned char>(bytes, 0x3c));
	CUDA(cudaFree(memory));
#else
	(void)r;
#endif
}

/*
 * The communicator stays whole: the victim does not come to the barrier, and comes to the next one.
 */
static void passTimeouts(Job &job)
{
	Results results(job.r, BLOCK);

	job.wait(job.own(TIMED_WAYS), 50000000, ginErrorTimeout);
	meet(job.r);
	launch(job.r, 1, BLOCK, Barrier{job.device.dc, results.words});
	EXPECT(results.all(ginSuccess));
}

struct Fault {
	ginComm_t comm; /* NULL: the process ends */
};

/* Time for all kernels to begin to wait. */
static void *strike(void *arg)
{
	Fault *fault = static_cast<Fault *>(arg);

	usleep(300000);
	if (!fault->comm)
		kill(getpid(), SIGKILL);
	CHECK(ginCommAbort(fault->comm));
	return nullptr;
}

/* The victim aborts, or dies, while all ranks wait in all ways. */
static void loseVictim(Job &job, const char *what, bool dies)
{
	const bool victim = job.r.rank == VICTIM;
	Fault fault = {dies ? nullptr : job.r.comm};
	ginResult_t error = ginSuccess;
	pthread_t thread;

	meet(job.r);
	uint64_t since = nowNs();
	if (victim)
		EXPECT(!pthread_create(&thread, nullptr, strike, &fault));
	job.wait(job.own(ALL_WAYS), GIN_FOREVER, victim ? ginErrorAborted : ginErrorPeer);
	printf("rank %d: %s: kernels returned %.0f ms after their launch\n", job.r.rank, what,
	       static_cast<double>(nowNs() - since) / 1e6);
	if (victim)
		pthread_join(thread, nullptr);
	CHECK(ginCommGetAsyncError(job.r.comm, &error));
	EXPECT(error == (victim ? ginErrorAborted : ginErrorPeer));
}

static ranksShared *survivors; /* where ranks 0 and 2 meet without the victim */

/* The configuration of a survivor. */
static ginConfig_t configWithoutVictim(ranksOne *one, int rank)
{
	ginConfig_t config = GIN_CONFIG_INIT;

	*one = {survivors, rank / 2, RANKS - 1, nullptr};
	config.allgather = ranksAllgather;
	config.allgatherArg = one;
	config.rank = one->rank;
	config.nRanks = one->nRanks;
	return config;
}

/* A new communicator, whose ranks exchange data. */
static void goOn(const ginConfig_t *config)
{
	Rank r;
	rankOpen(r, config);
	{
		Job job(r);
		for (int round = 0; round < 3; round++)
			job.exchange();
	}
	rankClose(r);
}

static int timeoutsAndAbort(const ginConfig_t *config)
{
	Rank r;
	rankOpen(r, config);
	{
		Job job(r);
		job.exchange();
		passTimeouts(job);
		job.exchange();
		loseVictim(job, "abort", false);
		expectUsableGpu(r);
	}
	rankClose(r);
	goOn(config);
	return 0;
}

static int timeoutsAbortAndKill(const ginConfig_t *config)
{
	Rank r;
	ranksOne one;

	timeoutsAndAbort(config);
	rankOpen(r, config);
	{
		Job job(r);
		job.exchange();
		loseVictim(job, "kill", true);
		expectUsableGpu(r);
	}
	rankClose(r);
	ginConfig_t left = configWithoutVictim(&one, config->rank);
	goOn(&left);
	return 0;
}

int main(int argc, char **argv)
{
	const bool threads = argc > 1 && !strcmp(argv[1], "--threads");
	int failed = 0;

	shareGpu();
	setenv("GIN_LOG", "none", 0); /* errors are expected */
	survivors = ranksShare(RANKS - 1);
	const int *result =
		ranksStart(RANKS, threads, threads ? timeoutsAndAbort : timeoutsAbortAndKill);
	for (int r = 0; r < RANKS; r++)
		if (result[r] != (!threads && r == VICTIM ? 128 + SIGKILL : 0)) {
			fprintf(stderr, "rank %d returned %d\n", r, result[r]);
			failed = 1;
		}
	if (!failed)
		printf("recovery: timeouts, abort%s: all ranks went on\n", threads ? "" : ", kill");
	return failed;
}
