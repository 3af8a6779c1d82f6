// SPDX-License-Identifier: BSD-3-Clause
// ring - each rank puts data to its right neighbour and waits for data of its left neighbour
//
// nvcc compiles this source to a kernel and a host function; g++ compiles the host function only.
// The program runs on GPUs if there are any, and on host threads otherwise.
//   nvcc -std=c++17 -arch=native ring.cu -o ring -lgin     (or g++ -std=c++17 -x c++ ring.cu ...)
//   mpirun -n 4 ./ring
#include "launch.h"

static const size_t sizes[] = {0, 1, 8, 1000, 4096, 65536, 1 << 20};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), ROUNDS = 100, LEAD = 16 };

// The kernel. All threads of one block run operator() and make each call together (GinCta).
struct Ring {
	ginDevComm dc;
	ginWindow_t inbox, outbox;
	size_t offset, bytes;
	uint64_t arrived; // signals received in earlier launches: signals count on
	uint64_t *nanoseconds;
	ginResult_t *result;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		int right = static_cast<int>((dc.rank + 1) % dc.nRanks);
		ginResult_t status = ginSuccess;
		uint64_t start = ginNow();

		for (uint64_t round = 1; round <= ROUNDS && status == ginSuccess; round++) {
			// All threads copy. The signal becomes visible after the bytes.
			status = gin.put(right, inbox, offset, outbox, offset, bytes,
					 GinSignalInc{0}, GinNone{}, GinCta{});
			// After this wait, the left neighbour's bytes are in the inbox.
			if (status == ginSuccess)
				status = gin.waitSignal(0, arrived + round, GinCta{});
		}
		if (ginThreadIndex() == 0) {
			*nanoseconds = ginNow() - start;
			*result = status;
		}
	}
};

// Byte i that a rank sends. 0x5a fills the memory between messages.
static unsigned char pattern(int rank, size_t i)
{
	return static_cast<unsigned char>(i * 7 + i / 251 + static_cast<size_t>(rank) * 31 + 1);
}

// Offset of the message of size number `index`: aligned to LEAD, with a gap of at least LEAD bytes.
static size_t offsetOf(int index)
{
	size_t offset = LEAD;
	for (int i = 0; i < index; i++)
		offset += (sizes[i] + 2 * LEAD - 1) / LEAD * LEAD;
	return offset;
}

static size_t countWrong(const std::vector<unsigned char> &inbox, int left)
{
	size_t wrong = 0, at = 0;
	for (int s = 0; s <= SIZES; s++) {
		for (size_t end = s < SIZES ? offsetOf(s) : inbox.size(); at < end; at++)
			wrong += inbox[at] != 0x5a;
		for (size_t i = 0; s < SIZES && i < sizes[s]; i++, at++)
			wrong += inbox[at] != pattern(left, at);
	}
	return wrong;
}

static void printRoutes(const Rank &r)
{
	for (int peer = 0; peer < r.nRanks; peer++) {
		ginPeerInfo_t info = GIN_PEER_INFO_INIT;
		CHECK(ginCommQueryPeer(r.comm, peer, &info));
		printf("route from rank %d to rank %d (host %s, %s): %s: %s\n", r.rank, peer,
		       info.host, info.device, info.backend, info.why);
	}
	fflush(stdout);
}

// Each size uses its own part of the windows. All rounds of a size send equal bytes, so a put may
// overwrite data of the round before.
static void runSizes(const Rank &r, const ginDevComm &dc, const Window &in, const Window &out)
{
	uint32_t block = r.device < 0 ? GIN_HOST_WARP : 256;
	uint64_t *nanoseconds = resultWord<uint64_t>(r);
	ginResult_t *result = resultWord<ginResult_t>(r);

	if (r.rank == 0)
		printf("%10s %14s\n", "bytes", "us per round");
	for (int s = 0; s < SIZES; s++) {
		launch(r, 1, block,
		       Ring{dc, in.window, out.window, offsetOf(s), sizes[s],
			    static_cast<uint64_t>(s) * ROUNDS, nanoseconds, result});
		checkKernel(r, dc, *result);
		double us = static_cast<double>(*nanoseconds) / 1e3 / ROUNDS;
		if (r.rank == 0)
			printf("%10zu %14.2f\n", sizes[s], us);
	}
}

int main()
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginDevComm dc;
	Rank r = rankOpen();
	printRoutes(r);

	std::vector<unsigned char> bytes(offsetOf(SIZES), 0x5a);
	Window in = registerCopy(r, bytes);
	for (size_t i = 0; i < bytes.size(); i++)
		bytes[i] = pattern(r.rank, i);
	Window out = registerCopy(r, bytes);
	CHECK(ginDevCommCreate(r.comm, &want, &dc));
	runSizes(r, dc, in, out);

	copyBytes(r, bytes.data(), in.ptr, bytes.size());
	int wrong = report(r, countWrong(bytes, (r.rank + r.nRanks - 1) % r.nRanks));
	CHECK(ginDevCommDestroy(r.comm, &dc));
	freeWindow(r, in);
	freeWindow(r, out);
	rankClose(r);
	return wrong;
}
