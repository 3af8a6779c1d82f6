/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * collectives.cc - NCCL's collectives, sends and receives on memory of this rank: whole outputs
 * with their neighbours, every root, in place, with pieces that the control plane cuts
 */
#include "rig.h"

enum { GUARD = -7 };

/* Element `i` that rank `from` has for rank `to`. */
static int valueOf(int from, int to, size_t i)
{
	return from * 1000003 + to * 10007 + static_cast<int>(i % 9973);
}

/* Memory with a block of `count` elements for each rank, and a guard after the blocks. */
struct Blocks {
	const Rank &r;
	size_t count, all;
	int *at;

	Blocks(const Rank &rank, size_t elements)
	    : r(rank), count(elements), all(static_cast<size_t>(r.nRanks) * count + 1)
	{
		void *memory = nullptr;
		CHECK(ncclMemAlloc(&memory, all * sizeof(int)));
		at = static_cast<int *>(memory);
		fill(0);
	}
	~Blocks() { CHECK(ncclMemFree(at)); }
	Blocks(const Blocks &) = delete;

	int *block(int i) const { return at + static_cast<size_t>(i) * count; }

	/* The first `blocks` have this rank's values; the others a guard. */
	void fill(int blocks)
	{
		std::vector<int> values(all, GUARD);
		for (size_t i = 0; i < static_cast<size_t>(blocks) * count; i++)
			values[i] = valueOf(r.rank, static_cast<int>(i / count), i % count);
		copyBytes(at, values.data(), all * sizeof(int));
	}

	/* Blocks `first` to `end - 1` have value(block, element); nothing else was written. */
	template <class Value> void expect(int first, int end, Value value) const
	{
		std::vector<int> got(all);
#ifdef __CUDACC__
		if (r.gpu)
			EXPECT(cudaStreamSynchronize(streamOf(r)) == cudaSuccess);
#endif
		copyBytes(got.data(), at, all * sizeof(int));
		for (size_t i = 0; i < all; i++) {
			const int b = static_cast<int>(i / count);
			EXPECT(got[i] == (b >= first && b < end ? value(b, i % count) : GUARD));
		}
	}
};

/* The sum of what all ranks have for rank `to`. */
static int sumOf(const Rank &r, int to, size_t i)
{
	int sum = 0;
	for (int from = 0; from < r.nRanks; from++)
		sum += valueOf(from, to, i);
	return sum;
}

static void ofAll(const Rank &r, size_t count)
{
	const int n = r.nRanks, me = r.rank;
	const auto sums = [&](int b, size_t i) { return sumOf(r, b, i); };
	const auto mine = [&](int, size_t i) { return sumOf(r, me, i); };
	Blocks in(r, count), out(r, count);

	in.fill(n);
	CHECK(ncclAlltoAll(in.at, out.at, count, ncclInt32, r.comm, streamOf(r)));
	out.expect(0, n, [&](int from, size_t i) { return valueOf(from, me, i); });
	out.fill(0);
	CHECK(ncclReduceScatter(in.at, out.at, count, ncclInt32, ncclSum, r.comm, streamOf(r)));
	out.expect(0, 1, mine);
	out.fill(0);
	CHECK(ncclAllReduce(in.at, out.at, count * static_cast<size_t>(n), ncclInt32, ncclSum,
			    r.comm, streamOf(r)));
	out.expect(0, n, sums);
	CHECK(ncclReduceScatter(in.at, in.block(me), count, ncclInt32, ncclSum, r.comm,
				streamOf(r)));
	in.expect(0, n,
		  [&](int b, size_t i) { return b == me ? sumOf(r, me, i) : valueOf(me, b, i); });
}

