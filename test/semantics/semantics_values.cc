/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * semantics_values.cc - words that one rank writes and another rank waits for, and stores through
 * pointers
 *
 * Value words (rule 9): waits, whole words within puts. Stores through ginPeerPointer that strong
 * signals, atomics and barriers cover: ginPeerPointer(3), MEMORY ORDERING.
 */
#include "suite.h"

/* How a value is written. */
enum Written { byValue8, byValue4, byPut8, byPut4, withinPut, byFunction, WRITTENS };

/*
 * Every rank writes a value into its own word at every rank, round after round, and waits for the
 * words of all ranks. Rounds alternate between two words: when a round is written, every peer has
 * seen the value before the last one.
 */
struct Values {
	static constexpr size_t part = 160; /* of one rank, in one round parity */
	static constexpr size_t word = 88;  /* offset in the part */
	static constexpr size_t first = 16; /* offset of the bytes of a long put */
	static constexpr size_t bytes = 139;

	ginDevComm dc;
	ginWindow_t values, source;
	char *out; /* this rank's source */
	uint32_t rounds;
	Written written;
	uint64_t *results;

	GIN_FN uint64_t valueOf(uint32_t rank, uint32_t round) const
	{
		if (written == byValue4 || written == byPut4) /* passes 2^31 and 2^32 */
			return static_cast<uint32_t>(0xfffffff0u + round);
		return static_cast<uint64_t>(round) << 32 | (rank + 1);
	}

	GIN_FN size_t partAt(uint32_t rank, uint32_t round) const
	{
		return (round % 2 * dc.nRanks + rank) * part;
	}

	GIN_FN ginResult_t send(const Gin &gin, int peer, uint32_t round) const
	{
		uint64_t value = valueOf(dc.rank, round);
		size_t at = partAt(dc.rank, round), from = round % 2 * part;
		GinCta all;
		switch (written) {
		case byValue8:
			return gin.putValue(peer, values, at + word, value, GinNone{}, all);
		case byValue4:
			return gin.putValue(peer, values, at + word, static_cast<uint32_t>(value),
					    GinNone{}, all);
		case byFunction:
			return ginPutValue(&dc, 0, peer, values.table, at + word, value, 8,
					   ginSignalNone, nullptr, 0, 0, ginCoopCta, 0);
		case withinPut:
			return gin.put(peer, values, at + first, source, from + first, bytes,
				       GinNone{}, GinNone{}, all);
		default:
			return gin.put(peer, values, at + word, source, from + word,
				       written == byPut4 ? 4 : 8, GinNone{}, GinNone{}, all);
		}
	}

	/* The value, and the bytes around it. */
	GIN_FN void fill(uint32_t round) const
	{
		char *to = out + round % 2 * part;
		uint64_t value = valueOf(dc.rank, round);
		for (size_t i = ginThreadIndex(); i < part; i += ginBlockSize())
			if (i < word || i >= word + 8)
				to[i] = static_cast<char>(pattern(dc.rank, round, i));
		if (ginThreadIndex() == 0)
			memcpy(to + word, &value, 8);
	}

	template <class Word>
	GIN_FN ginResult_t await(const Gin &gin, uint32_t peer, uint32_t round) const
	{
		size_t at = partAt(peer, round) + word;
		Word value = static_cast<Word>(valueOf(peer, round));
		ginOptions options;
		options.from = {peer, 1, 1};
		ginResult_t result = gin.waitValue<Word>(values, at, value, GinCta{}, options);
		if (result == ginSuccess && gin.readValue<Word>(values, at) != value)
			result = ginErrorInvalidUsage;
		return GinCta{}.any(result == ginErrorInvalidUsage) ? ginErrorInvalidUsage : result;
	}

	GIN_FN ginResult_t awaitByFunction(uint32_t peer, uint32_t round) const
	{
		size_t at = partAt(peer, round) + word;
		ginResult_t result = ginWaitValue(&dc, 0, values.table, at, 8, valueOf(peer, round),
						  ginCoopCta, 0);
		if (result == ginSuccess && ginReadValue(&dc, 0, values.table, at, 8,
							 ginCoopThread) != valueOf(peer, round))
			result = ginErrorInvalidUsage;
		return GinCta{}.any(result != ginSuccess) ? ginErrorInvalidUsage : ginSuccess;
	}

	GIN_FN ginResult_t oneRound(const Gin &gin, uint32_t round) const
	{
		ginResult_t result = gin.flush(GinCta{}); /* the source is written again */
		fill(round);
		for (uint32_t p = 0; p < dc.nRanks && result == ginSuccess; p++)
			result = send(gin, static_cast<int>((dc.rank + p) % dc.nRanks), round);
		for (uint32_t p = 0; p < dc.nRanks && result == ginSuccess; p++) {
			if (written == byFunction)
				result = awaitByFunction(p, round);
			else if (written == byValue4 || written == byPut4)
				result = await<uint32_t>(gin, p, round);
			else
				result = await<uint64_t>(gin, p, round);
		}
		return result;
	}

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		ginResult_t result = ginSuccess;
		for (uint32_t round = 1; round <= rounds && result == ginSuccess; round++)
			result = oneRound(gin, round);
		results[ginThreadIndex()] = result;
	}
};

