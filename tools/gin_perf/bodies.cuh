// SPDX-License-Identifier: BSD-3-Clause
// bodies.cuh - the loops that are timed
//
// They run on any library. An Endpoint provides the library's calls; gin_job.cuh has libgin's.
// Calls return 0 or a ginResult_t. Each coop calls start() once before the timed loop, and stop()
// after it. A Latency body times each iteration; a Stream body times all iterations together.
#ifndef GIN_PERF_BODIES_CUH
#define GIN_PERF_BODIES_CUH

#include "pattern.cuh"

// Signals of each context.
enum { signalData, signalDone, signalAck, signalFrom /* + rank of the sender */ };

// Shared memory that a call may use.
struct Scratch {
	char *at;
	uint32_t bytes;
};

// The clocks of the timed loops. A test that defines GIN_PERF_CLOCK provides both.
#ifndef GIN_PERF_CLOCK
// In nanoseconds.
GIN_FN uint64_t timeNow()
{
	return ginNow();
}

// Cycles of this SM on a GPU, nanoseconds on the host.
GIN_FN uint64_t ticksNow()
{
#if GIN_ON_GPU
	return static_cast<uint64_t>(clock64());
#else
	return ginNow();
#endif
}
#endif

// Put and signal to the peer, then wait for the peer's; or the other way round.
struct PingPong {
	int peer;
	bool first;

	template <class Endpoint, class Coop>
	GIN_FN int operator()(const Endpoint &to, Coop coop, const BufferLayout &layout,
			      const Cursor &cursor, uint64_t round, Scratch scratch) const
	{
		int status = 0;
		if (!first)
			status = to.waitSignal(coop, 0, signalData, round);
		if (!status)
			status = to.putSignal(coop, 0, peer, layout.target(0, cursor.slot),
					      layout.source(0, cursor.variant), layout.bytes,
					      signalData, scratch);
		if (!status && first)
			status = to.waitSignal(coop, 0, signalData, round);
		return status;
	}
};

// Send a message to the peer, then receive the peer's; or the other way round.
struct PacketPingPong {
	int peer;
	bool first;
};

// PacketPingPong with the library's object for messages, which counts them.
template <class Packets> struct PacketTurns {
	Packets packets;
	bool first;

	template <class Endpoint, class Coop>
	GIN_FN int operator()(const Endpoint &to, Coop coop, const BufferLayout &layout,
			      const Cursor &cursor, uint64_t, Scratch)
	{
		int status = first ? send(to, coop, layout, cursor) : 0;
		if (!status)
			status = to.receivePacket(packets, coop, layout.target(0, cursor.slot),
						  layout.bytes);
		if (!status && !first)
			status = send(to, coop, layout, cursor);
		return status;
	}

private:
	template <class Endpoint, class Coop> GIN_FN int
	send(const Endpoint &to, Coop coop, const BufferLayout &layout, const Cursor &cursor)
	{
		return to.sendPacket(packets, coop, layout.source(0, cursor.variant), layout.bytes);
	}
};

// What a loop calls: the step, with the state that it keeps from call to call.
template <class Endpoint, class Step> GIN_FN Step turnsOf(const Endpoint &, const Step &step)
{
	return step;
}

template <class Endpoint> GIN_FN auto turnsOf(const Endpoint &to, const PacketPingPong &step)
	-> PacketTurns<decltype(to.packets(0))>
{
	return {to.packets(step.peer), step.first};
}

// Signal the peer, then wait for the peer's signal; or the other way round.
template <bool weak> struct SignalPingPong {
	int peer;
	bool first;

	template <class Endpoint, class Coop>
	GIN_FN int operator()(const Endpoint &to, Coop coop, const BufferLayout &, const Cursor &,
			      uint64_t round, Scratch) const
	{
		int status = 0;
		if (!first)
			status = to.waitSignal(coop, 0, signalData, round);
		if (!status)
			status = weak ? to.weakSignal(coop, 0, peer, signalData)
				      : to.signal(coop, 0, peer, signalData);
		if (!status && first)
			status = to.waitSignal(coop, 0, signalData, round);
		return status;
	}
};

