// SPDX-License-Identifier: BSD-3-Clause
// perf_figures - the figures of gin_perf and its reports of wrong bytes
//
// A Meter measures libgin's calls between ranks that are threads of this process. Each call takes
// the time that the test sets: no clock of the system is read. Before one comparison the test
// changes one byte.
/* COMPILE: -O0 */
#define GIN_PERF_CLOCK
#include <gin_device.cuh>

#include <math.h>

#include <type_traits>

// Nanoseconds that the calls of this thread took.
static thread_local uint64_t elapsedHere;

// Of three CTAs the first starts 1000 ns after the last, and the second starts first.
GIN_FN uint64_t timeNow()
{
	return elapsedHere + 1000 * ((ginBlockIndex() + 2) % 3);
}

// A tick is half a nanosecond.
GIN_FN uint64_t ticksNow()
{
	return 2 * elapsedHere;
}

#include "expect.h"
#include "tools/gin_perf/gin_job.cuh"
#include "tools/gin_perf/ranks.h"
#include "tools/gin_perf/session.cuh"

// What happens to each put of a rank.
enum Mangle { mangleNone, mangleShort, mangleLong, mangleShift, mangleSource, mangleSkip };

// How long calls take, in nanoseconds.
struct Delays {
	uint64_t put, get, flush, barrier;
	uint64_t perRank;		  // more for each put, multiplied by the rank
	uint64_t (*wait)(uint64_t least); // of waitSignal
};

// A byte that is changed on one rank before one of its comparisons.
struct Fault {
	int rank;
	uint32_t comparison;
	uint32_t lane, slot;
	int64_t byte;	// of the message; negative: in the guard before it
	uint64_t after; // 1: `byte` counts from the end of the message
};

struct Experiment {
	const char *options;
	uint32_t ranks;
	Delays delays;
	Fault fault;
	Mangle mangle;
};

static Experiment current;

static uint64_t noTime(uint64_t)
{
	return 0;
}

struct TestEndpoint : GinEndpoint {
	// The mangled call passes other arguments.
	template <class Call>
	GIN_FN int moved(uint64_t &to, uint64_t &from, uint64_t &bytes, Call call) const
	{
		elapsedHere += current.delays.put + current.delays.perRank * dc.rank;
		bytes -= current.mangle == mangleShort;
		bytes += current.mangle == mangleLong;
		to += current.mangle == mangleShift;
		from += current.mangle == mangleSource ? 8 : 0;
		return call();
	}

	template <class Coop> GIN_FN int put(Coop coop, uint32_t context, int peer, uint64_t to,
					     uint64_t from, uint64_t bytes, Scratch scratch) const
	{
		return moved(to, from, bytes, [&] {
			return current.mangle == mangleSkip
				       ? 0
				       : GinEndpoint::put(coop, context, peer, to, from, bytes,
							  scratch);
		});
	}

	template <class Coop> GIN_FN int putSignal(Coop coop, uint32_t context, int peer,
						   uint64_t to, uint64_t from, uint64_t bytes,
						   uint32_t id, Scratch scratch) const
	{
		return moved(to, from, bytes, [&] {
			return current.mangle == mangleSkip
				       ? GinEndpoint::signal(coop, context, peer, id)
				       : GinEndpoint::putSignal(coop, context, peer, to, from,
								bytes, id, scratch);
		});
	}

	template <class Coop, class Value>
	GIN_FN int putValue(Coop coop, uint32_t context, int peer, uint64_t to, Value value) const
	{
		elapsedHere += current.delays.put;
		return GinEndpoint::putValue(coop, context, peer, to, value);
	}

	template <class Coop> GIN_FN int get(Coop coop, uint32_t context, int peer, uint64_t from,
					     uint64_t to, uint64_t bytes, Scratch scratch) const
	{
		elapsedHere += current.delays.get;
		return GinEndpoint::get(coop, context, peer, from, to, bytes, scratch);
	}

