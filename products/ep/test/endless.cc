/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * endless.cc - many rounds of random sizes, which the rank's device checks itself
 *
 * Rows are patterns of (round, rank, token, element) that e4m3 holds exactly, so every byte that
 * must arrive is known without the inputs of other ranks and without a reference on the host. Two
 * micro-batches: one after the other, or both in flight, received in any order. Rows of x have a
 * stride.
 *
 *	ROUNDS=n	rounds of all shapes together; SEED=n: where they begin
 *	ORDER=n		the order of all rounds: 0: two at a time, 1: in one call, 2: send, receive
 *	AHEAD=n		rounds after which the host waits for the device
 *	PATIENCE=n	seconds that a call waits for a rank
 *	BLOCKS=n	thread blocks of a kernel, at most; more of them receive rows alone
 */
#include "endless.h"

#include <string>

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <time.h>

/* A line of a file of /proc. */
static void printLine(const char *path)
{
	char line[64] = "";
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && read(fd, line, sizeof(line) - 1) > 0)
		fprintf(stderr, " %.*s", static_cast<int>(strcspn(line, "\n")), line);
	if (fd >= 0)
		close(fd);
}

static void printThreads()
{
	DIR *tasks = opendir("/proc/self/task");
	for (struct dirent *task; tasks && (task = readdir(tasks));) {
		if (task->d_name[0] == '.')
			continue;
		const std::string folder = std::string("/proc/self/task/") + task->d_name;
		fprintf(stderr, "  thread:");
		printLine((folder + "/comm").c_str());
		printLine((folder + "/wchan").c_str());
		fprintf(stderr, "\n");
	}
	if (tasks)
		closedir(tasks);
}

/* Prints where the host stands, if it makes no step for three seconds. */
static void *monitor(void *)
{
	for (uint32_t seen = 0, still = 0;; sleep(1)) {
		still = hostSteps == seen ? still + 1 : 0;
		seen = hostSteps;
		if (still != 4)
			continue;
		fprintf(stderr, "rank %d: the host stands in %s, step %u\n", hostRank.load(),
			hostDoes.load(), seen);
		printThreads();
	}
}

static uint32_t roundsOf(const Rank &r)
{
	return static_cast<uint32_t>(numberOr("ROUNDS", r.device < 0 ? 300 : 100000));
}

static Pattern shapeOf(const Rank &r, uint32_t experts, uint32_t topk, uint32_t hidden,
		       uint32_t tokens)
{
	Pattern p = {};
	EXPECT(r.nRanks <= ENDLESS_RANKS);
	p.ranks = static_cast<uint32_t>(r.nRanks);
	p.me = static_cast<uint32_t>(r.rank);
	p.experts = experts;
	p.topk = topk;
	p.hidden = p.stride = hidden;
	p.maxTokens = tokens;
	for (uint32_t i = 0; i < p.ranks; i++)
		p.first[i + 1] = p.first[i] + experts / p.ranks + (i < experts % p.ranks);
	return p;
}

/* One round of a shape. */
static Pattern roundOf(const Pattern &most, uint64_t seed)
{
	Pattern p = most;
	const uint64_t bits = bitsOf(seed, 1, 0, 0);
	p.seed = seed;
	p.hidden = 16 * (1 + bits % (most.hidden / 16));
	p.topk = 1 + (bits >> 8) % most.topk;
	p.f8 = bits >> 16 & 1;
	p.scaleKind = (bits >> 17) % 3;
	p.ranked = (bits >> 20) % 4 == 0;
	p.reduce = p.ranked || (bits >> 24 & 1) ? GIN_EP_REDUCE_RANK : GIN_EP_REDUCE_NONE;
	p.weighted = (bits >> 25 & 3) != 0;
	p.wide = bits >> 27 & 1;
	p.crowd = (bits >> 28) % 8 == 7;
	for (uint32_t s = 0; s < p.ranks; s++)
		p.tokens[s] = bitsOf(seed, 2, s, 0) % (most.maxTokens + 1);
	return p;
}