static void valuesInMemoryOf(Rank &r, Allocator *alloc)
{
	uint32_t block = r.device < 0 ? 3 : 64, rounds = roundsFor(r, 60, 2000);
	Buffer values(r, 2 * Values::part * static_cast<size_t>(r.nRanks), alloc);
	Buffer source(r, 2 * Values::part);

	for (int written = 0; written < WRITTENS; written++) {
		Results results(r, block);
		/* A wait for a 32-bit value from 0xfffffff1 on: 0 would be at least that. */
		unsigned char old = written == byValue4 || written == byPut4 ? 0xe0 : 0;
		values.write(std::vector<unsigned char>(values.bytes, old));
		Device device(r, 1, 1);
		launch(r, 1, block,
		       Values{device.dc, values.window, source.window, source.ptr, rounds,
			      static_cast<Written>(written), results.words});
		EXPECT(results.all(ginSuccess));
		meet(r);
	}
}

static void rule9_valueWords(Rank &r)
{
	valuesInMemoryOf(r, ginMemAlloc);
	valuesInMemoryOf(r, ginMemAllocHost);
}

/* No value comes: the wait ends and reports the value that it saw; a later wait succeeds. */
struct AwaitValue {
	ginDevComm dc;
	ginWindow_t window;
	uint64_t timeout;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		results[ginThreadIndex()] =
			gin.waitValue(window, 8, 5, GinCta{}, ginTimeout(timeout));
	}
};

/* A value of 4 bytes rolls over at 2^32: one of 0xfffffff5 has not reached 3. */
struct AwaitNarrow {
	ginDevComm dc;
	ginWindow_t window;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		results[ginThreadIndex()] =
			Gin(dc, 0).waitValue<uint32_t>(window, 0, 3, GinCta{}, ginTimeout(1000000));
	}
};

struct SendValue {
	ginDevComm dc;
	ginWindow_t window;

	GIN_FN void operator()() const { Gin(dc, 0).putValue(rightOf(dc), window, 8, uint64_t{6}); }
};

static void rule7_valueTimeout(Rank &r)
{
	uint32_t block = blockFor<GinCta>(r);
	Buffer window(r, 16);
	Results results(r, block);
	ginErrorRecord_t record;

	window.write({0xf5, 0xff, 0xff, 0xff, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0});
	Device device(r, 1, 1);
	launch(r, 1, block, AwaitValue{device.dc, window.window, 3000000, results.words});
	EXPECT(results.all(ginErrorTimeout));
	CHECK(ginDevCommGetError(r.comm, &device.dc, &record));
	EXPECT(record.valid && record.call == ginCallWaitValue && record.peer == -1);
	EXPECT(record.id == UINT32_MAX && record.expected == 5 && record.seen == 4);
	EXPECT(strstr(ginGetLastError(),
		      "waitValue in context 0, value in a window: expected at least 5, saw 4"));
	meet(r);
	launch(r, 1, 1, SendValue{device.dc, window.window});
	launch(r, 1, block, AwaitValue{device.dc, window.window, 0, results.words});
	EXPECT(results.all(ginSuccess));
	launch(r, 1, block, AwaitNarrow{device.dc, window.window, results.words});
	EXPECT(results.all(ginErrorTimeout));
	meet(r);
}

/*
 * Block 0 puts words whose halves are equal, and `tail` bytes after them; block 1 searches all
 * words for one whose halves differ. The source is `skew` bytes above an aligned address.
 */
struct TearPut {
	ginDevComm dc;
	ginWindow_t target, source;
	char *in, *out;
	size_t words, tail, skew;
	uint32_t rounds;
	uint64_t *torn;

	GIN_FN void fill(uint32_t round) const
	{
		uint64_t value = static_cast<uint64_t>(round) << 32 | round;
		for (size_t i = ginThreadIndex(); i < words; i += ginBlockSize())
			memcpy(out + skew + i * 8, &value, 8);
	}

	GIN_FN ginResult_t writer(const Gin &gin) const
	{
		ginResult_t result = ginSuccess;
		for (uint32_t round = 1; round <= rounds && result == ginSuccess; round++) {
			fill(round);
			result = gin.put(rightOf(dc), target, 8, source, skew, words * 8 + tail,
					 GinNone{}, GinNone{}, GinCta{});
			if (result == ginSuccess)
				result = gin.flush(GinCta{});
		}
		ginResult_t signalled = gin.signal(rightOf(dc), GinSignalInc{0}, GinCta{});
		return result == ginSuccess ? signalled : result;
	}

