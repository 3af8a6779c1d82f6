/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_faults.cc - a NIC fails while ranks put: puts that were flushed or signaled are there,
 * every later call fails, every wait ends, and the sentence names the reason
 *
 *	EXPECT_WORDS=words	in the log of one rank at least: both may know the peer's reason
 *	ROUNDS=n		after which the test ends without a fault (100000)
 *
 * Rank r puts round i into slot i of rank r + 1, and waits for the round of rank r - 1. Run it with
 * a fault of mlx5/dev/with-device.
 */
#include "suite.h"

#include <string>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 2, SLOTS = 1024, SLOT_WORDS = 32 };

struct PutRounds {
	ginDevComm dc;
	ginWindow_t target, source;
	uint64_t *in, *out;
	uint64_t rounds;
	uint64_t *results; /* rounds flushed; rounds that came; the last result; wrong words */

	GIN_FN uint64_t *slotOf(uint64_t *words, uint64_t round) const
	{
		return words + round % SLOTS * SLOT_WORDS;
	}

	GIN_FN void fill(uint64_t round) const
	{
		for (uint64_t i = 0; i < SLOT_WORDS; i++)
			slotOf(out, round)[i] = round * SLOT_WORDS + i;
	}

	GIN_FN void look(uint64_t round) const
	{
		for (uint64_t i = 0; i < SLOT_WORDS; i++)
			results[3] += slotOf(in, round)[i] != round * SLOT_WORDS + i;
	}

	GIN_FN ginResult_t once(const Gin &gin, uint64_t round) const
	{
		const size_t at = round % SLOTS * SLOT_WORDS * 8;
		fill(round);
		ginResult_t result = gin.put(rightOf(dc), target, at, source, at, SLOT_WORDS * 8,
					     GinSignalInc{0});
		if (result == ginSuccess)
			result = gin.flush(GinThread{});
		if (result != ginSuccess)
			return result;
		results[0]++;
		result = gin.waitSignal(0, round + 1, GinThread{}, ginTimeout(20000000000));
		if (result != ginSuccess)
			return result;
		results[1]++;
		look(round);
		return result;
	}

	/*
	 * The put may be posted before the rank notifies its kernels of the loss: then the flush
	 * fails.
	 */
	GIN_FN ginResult_t putToLost(const Gin &gin) const
	{
		ginResult_t result = gin.put(rightOf(dc), target, 0, source, 0, 8);

		return result == ginSuccess ? gin.flush(GinThread{}) : result;
	}

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		ginResult_t result = ginSuccess;
		for (uint64_t i = 0; i < rounds && result == ginSuccess; i++)
			result = once(gin, i);
		results[2] = result;
		results[4] = result == ginSuccess ? result : putToLost(gin);
	}
};

/* The words of both ranks, which are threads. */
static uint64_t *windows[RANKS];
static uint64_t flushed[RANKS];
static int done;

/* The last rounds are still in their slots. */
static void expectFlushed(const Rank &r)
{
	const uint64_t *in = windows[1 - r.rank];
	uint64_t first = flushed[r.rank] > SLOTS / 2 ? flushed[r.rank] - SLOTS / 2 : 0;

	for (uint64_t round = first; round < flushed[r.rank]; round++)
		for (uint64_t i = 0; i < SLOT_WORDS; i++)
			EXPECT(in[round % SLOTS * SLOT_WORDS + i] == round * SLOT_WORDS + i);
}

static void expectReason(Rank &r)
{
	ginResult_t async = ginSuccess;

	CHECK(ginCommGetAsyncError(r.comm, &async));
	EXPECT(async == ginErrorPeer);
	/* The sentence of the rank that finds its peer lost first. */
	EXPECT(strstr(ginGetLastError(), "rank 0 (host ") ||
	       strstr(ginGetLastError(), "rank 1 (host "));
	printf("rank %d: %s\n", r.rank, ginGetLastError());
}

static int run(const ginConfig_t *config)
{
	const char *rounds = getenv("ROUNDS");
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginDevComm dc;
	Rank r;
	rankOpen(r, config);
	want.signals = 1;
	CHECK(ginDevCommCreate(r.comm, &want, &dc));
	{
		Buffer in(r, SLOTS * SLOT_WORDS * 8), out(r, SLOTS * SLOT_WORDS * 8);
		Results results(r, 5);
		memset(results.words, 0, 5 * sizeof(uint64_t));
		windows[r.rank] = reinterpret_cast<uint64_t *>(in.ptr);
		meet(r);
		launch(r, 1, 1,
		       PutRounds{dc, in.window, out.window, windows[r.rank],
				 reinterpret_cast<uint64_t *>(out.ptr),
				 rounds ? strtoull(rounds, nullptr, 10) : 100000, results.words});
		printf("rank %d: %llu rounds flushed, %llu came, the last result %llu\n", r.rank,
		       (unsigned long long)results.words[0], (unsigned long long)results.words[1],
		       (unsigned long long)results.words[2]);
		flushed[r.rank] = results.words[0];
		EXPECT(results.words[3] == 0);
		EXPECT(results.words[2] == ginErrorPeer && results.words[4] == ginErrorPeer);
		expectReason(r);
		expectFlushed(r);
		__atomic_fetch_add(&done, 1, __ATOMIC_SEQ_CST);
		while (__atomic_load_n(&done, __ATOMIC_SEQ_CST) < RANKS)
			sched_yield();
	}
	CHECK(ginDevCommDestroy(r.comm, &dc));
	rankClose(r);
	return 0;
}

/* Runs the ranks in a process of their own. Returns its standard error. */
static std::string logOfRanks()
{
	char path[] = "/tmp/gin-faults-XXXXXX", text[65536];
	int fd = mkstemp(path), status = -1;
	EXPECT(fd >= 0 && unlink(path) == 0);
	pid_t child = fork();
	if (child == 0) {
		setenv("GIN_LOG", "info", 1);
		dup2(fd, 2);
		const int *result = ranksStart(RANKS, 1, run);
		exit(result[0] || result[1]);
	}
	EXPECT(child > 0 && waitpid(child, &status, 0) == child);
	ssize_t length = pread(fd, text, sizeof(text), 0);
	std::string log(text, length > 0 ? static_cast<size_t>(length) : 0);
	fprintf(stderr, "%s", log.c_str());
	EXPECT(status == 0);
	return log;
}

int main()
{
	const char *words = getenv("EXPECT_WORDS");

	EXPECT(logOfRanks().find(words ? words : "") != std::string::npos);
	return 0;
}
