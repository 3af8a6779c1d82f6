// SPDX-License-Identifier: BSD-3-Clause
// measure.cuh - measures one case: prepares memory, launches, compares bytes
//
// A Job is a rank of the library that is measured; gin_job.cuh has libgin's. It is a Machine with
// endpoint(), meet(), failed() and the window's memory.
#ifndef GIN_PERF_MEASURE_CUH
#define GIN_PERF_MEASURE_CUH

#include "bodies.cuh"
#include "plan.h"

template <class Job> class Meter
{
public:
	Meter(Job &job_, const Options &options, const std::vector<Case> &cases)
	    : job(job_), run(patternMix(options.seed)), reportAt((memoryOf(cases) + 63) / 64 * 64),
	      fillGrid(job_.gpu ? 64 : 1), fillBlock(job_.gpu ? 256 : 1),
	      words(STREAM_WORDS + LATENCY_WORDS + RECORDED + 2 * ctasOf(cases))
	{
		job.prepare(reportAt + static_cast<size_t>(job.nRanks) * sizeof(ReportWords),
			    contextsOf(cases), signalFrom + static_cast<uint32_t>(job.nRanks),
			    options.timeout);
		results = job.template results<uint64_t>(words);
		findings = job.template results<Finding>(fillGrid * fillBlock);
	}

	~Meter()
	{
		job.freeResults(results);
		job.freeResults(findings);
	}

	Meter(const Meter &) = delete;
	Meter &operator=(const Meter &) = delete;

	// Collective. Rank 0 gets the outcome of all ranks; on other ranks `wrong` is their own.
	CaseOutcome measure(const Case &c)
	{
		wrong = 0;
		CaseOutcome outcome = c.operation->stream ? measureStream(c) : measureLatency(c);
		outcome.wrong = wrong;
		outcome.fit = fit;
		collect(c, outcome);
		return outcome;
	}

private:
	typedef typename Job::Endpoint Endpoint;
	Job &job;
	uint64_t run; // differs for each launch
	const size_t reportAt;
	const uint32_t fillGrid, fillBlock;
	const size_t words;
	uint64_t *results;
	Finding *findings;
	uint64_t wrong; // of this rank and case
	KernelFit fit;	// of this rank's last measured kernel

	// Ranks 0 and 1 are partners; a single rank is its own partner.
	int partner() const { return job.nRanks == 1 ? 0 : 1 - job.rank; }

	bool isFirst() const { return job.rank == 0; }

	bool takesPart(const Case &c) const { return isWide(c) || job.rank < 2; }

	bool receives(const Case &c) const
	{
		OperationKind kind = c.operation->kind;
		if (kind == opPutLat || kind == opPacketLat)
			return true;
		if (kind == opGetLat || kind == opGetBw)
			return isFirst();
		return job.nRanks == 1 || job.rank == 1;
	}

	Traffic trafficOf(const Case &c, uint32_t written)
	{
		return {c.layout,
			++run,
			job.rank,
			partner(),
			takesPart(c) && receives(c),
			c.operation->kind == opAllToAll,
			written};
	}

	void fill(const Traffic &traffic)
	{
		job.run(fillGrid, fillBlock,
			Fill<Endpoint>{{}, job.endpoint(), traffic, job.memory});
		memset(results, 0, words * sizeof(*results));
		job.meet();
	}

	// Waits until the launches of all ranks have ended.
	void compare(const Case &c, const Traffic &traffic)
	{
		job.meet();
		if (!c.check)
			return;
		if (c.breaks && traffic.arrives(0) && c.bytes)
			breakByte(c.layout.target(0, 0) + brokenByte(c));
		job.run(fillGrid, fillBlock, Compare{{}, traffic, job.memory, findings});
		for (uint32_t i = 0; i < fillGrid * fillBlock; i++)
			wrong += findings[i].bytes;
		if (wrong)
			list(c);
	}

	// Of the guard, the first byte of a word that has no byte of the message.
	static uint64_t brokenByte(const Case &c)
	{
		return c.breaks == 'g' ? (c.bytes + 7) / 8 * 8 : c.bytes / 2;
	}

	void breakByte(uint64_t at) const
	{
		unsigned char byte;
		job.copy(&byte, job.memory + at, 1);
		byte = static_cast<unsigned char>(byte ^ 0x80);
		job.copy(job.memory + at, &byte, 1);
	}

	// Prints the first wrong word of up to 8 threads to standard error.
	void list(const Case &c) const
	{
		fprintf(stderr, "rank %d: %s, %zu bytes: %llu wrong bytes in this rank's memory\n",
			job.rank, c.operation->name, c.bytes,
			static_cast<unsigned long long>(wrong));
		for (uint32_t i = 0, lines = 0; i < fillGrid * fillBlock && lines < 8; i++) {
			const Finding &f = findings[i];
			if (!f.bytes)
				continue;
			lines++;
			uint64_t region = f.at / c.layout.stride, in = f.at % c.layout.stride;
			fprintf(stderr,
				"  lane %llu, slot %llu, byte %lld: expected %016llx, seen "
				"%016llx\n",
				static_cast<unsigned long long>(region / c.layout.slots),
				static_cast<unsigned long long>(region % c.layout.slots),
				static_cast<long long>(in) - GUARD,
				static_cast<unsigned long long>(f.expected),
				static_cast<unsigned long long>(f.seen));
		}
	}

	// Sends wrong bytes and times of all ranks to rank 0.
	void collect(const Case &c, CaseOutcome &outcome)
	{
		ReportWords mine = {{outcome.wrong, static_cast<uint64_t>(outcome.seconds * 1e9)}};
		job.run(1, 1,
			Report<Endpoint>{{}, job.endpoint(), mine, reportAt, job.rank, results});
		require(results[0]);
		if (job.rank)
			return;
		std::vector<ReportWords> all(static_cast<size_t>(job.nRanks));
		job.copy(all.data(), job.memory + reportAt, all.size() * sizeof(all[0]));
		outcome.wrong = 0;
		for (const ReportWords &one : all) {
			outcome.wrong += one.word[0];
			outcome.seconds =
				std::max(outcome.seconds, static_cast<double>(one.word[1]) / 1e9);
		}
		if (c.operation->stream)
			addRates(c, outcome);
	}

	void addRates(const Case &c, CaseOutcome &outcome) const
	{
		double messages = static_cast<double>(c.iterations) * (isRate(c) ? c.coops : 1) *
				  (c.all ? job.nRanks - 1 : 1);
		outcome.megamessages = messages / outcome.seconds / 1e6;
		outcome.gigabytes = messages * static_cast<double>(c.bytes) / outcome.seconds / 1e9;
	}

	void require(uint64_t status) const
	{
		if (status)
			job.failed(static_cast<int>(status));
	}

	CaseOutcome measureLatency(const Case &c)
	{
		std::vector<double> us;
		for (uint32_t left = c.iterations; left;) {
			uint32_t recorded = std::min<uint32_t>(left, RECORDED);
			uint32_t unrecorded =
				c.warmup + 1; // the first one waits for the partner's launch
			Traffic traffic = trafficOf(c, unrecorded + recorded);
			fill(traffic);
			latencyByCoop(c, unrecorded, recorded);
			compare(c, traffic);
			keep(c, recorded, us);
			left -= recorded;
		}
		CaseOutcome outcome;
		outcome.us = statisticsOf(us);
		return outcome;
	}

	// Keeps the times that rank 0 recorded; of a ping-pong, half of each round trip.
	void keep(const Case &c, uint32_t recorded, std::vector<double> &us) const
	{
		double scale = static_cast<double>(results[latencyNanoseconds]) /
			       static_cast<double>(results[latencyTicks]) / 1e3;
		if (isPingPong(c) && job.nRanks > 1)
			scale /= 2;
		for (uint32_t i = 0; i < recorded && isFirst(); i++)
			us.push_back(static_cast<double>(results[LATENCY_WORDS + i]) * scale);
	}

	void latencyByCoop(const Case &c, uint32_t unrecorded, uint32_t recorded)
	{
		if (!takesPart(c))
			return;
		if (c.coop == ginCoopThread)
			latencyOf<GinThread>(c, unrecorded, recorded);
		else if (c.coop == ginCoopWarp)
			latencyOf<GinWarp>(c, unrecorded, recorded);
		else
			latencyOf<GinCta>(c, unrecorded, recorded);
	}

	template <class Coop> void latencyOf(const Case &c, uint32_t unrecorded, uint32_t recorded)
	{
		if (isPingPong(c))
			pingPongOf<Coop>(c, unrecorded, recorded);
		else
			callOf<Coop>(c, unrecorded, recorded);
	}

	static bool isPingPong(const Case &c)
	{
		OperationKind kind = c.operation->kind;
		return kind == opPutLat || kind == opSignalLat || kind == opPacketLat;
	}

	// These three have all kernels of a coop. A program may compile them apart.
	template <class Coop>
	void pingPongOf(const Case &c, uint32_t unrecorded, uint32_t recorded);
	template <class Coop> void callOf(const Case &c, uint32_t unrecorded, uint32_t recorded);
	template <class Coop> void streamOf(const Case &c);

	template <class Coop, class Step>
	void latency(const Case &c, Step step, uint32_t unrecorded, uint32_t recorded)
	{
		uint32_t ticks = (recorded * 4 + 127) / 128 * 128;
		Shared shared;
		shared.bytes = ticks + c.scratch;
		runMeasured(1, c.threads,
			    Latency<Endpoint, Coop, Step>{shared, job.endpoint(), c.layout, step,
							  unrecorded, recorded, ticks, c.scratch,
							  results});
		require(results[latencyStatus]);
	}

	template <class Body> void runMeasured(uint32_t grid, uint32_t block, const Body &body)
	{
		job.run(grid, block, body);
		fit = job.fitOf(block, body);
	}

	CaseOutcome measureStream(const Case &c)
	{
		if (c.warmup)
			stream(c, c.warmup, false);
		return stream(c, c.iterations, c.check);
	}

	CaseOutcome stream(Case c, uint32_t iterations, bool check)
	{
		Traffic traffic = trafficOf(c, isRate(c) ? c.coops : iterations);
		CaseOutcome outcome;
		c.iterations = iterations;
		c.check = check;
		fill(traffic);
		if (takesPart(c))
			streamByCoop(c);
		outcome.seconds = elapsed(c);
		compare(c, traffic);
		return outcome;
	}

	// Time from the begin of the first CTA to the end of the last; 0 on ranks that only wait.
	double elapsed(const Case &c) const
	{
		const uint64_t *stamps = results + STREAM_WORDS;
		if (!takesPart(c) || !moves(c))
			return 0;
		uint64_t begin = stamps[0], end = stamps[1];
		for (uint32_t cta = 1; cta < c.ctas; cta++) {
			begin = std::min(begin, stamps[2 * cta]);
			end = std::max(end, stamps[2 * cta + 1]);
		}
		return static_cast<double>(end - begin) / 1e9;
	}

	// Does this rank call put or get?
	bool moves(const Case &c) const { return c.all || isFirst(); }

	void streamByCoop(const Case &c)
	{
		if (c.coop == ginCoopThread)
			streamOf<GinThread>(c);
		else if (c.coop == ginCoopWarp)
			streamOf<GinWarp>(c);
		else
			streamOf<GinCta>(c);
	}

	template <class Coop, class Move> void streamBody(const Case &c, Move move)
	{
		Stream<Endpoint, Coop, Move> body = {};
		body.shared.bytes = c.scratch * (c.coops / c.ctas);
		body.endpoint = job.endpoint();
		body.layout = c.layout;
		body.move = move;
		body.me = job.rank;
		body.partner = partner();
		body.nRanks = job.nRanks;
		body.moves = moves(c);
		body.receives = c.all || receives(c);
		body.iterations = c.iterations;
		body.contexts = c.contexts;
		body.sourceCtas = c.ctas;
		body.scratchBytes = c.scratch;
		body.results = results;
		runMeasured(body.moves ? c.ctas : 1, body.moves ? c.threads : 1, body);
		require(results[streamStatus]);
	}
};