	GIN_FN bool isTorn(size_t i) const
	{
		uint64_t seen = ginValueObserve(reinterpret_cast<uint64_t *>(in + 8) + i);
		return seen >> 32 != (seen & 0xffffffffu);
	}

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		uint64_t n = 0;
		if (ginBlockIndex() == 0)
			n = writer(gin) != ginSuccess;
		else
			while (!gin.readSignal(0)) {
				for (size_t i = ginThreadIndex(); i < words; i += ginBlockSize())
					n += isTorn(i);
				ginYield(); /* the proxy's threads may have no other core */
			}
		torn[ginBlockIndex() * ginBlockSize() + ginThreadIndex()] = n;
	}
};

static void putIsWhole(Rank &r, Allocator *alloc, size_t words, size_t tail, size_t skew)
{
	uint32_t block = r.device < 0 ? 2 : 64;
	Buffer target(r, words * 8 + 16, alloc), source(r, words * 8 + 16, alloc);
	Results torn(r, 2 * block);

	target.write(std::vector<unsigned char>(target.bytes, 0));
	source.write(std::vector<unsigned char>(source.bytes, 0));
	Device device(r, 1, 1);
	launch(r, 2, block,
	       TearPut{device.dc, target.window, source.window, target.ptr, source.ptr, words, tail,
		       skew, roundsFor(r, 300, 3000), torn.words});
	EXPECT(torn.all(0));
	meet(r);
}

static void rule9_wordsOfPutsAreWhole(Rank &r)
{
	for (Allocator *alloc : {ginMemAlloc, ginMemAllocHost}) {
		putIsWhole(r, alloc, 2, 0, 0);
		putIsWhole(r, alloc, 12, 4, 8);
		putIsWhole(r, alloc, 17, 1, 3);
		putIsWhole(r, alloc, 127, 7, 4);
		putIsWhole(r, alloc, 600, 5, 0);
	}
}

/* What announces stores by pointer. */
enum Covered {
	bySignal,
	byEmptyPut,
	bySignalValue,
	bySignalAt,
	byAtomic,
	byBarrier,
	byOtherBlock,
	byRelease,
	COVEREDS
};

/*
 * Stores into the right neighbour's memory by all threads, then one call that covers them. A
 * neighbour on another route gets the bytes by puts.
 */
struct Stores {
	ginDevComm dc;
	ginWindow_t target, source, words; /* of `words`: raised, answers, value */
	char *in, *out;
	uint32_t *count; /* of this rank: stores of the other block */
	size_t bytes;
	uint32_t rounds;
	Covered covered;
	uint64_t *results;

	GIN_FN void store(const Gin &gin, uint32_t round) const
	{
		char *to = static_cast<char *>(ginPeerPointer(target, 0, rightOf(dc)));
		bool direct = dc.peers[rightOf(dc)].route == ginRouteDirect;
		for (size_t i = ginThreadIndex(); i < bytes; i += ginBlockSize())
			(direct ? to : out)[i] = static_cast<char>(pattern(dc.rank, round, i));
		if (!direct)
			gin.put(rightOf(dc), target, 0, source, 0, bytes, GinNone{}, GinNone{},
				GinCta{});
	}

	/*
	 * Stores through a pointer, which the caller has released; the reader waits for the value.
	 */
	GIN_FN ginResult_t releaseValue(const Gin &gin, uint32_t round) const
	{
		uint64_t *to = static_cast<uint64_t *>(ginPeerPointer(words, 16, rightOf(dc)));
		if (dc.peers[rightOf(dc)].route != ginRouteDirect)
			return gin.signal(rightOf(dc), GinSignalInc{0}, GinCta{});
		GinCta{}.sync();
		if (ginThreadIndex() == 0)
			releaseStore(to, round);
		return ginSuccess;
	}

	GIN_FN static void releaseStore(uint64_t *to, uint64_t value)
	{
#if GIN_ON_GPU
		__threadfence_system();
		*reinterpret_cast<volatile uint64_t *>(to) = value;
#else
		__atomic_store_n(to, value, __ATOMIC_RELEASE);
#endif
	}

	GIN_FN ginResult_t announce(const Gin &gin, uint32_t round) const
	{
		GinCta all;
		int to = rightOf(dc);
		switch (covered) {
		case byEmptyPut:
			return gin.put(to, target, 0, source, 0, 0, GinSignalInc{0}, GinNone{},
				       all);
		case bySignalValue:
			return gin.putValue(to, words, 16, uint64_t{round}, GinSignalInc{0}, all);
		case bySignalAt:
			return gin.signal(to, GinSignalIncAt{words, 0}, all);
		case byAtomic:
			all.sync();
			return ginThreadIndex() ? ginSuccess
						: gin.atomicFetchAdd(to, words, 0, uint64_t{1});
		case byRelease:
			return releaseValue(gin, round);
		case byBarrier:
			return GinBarrier(dc, ginTeamWorld(dc), 0).sync(all);
		default:
			return gin.signal(to, GinSignalInc{0}, all);
		}
	}

