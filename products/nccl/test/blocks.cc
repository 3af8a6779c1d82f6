/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * blocks.cc - an all-to-all by many blocks at once, with the calls of nccl-tests' -D 3 and -D 4
 *
 * Each block has a barrier and a signal. One thread puts to each peer; in the hybrid form all
 * threads store to the ranks of the domain, and put to the other ranks. MOST is the longest message
 * in bytes.
 */
#include "numbers.h"
#include "rig.h"

enum { BLOCKS = 16, HOST_THREADS = 4, GPU_THREADS = 512, LAUNCHES = 3 };

struct Exchange {
	ncclDevComm dc;
	uint32_t *failedLine;
	ncclWindow_t send, receive;
	size_t bytes; /* of one message */
	bool hybrid, allContexts;

	GIN_FN size_t offset(int rank) const { return static_cast<size_t>(rank) * bytes; }
	GIN_FN int thread() const
	{
		return static_cast<int>(ginBlockIndex() * ginBlockSize() + ginThreadIndex());
	}
	GIN_FN int threads() const { return static_cast<int>(ginGridSize() * ginBlockSize()); }
	GIN_FN int context() const
	{
		return allContexts ? static_cast<int>(ginBlockIndex()) % dc.ginContextCount : 0;
	}
	GIN_FN bool isStored(int peer) const
	{
		return hybrid && ncclTeamRankIsMember(ncclTeamLsa(dc), ncclTeamWorld(dc), peer);
	}

	GIN_FN void put(const ncclGin &gin) const
	{
		for (int p = thread(); p < dc.nRanks; p += threads())
			if (!isStored(p))
				gin.put(ncclTeamWorld(dc), p, receive, offset(dc.rank), send,
					offset(p), bytes, ncclGin_SignalInc{ginBlockIndex()});
	}

	GIN_FN void store() const
	{
		const ncclTeam lsa = ncclTeamLsa(dc);
		const char *from = static_cast<const char *>(ncclGetLocalPointer(send, 0));

		for (int p = 0; hybrid && p < lsa.nRanks; p++) {
			char *to =
				static_cast<char *>(ncclGetLsaPointer(receive, offset(dc.rank), p));
			const size_t first = offset(ncclTeamRankToWorld(dc, lsa, p));
			for (size_t i = static_cast<size_t>(thread()); i < bytes;
			     i += static_cast<size_t>(threads()))
				to[i] = from[first + i];
		}
	}

	/* The puts of all peers to this rank signal to one block. */
	GIN_FN bool isReceiver() const
	{
		return static_cast<uint32_t>(dc.rank % threads()) / ginBlockSize() ==
		       ginBlockIndex();
	}

	GIN_FN void operator()() const
	{
		ncclGin gin{dc, context()};
		const uint64_t before = gin.readSignal(ginBlockIndex());
		const int stored = hybrid ? dc.lsaSize : 0;
		ncclBarrierSession<ncclCoopCta> bar{ncclCoopCta(), ncclTeamTagWorld(), gin,
						    ginBlockIndex()};

		bar.sync(ncclCoopCta(), cuda::memory_order_acquire, ncclGinFenceLevel::Relaxed);
		put(gin);
		store();
		if (isReceiver())
			gin.waitSignal(ncclCoopCta(), ginBlockIndex(),
				       before + static_cast<uint64_t>(dc.nRanks - stored));
		gin.flush(ncclCoopCta());
		bar.sync(ncclCoopCta(), cuda::memory_order_release, ncclGinFenceLevel::Relaxed);
		KERNEL_EXPECT(gin.readSignal(ginBlockIndex()) >= before);
	}
};

static char byteOf(int from, int to, int launch, size_t i)
{
	return static_cast<char>(from * 89 + to * 31 + launch * 7 + static_cast<int>(i % 251));
}

static void exchange(const Rank &r, Buffer &send, Buffer &receive, const Exchange &kernel,
		     int number)
{
	const size_t n = static_cast<size_t>(r.nRanks), bytes = kernel.bytes;
	std::vector<char> out(n * bytes), in(n * bytes);

	for (size_t at = 0; at < n * bytes; at++)
		out[at] = byteOf(r.rank, static_cast<int>(at / bytes), number, at % bytes);
	copyBytes(send.ptr, out.data(), n * bytes);
	launch(r, BLOCKS, r.gpu ? GPU_THREADS : HOST_THREADS, kernel);
	copyBytes(in.data(), receive.ptr, n * bytes);
	for (size_t at = 0; at < n * bytes; at++)
		EXPECT(in[at] == byteOf(static_cast<int>(at / bytes), r.rank, number, at % bytes));
	meet(r);
}

static void run(const Rank &r)
{
	const size_t most = numberOr("MOST", 4096);
	const size_t room = most * static_cast<size_t>(r.nRanks);
	ncclDevCommRequirements want = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
	want.barrierCount = BLOCKS;
	want.ginSignalCount = BLOCKS;
	want.ginConnectionType = NCCL_GIN_CONNECTION_FULL;
	Buffer send(r, room), receive(r, room);
	Device device(r, want);
	int number = 0;

	for (size_t bytes = 8; bytes <= most; bytes *= 8)
		for (int form = 0; form < 4 * LAUNCHES; form++)
			exchange(r, send, receive,
				 {device.dc, nullptr, send.window, receive.window, bytes,
				  form % 2 != 0, form / 2 % 2 != 0},
				 number++);
}

int main(int argc, char **argv)
{
	return rigMain(argc, argv, "all-to-all of many blocks", run);
}