template <class Job> template <class Coop>
void Meter<Job>::pingPongOf(const Case &c, uint32_t unrecorded, uint32_t recorded)
{
	bool first = isFirst();
	int peer = partner();
	auto go = [&](auto step) { latency<Coop>(c, step, unrecorded, recorded); };
	switch (c.operation->kind) {
	case opPutLat:
		return go(PingPong{peer, first});
	case opSignalLat:
		return c.weak ? go(SignalPingPong<true>{peer, first})
			      : go(SignalPingPong<false>{peer, first});
	case opPacketLat:
		return go(PacketPingPong{peer, first});
	default:
		return;
	}
}

template <class Job> template <class Coop>
void Meter<Job>::callOf(const Case &c, uint32_t unrecorded, uint32_t recorded)
{
	bool first = isFirst();
	int peer = partner();
	auto go = [&](auto step) { latency<Coop>(c, step, unrecorded, recorded); };
	switch (c.operation->kind) {
	case opPutFlush:
		return first ? go(PutFlush{peer}) : void();
	case opGetLat:
		return first ? go(GetFlush{peer}) : void();
	case opBarrier:
		return go(BarrierStep{});
	case opAllToAll:
		return go(AllToAllStep{job.rank, job.nRanks});
	default:
		return;
	}
}

template <class Job> template <class Coop> void Meter<Job>::streamOf(const Case &c)
{
	switch (c.operation->kind) {
	case opPutBw:
		return streamBody<Coop>(c, PutShares{});
	case opGetBw:
		return streamBody<Coop>(c, GetShares{});
	case opPutRate:
		return streamBody<Coop>(c, PutOwn{});
	case opValueRate:
		return c.bytes == 4 ? streamBody<Coop>(c, PutValueOwn<uint32_t>{run})
				    : streamBody<Coop>(c, PutValueOwn<uint64_t>{run});
	default:
		return;
	}
}

#endif
