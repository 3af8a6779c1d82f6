/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * semantics_stream.cc - puts, signals and waits that the host puts on a stream: ginPutOnStream(3)
 */
/* NEEDS: libgin-stream.so */
#include "suite.h"

constexpr size_t SIZES[] = {0, 1, 8, 13, 4096, 65537, 300001};
constexpr size_t MOST = 300001, GAP = 64, PART = MOST + 2 * GAP;
enum { EXTRA = 2 }; /* signals besides one for each rank */

static void *streamOf(const Rank &r)
{
#ifdef __CUDACC__
	if (r.device >= 0)
		return r.stream;
#endif
	(void)r;
	return nullptr;
}

static void sync(const Rank &r)
{
#ifdef __CUDACC__
	if (r.device >= 0)
		CUDA(cudaStreamSynchronize(r.stream));
#endif
	(void)r;
}

/* In the stream's order, without a copy of memory that is not pinned. */
static void overwrite(const Rank &r, const Buffer &b)
{
#ifdef __CUDACC__
	if (r.device >= 0) {
		CUDA(cudaMemsetAsync(b.ptr, 0x33, b.bytes, r.stream));
		return;
	}
#endif
	(void)r;
	memset(b.ptr, 0x33, b.bytes);
}

/* A device communicator for calls on streams: signal i counts what rank i sends. */
struct Streams {
	Rank &rank;
	ginDevComm dc;

	explicit Streams(Rank &r, uint32_t contexts = 2) : rank(r)
	{
		ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
		want.contexts = contexts;
		want.signals = static_cast<uint32_t>(r.nRanks) + EXTRA;
		want.timeout = 60000000000ull;
		want.queueDepth = queueDepth();
		want.streams = 1;
		CHECK(ginDevCommCreate(r.comm, &want, &dc));
	}

	~Streams()
	{
		expectNoError();
		CHECK(ginDevCommDestroy(rank.comm, &dc));
	}

	Streams(const Streams &) = delete;

	uint32_t own() const { return static_cast<uint32_t>(rank.rank); }

	void expectNoError() const
	{
		ginErrorRecord_t record;
		sync(rank);
		CHECK(ginDevCommGetError(rank.comm, &dc, &record));
		EXPECT(!record.valid);
	}

	void put(int peer, const Buffer &to, size_t at, const Buffer &from, size_t fromAt,
		 size_t bytes, uint32_t context = 0) const
	{
		CHECK(ginPutOnStream(rank.comm, &dc, context, peer, to.window, at, from.window,
				     fromAt, bytes, streamOf(rank)));
	}

	void putSignal(int peer, const Buffer &to, size_t at, const Buffer &from, size_t fromAt,
		       size_t bytes, uint32_t context = 0) const
	{
		CHECK(ginPutSignalOnStream(rank.comm, &dc, context, peer, to.window, at,
					   from.window, fromAt, bytes, own(), 1, streamOf(rank)));
	}

	void signal(int peer, uint32_t id, uint64_t value = 1, uint32_t context = 0) const
	{
		CHECK(ginSignalOnStream(rank.comm, &dc, context, peer, id, value, streamOf(rank)));
	}

	void wait(uint32_t id, uint64_t value = 1, uint32_t context = 0) const
	{
		CHECK(ginWaitSignalOnStream(rank.comm, &dc, context, id, value, streamOf(rank)));
	}

	void waitAll(uint32_t context = 0) const
	{
		for (int r = 0; r < rank.nRanks; r++)
			wait(static_cast<uint32_t>(r), 1, context);
	}
};

/* Is it the poison, with `bytes` bytes of the sender's pattern between two gaps? */
static bool holds(const unsigned char *got, int sender, size_t bytes, size_t from)
{
	for (size_t i = 0; i < bytes + 2 * GAP; i++) {
		const bool inside = i >= GAP && i < GAP + bytes;
		const unsigned char want =
			inside ? pattern(static_cast<uint32_t>(sender), 0, from + i - GAP) : 0x5a;
		if (got[i] != want)
			return false;
	}
	return true;
}

/* Every rank sends to every rank, itself included, from a source that changes after each call. */
static void putsWithSignals(Rank &r)
{
	Streams s(r);
	Buffer target(r, static_cast<size_t>(r.nRanks) * PART), source(r, MOST + 8);

	for (size_t round = 0; round < sizeof(SIZES) / sizeof(SIZES[0]); round++) {
		const size_t part = SIZES[round] + 2 * GAP;
		target.poison();
		meet(r);
		for (int i = 0; i < r.nRanks; i++) {
			sync(r);
			fillPattern(r, source);
			s.putSignal((r.rank + i) % r.nRanks, target, s.own() * part + GAP, source,
				    round, SIZES[round], 1);
			overwrite(r, source);
		}
		s.waitAll(1);
		sync(r);
		const auto got = target.read();
		for (int i = 0; i < r.nRanks; i++)
			EXPECT(holds(got.data() + static_cast<size_t>(i) * part, i, SIZES[round],
				     round));
		meet(r);
	}
}

