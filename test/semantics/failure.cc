/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failure.cc - ranks die, abort, do not come or are masked: every other rank ends by itself, with
 * an error that names the rank; and calls that are refused while a kernel waits
 *
 * This program forks the ranks (ranks.h): a launcher would kill the survivors.
 */
/* NEEDS: libgin-stream.so */
#include "harness.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>

enum { VICTIM = 1, RANKS = 3 };

/*
 * ns; a call that takes longer never ends. Another rank can be late by seconds on CPUs that others
 * use.
 */
constexpr uint64_t PATIENCE = 60000000000;

/* Waits for a signal that no rank sends. */
struct WaitForever {
	ginDevComm dc;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		results[ginThreadIndex()] = gin.waitSignal(0, 1, GinCta{}, ginTimeout(GIN_FOREVER));
	}
};

struct SignalPeer {
	ginDevComm dc;
	int peer;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		results[ginThreadIndex()] = gin.signal(peer, GinSignalInc{1}, GinCta{});
	}
};

/* Waits that depend on one peer, and puts that raise counters, when the victim is gone. */
struct DependOn {
	ginDevComm dc;
	uint32_t other; /* a rank that is well */
	ginWindow_t window;
	ginPacketBox box;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		ginOptions options = ginTimeout(20000000);
		options.from = {other, 1, 1};
		results[0] = gin.waitSignal(0, 1, GinThread{}, options);
		options.from = {VICTIM, 1, 1};
		results[1] = gin.waitSignal(0, 1, GinThread{}, options);
		results[2] = gin.put(VICTIM, window, 0, window, 0, 1, GinNone{}, GinCounterInc{0});
		results[3] = gin.get(VICTIM, window, 0, window, 0, 1);
		results[4] = gin.atomicSwap(VICTIM, window, 0, 1u);
		results[5] = GinBarrier(dc, ginTeamWorld(dc), 0).sync();
		results[6] = gin.readCounter(0);
		options.from = {0, 2, 2}; /* ranks 0 and 2: the victim is between them */
		results[7] = gin.waitSignal(0, 1, GinThread{}, options);
		results[8] = gin.waitValue(window, 56, 1, GinThread{}, options);
		options.from = {VICTIM, 1, 1};
		results[9] = gin.waitValue(window, 56, 1, GinThread{}, options);
		GinPackets well(dc, 0, box, static_cast<int>(other)), victim(dc, 0, box, VICTIM);
		uint64_t message = 0;
		results[10] = well.receive(&message, 8, GinThread{}, ginTimeout(20000000));
		results[11] = victim.receive(&message, 8);
		results[12] = victim.send(&message, 8);
	}
};

static void expectDependence(Rank &r, Device &device, ginWindow_t window, ginPacketBox box)
{
	Results results(r, 13);
	launch(r, 1, 1,
	       DependOn{device.dc, static_cast<uint32_t>(r.rank), window, box, results.words});
	EXPECT(results.words[0] == ginErrorTimeout && results.words[7] == ginErrorTimeout);
	for (int i = 1; i < 6; i++)
		EXPECT(results.words[i] == ginErrorPeer);
	EXPECT(results.words[8] == ginErrorTimeout && results.words[9] == ginErrorPeer);
	EXPECT(results.words[10] == ginErrorTimeout);
	EXPECT(results.words[11] == ginErrorPeer && results.words[12] == ginErrorPeer);
	EXPECT(results.words[6] == 0); /* a failed put never counts */
}

/*
 * Failed calls to the victim alternate with transfers to a living rank, for several laps of a ring.
 */
struct GoOn {
	ginDevComm dc;
	int peer; /* a living rank */
	ginWindow_t window;
	uint32_t rounds;
	uint64_t *results;