	template <class Coop> GIN_FN int flush(Coop coop, uint32_t context) const
	{
		elapsedHere += current.delays.flush;
		return GinEndpoint::flush(coop, context);
	}

	template <class Coop>
	GIN_FN int waitSignal(Coop coop, uint32_t context, uint32_t id, uint64_t least) const
	{
		elapsedHere += current.delays.wait(least);
		return GinEndpoint::waitSignal(coop, context, id, least);
	}

	template <class Coop> GIN_FN int barrier(Coop coop) const
	{
		elapsedHere += current.delays.barrier;
		return GinEndpoint::barrier(coop);
	}
};

struct TestJob : GinJob {
	typedef TestEndpoint Endpoint;
	uint32_t comparisons = 0;

	explicit TestJob(const ginConfig_t &config) : GinJob(config, true) {}

	Endpoint endpoint() const { return {GinJob::endpoint()}; }

	template <class Body> void run(uint32_t grid, uint32_t block, Body body)
	{
		if constexpr (std::is_same_v<Body, Compare>)
			if (rank == current.fault.rank && comparisons++ == current.fault.comparison)
				change(body.traffic.layout);
		Machine::run(grid, block, body);
	}

private:
	void change(const BufferLayout &layout) const
	{
		const Fault &f = current.fault;
		int64_t at = static_cast<int64_t>(layout.target(f.lane, f.slot) +
						  f.after * layout.bytes) +
			     f.byte;
		memory[at] = static_cast<char>(memory[at] ^ 0x10);
	}
};

struct Measured {
	Options options;
	CaseOutcome outcome; // rank 0's
};

static int measureOnRank(const ginConfig_t &config, void *arg)
{
	Measured *measured = static_cast<Measured *>(arg);
	TestJob job(config);
	std::vector<Case> cases = casesOf({measured->options}, job.nRanks, false);
	EXPECT_EQUAL(cases.size(), 1);
	Meter<TestJob> meter(job, measured->options, cases);
	CaseOutcome outcome = meter.measure(cases[0]);
	if (!job.rank)
		measured->outcome = outcome;
	return 0;
}

static CaseOutcome measure(const Experiment &experiment)
{
	Options base;
	Measured measured = {caseOptions(base, experiment.options), {}};

	current = experiment;
	if (!current.delays.wait)
		current.delays.wait = noTime;
	EXPECT_EQUAL(runRanks(experiment.ranks, measureOnRank, &measured), 0);
	return measured.outcome;
}

static const Fault noFault = {-1, 0, 0, 0, 0, 0};

static CaseOutcome timed(const char *options, uint32_t ranks, const Delays &delays)
{
	CaseOutcome outcome = measure({options, ranks, delays, noFault, mangleNone});
	EXPECT_EQUAL(outcome.wrong, 0);
	return outcome;
}

#define EXPECT_FIGURE(seen, expected) expectFigure(seen, expected, #seen, __LINE__)

static void expectFigure(double seen, double expected, const char *what, int line)
{
	expectThat(fabs(seen - expected) <= 1e-9 * expected, __FILE__, line,
		   "%s is %.12g, expected %.12g", what, seen, expected);
}

// Warm-up rounds take a second. The next 1000 rounds take 2 us to 2 ms, in another order.
static uint64_t shuffled(uint64_t round)
{
	return round <= 6 ? 1000000000 : 2000 * (round * 377 % 1000 + 1);
}

static uint64_t asRound(uint64_t round)
{
	return round * 1000;
}

static void expectShuffled(const Statistics &us, double unit)
{
	EXPECT_FIGURE(us.least, unit);
	EXPECT_FIGURE(us.mean, 500.5 * unit);
	EXPECT_FIGURE(us.p50, 500 * unit);
	EXPECT_FIGURE(us.p90, 900 * unit);
	EXPECT_FIGURE(us.p99, 990 * unit);
	EXPECT_FIGURE(us.p999, 999 * unit);
	EXPECT_FIGURE(us.most, 1000 * unit);
}