struct PutFlush {
	int peer;

	template <class Endpoint, class Coop>
	GIN_FN int operator()(const Endpoint &to, Coop coop, const BufferLayout &layout,
			      const Cursor &cursor, uint64_t, Scratch scratch) const
	{
		int status = to.put(coop, 0, peer, layout.target(0, cursor.slot),
				    layout.source(0, cursor.variant), layout.bytes, scratch);
		return status ? status : to.flush(coop, 0);
	}
};

struct GetFlush {
	int peer;

	template <class Endpoint, class Coop>
	GIN_FN int operator()(const Endpoint &to, Coop coop, const BufferLayout &layout,
			      const Cursor &cursor, uint64_t, Scratch scratch) const
	{
		int status = to.get(coop, 0, peer, layout.source(0, cursor.variant),
				    layout.target(0, cursor.slot), layout.bytes, scratch);
		return status ? status : to.flush(coop, 0);
	}
};

struct BarrierStep {
	template <class Endpoint, class Coop>
	GIN_FN int operator()(const Endpoint &to, Coop coop, const BufferLayout &, const Cursor &,
			      uint64_t, Scratch) const
	{
		return to.barrier(coop);
	}
};

// Puts a block to each rank, starting with the next rank, and waits for a block from each rank.
struct AllToAllStep {
	int me, nRanks;

	template <class Endpoint, class Coop>
	GIN_FN int operator()(const Endpoint &to, Coop coop, const BufferLayout &layout,
			      const Cursor &cursor, uint64_t round, Scratch scratch) const
	{
		uint32_t mine = static_cast<uint32_t>(me), n = static_cast<uint32_t>(nRanks);
		int status = 0;
		for (uint32_t i = 1; i <= n && !status; i++) {
			uint32_t peer = mine + i < n ? mine + i : mine + i - n;
			status = to.putSignal(coop, 0, static_cast<int>(peer),
					      layout.target(mine, cursor.slot),
					      layout.source(peer, cursor.variant), layout.bytes,
					      signalFrom + mine, scratch);
		}
		for (uint32_t peer = 0; peer < n && !status; peer++)
			status = to.waitSignal(coop, 0, signalFrom + peer, round);
		return status;
	}
};

// Words of a Latency body's results. The ticks of each iteration follow them.
enum { latencyStatus, latencyTicks, latencyNanoseconds, LATENCY_WORDS };

// Runs on one CTA, which is one coop. Ticks are stored to shared memory: the next release would
// have to wait for a store to global memory.
template <class Endpoint, class Coop, class Step> struct Latency {
	static constexpr uint32_t mostThreads = mostThreadsOf(Coop{});
	Shared shared;
	Endpoint endpoint;
	BufferLayout layout;
	Step step;
	uint32_t unrecorded, recorded;
	uint32_t scratchAt, scratchBytes; // in shared memory, after the ticks
	uint64_t *results;

	GIN_FN void operator()() const
	{
		uint32_t *ticks = reinterpret_cast<uint32_t *>(shared.ofBlock());
		Scratch scratch = {scratchBytes ? shared.ofBlock() + scratchAt : nullptr,
				   scratchBytes};
		uint64_t nanoseconds = timeNow(), start = ticksNow();
		int status = loop(ticks, scratch);
		if (Coop{}.thread_rank())
			return;
		results[latencyTicks] = ticksNow() - start;
		results[latencyNanoseconds] = timeNow() - nanoseconds;
		results[latencyStatus] = static_cast<uint64_t>(status);
		for (uint32_t i = 0; i < recorded && !status; i++)
			results[LATENCY_WORDS + i] = ticks[i];
	}

private:
	GIN_FN int loop(uint32_t *ticks, Scratch scratch) const
	{
		Coop coop;
		Cursor cursor;
		bool records = coop.thread_rank() == 0;
		int status = 0;
		endpoint.start(coop, scratch);
		auto turns = turnsOf(endpoint, step);
		uint64_t before = ticksNow();
		GIN_NO_UNROLL
		for (uint32_t i = 0; i < unrecorded + recorded && !status; i++) {
			status = turns(endpoint, coop, layout, cursor, i + 1ull, scratch);
			uint64_t now = ticksNow(), took = now - before;
			if (records && i >= unrecorded)
				ticks[i - unrecorded] = took < UINT32_MAX
								? static_cast<uint32_t>(took)
								: UINT32_MAX;
			before = now;
			cursor.next(layout);
		}
		endpoint.stop();
		return status;
	}
};