	GIN_FN ginResult_t oneRound(const Gin &gin, uint64_t round) const
	{
		ginOptions options = ginTimeout(PATIENCE);
		GinThread one;
		options.from = {static_cast<uint32_t>(peer), 1, 1};
		if (gin.put(VICTIM, window, 0, window, 0, 8, GinSignalInc{0}, GinCounterInc{0}, one,
			    options) != ginErrorPeer ||
		    gin.signal(VICTIM, GinSignalInc{0}, one, options) != ginErrorPeer)
			return ginErrorInvalidUsage;
		ginResult_t result = gin.put(peer, window, 8, window, 16, 8, GinNone{},
					     GinCounterInc{1}, one, options);
		if (result == ginSuccess)
			result = gin.signal(peer, GinSignalInc{0}, one, options);
		if (result == ginSuccess)
			result = gin.wait(gin.flushAsync(peer), one, options);
		if (result == ginSuccess && !dc.sendQueues) /* the victim's send queue has failed */
			result = gin.flush(one, options);
		return result == ginSuccess ? gin.waitCounter(1, round, one, options) : result;
	}

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		ginResult_t result = ginSuccess;
		for (uint64_t round = 1; result == ginSuccess && round <= rounds; round++)
			result = oneRound(gin, round);
		results[0] = result;
		results[1] = gin.readCounter(0);
	}
};

/* The context of the failed calls goes on: their tickets do not stop its ring. */
static void expectTransfersGoOn(Rank &r, Device &device, Buffer &window)
{
	const std::vector<unsigned char> sent = {1, 2, 3, 4, 5, 6, 7, 8};
	std::vector<unsigned char> bytes(window.bytes, 0);
	Results results(r, 2);

	std::copy(sent.begin(), sent.end(), bytes.begin() + 16);
	window.write(bytes);
	launch(r, 1, 1, GoOn{device.dc, r.rank, window.window, 3 * queueDepth(), results.words});
	EXPECT(results.words[0] == ginSuccess && results.words[1] == 0);
	bytes = window.read();
	EXPECT(std::equal(sent.begin(), sent.end(), bytes.begin() + 8));
}

/* The barrier of a team of ranks 0 and 2, the last of which arrives first, and alone at first. */
struct TeamBarrier {
	ginDevComm dc;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		GinBarrier barrier(dc, {2, static_cast<int>(dc.rank / 2), 2}, 1);
		ginOptions options = ginTimeout(PATIENCE);
		options.from = {0, 2, 2};
		if (dc.rank == 2) {
			results[0] = barrier.sync(GinThread{}, ginTimeout(20000000));
			results[1] = gin.signal(0, GinSignalInc{2});
		} else {
			results[0] = ginErrorTimeout;
			results[1] = gin.waitSignal(2, 1, GinThread{}, options);
		}
		results[2] = rounds(gin, barrier);
	}

	/*
	 * Often a transfer is in flight, and the arrival waits for it. Signal 0 must not be used
	 * here: the peer may still be in DependOn, which expects that signal 0 never arrives.
	 */
	GIN_FN ginResult_t rounds(const Gin &gin, const GinBarrier &barrier) const
	{
		ginResult_t result = ginSuccess;
		for (int i = 0; i < 200 && result == ginSuccess; i++) {
			result = gin.signal(2 - static_cast<int>(dc.rank), GinSignalInc{1});
			if (result == ginSuccess)
				result = barrier.sync(GinThread{}, ginTimeout(PATIENCE));
		}
		return result;
	}
};

/* The victim is no rank of the team, so its failure does not end the team's barrier. */
static void expectTeamGoesOn(Rank &r, Device &device)
{
	Results results(r, 3);
	launch(r, 1, 1, TeamBarrier{device.dc, results.words});
	EXPECT(results.words[0] == ginErrorTimeout);
	EXPECT(results.words[1] == ginSuccess && results.words[2] == ginSuccess);
}

static bool said(const char *words)
{
	return strstr(ginGetLastError(), words) != nullptr;
}

enum { MANY = 1 << 20 }; /* more than any other test here adds to signal 0 */

/* A wait that depends on no peer. */
struct WaitBriefly {
	ginDevComm dc;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		results[0] = Gin(dc, 0).waitSignal(0, MANY, GinThread{}, ginTimeout(20000000));
	}
};

