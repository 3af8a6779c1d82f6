/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * semantics_packets.cc - messages of GinPackets: every size, alignment and coop, slots, credits,
 * timeouts, the wrap of message numbers
 */
/* COMPILE: -O1 */
#include "suite.h"

enum { MOST = GIN_PACKETS_MOST, EDGE = 32 };

/* A box in a window of its own, zero, and a device communicator with signals for it. */
struct Boxed {
	Buffer memory;
	Device device;
	ginPacketBox box;

	static constexpr uint32_t signals = 3; /* the box's: other signals precede it */

	Boxed(Rank &r, uint32_t most)
	    : memory(r, ginPacketBoxBytes(static_cast<uint32_t>(r.nRanks), most) + 16),
	      device(zeroed(r), 1, signals + 2 * static_cast<uint32_t>(r.nRanks)),
	      box{memory.window, 16, most, signals}
	{
	}

	/* The 8-byte words of a message to a peer, from a byte on. */
	void writeWords(int peer, size_t at, const std::vector<uint64_t> &words)
	{
		copyBytes(memory.rank, part(peer) + at, words.data(), words.size() * 8);
	}

	std::vector<uint64_t> readWords(int peer, size_t at, size_t n)
	{
		std::vector<uint64_t> words(n);
		copyBytes(memory.rank, words.data(), part(peer) + at, n * 8);
		return words;
	}

private:
	char *part(int peer)
	{
		return memory.ptr + 16 + static_cast<size_t>(peer) * ginPacketPart(box.most);
	}

	/* Creating a device communicator is collective: all ranks have zeroed their boxes then. */
	Rank &zeroed(Rank &r)
	{
		memory.write(std::vector<unsigned char>(memory.bytes, 0));
		return r;
	}
};

GIN_FN uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* Sizes one after the other, or at random. */
struct Sizes {
	uint64_t seed; /* 0: one after the other */
	uint32_t most;

	static constexpr uint32_t count = 21;

	GIN_FN static uint32_t inTurn(uint32_t i)
	{
		constexpr uint32_t sizes[count] = {MOST, 0,    1,    3,	 4,  7,	   8,
						   15,	 16,   17,   64, 65, 9,	   1000,
						   1024, 4096, 4099, 24, 40, 2000, 6144};
		return sizes[i % count];
	}

	/* Mostly short. */
	GIN_FN uint32_t operator()(uint32_t sender, uint32_t round) const
	{
		if (!seed)
			return inTurn(round) < most ? inTurn(round) : most;
		uint64_t x = mix(seed + sender * 1000003ull + round);
		return static_cast<uint32_t>((x >> 8) % ((x & 7 ? 80 : most) + 1));
	}
};

/*
 * Every rank sends to every rank, itself included, and receives from every rank, round after round.
 * Source and target change their alignment.
 */
template <class Coop, uint32_t routes> struct Exchange {
	ginDevComm dc;
	ginPacketBox box;
	Sizes sizes;
	char *out, *in;
	uint32_t rounds;
	uint64_t *wrong;

	GIN_FN char *sourceAt(uint32_t round) const { return out + round % 5 * 3; }
	GIN_FN char *targetAt(uint32_t round) const { return in + EDGE + round % 7 * 4; }

	GIN_FN ginResult_t send(uint32_t peer, uint32_t round) const
	{
		Coop coop;
		uint32_t bytes = sizes(dc.rank, round);
		char *at = sourceAt(round + peer);
		coop.sync(); /* the previous message's source is not used any more */
		for (uint32_t i = coop.thread_rank(); i < bytes; i += coop.size())
			at[i] = static_cast<char>(pattern(dc.rank, round + peer, i));
		return GinPacketsOn<routes>(dc, 0, box, static_cast<int>(peer))
			.send(at, bytes, coop);
	}

	GIN_FN uint64_t receive(uint32_t peer, uint32_t round) const
	{
		Coop coop;
		uint32_t bytes = sizes(peer, round), room = bytes + EDGE;
		char *at = targetAt(round + peer);
		uint64_t n = 0;
		coop.sync();
		for (uint32_t i = coop.thread_rank(); i < room + EDGE; i += coop.size())
			(at - EDGE)[i] = 0x5a;
		if (GinPacketsOn<routes>(dc, 0, box, static_cast<int>(peer))
			    .receive(at, bytes, coop) != ginSuccess)
			return UINT64_MAX / 4;
		for (uint32_t i = coop.thread_rank(); i < room + EDGE; i += coop.size()) {
			unsigned char seen = static_cast<unsigned char>((at - EDGE)[i]);
			bool within = i >= EDGE && i < room;
			n += seen != (within ? pattern(peer, round + dc.rank, i - EDGE) : 0x5a);
		}
		return n;
	}

	GIN_FN void operator()() const
	{
		uint64_t n = 0;
		for (uint32_t round = 0; round < rounds && n == 0; round++) {
			for (uint32_t p = 0; p < dc.nRanks; p++)
				n += send((dc.rank + p) % dc.nRanks, round) != ginSuccess;
			for (uint32_t p = 0; p < dc.nRanks && n == 0; p++)
				n += receive((dc.rank + p) % dc.nRanks, round);
			n = Coop{}.any(n) ? n + 1 : 0;
		}
		wrong[ginThreadIndex()] = n;
	}
};