// A coop's part of a message, in whole 128-byte lines.
struct Share {
	uint64_t begin, bytes;

	GIN_FN Share(uint64_t all, uint32_t coop, uint32_t coops)
	{
		uint64_t each = ((all + coops - 1) / coops + 127) / 128 * 128;
		begin = coop * each < all ? coop * each : all;
		bytes = all - begin < each ? all - begin : each;
	}
};

// A coop of a Stream body.
struct StreamCoop {
	uint32_t index, count, context;
	Scratch scratch;
};

// All coops together put, or get, one message.
template <bool gets> struct MoveShares {
	static constexpr bool fromPeer = gets;

	template <class Endpoint, class Coop>
	GIN_FN int operator()(const Endpoint &to, Coop coop, const BufferLayout &layout,
			      const Cursor &cursor, int me, int peer,
			      const StreamCoop &worker) const
	{
		Share share(layout.bytes, worker.index, worker.count);
		if (!share.bytes)
			return 0;
		uint32_t writer = layout.lane(gets ? peer : me),
			 reader = layout.lane(gets ? me : peer);
		uint64_t target = layout.target(writer, cursor.slot) + share.begin;
		uint64_t source = layout.source(reader, cursor.variant) + share.begin;
		if constexpr (gets)
			return to.get(coop, worker.context, peer, source, target, share.bytes,
				      worker.scratch);
		else
			return to.put(coop, worker.context, peer, target, source, share.bytes,
				      worker.scratch);
	}
};

using PutShares = MoveShares<false>;
using GetShares = MoveShares<true>;

// Each coop puts its own message to its own slot.
struct PutOwn {
	static constexpr bool fromPeer = false;

	template <class Endpoint, class Coop>
	GIN_FN int operator()(const Endpoint &to, Coop coop, const BufferLayout &layout,
			      const Cursor &, int me, int peer, const StreamCoop &worker) const
	{
		return to.put(coop, worker.context, peer,
			      layout.target(layout.lane(me), worker.index),
			      layout.source(layout.lane(peer), worker.index), layout.bytes,
			      worker.scratch);
	}
};

// Each coop puts a value to its own slot. `Value` is an unsigned integer.
template <class Value> struct PutValueOwn {
	static constexpr bool fromPeer = false;
	uint64_t run;

	template <class Endpoint, class Coop>
	GIN_FN int operator()(const Endpoint &to, Coop coop, const BufferLayout &layout,
			      const Cursor &, int me, int peer, const StreamCoop &worker) const
	{
		Value value =
			static_cast<Value>(patternWord(patternKey(run, me, peer, worker.index), 0));
		return to.putValue(coop, worker.context, peer,
				   layout.target(layout.lane(me), worker.index), value);
	}
};

// Words of a Stream body's results. The begin and end times of each CTA follow them.
enum { streamStatus, STREAM_WORDS };