/* The failure of a masked rank does not end the wait. */
static void expectWaitsGoOn(Rank &r, Device &device)
{
	Results results(r, 1);
	launch(r, 1, 1, WaitBriefly{device.dc, results.words});
	EXPECT(results.all(ginErrorTimeout));
}

/* Waits for EndWait. It depends on this rank alone. results[1]: 1 when it begins. */
struct WaitForSignal {
	ginDevComm dc;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		ginOptions options = ginTimeout(GIN_FOREVER);
		options.from = {dc.rank, 1, 1};
		ginStore<ginRelease, ginScopeSystem>(&results[1], uint64_t{1});
		results[0] = Gin(dc, 0).waitSignal(0, MANY, GinThread{}, options);
	}
};

struct EndWait {
	ginDevComm dc;
	int peer;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		results[0] = Gin(dc, 0).signal(peer, GinSignalAdd{0, MANY});
	}
};

/* A kernel that waits on a thread of its own. */
struct Waiting {
	Rank r;
	Device &device;
	Results results;
	pthread_t thread;

	static void *run(void *arg)
	{
		Waiting *self = static_cast<Waiting *>(arg);
		launch(self->r, 1, 1, WaitForSignal{self->device.dc, self->results.words});
		return nullptr;
	}

	bool hasBegun() const { return __atomic_load_n(&results.words[1], __ATOMIC_ACQUIRE) == 1; }

	/* Another process may have the GPU for a while: the kernel says that it runs. */
	void awaitKernel() const
	{
		while (!hasBegun())
			usleep(100);
		if (r.device >= 0)
			usleep(50000);
		while (r.device < 0 &&
		       !__atomic_load_n(&device.dc.abort->waiting, __ATOMIC_RELAXED))
			usleep(100);
	}

	Waiting(Rank &of, Device &on) : r(of), device(on), results(of, 2), thread()
	{
#ifdef __CUDACC__
		if (r.device >= 0)
			CUDA(cudaStreamCreateWithFlags(&r.stream, cudaStreamNonBlocking));
#endif
		EXPECT(!pthread_create(&thread, nullptr, run, this));
		awaitKernel();
	}

	~Waiting()
	{
		pthread_join(thread, nullptr);
		EXPECT(results.words[0] == ginSuccess);
	}
};

/* In a failed communicator, a wait for living ranks goes on; it must end first. */
static void expectNotDestroyed(Rank &r, Device &device)
{
	Results result(r, 1);
	Waiting waiting(r, device);
	EXPECT(ginDevCommDestroy(r.comm, &device.dc) == ginErrorInvalidUsage);
	EXPECT(said(" waits in a call on device communicator "));
	EXPECT(ginCommDestroy(r.comm) == ginErrorInvalidUsage);
	launch(r, 1, 1, EndWait{device.dc, r.rank, result.words});
	EXPECT(result.all(ginSuccess));
}

/* Checks the errors of a survivor: in the kernel, at the host, and in later calls. */
static void expectPeerLost(Rank &r, Device &device, Results &results, const char *words)
{
	ginResult_t async;
	ginErrorRecord_t record;
	ginWindow_t window;

	EXPECT(results.all(ginErrorPeer));
	CHECK(ginCommGetAsyncError(r.comm, &async));
	EXPECT(async == ginErrorPeer && said(words));
	CHECK(ginDevCommGetError(r.comm, &device.dc, &record));
	EXPECT(record.valid && record.result == ginErrorPeer && record.peer == VICTIM);
	EXPECT(ginWindowRegister(r.comm, nullptr, 0, 0, &window) == ginErrorPeer && said(words));
	launch(r, 1, 4, SignalPeer{device.dc, VICTIM, results.words});
	EXPECT(results.all(ginErrorPeer));
	launch(r, 1, 4, SignalPeer{device.dc, r.rank, results.words});
	EXPECT(results.all(ginSuccess)); /* a peer that is well can still be reached */
}