/*
 * `most`: the most threads of a block, where nvcc's registers could be too many for a larger block.
 */
template <class Coop, uint32_t routes = GIN_ROUTES_ALL, uint32_t most = 0>
void exchange(Rank &r, Boxed &boxed, const Sizes &sizes, uint32_t rounds, uint32_t block)
{
	Results wrong(r, block), out(r, MOST / 8 + 8), in(r, MOST / 8 + 16);
	const Exchange<Coop, routes> body = {boxed.device.dc,
					     boxed.box,
					     sizes,
					     reinterpret_cast<char *>(out.words),
					     reinterpret_cast<char *>(in.words),
					     rounds,
					     wrong.words};

	if constexpr (most)
		launchBounded<most>(r, 1, block, body);
	else
		launch(r, 1, block, body);
	EXPECT(wrong.all(0));
	meet(r);
}

/* By 1,024 threads for direct peers, 512 by the proxy, where the ranks have one route. */
static void byManyThreads(Rank &r, Boxed &boxed, const Sizes &sizes)
{
	uint32_t rounds = Sizes::count, few = r.device < 0 ? 6 : 512;
	uint32_t route = boxed.device.dc.route;
	std::vector<uint32_t> routes(static_cast<size_t>(r.nRanks));

	CHECK(ginCommAllgather(r.comm, &route, routes.data(), sizeof(route)));
	for (uint32_t each : routes)
		if (each != route)
			return;

	if (route == ginRouteDirect)
		exchange<GinCta, GIN_ROUTES_DIRECT, 1024>(r, boxed, sizes, rounds,
							  r.device < 0 ? 6 : 1024);
	else if (route == ginRouteProxy)
		exchange<GinCta, GIN_ROUTES_PROXY, 512>(r, boxed, sizes, rounds, few);
}

static void everySizeByEveryCoop(Rank &r)
{
	const Sizes inTurn = {0, MOST};
	Boxed boxed(r, MOST);

	exchange<GinThread>(r, boxed, inTurn, 2 * Sizes::count, 1);
	exchange<GinWarp>(r, boxed, inTurn, 2 * Sizes::count, blockFor<GinWarp>(r));
	exchange<GinCta>(r, boxed, inTurn, 2 * Sizes::count + 1, blockFor<GinCta>(r));
	byManyThreads(r, boxed, inTurn);
}

/* ROUNDS, or `few` on host threads, `many` on GPUs. */
static uint32_t roundsOr(const Rank &r, uint32_t few, uint32_t many)
{
	return static_cast<uint32_t>(numberOr("ROUNDS", roundsFor(r, few, many)));
}

/* A box of few bytes; messages at random, short ones after long ones. */
static void manyRounds(Rank &r)
{
	const uint32_t rounds = roundsOr(r, 60, 20000);

	for (uint64_t seed = 1; seed < 4; seed++) {
		Boxed boxed(r, 1000);
		exchange<GinWarp>(r, boxed, {seed, 1000}, rounds, blockFor<GinWarp>(r));
	}
}

/*
 * Block 0 sends to the right neighbour, block 1 receives from the left one: credits let block 0 go
 * on.
 */
struct Stream {
	ginDevComm dc;
	ginPacketBox box;
	Sizes sizes;
	ginWindow_t memory;
	uint32_t rounds;
	uint64_t *wrong;