// Runs on any number of CTAs. A sender ends when its receivers have signalled that all data has
// arrived.
template <class Endpoint, class Coop, class Move> struct Stream {
	static constexpr uint32_t mostThreads = mostThreadsOf(Coop{});
	Shared shared;
	Endpoint endpoint;
	BufferLayout layout;
	Move move;
	int me, partner, nRanks;
	bool moves, receives; // this rank calls put or get; receives puts
	uint32_t iterations;
	uint32_t contexts;
	uint32_t sourceCtas;   // CTAs of each rank that calls put or get
	uint32_t scratchBytes; // per coop
	uint64_t *results;

	GIN_FN void operator()() const
	{
		uint64_t begin = timeNow();
		GinCta block;
		int status = moves ? moveAll() : 0;
		status = ginAgree(block, static_cast<ginResult_t>(status));
		if (ginThreadIndex())
			return;
		if (!status && !Move::fromPeer)
			status = confirmArrival();
		uint64_t *stamps = results + STREAM_WORDS + 2 * ginBlockIndex();
		stamps[0] = begin;
		stamps[1] = timeNow();
		if (status || ginBlockIndex() == 0)
			results[streamStatus] = static_cast<uint64_t>(status);
	}

private:
	// With one lane, the partner; otherwise all other ranks, starting with the next one.
	GIN_FN uint32_t peers() const
	{
		return layout.lanes == 1 ? 1 : static_cast<uint32_t>(nRanks) - 1;
	}

	GIN_FN int peerAt(uint32_t i) const
	{
		if (layout.lanes == 1)
			return partner;
		int peer = me + 1 + static_cast<int>(i);
		return peer < nRanks ? peer : peer - nRanks;
	}

	GIN_FN uint32_t context() const { return ginBlockIndex() % contexts; }

	GIN_FN int moveAll() const
	{
		Coop coop;
		uint32_t each = coop.size(), inBlock = ginThreadIndex() / each;
		uint32_t perBlock = ginBlockSize() / each;
		Scratch scratch = {scratchBytes ? shared.ofBlock() + inBlock * scratchBytes
						: nullptr,
				   scratchBytes};
		StreamCoop worker = {ginBlockIndex() * perBlock + inBlock, ginGridSize() * perBlock,
				     context(), scratch};
		Cursor cursor;
		int status = 0;
		endpoint.start(coop, scratch);
		GIN_NO_UNROLL
		for (uint32_t k = 0; k < iterations && !status; k++) {
			for (uint32_t i = 0; i < peers() && !status; i++)
				status =
					move(endpoint, coop, layout, cursor, me, peerAt(i), worker);
			cursor.next(layout);
		}
		if (!status)
			status = endpoint.flush(coop, context());
		endpoint.stop();
		return status;
	}

	// Number of a sender's blocks that use a context.
	GIN_FN uint32_t blocksOf(uint32_t context) const
	{
		return context < sourceCtas ? (sourceCtas - 1 - context) / contexts + 1 : 0;
	}

	// Runs on the first thread of each block. Signals the end of this block's puts. The first
	// block also waits for the senders' signals, acknowledges them, and waits for
	// acknowledgements.
	GIN_FN int confirmArrival() const
	{
		GinThread one;
		int status = 0;
		for (uint32_t i = 0; i < peers() && moves && !status; i++)
			status = endpoint.signal(one, context(), peerAt(i), signalDone);
		if (ginBlockIndex())
			return status;
		for (uint32_t c = 0; c < contexts && receives && !status; c++)
			status = endpoint.waitSignal(one, c, signalDone,
						     static_cast<uint64_t>(blocksOf(c)) * peers());
		for (uint32_t i = 0; i < peers() && receives && !status; i++)
			status = endpoint.signal(one, 0, peerAt(i), signalAck);
		if (moves && !status)
			status = endpoint.waitSignal(one, 0, signalAck, peers());
		return status;
	}
};

// Sends words of every rank to rank 0.
struct ReportWords {
	static const uint32_t words = 4;
	uint64_t word[words];
};

template <class Endpoint> struct Report {
	static constexpr uint32_t mostThreads = 32;
	Shared shared;
	Endpoint endpoint;
	ReportWords report;
	uint64_t at; // in rank 0's window
	int me;
	uint64_t *results; // one word: the status

	GIN_FN void operator()() const
	{
		GinThread one;
		uint64_t mine = at + static_cast<uint64_t>(me) * sizeof(report);
		int status = 0;
		for (uint32_t i = 0; i < ReportWords::words && !status; i++)
			status = endpoint.putValue(one, 0, 0, mine + i * 8, report.word[i]);
		if (!status)
			status = endpoint.barrier(one);
		results[0] = static_cast<uint64_t>(status);
	}
};

#endif