	GIN_FN ginResult_t await(const Gin &gin, uint32_t round) const
	{
		GinCta all;
		if (covered == byBarrier)
			return ginSuccess;
		if (covered == bySignalAt || covered == byAtomic)
			return gin.waitSignal(words, 0, round, all);
		if (covered == byRelease && dc.peers[leftOf(dc)].route == ginRouteDirect)
			return gin.waitValue(words, 16, round, all);
		return gin.waitSignal(0, round, all);
	}

	GIN_FN uint64_t countWrong(uint32_t round) const
	{
		uint32_t left = static_cast<uint32_t>(leftOf(dc));
		uint64_t n = 0;
		for (size_t i = ginThreadIndex(); i < bytes; i += ginBlockSize())
			n += static_cast<unsigned char>(in[i]) != pattern(left, round, i);
		return n;
	}

	/* Block 1 stores when block 0 has counted to 2 * round - 1, and counts to 2 * round. */
	GIN_FN void storeForOther(const Gin &gin) const
	{
		for (uint32_t round = 1; round <= rounds; round++) {
			if (ginThreadIndex() == 0)
				awaitCount(2 * round - 1);
			GinCta{}.sync();
			store(gin, round);
			GinCta{}.sync();
			if (ginThreadIndex() == 0)
				countUp();
		}
	}

	GIN_FN void countUp() const
	{
#if GIN_ON_GPU
		__threadfence();
		atomicAdd(count, 1u);
#else
		__atomic_fetch_add(count, 1u, __ATOMIC_RELEASE);
#endif
	}

	GIN_FN void awaitCount(uint32_t least) const
	{
#if GIN_ON_GPU
		while (atomicAdd(count, 0u) < least)
			;
		__threadfence();
#else
		while (__atomic_load_n(count, __ATOMIC_ACQUIRE) < least)
			sched_yield();
#endif
	}

	GIN_FN void haveStored(const Gin &gin, uint32_t round) const
	{
		if (covered != byOtherBlock) {
			store(gin, round);
		} else if (ginThreadIndex() == 0) {
			countUp();
			awaitCount(2 * round);
		}
	}

	GIN_FN uint64_t oneRound(const Gin &gin, uint32_t round) const
	{
		ginResult_t result = gin.flush(GinCta{}); /* the source is written again */
		uint64_t n = 0;
		haveStored(gin, round);
		if (result == ginSuccess)
			result = announce(gin, round);
		if (result == ginSuccess)
			result = await(gin, round);
		if (result == ginSuccess)
			n = countWrong(round);
		/* The left neighbour may store again. */
		if (result == ginSuccess)
			result = gin.signal(leftOf(dc), GinSignalInc{1}, GinCta{});
		if (result == ginSuccess)
			result = gin.waitSignal(1, round, GinCta{});
		return result == ginSuccess ? n : UINT64_MAX;
	}

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		uint64_t n = 0;
		if (ginBlockIndex() == 1)
			return storeForOther(gin);
		for (uint32_t round = 1; round <= rounds; round++)
			n += oneRound(gin, round);
		results[ginThreadIndex()] = n;
	}
};

static void rule1_signalsCoverStores(Rank &r)
{
	uint32_t block = r.device < 0 ? 3 : 96;
	const size_t bytes = 1001;
	Buffer target(r, bytes), source(r, bytes), count(r, 8);
	Buffer words(r, 24, wordsAllocator(r));

	for (int covered = 0; covered < COVEREDS; covered++) {
		Results results(r, block);
		words.write(std::vector<unsigned char>(24, 0));
		count.write(std::vector<unsigned char>(8, 0));
		Device device(r, 1, 2);
		launch(r, covered == byOtherBlock ? 2 : 1, block,
		       Stores{device.dc, target.window, source.window, words.window, target.ptr,
			      source.ptr, reinterpret_cast<uint32_t *>(count.ptr), bytes,
			      roundsFor(r, 40, 2000), static_cast<Covered>(covered),
			      results.words});
		EXPECT(results.all(0));
		meet(r);
	}
}

static const Test tests[] = {
	{"rule 9: value words", rule9_valueWords},
	{"rule 7: a wait for a value ends", rule7_valueTimeout},
	{"rule 9: words of puts are whole", rule9_wordsOfPutsAreWhole},
	{"rule 1: signals cover stores by pointer", rule1_signalsCoverStores},
};

int main(int argc, char **argv)
{
	return suiteMain(argc, argv, "semantics_values", tests);
}
