// SPDX-License-Identifier: BSD-3-Clause
// unit_trace - kernels with -DGIN_TRACE: each call is one record in the file of GIN_TRACE, or is
// counted where the ring is full; a wait in progress is in the file, too. Without GIN_TRACE calls
// are counted by peer.
#define GIN_TRACE
#include <gin_device.cuh>
#include <gin/trace.h>

#include <vector>

#include "expect.h"
#include "ranks.h"

enum {
	RANKS = 2,
	MOST = 16,
	BYTES = 24,
	WORD = 2 * BYTES, // in the window, a signal
	MEMORY = WORD + 8,
	CALLS = 20000,
	THREADS = 3,
	TRIES = 600
};
static_assert(CALLS > 4 * MOST, "many laps of the ring");

// Memory of calls that are counted, with a box of packets.
constexpr size_t BOX = 64, COUNTED = BOX + ginPacketBoxBytes(RANKS, sizeof(uint64_t));

static const char *path;

struct Record {
	ginTraceHead head;
	uint64_t w[GIN_TRACE_WORDS];

	uint32_t call() const { return w[GIN_TRACE_WHAT] & 0xff; }
	uint32_t result() const { return w[GIN_TRACE_WHAT] >> 8 & 0xff; }
};

// The records of a rank. A part is written at once: the file never ends in one.
static std::vector<Record> readAll(uint32_t rank)
{
	std::vector<Record> all;
	FILE *in = fopen(path, "r");
	ginTraceHead head;

	while (in && fread(&head, sizeof(head), 1, in) == 1) {
		EXPECT(!memcmp(head.magic, GIN_TRACE_MAGIC, sizeof(head.magic)));
		for (uint32_t i = 0; i < head.count; i++) {
			Record r = {head, {}};
			EXPECT_EQUAL(fread(r.w, sizeof(r.w), 1, in), 1);
			if (head.rank == rank)
				all.push_back(r);
		}
	}
	EXPECT(in && !fclose(in));
	return all;
}

struct Args {
	ginDevComm dc;
	int rank;
	ginResult_t result;
};

// Each call adds another number, below 2^20 for each thread: the record shows whose it was.
static void signalOften(void *arg)
{
	Args &args = *static_cast<Args *>(arg);
	Gin gin(args.dc, 0);
	const uint64_t thread = ginThreadIndex();

	for (uint64_t i = 1; i <= CALLS; i++)
		if (gin.signal(1 - args.rank, GinSignalAdd{1, thread << 20 | i}) != ginSuccess)
			args.result = ginErrorPeer;
}

static void waitFor(void *arg)
{
	Args &args = *static_cast<Args *>(arg);
	ginOptions options;

	options.from = {static_cast<uint32_t>(1 - args.rank), 1, 1};
	args.result = Gin(args.dc, 0).waitSignal(0, 5, {}, options);
}

// Records are whole, in the order of each thread's calls; no call is neither recorded nor counted.
static void checkOften(uint32_t rank)
{
	uint64_t found = 0, lost = 0, last[THREADS] = {};

	for (const Record &r : readAll(rank)) {
		if (r.call() == GIN_TRACE_LOST)
			lost = r.w[GIN_TRACE_BYTES];
		if (r.call() != ginCallSignal || r.w[GIN_TRACE_WHOM] >> 31 != 1)
			continue;
		const uint64_t value = r.w[GIN_TRACE_VALUE], thread = r.w[GIN_TRACE_THREAD];
		EXPECT(thread < THREADS && value >> 20 == thread);
		EXPECT((value & 0xfffff) > last[thread] && (value & 0xfffff) <= CALLS);
		EXPECT_EQUAL(r.w[GIN_TRACE_WHOM] & GIN_TRACE_NONE, 1 - rank);
		EXPECT_EQUAL(r.w[GIN_TRACE_WHAT] >> 24, GIN_TRACE_RAISES);
		EXPECT(r.w[GIN_TRACE_BEGIN] <= r.w[GIN_TRACE_END]);
		last[thread] = value & 0xfffff;
		found++;
	}
	EXPECT(found > 0 && lost > 0);
	EXPECT_EQUAL(found + lost, static_cast<uint64_t>(THREADS) * CALLS);
}