/* A signal covers the puts before it; the source of each may change after the call. */
static void signalAfterPuts(Rank &r)
{
	Streams s(r);
	Buffer target(r, PART), source(r, MOST);
	const int right = (r.rank + 1) % r.nRanks, left = (r.rank + r.nRanks - 1) % r.nRanks;
	constexpr size_t piece = 70001;

	for (int round = 0; round < 3; round++) {
		target.poison();
		fillPattern(r, source);
		meet(r);
		for (size_t i = 0; i < 4; i++)
			s.put(right, target, GAP + i * piece, source, i * piece, piece);
		overwrite(r, source);
		s.signal(right, s.own());
		s.wait(static_cast<uint32_t>(left));
		sync(r);
		EXPECT(holds(target.read().data(), left, 4 * piece, 0));
		meet(r);
	}
}

/* Waits take what was added, in any portions, and wrap no word; a wait for 0 does not wait. */
static void portions(Rank &r)
{
	Streams s(r, 1);
	const int right = (r.rank + 1) % r.nRanks, left = (r.rank + r.nRanks - 1) % r.nRanks;
	const uint32_t theirs = static_cast<uint32_t>(left);

	s.wait(theirs, 0);
	s.signal(right, s.own(), 5);
	s.signal(right, s.own(), 1ull << 40);
	for (uint64_t value : {uint64_t{2}, uint64_t{3}, uint64_t{1} << 40, uint64_t{0}})
		s.wait(theirs, value);
	sync(r);
	meet(r);
}

/* Signal EXTRA + ranks - 1 by a kernel; one more for the host of the peer. */
struct Talk {
	ginDevComm dc;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		const uint32_t ours = dc.nRanks, hosts = dc.nRanks + 1;

		results[0] = gin.waitSignal(ours, 7);
		results[1] = gin.readSignal(ours);
		results[2] = gin.signal(rightOf(dc), GinSignalAdd{hosts, 9});
		results[3] = *gin.signalShadow(hosts);
	}
};

/* Kernels see the signals of hosts, hosts those of kernels: they are one sum, with one shadow. */
static void kernelsAndHosts(Rank &r)
{
	Streams s(r, 1);
	const uint32_t ours = static_cast<uint32_t>(r.nRanks), hosts = ours + 1;
	const int right = (r.rank + 1) % r.nRanks;
	Results results(r, 4);

	s.signal(right, ours, 3);
	s.signal(right, hosts, 1);
	s.signal(right, ours, 4);
	s.wait(hosts, 1);
	launch(r, 1, 1, Talk{s.dc, results.words});
	EXPECT(results.words[0] == ginSuccess && results.words[1] == 7);
	EXPECT(results.words[2] == ginSuccess && results.words[3] == 1);
	s.wait(hosts, 9);
	sync(r);
	meet(r);
}

/* A captured put, signal and wait; without a GPU the calls themselves. */
struct Replay {
	const Streams &s;
	const Buffer &inbox, &outbox;
#ifdef __CUDACC__
	cudaGraphExec_t exec = nullptr;
#endif

	void enqueue() const
	{
		const Rank &r = s.rank;
		const int right = (r.rank + 1) % r.nRanks;
		s.putSignal(right, inbox, 0, outbox, 0, sizeof(uint64_t));
		s.wait(static_cast<uint32_t>((r.rank + r.nRanks - 1) % r.nRanks));
	}
	void capture()
	{
#ifdef __CUDACC__
		cudaGraph_t graph;
		if (s.rank.device < 0)
			return;
		CUDA(cudaStreamBeginCapture(s.rank.stream, cudaStreamCaptureModeThreadLocal));
		enqueue();
		CUDA(cudaStreamEndCapture(s.rank.stream, &graph));
		CUDA(cudaGraphInstantiate(&exec, graph, 0));
		CUDA(cudaGraphDestroy(graph));
#endif
	}
	void run() const
	{
#ifdef __CUDACC__
		if (exec) {
			CUDA(cudaGraphLaunch(exec, s.rank.stream));
			return;
		}
#endif
		enqueue();
	}
	void end()
	{
#ifdef __CUDACC__
		if (exec)
			CUDA(cudaGraphExecDestroy(exec));
#endif
	}
};

/* Each replay puts another value and takes one signal. */
static void replays(Rank &r)
{
	Streams s(r, 1);
	Buffer inbox(r, sizeof(uint64_t)), outbox(r, sizeof(uint64_t));
	Replay replay{s, inbox, outbox};
	const uint64_t left = static_cast<uint64_t>((r.rank + r.nRanks - 1) % r.nRanks);

	replay.capture();
	for (uint64_t i = 0; i < 20; i++) {
		const uint64_t value = i << 8 | static_cast<uint64_t>(r.rank);
		uint64_t got = 0;
		copyBytes(r, outbox.ptr, &value, sizeof(value));
		replay.run();
		sync(r);
		copyBytes(r, &got, inbox.ptr, sizeof(got));
		EXPECT(got == (i << 8 | left));
		meet(r);
	}
	replay.end();
}

