/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * elastic_barrier.cc - three habits of an elastic expert-parallel buffer
 *
 *  Barrier  puts on contexts 1 and up, no signals; flushes by other threads; a grid barrier; then
 *	     strong signals on context 0 alone. They cover the puts of all contexts.
 *  Tails    tokens by puts, then one add at an offset: the high half counts tokens, the low half
 *	     says that no more come. The reader takes tokens up to the tail while more come.
 *  Notify   arrays of 32-bit and 64-bit words by one put, no signal; the reader polls each word.
 */
#include "port.h"

/* A barrier of the grid's threads. `word` counts arrivals of all rounds. */
GIN_FN void gridMeet(uint32_t *word, uint32_t round)
{
	GinCta{}.sync();
	if (ginThreadIndex() == 0) {
		fetchAdd(word, 1);
		while (fetchAdd(word, 0) < ginGridSize() * (round + 1))
			relax();
	}
	GinCta{}.sync();
}

struct Habit {
	ginDevComm dc;
	ginWindow_t window;
	uint32_t *meeting; /* [2] */
	uint64_t *wrong;
	uint64_t seed;
	uint32_t round;
	size_t send, receive; /* offsets in the window, each of a part for every rank */

	GIN_FN int self() const { return rankOf(dc.rank); }

	GIN_FN unsigned char byteOf(uint32_t from, uint32_t to, size_t i) const
	{
		unsigned char byte = static_cast<unsigned char>(
			mix(seed + round, from * 256 + to, i / 8, 0) >> (i % 8 * 8));
		return byte == 0x5a ? 0xa5 : byte;
	}

	GIN_FN const unsigned char *own(size_t offset) const
	{
		return static_cast<const unsigned char *>(ginPeerPointer(window, offset, self()));
	}

	GIN_FN void note(bool ok) const
	{
		if (!ok)
			*wrong = round + 1;
	}
};

/* Piece [context][rank] of both parts. */
struct Barrier : Habit {
	enum { piece = 1000 };

	GIN_FN size_t at(uint32_t context, uint32_t rank) const
	{
		return (static_cast<size_t>(context) * dc.nRanks + rank) * piece;
	}

	GIN_FN ginResult_t putAll() const
	{
		for (uint32_t i = gridThread(); i < (dc.contexts - 1) * dc.nRanks;
		     i += gridThreads()) {
			const uint32_t c = 1 + i / dc.nRanks, p = i % dc.nRanks;
			TRY(Gin(dc, c).put(rankOf(p), window, receive + at(c, dc.rank), window,
					   send + at(c, p), piece));
		}
		return ginSuccess;
	}

	/* By other threads than the threads that have put. */
	GIN_FN ginResult_t flushAll() const
	{
		for (uint32_t i = gridThread(); i < dc.contexts; i += gridThreads())
			TRY(Gin(dc, dc.contexts - 1 - i).flush());
		return ginSuccess;
	}

	GIN_FN ginResult_t signalAll() const
	{
		Gin gin(dc, 0);
		for (uint32_t p = ginThreadIndex(); p < dc.nRanks; p += ginBlockSize())
			TRY(gin.signal(rankOf(p), GinSignalInc{dc.rank}));
		for (uint32_t p = ginThreadIndex(); p < dc.nRanks; p += ginBlockSize()) {
			TRY(gin.waitSignal(p, round + 1));
			for (uint32_t c = 1; c < dc.contexts; c++)
				for (size_t i = 0; i < piece; i++)
					note(own(receive + at(c, p))[i] ==
					     byteOf(p, dc.rank, c * piece + i));
		}
		return ginSuccess;
	}

	GIN_FN ginResult_t run() const
	{
		ginResult_t result = putAll();
		gridMeet(meeting, round);
		if (result == ginSuccess)
			result = flushAll();
		gridMeet(meeting + 1, round);
		return result == ginSuccess && ginBlockIndex() == 0 ? signalAll() : result;
	}
};