	GIN_FN uint64_t send(GinPackets &right, char *out) const
	{
		GinCta all;
		for (uint32_t round = 0; round < rounds; round++) {
			uint32_t bytes = sizes(dc.rank, round);
			all.sync();
			for (uint32_t i = ginThreadIndex(); i < bytes; i += ginBlockSize())
				out[i] = static_cast<char>(pattern(dc.rank, round, i));
			if (right.send(out, bytes, all) != ginSuccess)
				return 1;
		}
		return 0;
	}

	GIN_FN uint64_t receive(GinPackets &left, char *in) const
	{
		GinCta all;
		uint32_t from = static_cast<uint32_t>(leftOf(dc));
		uint64_t n = 0;
		for (uint32_t round = 0; round < rounds; round++) {
			uint32_t bytes = sizes(from, round);
			if (left.receive(in, bytes, all) != ginSuccess)
				return UINT64_MAX;
			for (uint32_t i = ginThreadIndex(); i < bytes; i += ginBlockSize())
				n += static_cast<unsigned char>(in[i]) != pattern(from, round, i);
		}
		return n;
	}

	GIN_FN void operator()() const
	{
		char *own =
			static_cast<char *>(ginPeerPointer(memory, 0, static_cast<int>(dc.rank)));
		bool sends = ginBlockIndex() == 0;
		GinPackets packets(dc, 0, box, sends ? rightOf(dc) : leftOf(dc));
		wrong[ginBlockIndex() * ginBlockSize() + ginThreadIndex()] =
			sends ? send(packets, own) : receive(packets, own + box.most);
	}
};

static void streams(Rank &r)
{
	uint32_t block = blockFor<GinCta>(r);
	Boxed boxed(r, 4099);
	Buffer memory(r, 2 * 4099 + 8);

	for (uint64_t seed = 0; seed < 3; seed++) {
		Results wrong(r, 2 * block);
		launch(r, 2, block,
		       Stream{boxed.device.dc, boxed.box, Sizes{seed, 4099}, memory.window,
			      roundsOr(r, 100, 5000), wrong.words});
		EXPECT(wrong.all(0));
		meet(r);
	}
}

/* Results of a call, and received values. */
template <class Coop> struct Once {
	ginDevComm dc;
	ginPacketBox box;
	bool sends;
	uint64_t value, timeout;
	uint32_t bytes;
	uint64_t *results; /* [2 * threads] */

	GIN_FN void operator()() const
	{
		Coop all;
		uint64_t *mine = results + 2 * ginThreadIndex();
		uint64_t *word = results + 2 * ginBlockSize();
		if (ginThreadIndex() == 0)
			*word = sends ? value : 0;
		GinPackets packets(dc, 0, box, sends ? rightOf(dc) : leftOf(dc));
		mine[0] = sends ? packets.send(word, bytes, all, ginTimeout(timeout))
				: packets.receive(word, bytes, all, ginTimeout(timeout));
		mine[1] = *word;
	}
};

/* All threads get one result and one value. */
template <class Coop = GinCta> static ginResult_t once(Rank &r, Boxed &boxed, bool sends,
						       uint64_t value, uint64_t timeout,
						       uint64_t *came = nullptr, uint32_t bytes = 8)
{
	uint32_t block = blockFor<Coop>(r);
	Results results(r, 2 * block + 1);

	launch(r, 1, block,
	       Once<Coop>{boxed.device.dc, boxed.box, sends, value, timeout, bytes, results.words});
	for (uint32_t t = 0; t < block; t++)
		EXPECT(results.words[2 * t] == results.words[0] &&
		       results.words[2 * t + 1] == results.words[1]);
	if (came)
		*came = results.words[1];
	return static_cast<ginResult_t>(results.words[0]);
}

template <class Coop = GinCta>
static void expectReceived(Rank &r, Boxed &boxed, uint64_t value, uint32_t bytes = 8)
{
	uint64_t came = 0;
	EXPECT(once<Coop>(r, boxed, false, 0, 0, &came, bytes) == ginSuccess);
	EXPECT(came == value);
}

static void expectError(Rank &r, Boxed &boxed, uint32_t call, uint64_t expected)
{
	ginErrorRecord_t record;
	CHECK(ginDevCommGetError(r.comm, &boxed.device.dc, &record));
	EXPECT(record.valid && record.result == ginErrorTimeout);
	if (!isDirect(r))
		return; /* the record is of the wait for a signal */
	EXPECT(record.call == call && record.expected == expected && record.seen == expected - 1);
	EXPECT(strstr(ginGetLastError(), "packets in context 0, messages in a window: expected"));
}

