// SPDX-License-Identifier: BSD-3-Clause
// kernels.cuh - five kernels as users of GPU-initiated networking write them
//
// bench/registers/run compiles them and prints registers and stack; test/semantics/full_block.cc
// runs them with as many threads as a block can have, and checks the data. `routes`: the routes
// that a kernel is compiled for.
//
// Each block works with the block of its own number at every rank, and has its own signal, barrier,
// and part of the windows. bytes: what a block, or in PutEach a thread, sends to one rank.
#ifndef GIN_BENCH_REGISTERS_KERNELS_CUH
#define GIN_BENCH_REGISTERS_KERNELS_CUH

#include <gin.h>
#include <gin_device.cuh>

struct KernelArguments {
	ginDevComm dc;
	ginWindow_t send, recv;
	size_t bytes;
	float *scratch;	   // [blocks][threads], of RmsNorm
	uint64_t *results; // [blocks][threads]
};

template <uint32_t routes> struct KernelBase : KernelArguments {
	GIN_FN explicit KernelBase(const KernelArguments &arguments) : KernelArguments(arguments) {}

	GIN_FN size_t thread() const
	{
		return static_cast<size_t>(ginBlockIndex()) * ginBlockSize() + ginThreadIndex();
	}

	// Where the block's piece of rank `rank` begins.
	GIN_FN size_t piece(uint32_t rank) const
	{
		return (static_cast<size_t>(rank) * ginGridSize() + ginBlockIndex()) * bytes;
	}

	GIN_FN GinOn<routes> gin() const
	{
		return GinOn<routes>(dc, ginBlockIndex() % dc.contexts);
	}

	GIN_FN GinBarrierOn<routes> barrier() const
	{
		return GinBarrierOn<routes>(dc, ginTeamWorld(dc), ginBlockIndex());
	}
};

// A put with a signal to every rank, each by another thread of the block, in a loop.
template <uint32_t routes> struct PutLoop : KernelBase<routes> {
	using Base = KernelBase<routes>;
	using Base::Base;
	using Base::dc, Base::piece;

	GIN_FN ginResult_t puts(const GinOn<routes> &gin) const
	{
		ginResult_t worst = ginSuccess;
		for (uint32_t r = ginThreadIndex(); r < dc.nRanks; r += ginBlockSize()) {
			ginResult_t result = gin.put(
				ginTeamWorld(dc), static_cast<int>(r), Base::recv, piece(dc.rank),
				Base::send, piece(r), Base::bytes, GinSignalInc{ginBlockIndex()});
			if (result != ginSuccess)
				worst = result;
		}
		return worst;
	}

	GIN_FN void operator()() const { Base::results[Base::thread()] = puts(Base::gin()); }
};

// All-to-all: a barrier, a put with a signal to every rank, a wait, a flush, a barrier.
template <uint32_t routes> struct Exchange : PutLoop<routes> {
	using Base = PutLoop<routes>;
	using Base::Base;

	GIN_FN ginResult_t exchange() const
	{
		const GinOn<routes> gin = Base::gin();
		const uint64_t before = gin.readSignal(ginBlockIndex());
		const GinBarrierOn<routes> barrier = Base::barrier();

		ginResult_t result = barrier.sync(GinCta{});
		if (result == ginSuccess)
			result = ginAgree(GinCta{}, Base::puts(gin));
		if (result == ginSuccess)
			result =
				gin.waitSignal(ginBlockIndex(), before + Base::dc.nRanks, GinCta{});
		if (result == ginSuccess)
			result = gin.flush(GinCta{});
		return result == ginSuccess ? barrier.sync(GinCta{}) : result;
	}

	GIN_FN void operator()() const { Base::results[Base::thread()] = exchange(); }
};

// A put with a signal by each thread, to the next rank.
template <uint32_t routes> struct PutEach : KernelBase<routes> {
	using Base = KernelBase<routes>;
	using Base::Base;
	using Base::dc;

	GIN_FN void operator()() const
	{
		const int next = static_cast<int>((dc.rank + 1) % dc.nRanks);
		const size_t at = Base::thread() * Base::bytes;

		Base::results[Base::thread()] =
			Base::gin().put(ginTeamWorld(dc), next, Base::recv, at, Base::send, at,
					Base::bytes, GinSignalInc{ginBlockIndex()});
	}
};