static void refused(ginResult_t result, ginResult_t expected, const char *words)
{
	if (result != expected || !strstr(ginGetLastError(), words))
		fprintf(stderr, "%s: %s\n", ginGetErrorString(result), ginGetLastError());
	EXPECT(result == expected && strstr(ginGetLastError(), words));
}

static void wrongPuts(Rank &r, const Streams &s, const Buffer &b)
{
	const ginResult_t wrong = ginErrorInvalidArgument;
	const ginWindow_t none = {nullptr}, w = b.window;
	void *on = streamOf(r);
	const auto put = [&](const ginDevComm *dc, uint32_t context, int peer, ginWindow_t dst,
			     size_t dstOff, ginWindow_t src, size_t srcOff, size_t bytes) {
		return ginPutOnStream(r.comm, dc, context, peer, dst, dstOff, src, srcOff, bytes,
				      on);
	};

	refused(put(nullptr, 0, 0, w, 0, w, 0, 1), wrong, "devComm is not of this communicator");
	refused(put(&s.dc, 2, 0, w, 0, w, 0, 1), wrong, "context is 2: must be 0 to 1");
	refused(put(&s.dc, 0, -1, w, 0, w, 0, 1), wrong, "peer is -1: must be 0 to ");
	refused(put(&s.dc, 0, r.nRanks, w, 0, w, 0, 1), wrong, "must be 0 to ");
	refused(put(&s.dc, 0, 0, none, 0, w, 0, 1), wrong, "window is not registered");
	refused(put(&s.dc, 0, 0, w, 0, none, 0, 1), wrong, "window is not registered");
	refused(put(&s.dc, 0, 0, w, 60, w, 0, 5), wrong,
		"dstWin: 5 bytes at offset 60 are not within the 64 of rank 0");
	refused(put(&s.dc, 0, 0, w, 65, w, 0, 0), wrong, "dstWin: 0 bytes at offset 65");
	refused(put(&s.dc, 0, 0, w, SIZE_MAX, w, 0, 2), wrong, "are not within the 64");
	refused(put(&s.dc, 0, 0, w, 0, w, 1, 64), wrong, "srcWin: 64 bytes at offset 1");
	Buffer uneven(r, 64 + 8 * static_cast<size_t>(r.rank));
	for (int peer = 0; peer < r.nRanks; peer++) {
		s.put(peer, b, s.own(), uneven, uneven.bytes - 1, 1);
		refused(put(&s.dc, 0, peer, w, 0, uneven.window, uneven.bytes - 1, 2), wrong,
			"srcWin: 2 bytes at offset ");
	}
	refused(ginPutSignalOnStream(r.comm, &s.dc, 0, 0, w, 0, w, 0, 1, s.dc.signals, 1, on),
		wrong, "signal is ");
	refused(ginPutOnStream(nullptr, &s.dc, 0, 0, w, 0, w, 0, 1, on), wrong, "comm");
}

static void wrongArguments(Rank &r)
{
	Streams s(r);
	Device without(r, 1, 1);
	Buffer b(r, 64);
	ginDevCommRequirements_t two = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginDevComm dc;
	ginWindow_t local;
	void *on = streamOf(r);

	wrongPuts(r, s, b);
	CHECK(ginWindowRegister(r.comm, b.ptr, 64, GIN_WINDOW_LOCAL, &local));
	refused(ginPutOnStream(r.comm, &s.dc, 0, r.rank, local, 0, b.window, 0, 1, on),
		ginErrorInvalidArgument, "GIN_WINDOW_LOCAL");
	s.put(r.rank, b, 0, b, 32, 0);
	CHECK(ginPutOnStream(r.comm, &s.dc, 0, r.rank, b.window, 0, local, 32, 8, on));
	sync(r);
	CHECK(ginWindowDeregister(r.comm, local));
	refused(ginSignalOnStream(r.comm, &without.dc, 0, 0, 0, 1, on), ginErrorInvalidUsage,
		"was made without requirements.streams");
	refused(ginSignalOnStream(r.comm, &s.dc, 0, 0, s.dc.signals, 1, on),
		ginErrorInvalidArgument, "signal is ");
	refused(ginWaitSignalOnStream(r.comm, &s.dc, 3, 0, 1, on), ginErrorInvalidArgument,
		"context is 3");
	two.streams = 2;
	refused(ginDevCommCreate(r.comm, &two, &dc), ginErrorInvalidArgument,
		"requirements.streams is 2: must be 0 or 1");
	meet(r);
}

static const Test tests[] = {
	{"puts with signals", putsWithSignals},
	{"a signal after puts", signalAfterPuts},
	{"waits take portions", portions},
	{"kernels and hosts", kernelsAndHosts},
	{"replays", replays},
	{"wrong arguments", wrongArguments},
};

int main(int argc, char **argv)
{
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); /* gin_proxy(7), stream capture */
	return suiteMain(argc, argv, "semantics_stream", tests);
}
