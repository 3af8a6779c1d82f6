/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * semantics_lengths.cc - puts and gets of many lengths, on GPUs also through shared memory of the
 * block
 *
 * The kernel writes the source right before the put, writes all of the scratch memory before the
 * call and reads it after, and the receiver reads the target in the same kernel: bulk copies
 * through scratch memory have to be in order with loads and stores. Host threads ignore scratch
 * memory: there the tests move every length without it.
 */
/* COMPILE: -O1 */
#include "suite.h"

enum { SCRATCH = 40960, ROUNDS = 3, GUARD = 32 };

/* Lengths near that of one access, of one buffer and of all buffers of the scratch memory. */
static const Cells lengths = {{0,     1,     1008,  1023,  1024,  1025,	 1040,
			       4080,  4096,  4112,  8192,  16384, 20496, 28672,
			       32752, 32768, 32784, 40000, 65536, 131088},
			      20,
			      0};

template <class Coop> struct Through {
	ginDevComm dc;
	ginWindow_t target, source;
	Cells cells;
	uint32_t scratchBytes;
	bool gets;
	uint64_t *results;

	GIN_FN static char *scratch()
	{
#if GIN_ON_GPU
		alignas(128) __shared__ char memory[SCRATCH];
		return memory;
#else
		static char memory[64];
		return memory;
#endif
	}

	GIN_FN char *at(ginWindow_t window) const
	{
		return static_cast<char *>(ginPeerPointer(window, 0, static_cast<int>(dc.rank)));
	}

	GIN_FN void write(Coop coop, char *to, size_t bytes, uint32_t round) const
	{
		for (size_t i = coop.thread_rank(); i < bytes; i += coop.size())
			to[i] = static_cast<char>(pattern(dc.rank, round, i));
	}

	/* Before and after a call the scratch memory is the caller's: writes all of it. */
	GIN_FN void spoil(Coop coop, uint32_t round) const
	{
#if GIN_ON_GPU
		for (uint32_t i = coop.thread_rank(); i < SCRATCH; i += coop.size())
			scratch()[i] = static_cast<char>(round + i);
#else
		(void)coop;
		(void)round;
#endif
	}

	/* Counts wrong bytes of the put, and changed bytes around it. */
	GIN_FN uint64_t wrong(Coop coop, const char *seen, size_t bytes, uint32_t sender,
			      uint32_t round) const
	{
		uint64_t count = 0;
		for (size_t i = coop.thread_rank(); i < bytes + GUARD; i += coop.size())
			count += static_cast<unsigned char>(seen[i]) !=
				 (i < bytes ? pattern(sender, round, i) : 0x5a);
		return count;
	}

	GIN_FN ginResult_t move(const Gin &gin, Coop coop, size_t to, size_t from, size_t bytes,
				const ginOptions &options) const
	{
		if (!gets)
			return gin.put(rightOf(dc), target, to, source, from, bytes,
				       GinSignalInc{0}, GinNone{}, coop, options);
		ginResult_t result =
			gin.get(leftOf(dc), source, from, target, to, bytes, coop, options);
		return result == ginSuccess ? gin.flush(coop) : result;
	}

	/*
	 * Signal 0: the data is there; 1: the right neighbour has read it; 2: the source is
	 * written.
	 */
	GIN_FN ginResult_t turn(const Gin &gin, Coop coop, uint32_t n, size_t bytes, size_t shift,
				uint64_t *bad) const
	{
		ginOptions options;
		options.scratch = scratch();
		options.scratchBytes = scratchBytes;
		write(coop, at(source) + shift, bytes, n);
		spoil(coop, n);
		ginResult_t result = gin.signal(rightOf(dc), GinSignalInc{2}, coop);
		if (result == ginSuccess)
			result = gin.waitSignal(2, n, coop);
		if (result == ginSuccess)
			result = move(gin, coop, GUARD + shift, shift, bytes, options);
		if (result == ginSuccess && !gets)
			result = gin.waitSignal(0, n, coop);
		if (result != ginSuccess)
			return result;
		*bad += wrong(coop, at(target) + GUARD + shift, bytes,
			      static_cast<uint32_t>(leftOf(dc)), n);
		coop.sync();
		for (size_t i = coop.thread_rank(); i < bytes; i += coop.size())
			at(target)[GUARD + shift + i] = 0x5a;
		/* The left neighbour may write its target and its source again. */
		result = gin.signal(leftOf(dc), GinSignalInc{1}, coop);
		return result == ginSuccess ? gin.waitSignal(1, n, coop) : result;
	}

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		Coop coop;
		uint64_t bad = 0;
		uint32_t n = 0;
		ginResult_t result = ginSuccess;
		for (uint32_t round = 0; round < ROUNDS; round++)
			for (uint32_t s = 0; s < cells.nSizes && result == ginSuccess; s++)
				result = turn(gin, coop, ++n, cells.sizes[s],
					      round == 2 ? 8 : 16 * round, &bad);
		results[ginThreadIndex()] = result == ginSuccess ? bad : 0x8000u + result;
	}
};

template <class Coop> void through(Rank &r, uint32_t scratchBytes, bool gets,
				   Allocator *from = ginMemAlloc, Allocator *to = ginMemAlloc)
{
	const size_t bytes = 131088 + 64 + 2 * GUARD;
	Buffer target(r, bytes, to), source(r, bytes, from);
	Results results(r, blockFor<Coop>(r));

	target.poison();
	Device device(r, 1, 3);
	launch(r, 1, blockFor<Coop>(r),
	       Through<Coop>{device.dc, target.window, source.window, lengths, scratchBytes, gets,
			     results.words});
	EXPECT(results.all(0));
	meet(r);
}

template <class Coop> void throughAll(Rank &r)
{
	for (uint32_t scratchBytes : {0, 128, 16511, 16512, 20000, 33024, 40960})
		if (r.device >= 0 || !scratchBytes)
			through<Coop>(r, scratchBytes, false);
	through<Coop>(r, SCRATCH, true);
}

static void rule0_whatArrivesIsWhatTheCoopWrote(Rank &r)
{
	throughAll<GinWarp>(r);
	throughAll<GinCta>(r);
}

static void rule1_aThreadMovesEveryLength(Rank &r)
{
	through<GinThread>(r, SCRATCH, false);
	through<GinThread>(r, SCRATCH, true);
}

/* Host memory as source, as target, or as both. */
static void rule1_hostMemory(Rank &r)
{
	for (bool gets : {false, true}) {
		through<GinCta>(r, SCRATCH, gets, ginMemAllocHost, ginMemAllocHost);
		through<GinCta>(r, SCRATCH, gets, ginMemAlloc, ginMemAllocHost);
		through<GinWarp>(r, SCRATCH, gets, ginMemAllocHost, ginMemAlloc);
	}
}

static const Test tests[] = {
	{"rule 0: what arrives is what the coop wrote, of every length",
	 rule0_whatArrivesIsWhatTheCoopWrote},
	{"rule 1: one thread moves every length", rule1_aThreadMovesEveryLength},
	{"rule 1: from and to host memory", rule1_hostMemory},
};

int main(int argc, char **argv)
{
	return suiteMain(argc, argv, "semantics_lengths", tests);
}