// Of few values: the next larger one.
static void testPercentiles()
{
	const std::vector<double> values = {1, 2, 3, 4, 5, 6, 7};
	EXPECT_FIGURE(percentile(values, 500), 4);
	EXPECT_FIGURE(percentile(values, 900), 7);
	EXPECT_FIGURE(percentile(values, 0), 1);
	EXPECT_FIGURE(percentile({5}, 999), 5);
}

// Two ranks: half of each round trip. A rank alone makes no round trip.
static void testRoundTrips()
{
	Delays delays = {0, 0, 0, 0, 0, shuffled};
	expectShuffled(timed("-o put_lat -b 8 -e 8 -w 5 -n 1000", 2, delays).us, 1);
	expectShuffled(timed("-o signal_lat -w 5 -n 1000", 2, delays).us, 1);
	expectShuffled(timed("-o signal_lat --weak -w 5 -n 1000", 2, delays).us, 1);
	expectShuffled(timed("-o put_lat -b 8 -e 8 -w 5 -n 1000", 1, delays).us, 2);
	EXPECT_FIGURE(timed("-o put_lat -b 8 -e 8", 2, {3000, 0, 0, 0, 0, nullptr}).us.mean, 1.5);
}

// From call to return.
static void testCalls()
{
	Delays delays = {1000, 4000, 2500, 7000, 0, nullptr};
	EXPECT_FIGURE(timed("-o put_flush -b 8 -e 8", 2, delays).us.p50, 3.5);
	EXPECT_FIGURE(timed("-o get_lat -b 8 -e 8", 2, delays).us.p50, 6.5);
	EXPECT_FIGURE(timed("-o barrier", 2, delays).us.p50, 7);
	delays.wait = [](uint64_t) -> uint64_t { return 100; };
	EXPECT_FIGURE(timed("-o alltoall -b 8 -e 8", 3, delays).us.p50, 3.3); // 3 puts and waits
}

// More iterations than a launch records: times of both launches.
static void testLaunches()
{
	Statistics us = timed("-o signal_lat -w 0 -n 5000", 1, {0, 0, 0, 0, 0, asRound}).us;
	uint64_t sum = 0; // the first round of each launch is not recorded
	for (uint64_t i = 0; i < 5000; i++)
		sum += 2 + i % RECORDED;
	EXPECT_FIGURE(us.mean, static_cast<double>(sum) / 5000);
	EXPECT_FIGURE(us.most, RECORDED + 1);
}

static void expectRate(const char *options, uint32_t ranks, const Delays &delays, double ns,
		       double messages, double bytes)
{
	CaseOutcome seen = timed(options, ranks, delays);
	printf("%s: %.3f us, %.4f GB/s, %.4f M msg/s\n", options, seen.seconds * 1e6,
	       seen.gigabytes, seen.megamessages);
	EXPECT_FIGURE(seen.seconds, ns / 1e9);
	EXPECT_FIGURE(seen.megamessages, messages / ns * 1e3);
	EXPECT_FIGURE(seen.gigabytes, messages * bytes / ns); // a byte per ns is 10^9 per second
}