static void ofRoot(const Rank &r, size_t count, int root)
{
	const int n = r.nRanks, me = r.rank, here = me == root;
	const auto first = [&](int, size_t i) { return valueOf(root, 0, i); };
	Blocks in(r, count), out(r, count);

	in.fill(here ? n : 0);
	CHECK(ncclBroadcast(here ? in.at : nullptr, out.at, count, ncclInt32, root, r.comm,
			    streamOf(r)));
	out.expect(0, 1, first);
	out.fill(here);
	CHECK(ncclBcast(out.at, count, ncclInt32, root, r.comm, streamOf(r)));
	out.expect(0, 1, first);
	out.fill(0);
	CHECK(ncclScatter(here ? in.at : nullptr, out.at, count, ncclInt32, root, r.comm,
			  streamOf(r)));
	out.expect(0, 1, [&](int, size_t i) { return valueOf(root, me, i); });
	in.fill(1);
	out.fill(0);
	CHECK(ncclGather(in.at, here ? out.at : nullptr, count, ncclInt32, root, r.comm,
			 streamOf(r)));
	out.expect(0, here * n, [&](int from, size_t i) { return valueOf(from, 0, i); });
	out.fill(0);
	CHECK(ncclReduce(in.at, here ? out.at : nullptr, count, ncclInt32, ncclSum, root, r.comm,
			 streamOf(r)));
	out.expect(0, here, [&](int, size_t i) { return sumOf(r, 0, i); });
	if (here) /* in place */
		CHECK(ncclReduce(in.at, in.at, count, ncclInt32, ncclSum, root, r.comm,
				 streamOf(r)));
	else
		CHECK(ncclReduce(in.at, nullptr, count, ncclInt32, ncclSum, root, r.comm,
				 streamOf(r)));
	in.expect(0, 1, [&](int, size_t i) { return here ? sumOf(r, 0, i) : valueOf(me, 0, i); });
}

/* Each rank sends each rank a block, itself too, in any order of the calls. */
static void exchange(const Rank &r, size_t count)
{
	const int n = r.nRanks;
	Blocks in(r, count), out(r, count);

	in.fill(n);
	CHECK(ncclGroupStart());
	for (int i = 0; i < n; i++) {
		const int to = (r.rank + i) % n;
		CHECK(ncclSend(in.block(to), count, ncclInt32, to, r.comm, streamOf(r)));
		CHECK(ncclRecv(out.block(i), count, ncclInt32, i, r.comm, streamOf(r)));
	}
	CHECK(ncclGroupEnd());
	out.expect(0, n, [&](int from, size_t i) { return valueOf(from, r.rank, i); });
	in.expect(0, n, [&](int to, size_t i) { return valueOf(r.rank, to, i); });
}

/* To one peer several messages, of different sizes, which arrive in the order of the calls. */
static void inOrder(const Rank &r)
{
	const size_t sizes[3] = {20000, 1, 300}, all = 20301;
	const int right = (r.rank + 1) % r.nRanks, left = (r.rank + r.nRanks - 1) % r.nRanks;
	Blocks in(r, all), out(r, all);

	in.fill(1);
	CHECK(ncclGroupStart());
	for (size_t i = 0, at = 0; i < 3; at += sizes[i++])
		CHECK(ncclSend(in.at + at, sizes[i], ncclInt32, right, r.comm, streamOf(r)));
	for (size_t i = 0, at = 0; i < 3; at += sizes[i++])
		CHECK(ncclRecv(out.at + at, sizes[i], ncclInt32, left, r.comm, streamOf(r)));
	CHECK(ncclGroupEnd());
	out.expect(0, 1, [&](int, size_t i) { return valueOf(left, 0, i); });
}

/* One pair, without a group, in one direction; the other ranks have no data. */
static void onePair(const Rank &r)
{
	const int last = r.nRanks - 1;
	Blocks in(r, 7), out(r, 7);

	if (last == 0)
		return;
	in.fill(1);
	if (r.rank == last)
		CHECK(ncclRecv(out.at, 7, ncclInt32, 0, r.comm, streamOf(r)));
	else
		CHECK(ncclSend(in.at, r.rank ? 0 : 7, ncclInt32, last, r.comm, streamOf(r)));
	out.expect(0, r.rank == last, [](int, size_t i) { return valueOf(0, 0, i); });
}

