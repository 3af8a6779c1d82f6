/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * alltoall.cc - the alltoall of a benchmark: every rank has a message for every rank
 *
 * Three ways: a thread per peer, a block per slice of the messages, and stores through pointers to
 * near peers, puts to other peers. Nothing is reset between launches: each reads the signals first
 * and waits for the increments.
 */
#include "port.h"

/* The bytes of `sender` for `receiver`; never the poison's 0x5a. */
GIN_FN unsigned char byteOf(uint64_t seed, uint32_t sender, uint32_t receiver, size_t i)
{
	unsigned char byte = static_cast<unsigned char>(mix(seed, sender, receiver, i));
	return byte == 0x5a ? 0xa5 : byte;
}

struct Exchange {
	ginDevComm dc;
	ginWindow_t send, receive;
	unsigned char *taken; /* where messages go from `receive` as soon as they are there */
	size_t bytes;	      /* of one message */

	GIN_FN size_t place(int rank) const { return static_cast<size_t>(rank) * bytes; }
	GIN_FN int self() const { return rankOf(dc.rank); }

	/*
	 * A barrier of all blocks with this number. The blocks' barriers are independent: they go
	 * on concurrently.
	 */
	GIN_FN GinBarrier barrier() const { return {dc, ginTeamWorld(dc), ginBlockIndex()}; }

	/* This block's share of every message, the last one's shorter, or none. */
	GIN_FN size_t sliceStart() const
	{
		size_t each = (bytes + ginGridSize() - 1) / ginGridSize();
		size_t start = each * ginBlockIndex();
		return start < bytes ? start : bytes;
	}

	GIN_FN size_t sliceBytes() const
	{
		size_t each = (bytes + ginGridSize() - 1) / ginGridSize();
		size_t left = bytes - sliceStart();
		return left < each ? left : each;
	}

	/* Called by all threads of the block; waits for no other event. */
	GIN_FN void take(int peer, size_t start, size_t count) const
	{
		const unsigned char *from = static_cast<const unsigned char *>(
			ginPeerPointer(receive, place(peer) + start, self()));
		for (size_t i = ginThreadIndex(); i < count; i += ginBlockSize())
			taken[place(peer) + start + i] = from[i];
	}
};

struct ThreadPerPeer : Exchange {
	/*
	 * The block of a sender's thread for this rank has the same number everywhere: only this
	 * block waits. A signal for all blocks would not do: one block could read it after another
	 * has passed the barrier, and so after the first arrivals.
	 */
	GIN_FN uint64_t arrivals() const
	{
		uint32_t block = dc.rank % gridThreads() / ginBlockSize();
		return block == ginBlockIndex() ? dc.nRanks : 0;
	}

	GIN_FN ginResult_t putMine(const Gin &gin) const
	{
		ginResult_t result = ginSuccess;
		for (uint32_t p = gridThread(); p < dc.nRanks; p += gridThreads()) {
			ginResult_t put =
				gin.put(ginTeamWorld(dc), rankOf(p), receive, place(self()), send,
					place(rankOf(p)), bytes, GinSignalInc{ginBlockIndex()});
			result = put == ginSuccess ? result : put;
		}
		return ginAgree(GinCta{}, result); /* each thread has called for itself */
	}

	GIN_FN ginResult_t run() const
	{
		Gin gin(dc, 0);
		const uint64_t before = gin.readSignal(ginBlockIndex());

		TRY(barrier().sync(
			GinCta{})); /* no peer puts before all ranks have poisoned their targets */
		TRY(putMine(gin));
		TRY(gin.waitSignal(ginBlockIndex(), before + arrivals(), GinCta{}));
		for (uint32_t p = 0; p < arrivals(); p++)
			take(rankOf(p), 0, bytes);
		TRY(gin.flush(GinCta{}));
		return barrier().sync(GinCta{});
	}
};

struct BlockPerSlice : Exchange {
	GIN_FN ginResult_t putTo(const Gin &gin, int peer) const
	{
		return gin.put(ginTeamWorld(dc), peer, receive, place(self()) + sliceStart(), send,
			       place(peer) + sliceStart(), sliceBytes(),
			       GinSignalInc{ginBlockIndex()}, GinNone{}, GinCta{});
	}

	GIN_FN ginResult_t run() const
	{
		Gin gin(dc, 1);
		const uint64_t before = gin.readSignal(ginBlockIndex());

		TRY(barrier().sync(GinCta{}));
		for (uint32_t p = 0; p < dc.nRanks; p++)
			TRY(putTo(gin, rankOf((dc.rank + p) % dc.nRanks)));
		TRY(gin.waitSignal(ginBlockIndex(), before + dc.nRanks, GinCta{}));
		for (uint32_t p = 0; p < dc.nRanks; p++)
			take(rankOf(p), sliceStart(), sliceBytes());
		TRY(gin.flush(GinCta{}));
		return barrier().sync(GinCta{});
	}
};

