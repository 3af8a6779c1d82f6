// SPDX-License-Identifier: BSD-3-Clause
// unit_told - the log names calls of kernels that wait longer than GIN_WAIT_WARN: each wait once,
// with context, signal, expected and seen value, and the rank for which it waits. Waits that end in
// time are not named, also if the next wait is like them.
#include <thread>

#include <gin_device.cuh>

#include "expect.h"
#include "ranks.h"

enum { RANKS = 2, SIGNALS = 3, BUSY = 2, TIMES = 50 };

static const char *logPath;
static bool slow;

// Returns how many lines of the log have the words; *line: the last of them.
static int countLines(const char *words, char *line, size_t bytes)
{
	FILE *log = fopen(logPath, "r");
	char next[2048];
	int count = 0;

	*line = '\0';
	while (log && fgets(next, sizeof(next), log)) {
		if (!strstr(next, words))
			continue;
		snprintf(line, bytes, "%s", next);
		count++;
	}
	if (log)
		fclose(log);
	return count;
}

static void awaitLine(const char *words, char *line, size_t bytes)
{
	for (int tries = 0; tries < 600; tries++) {
		if (countLines(words, line, bytes))
			return;
		usleep(100000);
	}
	fprintf(stderr, "the log has no line with: %s\n", words);
	_exit(1);
}

// One host thread of a rank makes one device call.
enum Call { AWAIT, AWAIT_RANK, SYNC, AWAIT_OFTEN, SEND };

struct Args {
	ginDevComm dc;
	Call call;
	uint32_t id;
	uint64_t value;
	ginResult_t result;
};

static ginResult_t waitOften(const Gin &gin, const Args &args)
{
	ginResult_t result = ginSuccess;

	for (uint64_t i = 0; result == ginSuccess && i < args.value; i++) {
		result = gin.waitSignal(args.id, 1);
		gin.resetSignal(args.id);
		if (result == ginSuccess)
			result = gin.signal(1, GinSignalInc{args.id});
	}
	return result;
}

static void make(void *arg)
{
	Args &args = *static_cast<Args *>(arg);
	Gin gin(args.dc, 0);
	ginOptions options;
	const int other = 1 - static_cast<int>(args.dc.rank);

	switch (args.call) {
	case AWAIT_RANK:
		options.from = {static_cast<uint32_t>(other), 1, 1};
		args.result = gin.waitSignal(args.id, args.value, {}, options);
		break;
	case AWAIT:
		args.result = gin.waitSignal(args.id, args.value);
		break;
	case SYNC:
		args.result = GinBarrier(args.dc, ginTeamWorld(args.dc), args.id).sync();
		break;
	case AWAIT_OFTEN:
		args.result = waitOften(gin, args);
		break;
	case SEND:
		args.result = gin.signal(other, GinSignalAdd{args.id, args.value});
	}
}

static void call(const ginDevComm &dc, Call which, uint32_t id, uint64_t value)
{
	Args args = {dc, which, id, value, ginErrorInvalidUsage};

	EXPECT_SUCCESS(ginHostLaunch(1, 1, make, &args));
	EXPECT_SUCCESS(args.result);
}

// Rank 1 sees what the log says of rank 0, and lets each call of rank 0 end.
static void watch(ginComm_t comm, const ginDevComm &dc)
{
	char line[2048];

	call(dc, SEND, 0, 4);
	awaitLine(", signal 0: ", line, sizeof(line));
	EXPECT_HAS(line, " rank 0 gin WARN a kernel has waited for ");
	EXPECT_HAS(line, " s: waitSignal in context 0 of device communicator 1, signal 0: expected "
			 "at least 5, saw 4");
	EXPECT_HAS(line, "; all ranks live\n");
	awaitLine(", signal 1: expected at least 70, saw 0", line, sizeof(line));
	EXPECT_HAS(line, "; rank 1 (host ");
	EXPECT_HAS(line, "), for which it waits, lives\n");
	awaitLine(", barrier 3 of 2 ranks, saw 0", line, sizeof(line));
	EXPECT_HAS(line, "; rank 1 (host ");
	EXPECT_SUCCESS(ginCommAllgather(comm, nullptr, nullptr, 0));
	for (uint64_t i = 0; i < TIMES; i++) { // each wait of rank 0 lasts a tenth of a second
		const time_t before = time(nullptr);
		usleep(100000);
		call(dc, SEND, BUSY, 1);
		call(dc, AWAIT, BUSY, i + 1);
		slow |= time(nullptr) > before + 1; // by the load of the machine
	}
	call(dc, SYNC, 3, 0);
	call(dc, SEND, 0, 1);
	call(dc, SEND, 1, 70);
}

static int run(const ginConfig_t *config)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	char line[2048];
	ginComm_t comm;
	ginDevComm dc;

	EXPECT_SUCCESS(ginCommInit(config, &comm));
	want.signals = SIGNALS;
	want.barriers = 4;
	EXPECT_SUCCESS(ginDevCommCreate(comm, &want, &dc));
	if (config->rank) {
		watch(comm, dc);
	} else {
		std::thread any(call, dc, AWAIT, 0, 5), one(call, dc, AWAIT_RANK, 1, 70);
		std::thread barrier(call, dc, SYNC, 3, 0);
		EXPECT_SUCCESS(ginCommAllgather(comm, nullptr, nullptr, 0));
		call(dc, AWAIT_OFTEN, BUSY, TIMES);
		any.join(), one.join(), barrier.join();
		EXPECT_EQUAL(countLines(", signal 0: ", line, sizeof(line)), 1);
		EXPECT_EQUAL(countLines(", signal 1: ", line, sizeof(line)), 1);
		EXPECT_EQUAL(countLines(", barrier 3 of ", line, sizeof(line)), 1);
		EXPECT(slow || !countLines(", signal 2: ", line, sizeof(line)));
	}
	EXPECT_SUCCESS(ginDevCommDestroy(comm, &dc));
	EXPECT_SUCCESS(ginCommDestroy(comm));
	return 0;
}

int main()
{
	char path[] = "/tmp/unit_told.XXXXXX";
	int fd = mkstemp(path);

	EXPECT(fd >= 0);
	logPath = path;
	setenv("GIN_WAIT_WARN", "2", 1);
	setenv("GIN_LOG", "warn", 1);
	setenv("GIN_LOG_FILE", path, 1);
	const int *result = ranksStart(RANKS, 1, run);
	unlink(path);
	close(fd);
	for (int r = 0; r < RANKS; r++)
		EXPECT_EQUAL(result[r], 0);
	return 0;
}
