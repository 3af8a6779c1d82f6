/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * streams.cc - collectives on streams that are late, stuck or broken, and contexts that are given
 * back
 *
 * The driver is fake/driver.c. The communicators are of host threads; libgin-nccl takes them for
 * ranks with a GPU. Each case is a process.
 */
#include "rig.h"

#include "fake/driver.h"
#include "products/nccl/lib/internal.h"

#include <atomic>

enum { COUNT = 40000 }; /* more than a message of the control plane */

static ncclComm_t newComm(const ncclUniqueId &id, int rank, int nRanks)
{
	ncclComm_t comm;

	CHECK(ncclCommInitRank(&comm, nRanks, id, rank));
	comm->device = 0;
	return comm;
}

static ncclComm_t aloneComm()
{
	ncclUniqueId id;

	CHECK(ncclGetUniqueId(&id));
	return newComm(id, 0, 1);
}

static void *newStream()
{
	void *stream;

	EXPECT(!cuStreamCreate(&stream, 0));
	return stream;
}

/* A rank's input and output of an ncclAllGather(). */
struct Gather {
	std::vector<int> in, out;

	Gather(ncclComm_t comm, void *stream, int first) : in(COUNT)
	{
		out.resize(static_cast<size_t>(comm->nRanks) * COUNT);
		for (size_t i = 0; i < COUNT; i++)
			in[i] = first + comm->rank * COUNT + static_cast<int>(i);
		CHECK(ncclAllGather(in.data(), out.data(), COUNT, ncclInt32, comm,
				    static_cast<cudaStream_t>(stream)));
	}
	Gather(const Gather &) = delete;
	bool isRight(int first) const
	{
		for (size_t i = 0; i < out.size(); i++)
			if (out[i] != first + static_cast<int>(i))
				return false;
		return true;
	}
};

/*
 * Whatever a communicator has done, its end gives the context back. No call breaks a capture of a
 * stream.
 */
static void contexts()
{
	ncclDevCommRequirements want = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
	void *stream = newStream();

	for (int i = 0; i < 3; i++) {
		ncclComm_t comm = aloneComm();
		ncclDevComm dc;
		CHECK(ncclDevCommCreate(comm, &want, &dc));
		EXPECT(fakeRetained() == 0 && dc.nanosecondsPer1024Cycles == 682); /* of 1.5 GHz */
		Gather gather(comm, stream, i);
		EXPECT(fakeRetained() == 1);
		fakeDrain(stream);
		EXPECT(gather.isRight(i));
		CHECK(ncclDevCommDestroy(comm, &dc));
		CHECK(ncclCommDestroy(comm));
		EXPECT(fakeRetained() == 0 && fakeEvents() == 0);
	}
	EXPECT(fakeUnsafe() == 0);
	cuStreamDestroy_v2(stream);
}

/* A collective cannot be captured: its call says so, enqueues nothing, and works afterwards. */
static void captured()
{
	ncclComm_t comm = aloneComm();
	void *own = newStream();
	cudaStream_t stream = static_cast<cudaStream_t>(own);
	int in = 4, out = 0;

	fakeCapture(own, 1);
	EXPECT_FAILS(ncclAlltoAll(&in, &out, 1, ncclInt32, comm, stream), ncclInvalidUsage,
		     "ncclAlltoAll: the stream is being captured");
	CHECK(ncclGroupStart());
	EXPECT_FAILS(ncclSend(&in, 1, ncclInt32, 0, comm, stream), ncclInvalidUsage,
		     "ncclSend: the stream is being captured");
	CHECK(ncclGroupEnd());
	fakeDrain(own);
	EXPECT(out == 0 && fakeRetained() == 0);
	fakeCapture(own, 0);
	CHECK(ncclAlltoAll(&in, &out, 1, ncclInt32, comm, stream));
	fakeDrain(own);
	EXPECT(out == 4);
	CHECK(ncclCommDestroy(comm));
	cuStreamDestroy_v2(own);
}

/* Ranks that give no input, or get no output. */
static void rootsRank(const ncclUniqueId &id, int rank)
{
	ncclComm_t comm = newComm(id, rank, 2);
	void *own = newStream();
	cudaStream_t stream = static_cast<cudaStream_t>(own);
	const int in[2] = {10 * rank + 1, 10 * rank + 2};
	int sent = -1, sum = -1, got[2] = {-1, -1};

	CHECK(ncclBroadcast(rank ? in : nullptr, &sent, 1, ncclInt32, 1, comm, stream));
	CHECK(ncclReduce(in, rank ? nullptr : &sum, 1, ncclInt32, ncclSum, 0, comm, stream));
	CHECK(ncclAlltoAll(in, got, 1, ncclInt32, comm, stream));
	fakeDrain(own);
	EXPECT(sent == 11 && sum == (rank ? -1 : 12));
	EXPECT(got[0] == 1 + rank && got[1] == 11 + rank);
	CHECK(ncclCommDestroy(comm));
	cuStreamDestroy_v2(own);
}