/* All ranks learn of a mistake of some, no data moves, and the next group works. */
static void wrongPairs(const Rank &r)
{
	const int right = (r.rank + 1) % r.nRanks, left = (r.rank + r.nRanks - 1) % r.nRanks;
	int in[2] = {1, 2}, out[2] = {GUARD, GUARD};

	CHECK(ncclGroupStart());
	CHECK(ncclSend(in, r.rank ? 1 : 2, ncclInt32, right, r.comm, nullptr));
	CHECK(ncclRecv(out, 1, ncclInt32, left, r.comm, nullptr));
	EXPECT_FAILS(ncclGroupEnd(), ncclInvalidArgument, "of call 0 from rank 0 to rank");
	EXPECT(strstr(ncclGetLastError(nullptr), "has 8 bytes, the receiver 4"));
	CHECK(ncclGroupStart());
	CHECK(ncclRecv(out, r.rank == 0, ncclInt32, 0, r.comm, nullptr));
	EXPECT_FAILS(ncclGroupEnd(), ncclInvalidUsage, "ncclRecv: in a group rank 0 has call 0");
	CHECK(ncclGroupStart());
	CHECK(ncclSend(in, 1, ncclInt32, right, r.comm, nullptr));
	EXPECT(ncclSend(in, 1, ncclInt32, r.nRanks, r.comm, nullptr) == ncclInvalidArgument);
	CHECK(ncclRecv(out + 1, 1, ncclInt32, left, r.comm, nullptr));
	CHECK(ncclGroupEnd());
	EXPECT(out[0] == GUARD && out[1] == 1);
}

static void refused(const Rank &r)
{
	int in = 0, out = 0;
	const ncclResult_t no = ncclInvalidArgument;

	for (int root : {-1, r.nRanks}) {
		EXPECT_FAILS(ncclReduce(&in, &out, 1, ncclInt32, ncclSum, root, r.comm, nullptr),
			     no, "ncclReduce: root is");
		EXPECT_FAILS(ncclBroadcast(&in, &out, 1, ncclInt32, root, r.comm, nullptr), no,
			     "ncclBroadcast: root is");
	}
	EXPECT_FAILS(ncclAlltoAll(nullptr, &out, 1, ncclInt32, r.comm, nullptr), no,
		     "ncclAlltoAll: the buffer to send");
	EXPECT_FAILS(ncclReduceScatter(&in, nullptr, 1, ncclInt32, ncclSum, r.comm, nullptr), no,
		     "ncclReduceScatter: the buffer to receive");
	EXPECT_FAILS(ncclGather(&in, &out, 1, ncclInt32, 0, nullptr, nullptr), no,
		     "ncclGather: comm is NULL");
	EXPECT_FAILS(ncclScatter(&in, &out, 1, ncclNumTypes, 0, r.comm, nullptr), no,
		     "ncclScatter: comm is NULL, or the type");
	for (int peer : {-1, r.nRanks})
		EXPECT_FAILS(ncclSend(&in, 1, ncclInt32, peer, r.comm, nullptr), no,
			     "ncclSend: peer is");
	EXPECT_FAILS(ncclRecv(nullptr, 1, ncclInt32, 0, r.comm, nullptr), no,
		     "ncclRecv: the buffer is NULL");
	EXPECT_FAILS(ncclRecv(&out, 1, ncclInt32, 0, nullptr, nullptr), no, "ncclRecv: comm");
	/* One more than fits wraps to few bytes. */
	EXPECT_FAILS(ncclSend(&in, SIZE_MAX / 4 + 1, ncclInt32, 0, r.comm, nullptr), no,
		     "ncclSend: count is too large");
	const size_t most = SIZE_MAX / 4 / r.nRanks;
	EXPECT_FAILS(ncclAllGather(&in, &out, most + 1, ncclInt32, r.comm, nullptr), no,
		     "ncclAllGather: count is too large");
	EXPECT_FAILS(ncclReduceScatter(&in, &out, 1, ncclHalf, ncclSum, r.comm, nullptr),
		     ncclInvalidUsage, "ncclReduceScatter: type 6");
}