/* Block 0 sends and block 1 reads, each peer by one thread. */
struct Tails : Habit {
	enum { tokens = 40, token = 96 };
	ginWindow_t words; /* a word for each rank */

	GIN_FN ginResult_t sendTo(uint32_t peer) const
	{
		Gin gin(dc, 0);
		const size_t part = static_cast<size_t>(tokens) * token;
		ginOptions more;
		uint32_t announced = 0;

		more.aggregate = true;
		for (uint32_t t = 0; t < tokens; t++) {
			const bool last = t + 1 == tokens;
			TRY(gin.put(rankOf(peer), window, receive + dc.rank * part + t * token,
				    window, send + peer * part + t * token, token, GinNone{},
				    GinNone{}, GinThread{}, more));
			if (!last && t % 6 != 5)
				continue;
			TRY(gin.signal(
				rankOf(peer),
				GinSignalAddAt{words, dc.rank * 8,
					       static_cast<uint64_t>(t + 1 - announced) << 32 |
						       (last ? 1u : 0u)}));
			announced = t + 1;
		}
		return gin.flush();
	}

	GIN_FN ginResult_t readFrom(uint32_t peer) const
	{
		Gin gin(dc, 1);
		const unsigned char *part =
			own(receive + static_cast<size_t>(peer) * tokens * token);
		const uint64_t start = ginNow();
		uint64_t tail = 0;
		uint32_t done = 0;

		while (!(tail & 1)) {
			tail = gin.readSignal(words, peer * 8);
			for (; done < tail >> 32; done++)
				for (size_t i = done * token; i < (done + 1) * token; i++)
					note(part[i] == byteOf(peer, dc.rank, i));
			if (ginNow() - start > dc.timeout)
				return ginErrorTimeout;
			relax();
		}
		note(done == tokens);
		gin.resetSignal(words, peer * 8);
		return ginSuccess;
	}

	GIN_FN ginResult_t run() const
	{
		if (ginBlockIndex() > 1)
			return ginSuccess;
		for (uint32_t p = ginThreadIndex(); p < dc.nRanks; p += ginBlockSize())
			TRY(ginBlockIndex() == 0 ? sendTo(p) : readFrom(p));
		return ginSuccess;
	}
};

/* No byte of a word is 0; before the put the words are 0. */
template <class Word> struct Notify : Habit {
	enum { counts = 37 };

	GIN_FN Word valueOf(uint32_t from, uint32_t to, uint32_t i) const
	{
		return static_cast<Word>(mix(seed + round, from, to, i) | 0x0101010101010101ull);
	}

	GIN_FN ginResult_t putAll() const
	{
		Gin gin(dc, 1);
		const size_t part = counts * sizeof(Word);
		for (uint32_t p = ginThreadIndex(); p < dc.nRanks; p += ginBlockSize())
			TRY(gin.put(rankOf(p), window, receive + dc.rank * part, window,
				    send + p * part, part));
		return ginSuccess;
	}

	GIN_FN ginResult_t pollAll() const
	{
		Gin gin(dc, 1);
		const uint64_t start = ginNow();
		for (uint32_t i = ginThreadIndex(); i < dc.nRanks * counts; i += ginBlockSize()) {
			Word seen = 0;
			while (!(seen = gin.readValue<Word>(window, receive + i * sizeof(Word)))) {
				if (ginNow() - start > dc.timeout)
					return ginErrorTimeout;
				relax();
			}
			note(seen == valueOf(i / counts, dc.rank, i % counts));
		}
		return ginSuccess;
	}

	/* Senders that had to flush before their words go out would wait for each other here. */
	GIN_FN ginResult_t run() const
	{
		ginResult_t result = ginSuccess;
		if (ginBlockIndex() < 2)
			result = ginBlockIndex() == 0 ? putAll() : pollAll();
		gridMeet(meeting, round);
		return result == ginSuccess && gridThread() == 0 ? Gin(dc, 1).flush() : result;
	}
};