/* The second stream is ready before the first one. */
static void lateRank(const ncclUniqueId &id, int rank)
{
	ncclComm_t comm = newComm(id, rank, 2);
	void *streams[2] = {newStream(), newStream()};

	fakeGate(streams[0]);
	Gather first(comm, streams[0], 5), second(comm, streams[1], 6);
	Gather late(comm, streams[0], 7);
	std::thread opener([] {
		usleep(100000);
		fakeOpen();
	});
	CHECK(ncclCommDestroy(comm));
	opener.join();
	for (void *stream : streams) {
		fakeDrain(stream);
		cuStreamDestroy_v2(stream);
	}
	EXPECT(first.isRight(5) && second.isRight(6) && late.isRight(7));
}

extern "C" int cuMemcpyAsync(unsigned long long to, unsigned long long from, size_t bytes,
			     void *stream);

static void copyOn(void *stream, int *to, const int *from)
{
	EXPECT(!cuMemcpyAsync(reinterpret_cast<uintptr_t>(to), reinterpret_cast<uintptr_t>(from),
			      COUNT * sizeof(int), stream));
}

static std::atomic<int> gated;

/*
 * A group with sends and receives on two streams, which is made while the second stream has not
 * filled the send's buffer yet. A copy of what is received, on the second stream, follows it.
 */
static void pairsRank(const ncclUniqueId &id, int rank)
{
	ncclComm_t comm = newComm(id, rank, 2);
	void *streams[2] = {newStream(), newStream()};
	const auto stream = [&](int i) { return static_cast<cudaStream_t>(streams[i]); };
	std::vector<int> source(COUNT, 10 + rank), in(COUNT), out(COUNT), copy(COUNT);
	int own[2] = {rank, -1};

	fakeGate(streams[1]);
	copyOn(streams[1], in.data(), source.data());
	CHECK(ncclGroupStart());
	CHECK(ncclSend(own, 1, ncclInt32, rank, comm, stream(0)));
	CHECK(ncclSend(in.data(), COUNT, ncclInt32, !rank, comm, stream(1)));
	CHECK(ncclRecv(out.data(), COUNT, ncclInt32, !rank, comm, stream(0)));
	CHECK(ncclRecv(own + 1, 1, ncclInt32, rank, comm, stream(1)));
	CHECK(ncclGroupEnd());
	copyOn(streams[1], copy.data(), out.data());
	if (++gated == 2)
		fakeOpen();
	for (void *one : streams)
		fakeDrain(one);
	EXPECT(out == std::vector<int>(COUNT, 10 + !rank) && copy == out && own[1] == rank);
	CHECK(ncclCommDestroy(comm));
	for (void *one : streams)
		cuStreamDestroy_v2(one);
}

/* On a stream the communicator reports the mistake of a group; the stream goes on. */
static void unequalRank(const ncclUniqueId &id, int rank)
{
	ncclComm_t comm = newComm(id, rank, 2);
	void *own = newStream();
	cudaStream_t stream = static_cast<cudaStream_t>(own);
	const int in[2] = {1, 2};
	int out[2];
	ncclResult_t error = ncclSuccess;

	if (rank)
		CHECK(ncclSend(in, 2, ncclInt32, 0, comm, stream));
	else
		CHECK(ncclRecv(out, 1, ncclInt32, 1, comm, stream));
	fakeDrain(own);
	while (error == ncclSuccess)
		CHECK(ncclCommGetAsyncError(comm, &error));
	EXPECT(error == ncclInvalidArgument);
	CHECK(ncclCommDestroy(comm));
	cuStreamDestroy_v2(own);
}

static void twoRanks(void (*run)(const ncclUniqueId &, int))
{
	ncclUniqueId id;

	CHECK(ncclGetUniqueId(&id));
	std::thread other([=] { run(id, 1); });
	run(id, 0);
	other.join();
}

static void roots()
{
	twoRanks(rootsRank);
}

static void pairs()
{
	twoRanks(pairsRank);
}

static void unequal()
{
	twoRanks(unequalRank);
}

/* The end of a communicator waits for streams that reach their collectives later. */
static void late()
{
	twoRanks(lateRank);
}

/* The stream comes to its collective after the communicator has ended. */
static void goOn(void *stream)
{
	fakeOpen();
	fakeDrain(stream);
	cuStreamDestroy_v2(stream);
}

static void stuck()
{
	ncclComm_t comm = aloneComm();
	void *stream = newStream();

	fakeGate(stream);
	Gather gather(comm, stream, 0);
	EXPECT_FAILS(ncclCommDestroy(comm), ncclTimeout, "within GIN_TIMEOUT seconds");
	EXPECT(fakeRetained() == 0);
	goOn(stream);
}

static void aborted()
{
	ncclComm_t comm = aloneComm();
	void *stream = newStream();

	fakeGate(stream);
	Gather gather(comm, stream, 0);
	CHECK(ncclCommAbort(comm));
	EXPECT(fakeRetained() == 0);
	goOn(stream);
}