/* Until one fails, or -1. Only this file's malloc() and calloc() let it fail. */
static thread_local int allocationsLeft = -1;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__CUDACC__)
extern "C" void *__libc_malloc(size_t bytes);
extern "C" void *__libc_calloc(size_t count, size_t bytes);

static bool mayAllocate()
{
	if (allocationsLeft < 0 || allocationsLeft--)
		return true;
	errno = ENOMEM; /* allocationsLeft is -1 from here on */
	return false;
}

extern "C" void *malloc(size_t bytes) noexcept
{
	return mayAllocate() ? __libc_malloc(bytes) : nullptr;
}

extern "C" void *calloc(size_t count, size_t bytes) noexcept
{
	return mayAllocate() ? __libc_calloc(count, bytes) : nullptr;
}
enum { CAN_LACK_MEMORY = 1 };
#else
enum { CAN_LACK_MEMORY = 0 };
#endif

/* Allocation number `place` of rank 1 fails in the call. Whether the call has fewer. */
static int lacking(const Rank &r, int place, ncclResult_t (*call)(const Rank &r, int *in, int *out))
{
	std::vector<int> in(r.nRanks), out(r.nRanks), all(r.nRanks);
	allocationsLeft = r.rank == 1 ? place : -1;
	const ncclResult_t result = call(r, in.data(), out.data());
	const int isEnough = r.rank != 1 || allocationsLeft >= 0;
	allocationsLeft = -1;
	CHECK(ncclAllGather(&isEnough, all.data(), 1, ncclInt32, r.comm, nullptr));
	EXPECT(all[1] == (result == ncclSuccess));
	return all[1];
}

static ncclResult_t gatherOnce(const Rank &r, int *in, int *out)
{
	return ncclAllGather(in, out, 1, ncclInt32, r.comm, nullptr);
}

static ncclResult_t shiftOnce(const Rank &r, int *in, int *out)
{
	const int left = allocationsLeft;
	allocationsLeft = -1;
	CHECK(ncclGroupStart());
	CHECK(ncclSend(in, 1, ncclInt32, (r.rank + 1) % r.nRanks, r.comm, nullptr));
	CHECK(ncclRecv(out, 1, ncclInt32, (r.rank + r.nRanks - 1) % r.nRanks, r.comm, nullptr));
	allocationsLeft = left;
	return ncclGroupEnd();
}

/*
 * Rank 1 lacks memory for each allocation until it has gathered the lists of a group: all ranks
 * fail at once, and the next call works.
 */
static void withoutMemory(const Rank &r)
{
	EXPECT(!lacking(r, 0, gatherOnce));
	for (int place = 0; place < 3; place++)
		EXPECT(!lacking(r, place, shiftOnce));
	EXPECT(lacking(r, 100, shiftOnce));
}

static void run(const Rank &r)
{
	/* One piece of the control plane has 16,384 elements. */
	for (size_t count : {1, 1000, 9001, 40000})
		ofAll(r, count);
	for (int root = 0; root < r.nRanks; root++)
		for (size_t count : {3, 20000})
			ofRoot(r, count, root);
	for (size_t count : {1, 9001, 20000})
		exchange(r, count);
	inOrder(r);
	onePair(r);
	if (!r.gpu) { /* on a stream the communicator keeps the error */
		wrongPairs(r);
		if (CAN_LACK_MEMORY && r.nRanks > 1)
			withoutMemory(r);
	}
	refused(r);
}

int main(int argc, char **argv)
{
	setenv("GIN_LOG", "none", 0); /* failures are meant */
	return rigMain(argc, argv, "nccl collectives", run);
}