/* Both batches through dispatch and combine; `bits` choose the order. */
static void pairOf(Rank &r, ginEp_t ep, Exchange &a, Exchange &b, uint64_t bits)
{
	Exchange *const one[2] = {&a, &b};
	if (getenv("ORDER"))
		bits = bits / 3 * 3 + static_cast<uint64_t>(atoi(getenv("ORDER"))) % 3;
	if (bits % 3) { /* one after the other, in one kernel or in two */
		for (Exchange *x : one) {
			x->fill(r);
			x->dispatch(r, ep, bits % 3 == 1 ? GIN_EP_BOTH : GIN_EP_SEND);
			if (bits % 3 == 2)
				x->dispatch(r, ep, GIN_EP_RECV);
			x->checkDispatch(r);
			x->combine(r, ep, bits % 3 == 1 ? GIN_EP_BOTH : GIN_EP_SEND);
			if (bits % 3 == 2)
				x->combine(r, ep, GIN_EP_RECV);
			x->checkCombine(r);
		}
		return;
	}
	for (Exchange *x : one) {
		x->fill(r);
		x->dispatch(r, ep, GIN_EP_SEND);
	}
	for (uint32_t i = 0; i < 2; i++)
		one[(bits >> 8 & 1) ^ i]->dispatch(r, ep, GIN_EP_RECV);
	for (Exchange *x : one) {
		x->checkDispatch(r);
		x->combine(r, ep, GIN_EP_SEND);
	}
	for (uint32_t i = 0; i < 2; i++) {
		one[(bits >> 9 & 1) ^ i]->combine(r, ep, GIN_EP_RECV);
		one[(bits >> 9 & 1) ^ i]->checkCombine(r);
	}
}

/*
 * Before host memory is read into: a copy to pageable memory that waits for kernels keeps the
 * driver busy, and kernels that wait for copies of the proxy end in timeouts.
 */
static void waitForStream(Rank &r)
{
	hostStep("a wait for the stream");
#ifdef __CUDACC__
	if (r.device >= 0)
		CUDA(cudaStreamSynchronize(r.stream));
#else
	(void)r;
#endif
}

static void finish(Rank &r, ginEp_t ep, Exchange &a, Exchange &b)
{
	ginEpRecord_t record = GIN_EP_RECORD_INIT;
	waitForStream(r);
	EP_CHECK(ginEpGetAsyncError(ep, &record));
	if (record.valid) /* and the rows are unspecified */
		fprintf(stderr, "rank %d: %s\n", r.rank, ginEpGetLastError());
	EXPECT(!record.valid);
	a.verdict(r);
	b.verdict(r);
}

static void roundsOfShape(Rank &r, const Pattern &most, uint64_t seed, uint32_t rounds)
{
	ginEpConfig_t config = GIN_EP_CONFIG_INIT;
	ginEpInfo_t info = GIN_EP_INFO_INIT;
	config.experts = most.experts;
	config.topk = most.topk;
	config.hidden = most.hidden;
	config.maxTokens = most.maxTokens;
	config.maxSms = static_cast<uint32_t>(numberOr("BLOCKS", config.maxSms));
	config.timeout = numberOr("PATIENCE", r.device < 0 ? 60 : 8) * 1000000000;
	const ginEp_t ep = makeEp(r, config);
	EP_CHECK(ginEpQuery(ep, &info));
	const uint64_t ahead = numberOr("AHEAD", 32);
	{
		Exchange a(r, most, info.handleBytes), b(r, most, info.handleBytes);
		for (uint32_t n = 0; n < rounds; n += 2) {
			a.take(roundOf(most, seed + n));
			b.take(roundOf(most, seed + n + 1));
			pairOf(r, ep, a, b, bitsOf(seed + n, 3, 0, 0));
			if (n % 2000 == 0)
				finish(r, ep, a, b);
			else if (n % ahead < 2)
				waitForStream(r);
		}
		finish(r, ep, a, b);
	}
	EP_CHECK(ginEpDestroy(ep));
}

static int run(const ginConfig_t *config)
{
	static const uint32_t shape[][4] = {
		/* experts: primes, or a power of two; topk, hidden, tokens */
		{13, 4, 512, 24}, {37, 12, 256, 16}, {2, 2, 1024, 9},
		{61, 8, 128, 40}, {3, 3, 16, 33},    {64, 8, 512, 20},
	};
	uint64_t seed = numberOr("SEED", 20261124);
	Rank r;
	rankOpen(r, config);
	pthread_t thread;
	hostRank = r.rank;
	EXPECT(r.device < 0 || !pthread_create(&thread, nullptr, monitor, nullptr));
	const uint32_t all = roundsOf(r);
	const uint64_t start = nowNs();
	for (const uint32_t *s : shape) {
		roundsOfShape(r, shapeOf(r, s[0], s[1], s[2], s[3]), seed, all / 6);
		seed += all;
	}
	if (r.rank == 0)
		printf("ok: %u rounds, %d ranks, %.1f us each\n", all, r.nRanks,
		       static_cast<double>(nowNs() - start) / 1e3 / all);
	fflush(stdout);
	rankClose(r);
	return 0;
}

int main(int argc, char **argv)
{
	/*
	 * Rounds are launched ahead: a kernel that loads while a dispatch waits would stop the
	 * proxy's copies.
	 */
	setenv("CUDA_MODULE_LOADING", "EAGER", 0);
	return ranksMain(argc, argv, run);
}