static void waitForFailure(ncclComm_t comm)
{
	ncclResult_t error = ncclSuccess;

	while (error == ncclSuccess) {
		usleep(1000);
		CHECK(ncclCommGetAsyncError(comm, &error));
	}
	EXPECT(error == ncclRemoteError);
}

static std::atomic<bool> isCalled, isReleased;
static bool failsAlone; /* the communicator fails without the one of the collectives */

/*
 * Rank 1's stream does not come. Rank 0's stream waits for it, until rank 1 ends the communicator.
 */
static void revokedRank(const ncclUniqueId &id, int rank)
{
	ncclComm_t comm = newComm(id, rank, 2);
	void *stream = newStream();

	if (rank == 1)
		fakeGate(stream);
	Gather gather(comm, stream, 0);
	if (rank == 0) {
		isCalled = true;
		fakeDrain(stream);
		isReleased = true;
	} else {
		while (!isCalled)
			usleep(1000);
		usleep(100000); /* for rank 0's thread to find the input */
		if (failsAlone)
			EXPECT(ginCommAbort(comm->gin) == ginSuccess);
		else
			CHECK(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
		while (!isReleased)
			usleep(1000);
	}
	waitForFailure(comm);
	CHECK(ncclCommDestroy(comm));
	if (rank == 1)
		goOn(stream);
}

static void revoked()
{
	twoRanks(revokedRank);
}

static void failed()
{
	failsAlone = true;
	twoRanks(revokedRank);
}

/*
 * Rank 1 does not make the second call. While rank 0 waits for it, rank 1 ends the communicator,
 * and does not leave it before rank 0's stream goes on.
 */
static void absentRank(const ncclUniqueId &id, int rank)
{
	ncclComm_t comm = newComm(id, rank, 2);
	void *stream = newStream();
	Gather first(comm, stream, 0);

	fakeDrain(stream);
	if (rank == 0) {
		Gather second(comm, stream, 0);
		isCalled = true;
		fakeDrain(stream);
		isReleased = true;
	} else {
		while (!isCalled)
			usleep(1000);
		usleep(100000); /* for rank 0's thread to find the input */
		CHECK(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
		while (!isReleased)
			usleep(1000);
	}
	waitForFailure(comm);
	EXPECT(first.isRight(0));
	CHECK(ncclCommDestroy(comm));
	cuStreamDestroy_v2(stream);
}

static void absent()
{
	twoRanks(absentRank);
}

/* The driver refuses rank 1's copy: rank 0 does not wait for its job. */
static void refusedRank(const ncclUniqueId &id, int rank)
{
	ncclComm_t comm = newComm(id, rank, 2);
	void *stream = newStream();
	Gather first(comm, stream, 3);

	fakeDrain(stream);
	EXPECT(first.isRight(3));
	if (rank == 0) {
		Gather second(comm, stream, 4);
		fakeDrain(stream);
		waitForFailure(comm);
	} else {
		std::vector<int> all(2);
		fakeRefuse(stream);
		EXPECT_FAILS(ncclAllGather(&rank, all.data(), 1, ncclInt32, comm,
					   static_cast<cudaStream_t>(stream)),
			     ncclUnhandledCudaError, "CUDA driver error 1");
	}
	CHECK(ncclCommDestroy(comm));
	cuStreamDestroy_v2(stream);
}

static void refused()
{
	twoRanks(refusedRank);
}

static void broken()
{
	ncclComm_t comm = aloneComm();
	void *stream = newStream();

	fakeGate(stream);
	Gather gather(comm, stream, 0);
	fakeFault();
	EXPECT_FAILS(ncclCommDestroy(comm), ncclUnhandledCudaError, "context");
	EXPECT(fakeRetained() == 0);
}

static const struct {
	const char *name;
	void (*run)();
	const char *timeout;
} cases[] = {
	{"contexts", contexts, "600"}, {"roots", roots, "600"},	    {"late", late, "600"},
	{"stuck", stuck, "1"},	       {"aborted", aborted, "600"}, {"revoked", revoked, "600"},
	{"absent", absent, "600"},     {"broken", broken, "600"},   {"pairs", pairs, "600"},
	{"unequal", unequal, "600"},   {"refused", refused, "600"}, {"captured", captured, "600"},
	{"failed", failed, "600"},
};

int main(int argc, char **argv)
{
	int failures = 0, status;

	setenv("GIN_LOG", "none", 0); /* failures are meant */
	for (const auto &c : cases) {
		if (argc > 1 && strcmp(argv[1], c.name))
			continue;
		setenv("GIN_TIMEOUT", c.timeout, 1);
		if (fork() == 0) {
			c.run();
			_exit(0);
		}
		wait(&status);
		printf("%s: %s\n", status ? "FAILED" : "ok", c.name);
		fflush(stdout);
		failures |= status != 0;
	}
	return failures;
}