struct Hybrid : Exchange {
	uint32_t near; /* ranks of a neighbourhood: these go by pointer */

	/* All threads of the block store; the closing barrier shows it to the peer. */
	GIN_FN ginResult_t storeTo(int peer) const
	{
		int own = self();
		char *to = static_cast<char *>(ginPeerPointer(receive, place(own), peer));
		const char *from =
			static_cast<const char *>(ginPeerPointer(send, place(peer), own));
		if (!to || !from)
			return ginErrorUnsupported;
		size_t end = sliceStart() + sliceBytes();
		for (size_t i = sliceStart() + ginThreadIndex(); i < end; i += ginBlockSize())
			to[i] = from[i];
		return ginSuccess;
	}

	GIN_FN ginResult_t putTo(const Gin &gin, int peer) const
	{
		return gin.put(peer, receive, place(self()) + sliceStart(), send,
			       place(peer) + sliceStart(), sliceBytes(),
			       GinSignalInc{ginBlockIndex()}, GinNone{}, GinCta{});
	}

	GIN_FN void takeThose(bool areNear) const
	{
		for (uint32_t p = 0; p < dc.nRanks; p++)
			if (isMember(dc, teamInner(dc, near), rankOf(p)) == areNear)
				take(rankOf(p), sliceStart(), sliceBytes());
	}

	GIN_FN ginResult_t run() const
	{
		Gin gin(dc, 2);
		const ginTeam neighbours = teamInner(dc, near);
		const uint64_t before = gin.readSignal(ginBlockIndex());

		TRY(barrier().sync(GinCta{}));
		for (uint32_t p = 0; p < dc.nRanks; p++) {
			int peer = rankOf((dc.rank + p) % dc.nRanks);
			TRY(isMember(dc, neighbours, peer) ? storeTo(peer) : putTo(gin, peer));
		}
		TRY(gin.waitSignal(ginBlockIndex(), before + dc.nRanks - near, GinCta{}));
		takeThose(false);
		TRY(gin.flush(GinCta{}));
		TRY(barrier().sync(GinCta{}));
		takeThose(true); /* no signal covers these bytes */
		return ginSuccess;
	}
};

/* Launch after launch on the same windows and signals. */
struct Trial {
	Rank &r;
	Buffer send, receive, taken;
	Results results;
	Communicator device; /* last: no kernel runs before all ranks have made the rest */
	uint64_t launches;

	static Grid grid(const Rank &r) { return portGrid(r); }

	Trial(Rank &rank, size_t most)
	    : r(rank), send(rank, static_cast<size_t>(rank.nRanks) * most + 64),
	      receive(rank, send.bytes), taken(rank, send.bytes),
	      results(rank, grid(rank).blocks * grid(rank).threads),
	      device(rank, 3, grid(rank).blocks, 0, grid(rank).blocks), launches(0)
	{
	}

	uint64_t seed() const { return portSeed() + launches; }

	/* The bytes that this rank sends in this launch, or receives. */
	std::vector<unsigned char> messages(size_t bytes, bool received) const
	{
		std::vector<unsigned char> all(send.bytes, 0x5a);
		uint32_t own = static_cast<uint32_t>(r.rank), n = static_cast<uint32_t>(r.nRanks);
		for (uint32_t peer = 0; peer < n; peer++)
			for (size_t i = 0; i < bytes; i++)
				all[peer * bytes + i] = received ? byteOf(seed(), peer, own, i)
								 : byteOf(seed(), own, peer, i);
		return all;
	}

	template <class Kernel> void once(Kernel kernel)
	{
		launches++;
		send.write(messages(kernel.bytes, false));
		receive.poison();
		taken.poison();
		runOn(r, grid(r), results, kernel);
		EXPECT(receive.read() == messages(kernel.bytes, true));
		EXPECT(taken.read() == messages(kernel.bytes, true));
	}

	void size(size_t bytes)
	{
		const Exchange exchange = {device.dc, send.window, receive.window,
					   reinterpret_cast<unsigned char *>(taken.ptr), bytes};
		for (int round = 0; round < 3; round++) {
			once(ThreadPerPeer{exchange});
			once(BlockPerSlice{exchange});
			for (uint32_t near : innerSizes(device.dc))
				once(Hybrid{exchange, near});
		}
	}
};

static int run(const ginConfig_t *config)
{
	Rank r;
	rankOpen(r, config);
	portSay(r, "alltoall");
	{
		Trial trial(r, r.device < 0 ? 10007 : 1 << 20);
		for (size_t bytes : {0, 1, 3, 8, 100, 4096, 10007})
			trial.size(bytes);
		if (r.device >= 0)
			trial.size(1 << 20);
		meet(r); /* no rank frees memory while another rank's kernel runs */
	}
	rankClose(r);
	return 0;
}

int main(int argc, char **argv)
{
	return portMain(argc, argv, run);
}