// Three CTAs: from the begin of the second, at 0 ns, to the end of the first, which begins at 2000.
static void testRates()
{
	Delays delays = {100, 200, 50, 0, 0, nullptr};
	expectRate("-o put_bw -b 4096 -e 4096 -g 3 -n 10", 2, delays, 3050, 10, 4096);
	expectRate("-o get_bw -b 4096 -e 4096 -g 3 -n 10", 2, delays, 4050, 10, 4096);
	expectRate("-o put_rate -b 64 -e 64 -g 3 -t 4 -n 10", 2, delays, 3050, 120, 64);
	expectRate("-o put_rate -b 64 -e 64 -g 3 -t 4 --coop warp -n 10", 2, delays, 3050, 30, 64);
	expectRate("-o value_rate -b 8 -e 8 -g 3 -t 4 -n 10", 2, delays, 3050, 120, 8);
	expectRate("-o value_rate -b 4 -e 4 -g 1 -t 4 -n 10", 1, delays, 1050, 40, 4);
	// To two ranks each; the time of rank 2, whose puts take 400 ns more.
	delays.perRank = 200;
	expectRate("-o put_bw -b 4096 -e 4096 -n 10 --all", 3, delays, 10050, 20, 4096);
	expectRate("-o put_rate -b 8 -e 8 -t 4 -n 10 --all", 3, delays, 10050, 80, 8);
}

struct Moving {
	const char *operation;
	int receiver; // of two ranks
	uint32_t lane;
};

static const Moving moving[] = {{"put_lat", 0, 0}, {"put_lat", 1, 0},  {"put_flush", 1, 0},
				{"get_lat", 0, 0}, {"alltoall", 0, 1}, {"put_bw", 1, 0},
				{"get_bw", 0, 0},  {"put_rate", 1, 0}, {"value_rate", 1, 0}};

static uint64_t wrongOf(const std::string &options, uint32_t ranks, const Fault &fault)
{
	return measure({options.c_str(), ranks, {}, fault, mangleNone}).wrong;
}

// One byte: the message's first and last, the guard before and after, of the first and last slot.
static void testOneByte(const Moving &m)
{
	uint32_t last = strstr(m.operation, "_rate") ? 7
			: strstr(m.operation, "_bw") || strstr(m.operation, "t_flush") ||
					strstr(m.operation, "get_lat")
				? 3
				: 1;
	std::string size = strcmp(m.operation, "value_rate") ? "5" : "8";
	std::string options = "-o " + std::string(m.operation) + " -b " + size + " -e " + size +
			      " -n 20 -t 4 -g " + (last == 7 ? "2" : "1");
	for (uint32_t slot : {0u, last})
		for (uint64_t after : {0, 1})
			for (int64_t byte : {-1, 0, 8})
				EXPECT_EQUAL(wrongOf(options, 2,
						     {m.receiver, 0, m.lane, slot, byte, after}),
					     1);
	EXPECT_EQUAL(wrongOf(options + " -c 0", 2, {m.receiver, 0, m.lane, 0, 0, 0}), 0);
	// A rank that no message reaches is compared, too.
	if (m.lane == 0)
		EXPECT_EQUAL(wrongOf(options, 3, {2, 0, 0, 0, 0, 0}), 1);
}

// Each launch is compared, not the last one only.
static void testEachLaunch()
{
	for (uint32_t launch : {0u, 1u, 2u})
		EXPECT_EQUAL(wrongOf("-o put_flush -b 8 -e 8 -n 9000", 2, {1, launch, 0, 0, 0, 0}),
			     1);
	EXPECT_EQUAL(wrongOf("-o put_flush -b 8 -e 8 -n 9000", 2, {1, 3, 0, 0, 0, 0}), 0);
}

// Puts of a byte less, a byte more, a byte further, of the next word, and none.
static void testMangled()
{
	for (const char *operation : {"put_lat", "put_flush", "alltoall", "put_bw", "put_rate"})
		for (int mangle = mangleShort; mangle <= mangleSkip; mangle++) {
			std::string options = std::string("-n 20 -b 24 -e 24 -o ") + operation;
			EXPECT(measure({options.c_str(),
					2,
					{},
					noFault,
					static_cast<Mangle>(mangle)})
				       .wrong > 0);
		}
}

int main()
{
	testPercentiles();
	testRoundTrips();
	testCalls();
	testLaunches();
	testRates();
	for (const Moving &m : moving)
		testOneByte(m);
	testEachLaunch();
	testMangled();
	return 0;
}