/* The victim dies while the others wait in a kernel. */
static int killedRank(const ginConfig_t *config)
{
	Rank r;
	rankOpen(r, config);
	{
		Device device(r, 1, 3 + 2 * RANKS);
		Results results(r, 4);
		Buffer window(r, 64), boxes(r, ginPacketBoxBytes(RANKS, 8));
		window.write(std::vector<unsigned char>(64, 0));
		boxes.write(std::vector<unsigned char>(boxes.bytes, 0));
		if (r.rank == VICTIM)
			raise(SIGKILL);
		launch(r, 1, 4, WaitForever{device.dc, results.words});
		expectPeerLost(r, device, results, "rank 1 (host ");
		expectDependence(r, device, window.window, {boxes.window, 0, 8, 3});
		expectTransfersGoOn(r, device, window);
		expectTeamGoesOn(r, device);
		CHECK(ginCommMask(r.comm, VICTIM));
		expectWaitsGoOn(r, device);
		if (device.dc.route == ginRouteDirect && !r.rank)
			expectNotDestroyed(r, device);
	}
	rankClose(r);
	return 0;
}

static void expectMasked(Rank &r, Device &device)
{
	ginErrorRecord_t record;
	Results results(r, 4);

	EXPECT(ginCommMask(r.comm, r.rank) == ginErrorInvalidArgument &&
	       said("which is this rank"));
	EXPECT(ginCommMask(r.comm, -1) == ginErrorInvalidArgument);
	EXPECT(ginCommMask(r.comm, RANKS) == ginErrorInvalidArgument && said("must be 0 to 2"));
	CHECK(ginCommMask(r.comm, VICTIM));
	launch(r, 1, 4, SignalPeer{device.dc, VICTIM, results.words});
	EXPECT(results.all(ginErrorPeer));
	CHECK(ginDevCommGetError(r.comm, &device.dc, &record));
	EXPECT(record.valid && record.result == ginErrorPeer && record.peer == VICTIM);
	EXPECT(said("signal in context 0, rank 1: this rank has masked it by ginCommMask()"));
	expectWaitsGoOn(r, device);
}

static void awaitDeath(Rank &r)
{
	ginResult_t error = ginSuccess;
	while (error == ginSuccess) {
		usleep(1000);
		CHECK(ginCommGetAsyncError(r.comm, &error));
	}
	EXPECT(error == ginErrorPeer && said("rank 1 (host "));
}

/* The others have masked the victim, which is alive and reaches them. Then it dies. */
static int maskedRank(const ginConfig_t *config)
{
	ginResult_t async;
	Rank r;
	rankOpen(r, config);
	{
		Device device(r, 1, 3 + 2 * RANKS);
		Results results(r, 4);
		Buffer window(r, 64), boxes(r, ginPacketBoxBytes(RANKS, 8));
		window.write(std::vector<unsigned char>(64, 0));
		boxes.write(std::vector<unsigned char>(boxes.bytes, 0));
		meet(r);
		if (r.rank == VICTIM) {
			launch(r, 1, 4, SignalPeer{device.dc, 0, results.words});
			EXPECT(results.all(ginSuccess));
		} else {
			expectMasked(r, device);
			expectDependence(r, device, window.window, {boxes.window, 0, 8, 3});
			expectTransfersGoOn(r, device, window);
			expectTeamGoesOn(r, device);
		}
		CHECK(ginCommGetAsyncError(r.comm, &async));
		EXPECT(async == ginSuccess);
		Device late(r, 1, 2); /* masked from its first call on */
		launch(r, 1, 4, SignalPeer{late.dc, VICTIM, results.words});
		EXPECT(results.all(r.rank == VICTIM ? ginSuccess : ginErrorPeer));
		meet(r);
		if (r.rank == VICTIM)
			raise(SIGKILL);
		awaitDeath(r);
		expectWaitsGoOn(r, device);
		expectWaitsGoOn(r, late);
	}
	rankClose(r);
	return 0;
}

