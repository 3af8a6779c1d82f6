/* SPDX-License-Identifier: BSD-3-Clause */
/* rma.cc - ncclPutSignal(), ncclSignal() and ncclWaitSignal() */
#include "rig.h"

enum { CONTEXTS = 2, SIGNALS = 3 };

constexpr size_t SIZES[] = {0, 1, 13, 4096, 100003}; /* elements of 2 bytes */
constexpr size_t MOST = 100003, GAP = 16, PART = MOST + 2 * GAP;

/* A communicator of all ranks, and a stream. */
struct Ring {
	Rank r;
	cudaStream_t stream = nullptr;

	explicit Ring(const Rank &of)
	{
		ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
		ncclCommProperties_t p = NCCL_COMM_PROPERTIES_INITIALIZER;
		config.numRmaCtx = CONTEXTS;
		config.numRmaSig = SIGNALS;
		CHECK(ncclCommSplit(of.comm, 0, of.rank, &r.comm, &config));
		r.rank = of.rank;
		r.nRanks = of.nRanks;
		r.gpu = of.gpu;
		CHECK(ncclCommQueryProperties(r.comm, &p));
		EXPECT(p.hostRmaSupport);
#ifdef __CUDACC__
		if (r.gpu)
			EXPECT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) ==
			       cudaSuccess);
#endif
	}
	~Ring()
	{
		finish();
#ifdef __CUDACC__
		if (r.gpu)
			EXPECT(cudaStreamDestroy(stream) == cudaSuccess);
#endif
		CHECK(ncclCommDestroy(r.comm));
	}
	Ring(const Ring &) = delete;

	void finish() const
	{
#ifdef __CUDACC__
		if (r.gpu)
			EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
#endif
	}
	int right() const
	{
		return (r.rank + 1) % r.nRanks;
	}
	int left() const
	{
		return (r.rank + r.nRanks - 1) % r.nRanks;
	}

	void put(const void *source, size_t count, int peer, const Buffer &to, size_t at,
		 int signal = 0, int context = 0) const
	{
		CHECK(ncclPutSignal(source, count, ncclFloat16, peer, to.window,
				    at * sizeof(uint16_t), signal, context, 0, r.comm, stream));
	}
	void signal(int peer, int id = 0, int context = 0) const
	{
		CHECK(ncclSignal(peer, id, context, 0, r.comm, stream));
	}
	void wait(int peer, int count = 1, int id = 0, int context = 0) const
	{
		ncclWaitSignalDesc_t one = {count, peer, id, context};
		CHECK(ncclWaitSignal(1, &one, r.comm, stream));
	}
	void waitAll() const
	{
		std::vector<ncclWaitSignalDesc_t> list;
		for (int peer = 0; peer < r.nRanks; peer++)
			list.push_back({1, peer, 0, 0});
		CHECK(ncclWaitSignal(r.nRanks, list.data(), r.comm, stream));
	}
};

/* Element i of what `from` sends to `to` in a round. */
static uint16_t element(int from, int to, size_t round, size_t i)
{
	return static_cast<uint16_t>(1 + i * 7919 + round * 104729 +
				     static_cast<size_t>(from * 31 + to) * 613);
}

static std::vector<uint16_t> elements(int from, int to, size_t round, size_t count)
{
	std::vector<uint16_t> all(count);
	for (size_t i = 0; i < count; i++)
		all[i] = element(from, to, round, i);
	return all;
}