/* Two messages fit: the third one waits for the first receive, and nothing is lost. */
static void thirdSendWaits(Rank &r)
{
	const uint64_t brief = 3000000;
	Boxed boxed(r, 64);

	for (uint64_t round = 0; round < 20; round += 4) {
		EXPECT(once(r, boxed, true, round + 1, 0) == ginSuccess);
		EXPECT(once(r, boxed, true, round + 2, 0) == ginSuccess);
		EXPECT(once(r, boxed, true, 99, brief) == ginErrorTimeout);
		if (!round)
			expectError(r, boxed, ginCallPacketsSend, 1);
		EXPECT(once(r, boxed, true, 99, brief) == ginErrorTimeout);
		meet(r);
		expectReceived(r, boxed, round + 1);
		meet(r);
		EXPECT(once(r, boxed, true, round + 3, 0) == ginSuccess);
		expectReceived(r, boxed, round + 2);
		expectReceived(r, boxed, round + 3);
		meet(r);
		EXPECT(once(r, boxed, false, 0, brief) == ginErrorTimeout);
		meet(r);
		EXPECT(once(r, boxed, true, round + 4, 0) == ginSuccess);
		expectReceived(r, boxed, round + 4);
	}
}

/* Block 0 sends three messages to its own rank. Block 1 reads one while the third send waits. */
struct OneRead {
	ginDevComm dc;
	ginPacketBox box;
	uint32_t bytes;
	uint64_t *words; /* two steps, errors of both blocks, then the data of each */

	GIN_FN void await(uint32_t step) const
	{
		while (!ginLoad<ginAcquire, ginScopeSystem>(&words[step]))
			ginYield();
	}

	GIN_FN void reach(uint32_t step) const
	{
		ginStore<ginRelease, ginScopeSystem>(&words[step], uint64_t{1});
	}

	GIN_FN void operator()() const
	{
		const bool sends = ginBlockIndex() == 0;
		GinPackets packets(dc, 0, box, static_cast<int>(dc.rank));
		uint64_t *const data = words + 4 + (sends ? 0 : bytes / 8);
		uint64_t failed = 0;
		for (uint64_t i = 1; i <= 3; i++) {
			if (sends && i == 3)
				reach(0);
			if (!sends && i < 3)
				await(static_cast<uint32_t>(i - 1));
			if (sends)
				data[0] = i;
			failed += (sends ? packets.send(data, bytes, GinThread{})
					 : packets.receive(data, bytes, GinThread{})) != ginSuccess;
			failed += data[0] != i;
			if (sends && i == 3)
				reach(1);
		}
		words[2 + ginBlockIndex()] = failed;
	}
};

/* The slot is free when its message is read, by a credit that the waiting send looks at. */
static void oneReadFreesASlot(Rank &r)
{
	for (uint32_t bytes : {8u, 4096u}) {
		Boxed boxed(r, 4096);
		Results words(r, 4 + bytes / 4);
		words.words[0] = words.words[1] = 0;
		launch(r, 2, 1, OneRead{boxed.device.dc, boxed.box, bytes, words.words});
		EXPECT(words.words[2] == 0 && words.words[3] == 0);
		meet(r);
	}
}

static void receiveTimesOut(Rank &r)
{
	Boxed boxed(r, 64);

	EXPECT(once(r, boxed, false, 0, 3000000) == ginErrorTimeout);
	expectError(r, boxed, ginCallPacketsReceive, 1);
	meet(r);
	EXPECT(once(r, boxed, true, 0x1122334455667788, 0) == ginSuccess);
	expectReceived(r, boxed, 0x1122334455667788);
}

/* A receiver may take the beginning of a message; the rest of it does not spoil a later message. */
static void partsOfMessages(Rank &r)
{
	Boxed boxed(r, 64);

	for (uint64_t i = 1; i < 9; i++) {
		EXPECT(once(r, boxed, true, i * 0x0101010101010101, 0) == ginSuccess);
		expectReceived(r, boxed, i * 0x010101, 3);
	}
}

/* Another device communicator goes on with the box. */
static void boxOutlives(Rank &r)
{
	Boxed boxed(r, 64);

	for (uint64_t i = 1; i < 4; i++) {
		EXPECT(once(r, boxed, true, i, 0) == ginSuccess);
		expectReceived(r, boxed, i);
	}
	meet(r);
	Device second(r, 1, Boxed::signals + 2 * static_cast<uint32_t>(r.nRanks));
	std::swap(boxed.device.dc, second.dc);
	for (uint64_t i = 4; i < 8; i++) {
		EXPECT(once(r, boxed, true, i, 0) == ginSuccess);
		expectReceived(r, boxed, i);
	}
	meet(r);
}