static void *streamOf(const Rank &r)
{
#ifdef __CUDACC__
	if (r.device >= 0)
		return r.stream;
#endif
	(void)r;
	return nullptr;
}

static void syncStream(const Rank &r)
{
#ifdef __CUDACC__
	if (r.device >= 0)
		CUDA(cudaStreamSynchronize(r.stream));
#endif
	(void)r;
}

/* The end of a wait on a stream, and later calls: those that do not need the victim go on. */
static void expectStreamGoesOn(Rank &r, const ginDevComm &dc)
{
	ginErrorRecord_t record;
	void *on = streamOf(r);

	CHECK(ginDevCommGetError(r.comm, &dc, &record));
	EXPECT(record.valid && record.result == ginErrorPeer && record.peer == VICTIM);
	EXPECT(record.call == ginCallWaitSignal);
	EXPECT(ginWaitSignalOnStream(r.comm, &dc, 0, 0, 1, on) == ginErrorPeer);
	EXPECT(said("rank 1 (host "));
	EXPECT(ginSignalOnStream(r.comm, &dc, 0, VICTIM, 0, 1, on) == ginErrorPeer);
	EXPECT(said("rank 1 (host "));
	CHECK(ginCommMask(r.comm, VICTIM));
	EXPECT(ginSignalOnStream(r.comm, &dc, 0, VICTIM, 0, 1, on) == ginErrorPeer);
	CHECK(ginSignalOnStream(r.comm, &dc, 0, r.rank, 1, 3, on));
	CHECK(ginWaitSignalOnStream(r.comm, &dc, 0, 1, 3, on));
	syncStream(r);
}

/* The victim dies while the others wait on a stream. */
static int killedOnStream(const ginConfig_t *config)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginDevComm dc;
	Rank r;

	want.streams = 1;
	rankOpen(r, config);
	CHECK(ginDevCommCreate(r.comm, &want, &dc));
	meet(r);
	if (r.rank == VICTIM) {
		usleep(100000); /* most often the others wait already */
		raise(SIGKILL);
	}
	const ginResult_t waits = ginWaitSignalOnStream(r.comm, &dc, 0, 0, 1, streamOf(r));
	syncStream(r);
	EXPECT(waits == ginSuccess || waits == ginErrorPeer);
	if (waits == ginSuccess)
		expectStreamGoesOn(r, dc);
	CHECK(ginDevCommDestroy(r.comm, &dc));
	rankClose(r);
	return 0;
}

/* A device communicator on which a kernel of one rank waits is not destroyed, on any rank. */
static int waitingRank(const ginConfig_t *config)
{
	Rank r;
	rankOpen(r, config);
	{
		Device device(r, 1, 2);
		Results result(r, 1);
		Waiting *waiting = r.rank == VICTIM ? new Waiting(r, device) : nullptr;
		EXPECT(ginDevCommDestroy(r.comm, &device.dc) == ginErrorInvalidUsage);
		EXPECT(said("a kernel of rank 1 waits in a call on device communicator "));
		EXPECT(ginCommDestroy(r.comm) == ginErrorInvalidUsage);
		EXPECT(said("a kernel of rank 1 waits in a call on device communicator "));
		meet(r); /* nothing has been freed */
		if (!r.rank) {
			launch(r, 1, 1, EndWait{device.dc, VICTIM, result.words});
			EXPECT(result.all(ginSuccess));
		}
		delete waiting;
	}
	rankClose(r);
	return 0;
}

/* The killed rank has a child, which keeps a copy of all its descriptors. */
static int killedParent(const ginConfig_t *config)
{
	ginResult_t error = ginSuccess;
	Rank r;
	rankOpen(r, config);
	if (r.rank == VICTIM) {
		if (fork()) {
			usleep(100000); /* the child runs */
			raise(SIGKILL);
		}
		for (int fd = 0; fd < 3; fd++)
			close(fd); /* no reader waits for its output */
		alarm(70);	   /* longer than the test may take */
		pause();
	}
	while (error == ginSuccess) {
		usleep(1000);
		CHECK(ginCommGetAsyncError(r.comm, &error));
	}
	EXPECT(error == ginErrorPeer && said("rank 1 (host "));
	rankClose(r);
	return 0;
}