/* All ranks to all ranks, as a group; nothing changes beside the elements. */
static void allToAll(const Rank &of)
{
	Ring ring(of);
	const Rank &r = ring.r;
	const size_t n = static_cast<size_t>(r.nRanks), bytes = n * PART * sizeof(uint16_t);
	Buffer source(r, bytes), target(r, bytes);
	std::vector<uint16_t> out(n * PART), got(n * PART);

	for (size_t round = 0; round < sizeof(SIZES) / sizeof(SIZES[0]); round++) {
		const size_t count = SIZES[round];
		for (size_t p = 0; p < n; p++) {
			const auto sent = elements(r.rank, static_cast<int>(p), round, count);
			std::copy(sent.begin(), sent.end(),
				  out.begin() + static_cast<long>(p * PART + round));
		}
		copyBytes(source.ptr, out.data(), bytes);
		copyBytes(target.ptr, std::vector<uint16_t>(n * PART, 0).data(), bytes);
		meet(r);
		CHECK(ncclGroupStart());
		for (int p = 0; p < r.nRanks; p++)
			ring.put(static_cast<uint16_t *>(source.ptr) +
					 static_cast<size_t>(p) * PART + round,
				 count, p, target, static_cast<size_t>(r.rank) * PART + GAP);
		CHECK(ncclGroupEnd());
		ring.waitAll();
		ring.finish();
		copyBytes(got.data(), target.ptr, bytes);
		for (size_t p = 0; p < n; p++) {
			std::vector<uint16_t> want(PART, 0);
			const auto sent = elements(static_cast<int>(p), r.rank, round, count);
			std::copy(sent.begin(), sent.end(), want.begin() + GAP);
			EXPECT(std::equal(want.begin(), want.end(),
					  got.begin() + static_cast<long>(p * PART)));
		}
		meet(r);
	}
}

/* Signals alone make a barrier; each pair, context and signal counts for itself. */
static void signals(const Rank &of)
{
	Ring ring(of);

	for (int round = 0; round < 3; round++) {
		for (int p = 0; p < ring.r.nRanks; p++)
			ring.signal(p);
		ring.waitAll();
	}
	for (int i = 0; i < 4; i++)
		ring.signal(ring.right(), 2, 1);
	ring.signal(ring.right(), 1, 0);
	ring.wait(ring.left(), 1, 1, 0);
	ring.wait(ring.left(), 3, 2, 1);
	ring.wait(ring.left(), 0, 0, 0);
	ring.wait(ring.left(), 1, 2, 1);
	ring.finish();
	meet(ring.r);
}

/*
 * One wait for the last of several puts sees the bytes of all of them. An earlier signal of another
 * context, or of another rank by another number, does not end it.
 */
static void order(const Rank &of)
{
	Ring ring(of);
	const Rank &r = ring.r;
	Buffer source(r, 4 * MOST * sizeof(uint16_t)), target(r, 4 * MOST * sizeof(uint16_t));
	const auto sent = elements(r.rank, ring.right(), 9, 4 * MOST);
	std::vector<uint16_t> got(4 * MOST);

	copyBytes(source.ptr, sent.data(), source.bytes);
	ring.signal(ring.right(), 0, 1);
	for (int p = 0; p < r.nRanks; p++)
		ring.signal(p, 1);
	ring.finish();
	meet(r);
	if (r.rank == r.nRanks - 1)
		usleep(20000); /* the next rank waits already */
	for (size_t i = 0; i < 4; i++)
		ring.put(static_cast<uint16_t *>(source.ptr) + i * MOST, MOST, ring.right(), target,
			 i * MOST, i < 3 ? 1 : 0);
	ring.wait(ring.left());
	ring.finish();
	copyBytes(got.data(), target.ptr, target.bytes);
	EXPECT(got == elements(ring.left(), r.rank, 9, 4 * MOST));
	for (int p = 0; p < r.nRanks; p++)
		ring.wait(p, 1, 1);
	ring.wait(ring.left(), 3, 1);
	ring.wait(ring.left(), 1, 0, 1);
	ring.finish();
	meet(r);
}