static const Record *findCall(const std::vector<Record> &all, uint32_t call, uint32_t kind)
{
	for (const Record &r : all)
		if (r.call() == call && (call != GIN_TRACE_WAITING || r.result() == kind))
			return &r;
	return nullptr;
}

static void awaitWaiting(uint32_t rank)
{
	for (int i = 0; i < TRIES; i++) {
		const std::vector<Record> all = readAll(rank);
		const Record *r = findCall(all, GIN_TRACE_WAITING, ginCallWaitSignal);
		if (r) {
			EXPECT_EQUAL(r->w[GIN_TRACE_WHOM], 1 - rank);
			EXPECT_EQUAL(r->w[GIN_TRACE_VALUE], 5);
			EXPECT_EQUAL(r->w[GIN_TRACE_BYTES], 4);
			EXPECT(!findCall(all, ginCallWaitSignal, 0));
			return;
		}
		usleep(100000);
	}
	EXPECT(!"the file has no wait in progress");
}

static void add(const ginDevComm &dc, int peer, uint64_t value)
{
	EXPECT_SUCCESS(Gin(dc, 0).signal(peer, GinSignalAdd{0, value}));
}

// Rank 0 waits; rank 1 finds that in the file, and ends the wait.
static void waitAndSee(const ginDevComm &dc, int rank)
{
	Args args = {dc, rank, ginErrorInvalidUsage};

	if (rank) {
		add(dc, 0, 4);
		awaitWaiting(0);
		add(dc, 0, 1);
		return;
	}
	waitFor(&args);
	EXPECT_SUCCESS(args.result);
}

// A signal that is a word of the window, and a wait for any rank, whose value follows from the
// shadow.
static void callOthers(const ginDevComm &dc, int peer, ginWindow_t window)
{
	const Gin gin(dc, 0);
	uint64_t before, delta;
	ginOptions all;

	all.from = {0, RANKS, 1};
	EXPECT_SUCCESS(gin.signal(peer, GinSignalAddAt{window, WORD, 9}));
	EXPECT_SUCCESS(gin.signal(peer, GinSignalAdd{2, 7}));
	gin.increaseSignalShadow(2, 2);
	EXPECT_SUCCESS(gin.waitSignalFollowShadow(2, 5, &before, &delta, GinThread{}, all));
}

static void checkOthers(uint32_t rank)
{
	int waits = 0, words = 0;

	for (const Record &r : readAll(rank)) {
		const uint64_t id = r.w[GIN_TRACE_WHOM] >> 31;
		waits += r.call() == ginCallWaitSignal && id == 2 && r.w[GIN_TRACE_VALUE] == 7 &&
			 (r.w[GIN_TRACE_WHOM] & GIN_TRACE_NONE) == GIN_TRACE_NONE;
		if (!(r.w[GIN_TRACE_WHAT] >> 24 & GIN_TRACE_AT))
			continue;
		EXPECT_EQUAL(r.w[GIN_TRACE_WHAT] >> 24, GIN_TRACE_RAISES | GIN_TRACE_AT);
		EXPECT(r.call() == ginCallSignal && r.w[GIN_TRACE_VALUE] == 9);
		EXPECT_EQUAL(r.w[GIN_TRACE_WHERE] & ((1ull << 43) - 1), WORD);
		EXPECT(r.w[GIN_TRACE_WHERE] >> 43 && id == GIN_TRACE_NONE);
		words++;
	}
	EXPECT(waits == 1 && words == 1);
}

// Is the file open in this process?
static bool isOpen()
{
	char link[64], name[600];

	for (int fd = 3; fd < 256; fd++) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		const ssize_t length = readlink(link, name, sizeof(name) - 1);
		name[length > 0 ? length : 0] = '\0';
		if (!strcmp(name, path))
			return true;
	}
	return false;
}