/* The victim dies while the others are in a collective call. */
static int killedInCollective(const ginConfig_t *config)
{
	Rank r;
	ginWindow_t window;
	rankOpen(r, config);
	if (r.rank == VICTIM)
		raise(SIGKILL);
	EXPECT(ginWindowRegister(r.comm, nullptr, 0, 0, &window) == ginErrorPeer);
	EXPECT(said("rank 1 (host "));
	rankClose(r);
	return 0;
}

static void *abortSoon(void *comm)
{
	usleep(100000);
	CHECK(ginCommAbort(static_cast<ginComm_t>(comm)));
	return nullptr;
}

/* The victim gives up while its own kernel and the others' wait. */
static int abortingRank(const ginConfig_t *config)
{
	Rank r;
	pthread_t thread;
	rankOpen(r, config);
	{
		Device device(r, 1, 2);
		Results results(r, 4);
		meet(r);
		if (r.rank == VICTIM)
			EXPECT(!pthread_create(&thread, nullptr, abortSoon, r.comm));
		launch(r, 1, 4, WaitForever{device.dc, results.words});
		if (r.rank == VICTIM) {
			ginResult_t async;
			pthread_join(thread, nullptr);
			EXPECT(results.all(ginErrorAborted));
			CHECK(ginCommGetAsyncError(r.comm, &async));
			EXPECT(async == ginErrorAborted);
			launch(r, 1, 4, SignalPeer{device.dc, 0, results.words});
			EXPECT(results.all(ginErrorAborted));
		} else {
			expectPeerLost(r, device, results, "called ginCommAbort");
		}
	}
	rankClose(r);
	return 0;
}

/* The victim stays away from a collective call: GIN_TIMEOUT is 1 here. */
static int absentRank(const ginConfig_t *config)
{
	Rank r;
	ginWindow_t window;
	ginResult_t async = ginSuccess;
	rankOpen(r, config);
	if (r.rank != VICTIM) {
		EXPECT(ginWindowRegister(r.comm, nullptr, 0, 0, &window) == ginErrorTimeout);
		EXPECT(said("no call from rank 1 (host ") && said("GIN_TIMEOUT"));
	}
	while (async == ginSuccess) {
		CHECK(ginCommGetAsyncError(r.comm, &async));
		usleep(10000);
	}
	EXPECT(async == ginErrorTimeout);
	rankClose(r);
	return 0;
}

static void expectResults(const char *name, int (*run)(const ginConfig_t *), int victimsResult)
{
	const int *result = ranksStart(RANKS, 0, run);
	for (int r = 0; r < RANKS; r++)
		if (result[r] != (r == VICTIM ? victimsResult : 0)) {
			fprintf(stderr, "%s: rank %d returned %d\n", name, r, result[r]);
			exit(1);
		}
	printf("failure: %s: the others ended by themselves\n", name);
}

int main()
{
	setenv("GIN_LOG", "none", 0);
	setvbuf(stdout, nullptr, _IOLBF, 0);
	shareGpu(); /* EndWait is launched while WaitForSignal runs */
	expectResults("a rank killed while others wait in a kernel", killedRank, 128 + SIGKILL);
	expectResults("a rank killed while others wait on a stream", killedOnStream, 128 + SIGKILL);
	expectResults("a rank killed that has a child", killedParent, 128 + SIGKILL);
	expectResults("a rank killed while others are in a collective", killedInCollective,
		      128 + SIGKILL);
	expectResults("a rank that aborts", abortingRank, 0);
	expectResults("a rank that the others mask", maskedRank, 128 + SIGKILL);
	expectResults("a rank whose kernel waits when all destroy", waitingRank, 0);
	setenv("GIN_TIMEOUT", "3", 1);
	expectResults("a rank that does not come", absentRank, 0);
	return 0;
}