static void wrongArguments(const Rank &of)
{
	Ring ring(of);
	ncclComm_t c = ring.r.comm, made;
	Buffer b(ring.r, 64);
	ncclWaitSignalDesc_t w = {1, 0, 0, 0}, last[2] = {w, {1, ring.r.nRanks, 0, 0}};
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	const ncclResult_t wrong = ncclInvalidArgument;
	char own[8];
	void *ended;
	ncclWindow_t window;
	const auto put = [&](const void *from, size_t count, int peer, ncclWindow_t to, size_t at) {
		return ncclPutSignal(from, count, ncclInt8, peer, to, at, 0, 0, 0, c, nullptr);
	};

	EXPECT_FAILS(put(b.ptr, 1, -1, b.window, 0), wrong, "ncclPutSignal: peer is -1");
	EXPECT_FAILS(put(b.ptr, 1, ring.r.nRanks, b.window, 0), wrong, "peer is ");
	EXPECT_FAILS(put(own, 1, 0, b.window, 0), wrong, "the 1 bytes of the source are in no");
	EXPECT_FAILS(put(static_cast<char *>(b.ptr) + 60, 5, 0, b.window, 0), wrong,
		     "in no window");
	CHECK(ncclMemAlloc(&ended, 64)); /* its window ends now, or with the next collective call */
	CHECK(ncclCommWindowRegister(c, ended, 64, &window, 0));
	CHECK(ncclCommWindowDeregister(c, window));
	EXPECT_FAILS(put(ended, 1, 0, b.window, 0), wrong, "in no window");
	CHECK(ncclMemFree(ended));
	EXPECT_FAILS(put(b.ptr, 8, 0, b.window, 57), wrong, "are not within the 64 of rank 0");
	EXPECT_FAILS(put(b.ptr, 1, 0, nullptr, 0), wrong, "window is not registered");
	EXPECT_FAILS(ncclPutSignal(b.ptr, 1, ncclNumTypes, 0, b.window, 0, 0, 0, 0, c, nullptr),
		     wrong, "the type is unknown");
	EXPECT_FAILS(ncclSignal(0, SIGNALS, 0, 0, c, nullptr), wrong,
		     "sigIdx is 3: must be 0 to 2");
	EXPECT_FAILS(ncclSignal(0, 0, CONTEXTS, 0, c, nullptr), wrong, "ctx is 2: must be 0 to 1");
	EXPECT_FAILS(ncclSignal(0, 0, 0, 4, c, nullptr), wrong, "flags is 0x4: must be 0");
	EXPECT_FAILS(ncclSignal(0, 0, 0, 0, nullptr, nullptr), wrong, "ncclSignal: comm is NULL");
	EXPECT_FAILS(ncclWaitSignal(1, nullptr, c, nullptr), wrong, "signalDescs is NULL");
	EXPECT_FAILS(ncclWaitSignal(-1, &w, c, nullptr), wrong, "nDesc is -1");
	EXPECT_FAILS(ncclWaitSignal(2, last, c, nullptr), wrong, "ncclWaitSignal: peer is ");
	w.opCnt = -1;
	EXPECT_FAILS(ncclWaitSignal(1, &w, c, nullptr), wrong, "opCnt is -1");
	EXPECT_FAILS(ncclSignal(0, 1, 0, 0, of.comm, nullptr), wrong, "must be 0 to 0");
	config.numRmaSig = 0;
	EXPECT_FAILS(ncclCommSplit(c, 0, 0, &made, &config), wrong, "config.numRmaSig is 0");
	CHECK(ncclWaitSignal(0, nullptr, c, nullptr));
	meet(ring.r);
}

/* The last rank ends the communicator; the waits of the others end, and it says why. */
static void revoked(const Rank &of)
{
	Ring ring(of);
	ncclResult_t error = ncclSuccess;

	meet(ring.r);
	if (of.rank == of.nRanks - 1) {
		usleep(50000); /* most often the others wait already */
		CHECK(ncclCommRevoke(ring.r.comm, NCCL_REVOKE_DEFAULT));
		return;
	}
	ncclWaitSignalDesc_t one = {1, ring.left(), 0, 0};
	ncclResult_t result = ncclWaitSignal(1, &one, ring.r.comm, ring.stream);
	EXPECT(result == ncclSuccess || result == ncclRemoteError);
	ring.finish();
	CHECK(ncclCommGetAsyncError(ring.r.comm, &error));
	EXPECT(error == ncclRemoteError);
	EXPECT_FAILS(ncclWaitSignal(1, &one, ring.r.comm, ring.stream), ncclRemoteError,
		     "called ginCommAbort");
}

static void all(const Rank &r)
{
	allToAll(r);
	signals(r);
	order(r);
	wrongArguments(r);
	if (r.nRanks > 1)
		revoked(r);
}

int main(int argc, char **argv)
{
	setenv("GIN_LOG", "none", 0);
	setenv("CUDA_MODULE_LOADING", "EAGER", 1); /* gin_proxy(7), stream capture */
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
	return rigMain(argc, argv, "rma", all);
}