static void checkPut(const std::vector<Record> &all)
{
	const Record *r = findCall(all, ginCallPut, 0);

	EXPECT(r && r->w[GIN_TRACE_BYTES] == BYTES && r->result() == ginSuccess);
	EXPECT_EQUAL(r->w[GIN_TRACE_WHAT] >> 16 & 0xff, ginRouteDirect);
	EXPECT_EQUAL(r->w[GIN_TRACE_WHOM] & GIN_TRACE_NONE, 1);
}

static void checkWait()
{
	const std::vector<Record> all = readAll(0);
	const Record *r = findCall(all, ginCallWaitSignal, 0);

	checkPut(all);
	EXPECT(r && r->result() == ginSuccess && r->w[GIN_TRACE_VALUE] == 5);
	EXPECT_EQUAL(r->w[GIN_TRACE_WHOM], 1);
	EXPECT_EQUAL(all.front().call(), GIN_TRACE_CLOCK);
	EXPECT_EQUAL(all.back().call(), GIN_TRACE_CLOCK);
	EXPECT(all.front().w[GIN_TRACE_END] <= r->w[GIN_TRACE_BEGIN]);
	EXPECT(r->w[GIN_TRACE_END] <= all.back().w[GIN_TRACE_END]);
}

static int run(const ginConfig_t *config)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginComm_t comm;
	ginWindow_t window;
	void *memory;
	Args args = {{}, config->rank, ginSuccess};

	want.signals = 3;
	EXPECT_SUCCESS(ginCommInit(config, &comm));
	EXPECT_SUCCESS(ginDevCommCreate(comm, &want, &args.dc));
	EXPECT_SUCCESS(ginMemAlloc(comm, MEMORY, &memory));
	EXPECT_SUCCESS(ginWindowRegister(comm, memory, MEMORY, 0, &window));
	EXPECT_SUCCESS(Gin(args.dc, 0).put(1 - config->rank, window, 0, window, BYTES, BYTES));
	waitAndSee(args.dc, config->rank);
	callOthers(args.dc, 1 - config->rank, window);
	EXPECT_SUCCESS(ginHostLaunch(1, THREADS, signalOften, &args));
	EXPECT_SUCCESS(args.result);
	EXPECT_SUCCESS(ginDevCommDestroy(comm, &args.dc));
	EXPECT_SUCCESS(ginWindowDeregister(comm, window));
	EXPECT_SUCCESS(ginMemFree(comm, memory));
	EXPECT_SUCCESS(ginCommDestroy(comm));
	checkOften(static_cast<uint32_t>(config->rank));
	checkOthers(static_cast<uint32_t>(config->rank));
	if (!config->rank)
		checkWait();
	return 0;
}

static void expectCounts(ginComm_t comm, const ginDevComm &dc, int peer, uint64_t posted,
			 uint64_t failed, uint64_t put, uint64_t got)
{
	ginPeerStats_t s = GIN_PEER_STATS_INIT;

	EXPECT_SUCCESS(ginCommGetPeerStats(comm, &dc, peer, &s));
	EXPECT_EQUAL(s.route, ginRouteDirect);
	EXPECT_EQUAL(s.counted, GIN_COUNTED_POSTS | GIN_COUNTED_BYTES);
	EXPECT_EQUAL(s.posted, posted);
	EXPECT_EQUAL(s.failed, failed);
	EXPECT_EQUAL(s.completed, posted - failed);
	EXPECT_EQUAL(s.putBytes, put);
	EXPECT_EQUAL(s.getBytes, got);
}