/* Makes the box as if `sent` messages had been sent and received. */
static void pretend(Rank &r, Boxed &boxed, uint32_t sent)
{
	uint64_t credits = sent % 2 ? static_cast<uint64_t>(sent) << 32 | (sent - 1)
				    : static_cast<uint64_t>(sent - 1) << 32 | sent;
	for (int p = 0; p < r.nRanks; p++) {
		/* Flags of the last two messages, in every packet. */
		for (uint32_t number : {sent - 1, sent})
			boxed.writeWords(
				p, (number & 1) * 2 * ginPacketRoom(boxed.box.most),
				std::vector<uint64_t>(ginPacketRoom(boxed.box.most) / 4,
						      static_cast<uint64_t>(number) << 32));
		boxed.writeWords(p, 0, {credits});
		boxed.writeWords(p, 32, {sent, sent});
	}
	meet(r);
}

/* Messages past - 1 to past + 1. The last two fill their slots, unless past is 0. */
template <class Coop> static void fillSlot(Rank &r, Boxed &boxed, uint32_t past)
{
	uint32_t words = ginPacketRoom(boxed.box.most) / 4; /* of a slot */

	pretend(r, boxed, past - 2);
	for (uint64_t i = 1; i < 4; i++) {
		EXPECT(once<Coop>(r, boxed, true, i, 0) == ginSuccess);
		expectReceived<Coop>(r, boxed, i);
	}
	meet(r);
	if (!isDirect(r) || !past)
		return;
	std::vector<uint64_t> slots =
		boxed.readWords((r.rank + r.nRanks - 1) % r.nRanks, 128, 2 * words);
	for (uint32_t i = 0; i < 2 * words; i++)
		EXPECT(slots[i] >> 32 == past + i / words);
}

/* Message numbers pass 2^30, 2^31 and 2^32; now and then a message fills its slot. */
static void numbersWrap(Rank &r)
{
	Boxed boxed(r, 256);

	for (uint32_t past : {1u << 30, 1u << 31, 3u << 30, 0u}) {
		pretend(r, boxed, past - 3);
		for (uint64_t i = 1; i < 10; i++) {
			EXPECT(once(r, boxed, true, i, 0) == ginSuccess);
			expectReceived(r, boxed, i);
		}
		exchange<GinWarp>(r, boxed, {7, 256}, 40, blockFor<GinWarp>(r));
		fillSlot<GinCta>(r, boxed, past);
		fillSlot<GinThread>(r, boxed, past);
	}
}

struct ByFunctions {
	ginDevComm dc;
	ginPacketBox box;
	uint64_t *results; /* result, result, source, target */

	GIN_FN void operator()() const
	{
		results[2] = 0xabcdef;
		results[0] =
			ginPacketsSend(&dc, 0, box.window.table, box.offset, box.most, box.signals,
				       rightOf(dc), results + 2, 8, ginCoopThread, 0);
		results[1] = ginPacketsReceive(&dc, 0, box.window.table, box.offset, box.most,
					       box.signals, leftOf(dc), results + 3, 8,
					       ginCoopThread, 0);
	}
};

static void asFunctions(Rank &r)
{
	Boxed boxed(r, 8);
	Results results(r, 4);

	for (int i = 0; i < 5; i++) {
		results.clear();
		launch(r, 1, 1, ByFunctions{boxed.device.dc, boxed.box, results.words});
		EXPECT(results.words[0] == ginSuccess && results.words[1] == ginSuccess);
		EXPECT(results.words[3] == 0xabcdef);
	}
	meet(r);
}

static const Test tests[] = {
	{"messages of every size by every coop", everySizeByEveryCoop},
	{"many rounds", manyRounds},
	{"streams", streams},
	{"the third send waits", thirdSendWaits},
	{"one read frees a slot", oneReadFreesASlot},
	{"a receive times out", receiveTimesOut},
	{"parts of messages", partsOfMessages},
	{"a box outlives its device communicator", boxOutlives},
	{"message numbers wrap", numbersWrap},
	{"messages by C functions", asFunctions},
};

int main(int argc, char **argv)
{
	return suiteMain(argc, argv, "semantics_packets", tests);
}