// All-to-all by the grid: the threads of all blocks share the puts. The block whose threads send to
// this rank waits for its signal, because the blocks of that number signal at every rank.
template <uint32_t routes> struct GridAllToAll : KernelBase<routes> {
	using Base = KernelBase<routes>;
	using Base::Base;
	using Base::dc;

	GIN_FN ginResult_t puts(const GinOn<routes> &gin) const
	{
		const uint32_t threads = ginGridSize() * ginBlockSize();
		ginResult_t worst = ginSuccess;
		for (uint32_t r = static_cast<uint32_t>(Base::thread()); r < dc.nRanks;
		     r += threads) {
			ginResult_t result =
				gin.put(ginTeamWorld(dc), static_cast<int>(r), Base::recv,
					dc.rank * Base::bytes, Base::send, r * Base::bytes,
					Base::bytes, GinSignalInc{ginBlockIndex()});
			if (result != ginSuccess)
				worst = result;
		}
		return worst;
	}

	GIN_FN ginResult_t exchange() const
	{
		const GinOn<routes> gin(dc, 0);
		const uint64_t before = gin.readSignal(ginBlockIndex());
		const GinBarrierOn<routes> barrier = Base::barrier();
		const uint32_t receiver = dc.rank / ginBlockSize() % ginGridSize();

		ginResult_t result = barrier.sync(GinCta{});
		if (result == ginSuccess)
			result = ginAgree(GinCta{}, puts(gin));
		if (result == ginSuccess && ginBlockIndex() == receiver)
			result = gin.waitSignal(ginBlockIndex(), before + dc.nRanks, GinCta{});
		if (result == ginSuccess)
			result = gin.flush(GinCta{});
		return result == ginSuccess ? barrier.sync(GinCta{}) : result;
	}

	GIN_FN void operator()() const { Base::results[Base::thread()] = exchange(); }
};

// A reduction and RMS normalisation of one token per block and rank: pieces go to the rank that
// owns the token, which adds them up, normalises, and sends the sum back to all ranks. The number
// of threads is a power of two.
template <uint32_t routes> struct RmsNorm : KernelBase<routes> {
	using Base = KernelBase<routes>;
	using Base::Base;
	using Base::dc, Base::bytes, Base::piece;

	// Sends the pieces to the owners of their tokens, or the token back to all ranks.
	GIN_FN ginResult_t spread(const GinOn<routes> &gin, bool back) const
	{
		const ginWindow_t from = back ? Base::recv : Base::send;
		const ginWindow_t to = back ? Base::send : Base::recv;
		ginResult_t worst = ginSuccess;
		for (uint32_t p = ginThreadIndex(); p < dc.nRanks; p += ginBlockSize()) {
			ginResult_t result = gin.put(ginTeamWorld(dc), static_cast<int>(p), to,
						     piece(dc.rank), from, piece(back ? 0 : p),
						     bytes, GinWeakSignalInc{ginBlockIndex()});
			if (result != ginSuccess)
				worst = result;
		}
		return ginAgree(GinCta{}, worst);
	}

	// Adds up the pieces of all ranks in the place of rank 0's, and returns the sum of squares.
	GIN_FN float reduce(float *sum, float *shared) const
	{
		const size_t hidden = bytes / sizeof(float), step = ginGridSize() * hidden;
		float mine = 0;
		GIN_NO_UNROLL
		for (size_t j = ginThreadIndex(); j < hidden; j += ginBlockSize()) {
			float all = sum[j];
			GIN_NO_UNROLL
			for (uint32_t p = 1; p < dc.nRanks; p++)
				all += sum[j + p * step];
			sum[j] = all;
			mine += all * all;
		}
		shared[ginThreadIndex()] = mine;
		GinCta{}.sync();
		GIN_NO_UNROLL
		for (uint32_t half = ginBlockSize() / 2; half; half /= 2) {
			if (ginThreadIndex() < half)
				shared[ginThreadIndex()] += shared[ginThreadIndex() + half];
			GinCta{}.sync();
		}
		return shared[0];
	}

	GIN_FN void normalise() const
	{
		float *sum = static_cast<float *>(
			ginPeerPointer(Base::recv, piece(0), static_cast<int>(dc.rank)));
		const size_t hidden = bytes / sizeof(float);
		float squares = reduce(sum, Base::scratch + ginBlockIndex() * ginBlockSize());
		float scale = 1.0f / (1.0f + squares / static_cast<float>(hidden));
		GIN_NO_UNROLL
		for (size_t j = ginThreadIndex(); j < hidden; j += ginBlockSize())
			sum[j] *= scale;
		GinCta{}.sync();
	}

	GIN_FN ginResult_t run() const
	{
		const GinOn<routes> gin = Base::gin();
		const uint64_t before = gin.readSignal(ginBlockIndex());
		const GinBarrierOn<routes> barrier = Base::barrier();

		ginResult_t result = barrier.sync(GinCta{});
		GIN_NO_UNROLL
		for (uint32_t back = 0; result == ginSuccess && back < 2; back++) {
			result = spread(gin, back);
			if (result == ginSuccess)
				result = gin.waitSignal(ginBlockIndex(),
							before + (back + 1) * dc.nRanks, GinCta{});
			if (result == ginSuccess)
				result = gin.flush(GinCta{});
			if (result == ginSuccess && !back)
				normalise();
			if (result == ginSuccess)
				result = barrier.sync(GinCta{});
		}
		return result;
	}

	GIN_FN void operator()() const { Base::results[Base::thread()] = run(); }
};

#endif