static void makeCalls(ginComm_t comm, ginDevComm &dc, ginWindow_t window, int own)
{
	ginPeerStats_t s = GIN_PEER_STATS_INIT;
	Gin gin(dc, 0);
	const int other = 1 - own;
	uint64_t word = 1;

	EXPECT_SUCCESS(ginCommGetPeerStats(comm, &dc, other, &s));
	EXPECT_EQUAL(s.counted, 0);
	EXPECT_SUCCESS(gin.waitSignal(0, 0)); // shows that kernels count
	expectCounts(comm, dc, other, 0, 0, 0, 0);
	for (int i = 0; i < 3; i++)
		EXPECT_SUCCESS(gin.put(other, window, 0, window, BYTES, BYTES));
	EXPECT_SUCCESS(gin.putValue(other, window, 0, uint32_t{1}, GinSignalInc{0}));
	EXPECT_SUCCESS(gin.get(own, window, 0, window, BYTES, BYTES));
	EXPECT_SUCCESS(gin.atomicFetchAdd(own, window, 0, uint64_t{1}));
	EXPECT_SUCCESS(gin.signal(own, GinSignalInc{1}));
	expectCounts(comm, dc, other, 4, 0, 3 * BYTES + 4, 0);
	expectCounts(comm, dc, own, 3, 0, 0, BYTES);
	GinPackets packets(dc, 0, {window, BOX, sizeof(word), 2}, other);
	EXPECT_SUCCESS(packets.send(&word, sizeof(word)));
	EXPECT_SUCCESS(packets.receive(&word, sizeof(word)));
	expectCounts(comm, dc, other, 5, 0, 3 * BYTES + 4 + sizeof(word), 0);
}

static void failCall(ginComm_t comm, ginWindow_t window, int other)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	uint8_t unconnected[RANKS] = {};
	ginDevComm dc;

	unconnected[other] = 1;
	want.unconnected = unconnected;
	EXPECT_SUCCESS(ginDevCommCreate(comm, &want, &dc));
	EXPECT_RESULT(Gin(dc, 0).put(other, window, 0, window, BYTES, BYTES), ginErrorPeer);
	expectCounts(comm, dc, other, 1, 1, 0, 0);
	EXPECT_SUCCESS(ginDevCommDestroy(comm, &dc));
}

static int runCounts(const ginConfig_t *config)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginComm_t comm;
	ginDevComm dc;
	ginWindow_t window;
	void *memory;

	want.signals = 2 + 2 * RANKS;
	EXPECT_SUCCESS(ginCommInit(config, &comm));
	EXPECT_SUCCESS(ginDevCommCreate(comm, &want, &dc));
	EXPECT_SUCCESS(ginMemAlloc(comm, COUNTED, &memory));
	EXPECT_SUCCESS(ginWindowRegister(comm, memory, COUNTED, 0, &window));
	makeCalls(comm, dc, window, config->rank);
	failCall(comm, window, 1 - config->rank);
	EXPECT_SUCCESS(ginCommAllgather(comm, nullptr, nullptr, 0));
	EXPECT_SUCCESS(ginDevCommDestroy(comm, &dc));
	EXPECT_SUCCESS(ginWindowDeregister(comm, window));
	EXPECT_SUCCESS(ginMemFree(comm, memory));
	EXPECT_SUCCESS(ginCommDestroy(comm));
	return 0;
}

static void countInChild()
{
	int status = -1;
	const pid_t child = fork();

	if (!child) {
		const int *result = ranksStart(RANKS, 1, runCounts);
		_exit(result[0] || result[1]);
	}
	EXPECT(child > 0 && waitpid(child, &status, 0) == child);
	EXPECT_EQUAL(status, 0);
}

int main()
{
	char name[] = "/tmp/unit_trace.XXXXXX", records[16];

	countInChild();
	int fd = mkstemp(name);
	EXPECT(fd >= 0 && !close(fd));
	path = name;
	snprintf(records, sizeof(records), "%d", MOST);
	setenv("GIN_TRACE", name, 1);
	setenv("GIN_TRACE_RECORDS", records, 1);
	const int *result = ranksStart(RANKS, 1, run);
	for (int r = 0; r < RANKS; r++)
		EXPECT_EQUAL(result[r], 0);
	EXPECT(!isOpen() && !unlink(name));
	return 0;
}
