/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * litmus.cc - the orderings that device code relies on, repeated very often
 *
 *	litmus MODE ROUNDS [ranks.h's arguments]
 *
 * Two ranks, and in each launch many blocks, each a channel of its own. A round of a mode hands
 * data over by one kind of edge (gin/core/ordering.cuh) and counts what arrived stale. It prints
 * "MODE: tries T, stale S" and fails when any was. test/gpu/litmus-gpu runs it with and without
 * each ordering.
 */
#include "suite.h"

#include <algorithm>

enum { LINE = 128 }; /* bytes; each thread reads one word in a line of its own */

/* Weak accesses, as kernels make them to data: an L1 cache may answer until an acquire. */
GIN_FN uint64_t weakLoad(const uint64_t *word)
{
#if GIN_ON_GPU
	uint64_t value;
	asm volatile("ld.weak.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
	return value;
#else
	return *word;
#endif
}

GIN_FN void weakStore(uint64_t *word, uint64_t value)
{
#if GIN_ON_GPU
	asm volatile("st.weak.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
#else
	*word = value;
#endif
}

/* Delays one warp, a different one each time. */
GIN_FN void fallBehind(uint32_t turn)
{
	uint32_t warps = (ginBlockSize() + GIN_WARP_SIZE - 1) / GIN_WARP_SIZE;
	uint64_t start = ginNow();
	if (ginThreadIndex() / GIN_WARP_SIZE == turn % warps)
		while (ginNow() - start < 2000)
			;
}

/* A block whose second warp is delayed after each barrier. */
struct SkewedCta {
	GIN_FN uint32_t thread_rank() const { return GinCta{}.thread_rank(); }
	GIN_FN uint32_t size() const { return GinCta{}.size(); }
	GIN_FN bool any(bool mine) const { return GinCta{}.any(mine); }
	GIN_FN void sync() const
	{
		GinCta{}.sync();
		fallBehind(1);
	}
	static constexpr bool anyIsSync = true;
};

struct Channels {
	ginDevComm dc;
	ginWindow_t target, source;
	char *in, *out; /* of all blocks */
	uint32_t rounds;
	uint64_t *stale;

	GIN_FN size_t bytes() const { return static_cast<size_t>(ginBlockSize()) * LINE; }
	GIN_FN size_t base() const { return bytes() * ginBlockIndex(); }
	GIN_FN int other() const { return static_cast<int>(1 - dc.rank); }

	GIN_FN uint64_t *word(char *memory) const
	{
		return reinterpret_cast<uint64_t *>(memory + base() + ginThreadIndex() * LINE);
	}

	GIN_FN void leave(uint64_t count) const
	{
		stale[ginBlockIndex() * ginBlockSize() + ginThreadIndex()] = count;
	}

	/* Rank 1 reads the words of rank 0, and answers. */
	GIN_FN void receive(const Gin &gin) const
	{
		uint64_t count = 0;
		for (uint32_t round = 1; round <= rounds; round++) {
			gin.waitSignal(0, round, GinCta{});
			count += weakLoad(word(in)) != round;
			gin.signal(0, GinSignalInc{1}, GinCta{});
		}
		leave(count);
	}
};

/* S: rank 0 puts and signals, rank 1 reads. */
struct Signals : Channels {
	GIN_FN void send(const Gin &gin) const
	{
		for (uint32_t round = 1; round <= rounds; round++) {
			fallBehind(round);
			weakStore(word(out), round);
			gin.put(1, target, base(), source, base(), bytes(), GinSignalInc{0},
				GinNone{}, SkewedCta{});
			gin.waitSignal(1, round, GinCta{});
		}
		leave(0);
	}

	GIN_FN void operator()() const
	{
		Gin gin(dc, ginBlockIndex());
		dc.rank == 0 ? send(gin) : receive(gin);
	}
};

/*
 * S: each thread of rank 0 puts by one context and flushes; one thread then signals by another
 * context, and rank 1 reads.
 */
struct Flushes : Channels {
	GIN_FN void send(const Gin &data, const Gin &signals) const
	{
		const size_t mine = base() + ginThreadIndex() * LINE;
		for (uint32_t round = 1; round <= rounds; round++) {
			fallBehind(round);
			weakStore(word(out), round);
			data.put(1, target, mine, source, mine, 8);
			data.flush();
			SkewedCta{}.sync();
			if (ginThreadIndex() == 0)
				signals.signal(1, GinSignalInc{0});
			signals.waitSignal(1, round, GinCta{});
		}
		leave(0);
	}

	GIN_FN void operator()() const
	{
		Gin data(dc, 2 * ginBlockIndex()), signals(dc, 2 * ginBlockIndex() + 1);
		dc.rank == 0 ? send(data, signals) : receive(signals);
	}
};

/* S: rank 0 stores through a pointer and signals, rank 1 reads. */
struct Stores : Channels {
	GIN_FN void send(const Gin &gin) const
	{
		char *theirs = static_cast<char *>(ginPeerPointer(target, 0, 1));
		for (uint32_t round = 1; round <= rounds; round++) {
			fallBehind(round);
			weakStore(word(theirs), round);
			gin.signal(1, GinSignalInc{0}, GinCta{});
			gin.waitSignal(1, round, GinCta{});
		}
		leave(0);
	}

	GIN_FN void operator()() const
	{
		Gin gin(dc, ginBlockIndex());
		dc.rank == 0 ? send(gin) : receive(gin);
	}
};

/*
 * C: even blocks put into this rank's own target, odd ones overwrite the source as soon as the
 * counter lets them: the arrived bytes must be the earlier ones.
 */
struct Counters : Channels {
	GIN_FN size_t pair() const { return bytes() * (ginBlockIndex() / 2); }

	GIN_FN uint64_t *shared(char *memory) const
	{
		return reinterpret_cast<uint64_t *>(memory + pair() + ginThreadIndex() * LINE);
	}

	GIN_FN uint64_t put(const Gin &gin, int self) const
	{
		uint64_t count = 0;
		for (uint32_t round = 1; round <= rounds; round++) {
			gin.waitSignal(0, round, GinCta{}); /* the source is written */
			gin.put(self, target, pair(), source, pair(), bytes(), GinNone{},
				GinCounterInc{0}, GinCta{});
			gin.waitSignal(1, round, GinCta{}); /* the source is overwritten */
			count += weakLoad(shared(in)) != round;
			gin.signal(self, GinSignalInc{2}, GinCta{});
		}
		return count;
	}

	GIN_FN uint64_t spoil(const Gin &gin, int self) const
	{
		for (uint32_t round = 1; round <= rounds; round++) {
			weakStore(shared(out), round);
			gin.signal(self, GinSignalInc{0}, GinCta{});
			gin.waitCounter(0, round, GinCta{});
			weakStore(shared(out), UINT64_MAX);
			gin.signal(self, GinSignalInc{1}, GinCta{});
			gin.waitSignal(2, round, GinCta{}); /* it was read */
		}
		return 0;
	}

	GIN_FN void operator()() const
	{
		Gin gin(dc, ginBlockIndex() / 2);
		int self = static_cast<int>(dc.rank);
		leave(ginBlockIndex() % 2 ? spoil(gin, self) : put(gin, self));
	}
};

/* B: both ranks store into each other's memory, and read after a barrier. */
struct Barriers : Channels {
	GIN_FN void operator()() const
	{
		GinBarrier barrier(dc, ginTeamWorld(dc), ginBlockIndex());
		char *theirs = static_cast<char *>(ginPeerPointer(target, 0, other()));
		uint64_t count = 0;
		for (uint32_t round = 1; round <= rounds; round++) {
			weakStore(word(theirs), round);
			barrier.sync(GinCta{});
			count += weakLoad(word(in)) != round;
			barrier.sync(GinCta{});
		}
		leave(count);
	}
};

/* A: both ranks count in one word under a lock; a lost update counts as stale. */
struct Locks : Channels {
	GIN_FN void operator()() const
	{
		Gin gin(dc, ginBlockIndex());
		if (ginThreadIndex() != 0)
			return leave(0);
		uint64_t *count = static_cast<uint64_t *>(ginPeerPointer(target, base() + LINE, 0));
		for (uint32_t round = 1; round <= rounds; round++) {
			uint32_t old = 1;
			while (old)
				gin.atomicCompareSwap(0, target, base(), 0u, 1u, &old);
			weakStore(count, weakLoad(count) + 1);
			gin.atomicSwap(0, target, base(), 0u);
		}
		GinBarrier(dc, ginTeamWorld(dc), ginBlockIndex()).sync();
		leave(2ull * rounds - weakLoad(count));
	}
};

/*
 * Messages of GinPackets from rank 0 to rank 1, a word from each thread, and back: the only
 * ordering is by the packets and the block's barriers. Each thread reads another thread's word.
 */
struct Packets : Channels {
	GIN_FN static uint32_t most(uint32_t block) { return block * 8; }

	/* The words to send, and after these the received words. */
	GIN_FN uint64_t *words() const { return reinterpret_cast<uint64_t *>(out + base()); }

	GIN_FN uint64_t send(GinPackets &packets, uint32_t round) const
	{
		fallBehind(round);
		weakStore(words() + ginThreadIndex(), round);
		return packets.send(words(), most(ginBlockSize()), SkewedCta{}) != ginSuccess;
	}

	GIN_FN uint64_t receive(GinPackets &packets, uint32_t round) const
	{
		const uint32_t block = ginBlockSize(), other = ginThreadIndex() + GIN_WARP_SIZE;
		uint64_t failed =
			packets.receive(words() + block, most(block), SkewedCta{}) != ginSuccess;
		return failed + (weakLoad(words() + block + other % block) != round);
	}

	GIN_FN void operator()() const
	{
		const uint32_t block = ginBlockIndex(), all = most(ginBlockSize());
		GinPackets packets(dc, block, {target, block * ginPacketBoxBytes(2, all), all, 0},
				   other());
		uint64_t count = 0;
		GinBarrier(dc, ginTeamWorld(dc), block).sync(GinCta{});
		for (uint32_t round = 1; round <= rounds; round++) {
			if (dc.rank == 0)
				count += send(packets, round);
			count += receive(packets, round);
			if (dc.rank == 1)
				count += send(packets, round);
		}
		leave(count);
	}
};

/*
 * B, with the async proxy: each warp is a channel. A thread of rank 0 stores a row at rank 1 by a
 * bulk copy and waits until it is written; another lane then tells. Rank 1 reads the row by loads,
 * and in odd rounds by a bulk copy.
 */
struct Bulks : Channels {
#if GIN_HAS_BULK
	enum {WARPS = 4, ROW = 1024};

	/* A warp's lines: its row, then the word that tells of it. */
	GIN_FN static size_t lines()
	{
		return ginThreadIndex() / 32 * (32 * LINE);
	}
	GIN_FN char *theirs() const
	{
		return static_cast<char *>(ginPeerPointer(target, base() + lines(), other()));
	}
	GIN_FN static uint64_t *told(char *row)
	{
		return reinterpret_cast<uint64_t *>(row + ROW);
	}

	/* A lane tells what the warp's first lane has done. */
	GIN_FN void tell(uint32_t round) const
	{
		__syncwarp();
		if (ginLane() == 1) {
			ginBarrierRelease();
			ginBarrierTell(told(theirs()), round);
		}
	}

	GIN_FN void await(uint32_t round) const
	{
		while (ginLane() == 0 && ginBarrierObserve(told(in + base() + lines())) < round)
			;
		__syncwarp();
	}

	GIN_FN void send(uint64_t *stage) const
	{
		for (uint32_t round = 1; round <= rounds; round++) {
			for (uint32_t i = ginLane(); i < ROW / 8; i += 32)
				stage[i] = round;
			ginBulkFence(); /* threads have written the stage */
			__syncwarp();
			if (ginLane() == 0) {
				ginBulkWrite(theirs(), ginBulkShared(stage), ROW);
				ginBulkCommit();
				ginBulkHaveWritten<0>();
				ginBulkFence();
			}
			tell(round);
			await(round);
		}
	}

	GIN_FN uint64_t receive(uint64_t *stage, uint32_t barrier) const
	{
		const char *const row = in + base() + lines();
		uint64_t count = 0;
		for (uint32_t round = 1; round <= rounds; round++) {
			await(round);
			if (round % 2 && ginLane() == 0) {
				ginBulkFence(); /* another agent has written the row */
				ginBulkExpect(barrier, ROW);
				ginBulkRead(ginBulkShared(stage), row, ROW, barrier);
			}
			if (round % 2)
				ginBulkPass(barrier, round / 2 % 2);
			for (uint32_t i = ginLane(); i < ROW / 8; i += 32)
				count += (round % 2 ? stage[i]
						    : weakLoad(reinterpret_cast<const uint64_t *>(
								       row) +
							       i)) != round;
			tell(round);
		}
		return count;
	}

	GIN_FN void operator()() const
	{
		__shared__ __align__(128) uint64_t stages[WARPS][ROW / 8], barriers[WARPS];
		const uint32_t warp = ginThreadIndex() / 32;
		const uint32_t barrier = ginBulkShared(&barriers[warp]);
		if (ginLane() == 0)
			ginBulkInit(barrier, 1);
		ginBulkFence();
		__syncwarp();
		uint64_t count = 0;
		dc.rank == 0 ? send(stages[warp]) : void(count = receive(stages[warp], barrier));
		leave(count);
	}
#else
	GIN_FN void operator()() const
	{
		leave(1);
	}
#endif
};

static const char *const modes[] = {"signals", "counters", "barriers", "locks",
				    "stores",  "flushes",  "packets",  "bulks"};
static const char *mode;
static uint32_t rounds;

template <class Body> uint64_t tryOut(Rank &r, uint32_t grid, uint32_t block)
{
	Buffer target(r, std::max(static_cast<size_t>(grid) * block * LINE,
				  grid * ginPacketBoxBytes(2, Packets::most(block))));
	Buffer source(r, static_cast<size_t>(grid) * block * LINE);
	Results stale(r, grid * block);
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginDevComm dc;
	uint64_t count = 0;

	want.contexts = 2 * grid;
	want.barriers = grid;
	want.signals = 8;
	target.write(std::vector<unsigned char>(target.bytes, 0));
	CHECK(ginDevCommCreate(r.comm, &want, &dc));
	Body body;
	static_cast<Channels &>(body) = {dc,	     target.window, source.window, target.ptr,
					 source.ptr, rounds,	    stale.words};
	launch(r, grid, block, body);
	meet(r);
	for (size_t i = 0; i < stale.count; i++)
		count += stale.words[i];
	CHECK(ginDevCommDestroy(r.comm, &dc));
	return count;
}

static int run(const ginConfig_t *config)
{
	Rank r;
	rankOpen(r, config);
	EXPECT(r.nRanks == 2);
	uint32_t grid = r.device < 0 ? 2 : 64, block = r.device < 0 ? 2 : 128;
	uint64_t stale = 0;
	if (!strcmp(mode, modes[0]))
		stale = tryOut<Signals>(r, grid, block);
	else if (!strcmp(mode, modes[1]))
		stale = tryOut<Counters>(r, grid, block);
	else if (!strcmp(mode, modes[2]))
		stale = tryOut<Barriers>(r, grid, block);
	else if (!strcmp(mode, modes[3]))
		stale = tryOut<Locks>(r, grid, block);
	else if (!strcmp(mode, modes[4]))
		stale = tryOut<Stores>(r, grid, block);
	else if (!strcmp(mode, modes[5]))
		stale = tryOut<Flushes>(r, grid, block);
	else if (!strcmp(mode, modes[6]))
		stale = tryOut<Packets>(r, grid, block);
	else
		stale = tryOut<Bulks>(r, grid, block);
	printf("%s, rank %d: tries %llu, stale %llu\n", mode, r.rank,
	       static_cast<unsigned long long>(rounds) * grid,
	       static_cast<unsigned long long>(stale));
	rankClose(r);
	return stale != 0;
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		printf("litmus signals|counters|barriers|locks|stores|flushes|packets|bulks ROUNDS "
		       "[--threads 2]; bulks: GPUs from sm_90 on\n");
		return 77;
	}
	mode = argv[1];
	rounds = static_cast<uint32_t>(atoi(argv[2]));
	return suiteMain(argc - 2, argv + 2, run);
}