struct Trial {
	static constexpr size_t part = 65536;
	Rank &r;
	Buffer window, words;
	Results results, wrong;
	uint32_t *meetings; /* [2] for each habit */
	Communicator device;

	explicit Trial(Rank &rank)
	    : r(rank), window(rank, 2 * part * static_cast<size_t>(rank.nRanks)),
	      words(rank, 8 * static_cast<size_t>(rank.nRanks), wordsAllocator(rank)),
	      results(rank, portGrid(rank).blocks * portGrid(rank).threads), wrong(rank, 1),
	      meetings(nullptr), device(rank, 4, static_cast<uint32_t>(rank.nRanks), 0, 1)
	{
		void *at;
		const std::vector<unsigned char> zeros(64 + words.bytes);
		CHECK(ginMemAlloc(r.comm, 64, &at));
		meetings = static_cast<uint32_t *>(at);
		copyBytes(r, meetings, zeros.data(), 64);
		copyBytes(r, words.ptr, zeros.data(), words.bytes);
	}

	~Trial() { CHECK(ginMemFree(r.comm, meetings)); }

	Habit habit(uint32_t number, uint32_t round)
	{
		return {device.dc,   window.window,   meetings + 2 * number,
			wrong.words, portSeed(),      round,
			0,	     window.bytes / 2};
	}

	/* `fill` writes what this rank sends. */
	template <class Kernel, class Fill> void once(Kernel kernel, Fill fill)
	{
		std::vector<unsigned char> bytes(window.bytes, 0);
		fill(bytes.data());
		window.write(bytes);
		memset(wrong.words, 0, 8);
		meet(r);
		runOn(r, portGrid(r), results, kernel);
		EXPECT(wrong.words[0] == 0);
		meet(r);
	}

	void barrier(uint32_t round)
	{
		const Barrier kernel = {habit(0, round)};
		const uint32_t me = static_cast<uint32_t>(r.rank);
		once(kernel, [&](unsigned char *to) {
			for (uint32_t c = 1; c < device.dc.contexts; c++)
				for (uint32_t p = 0; p < device.dc.nRanks; p++)
					for (size_t i = 0; i < Barrier::piece; i++)
						to[kernel.at(c, p) + i] = kernel.byteOf(
							me, p, c * Barrier::piece + i);
		});
	}

	void tails(uint32_t round)
	{
		const Tails kernel = {habit(1, round), words.window};
		const uint32_t me = static_cast<uint32_t>(r.rank);
		const size_t each = static_cast<size_t>(Tails::tokens) * Tails::token;
		once(kernel, [&](unsigned char *to) {
			for (uint32_t p = 0; p < device.dc.nRanks; p++)
				for (size_t i = 0; i < each; i++)
					to[p * each + i] = kernel.byteOf(me, p, i);
		});
	}

	template <class Word> void notify(uint32_t number, uint32_t round)
	{
		const Notify<Word> kernel = {habit(number, round)};
		const uint32_t me = static_cast<uint32_t>(r.rank);
		once(kernel, [&](unsigned char *to) {
			for (uint32_t i = 0; i < device.dc.nRanks * Notify<Word>::counts; i++) {
				Word word = kernel.valueOf(me, i / Notify<Word>::counts,
							   i % Notify<Word>::counts);
				memcpy(to + i * sizeof(Word), &word, sizeof(word));
			}
		});
	}
};

static int run(const ginConfig_t *config)
{
	Rank r;
	rankOpen(r, config);
	portSay(r, "elastic_barrier");
	{
		Trial trial(r);
		const uint32_t rounds = roundsFor(r, 20, 200);
		for (uint32_t round = 0; round < rounds; round++) {
			trial.barrier(round);
			trial.tails(round);
			trial.notify<uint32_t>(2, round);
			trial.notify<uint64_t>(3, round);
		}
		meet(r);
	}
	rankClose(r);
	return 0;
}

int main(int argc, char **argv)
{
	return portMain(argc, argv, run);
}
